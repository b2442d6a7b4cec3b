import {
  type ASTNode,
  TypeError as CelTypeError,
  Environment,
  EvaluationError,
  ParseError,
} from '@marcbachmann/cel-js';
import type { Json } from '../model/json.ts';
import { Budget, BudgetError } from './budget.ts';
import { type ExpressionContext, findReferences, PROPERTIES, type Reader, type Reference } from './context.ts';
import { DOCUMENT_FUNCTIONS } from './documents.ts';
import { formatPath, type JsonPath } from './json-path.ts';
import { adaptEvaluator, meter, PatternError, withBudget } from './metering.ts';
import { adviceFor } from './other-languages.ts';
import { ConversionError, fromCel, registerMixedArithmetic } from './values.ts';

const MAX_LENGTH = 4096;

// CEL reserves the word `loop`. The alias has the same length, so that positions in errors stay right.
const LOOP_ALIAS = 'l0op';

/** A CEL expression that parsed, is well typed and reads only known names. */
export interface CompiledExpression {
  readonly source: string;
  readonly roots: ReadonlySet<Reference['root']>;
  /** Every constant path that it can read. */
  readonly references: readonly Reference[];
  /** The parsed expression. Its names can be aliases: the source has those of the author. */
  readonly ast: ASTNode;
  /** CEL's name of the result's type; `dyn` if it depends on the data. */
  readonly type: string;
  readonly vars?: Vars | undefined;
  /** Throws `ExpressionError` if the expression fails or its result is not JSON. */
  evaluate(context: ExpressionContext): Json;
  /** Like `evaluate`, for several expressions that share a context and its budget. */
  evaluateIn(data: CelData): Json;
  /** The result in the form for insertion into longer text. */
  textIn(data: CelData): string;
}

/** A context in the form that CEL reads, and the remaining budget. */
interface CelData {
  readonly roots: Readonly<Record<string, unknown>>;
  readonly budget: Budget;
}

const READABLE: Readonly<Record<Reader, string>> = {
  step: 'expressions read trigger, run, waits, steps and loop',
  response: 'expressions over an answer read response',
  item: 'expressions over an item of a list read item and response',
  delivery: 'expressions of a trigger read body and headers',
  handshake: 'expressions of a handshake read query, headers and body',
};

const STEP_ROOTS = ['trigger', 'run', 'waits', 'vars', 'steps', LOOP_ALIAS];
const environments: Readonly<Record<Reader, Environment>> = {
  step: makeEnvironment(STEP_ROOTS),
  response: makeEnvironment(['response']),
  item: makeEnvironment(['response']).registerVariable('item', 'dyn'),
  delivery: makeEnvironment(['headers']).registerVariable('body', 'dyn').registerVariable('envelope', 'dyn'),
  handshake: makeEnvironment(['headers', 'query']).registerVariable('body', 'dyn'),
};

/** Variables that differ by environment, as texts. */
export type Vars = Readonly<Record<string, string>>;

/** Throws `ExpressionError`, with the position if it is known. */
export function compileExpression(source: string, reads: Reader = 'step', vars?: Vars): CompiledExpression {
  if (source.trim() === '') throw new ExpressionError({ expression: source, reason: 'is empty' });
  if (source.length > MAX_LENGTH) {
    throw new ExpressionError({
      expression: source,
      reason: `has ${source.length} characters; at most ${MAX_LENGTH} are accepted`,
    });
  }
  const parsed = parse(source, reads);
  refuseMixedRelations(source);
  const { references, shadowedAt } = findReferences(parsed.ast, source, reads);
  if (shadowedAt !== undefined) {
    throw new ExpressionError({ expression: source, reason: 'a variable hides a root', position: shadowedAt });
  }
  for (const reference of references) checkProperties(source, reference);
  const checked = parsed.check();
  if (!checked.valid) throw compileError(source, checked.error, reads);
  meterExpression(source, parsed.ast);

  const within = <Result>({ roots, budget }: CelData, read: (result: unknown) => Result): Result => {
    try {
      return withBudget(budget, () => read(parsed(vars === undefined ? roots : { ...roots, vars })));
    } catch (error) {
      throw evaluationError(source, error);
    }
  };
  const evaluateIn = (data: CelData) => within(data, (result) => fromCel(result, data.budget));
  return {
    source,
    roots: new Set(references.map((reference) => reference.root)),
    references,
    ast: parsed.ast,
    type: checked.type ?? 'dyn',
    vars,
    evaluate: (context) => evaluateIn(prepareContext(context)),
    evaluateIn,
    textIn: (data) => within(data, (result) => asText(fromCel(result, data.budget), data.budget)),
  };
}

function meterExpression(source: string, ast: unknown): void {
  try {
    meter(ast);
  } catch (error) {
    if (!(error instanceof PatternError)) throw error;
    throw new ExpressionError({ expression: source, reason: error.message });
  }
}

/** A value as text for insertion into longer text: null is empty, everything but a string is JSON. */
function asText(value: Json, budget: Budget): string {
  const text = value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value);
  budget.chargeText(text.length);
  return text;
}

export function prepareContext(context: ExpressionContext): CelData {
  const { trigger, run, waits, steps, loop, response } = context;
  return { roots: { trigger, run, waits, steps, response, [LOOP_ALIAS]: loop }, budget: new Budget() };
}

function makeEnvironment(roots: readonly string[]): Environment {
  const made = new Environment({
    homogeneousAggregateLiterals: false,
    limits: { maxAstNodes: 2000, maxDepth: 64, maxListElements: 500, maxMapEntries: 500 },
  });
  registerMixedArithmetic(made);
  made.registerFunction('int(uint): int', ({ value }) => value);
  for (const [name, read] of Object.entries(DOCUMENT_FUNCTIONS)) {
    made.registerFunction(`${name}(string): ${name === 'base64Decode' ? 'string' : 'dyn'}`, read);
  }
  for (const root of roots) made.registerVariable(root, 'map');
  adaptEvaluator(made);
  return made;
}

function parse(source: string, reads: Reader) {
  const environment = environments[reads];
  try {
    const withoutAlias = renameIdentifier(source, LOOP_ALIAS, 'none');
    return environment.parse(renameIdentifier(withoutAlias, 'loop', LOOP_ALIAS));
  } catch (error) {
    throw compileError(source, error, reads);
  }
}

/** CEL reads `a == b in c` as `(a == b) in c`; its library, as people do, as `a == (b in c)`. */
function refuseMixedRelations(source: string): void {
  const outer: boolean[] = [];
  let isCompared = false;
  for (const { 0: token, index } of withoutLiterals(source).matchAll(/[([{}\])?:,]|&&|\|\||[=!]=|[<>]=?|\bin\b/g)) {
    const reason = 'after == or !=, this needs parentheses, as in a == (b in c)';
    if (isCompared && /[<>n]/.test(token)) throw new ExpressionError({ expression: source, reason, position: index });
    if (/[([{]/.test(token)) outer.push(isCompared);
    isCompared = /[)\]}]/.test(token) ? outer.pop() === true : /[=!]=/.test(token);
  }
}

function checkProperties(source: string, { root, path, position }: Reference): void {
  const isOfStep = root === 'steps' || root === 'waits';
  const property = isOfStep ? path[2] : path[1];
  const known = PROPERTIES[root];
  if (property !== undefined && known !== undefined && !known.some((name) => name === property)) {
    const owner = isOfStep ? 'a step' : root;
    const reason = `${owner} has no ${JSON.stringify(property)}; it has ${known.join(', ')}`;
    throw new ExpressionError({ expression: source, reason, position });
  }
  const header = root === 'headers' ? path[1] : root === 'trigger' && property === 'headers' ? path[2] : undefined;
  if (typeof header === 'string' && header !== header.toLowerCase()) {
    const reason = `header names are lower-case: "${header.toLowerCase()}"`;
    throw new ExpressionError({ expression: source, reason, position });
  }
}

function compileError(source: string, error: unknown, reads: Reader): ExpressionError {
  if (String(error).includes("' overlaps with '"))
    return new ExpressionError({ expression: source, reason: 'the type of an empty list is open; write dyn([])' });
  if (!(error instanceof ParseError || error instanceof CelTypeError)) throw error;
  const position = error.range?.start;
  if (error.code !== 'unknown_variable' || position === undefined) {
    const hint = conversionHint(source, error.summary, error.node);
    const advice = hint === '' ? adviceFor(withoutLiterals(source)) : undefined;
    return new ExpressionError({
      expression: source,
      ...(advice ?? { reason: `${error.summary}${hint}`, position }),
    });
  }
  const advice = adviceFor(withoutLiterals(source));
  if (advice !== undefined) return new ExpressionError({ expression: source, ...advice });
  const name = /^\w*/.exec(source.slice(position))?.[0] ?? '';
  // `steps.my-step.status` subtracts: the most common cause of an unknown name.
  const hint = source[position - 1] === '-' ? '; a key with a dash is written ["like-this"]' : '';
  const reason = `"${name}" is not known; ${READABLE[reads]}${hint}`;
  return new ExpressionError({ expression: source, reason, position });
}

const CONVERTIBLE: ReadonlySet<string> = new Set(['int', 'uint', 'double', 'bool']);

/** CEL has no implicit conversions: for an operation on a string and a number, this suggests a conversion. */
function conversionHint(source: string, summary: string, node: unknown): string {
  const [, left = '', operator = '', right = ''] = /^no such overload: (\S+) (\S+) (\S+)$/.exec(summary) ?? [];
  const types = [left, right].map((type) => type.replace(/^dyn<(.*)>$/, '$1'));
  const at = operator === '+' ? types.findIndex((type) => CONVERTIBLE.has(type)) : types.indexOf('string');
  const operands: unknown = Object(node).args;
  if (at === -1 || !types.includes('string') || !types.some((type) => CONVERTIBLE.has(type))) return '';
  const { start, end } = Object(Array.isArray(operands) ? operands[at] : undefined);
  return `; ${operator === '+' ? 'string' : 'double'}(${source.slice(start, end)}) converts it`;
}

/** Reasons whose own text would quote data that the expression read. */
const REASONS_WITHOUT_DATA: Readonly<Record<string, string>> = {
  bool_conversion_error: 'bool() cannot convert this string',
  invalid_duration: 'duration() cannot read this string',
  numeric_overflow: 'integer overflow',
};

function evaluationError(source: string, error: unknown): ExpressionError {
  if (error instanceof ConversionError) {
    return new ExpressionError({ expression: source, reason: error.message, position: error.position });
  }
  if (error instanceof BudgetError || error instanceof PatternError) {
    return new ExpressionError({ expression: source, reason: error.message });
  }
  if (!(error instanceof EvaluationError)) {
    const kind = error instanceof Error ? error.name : typeof error;
    return new ExpressionError({ expression: source, reason: `the evaluation failed with ${kind}` });
  }
  return new ExpressionError({ expression: source, reason: reasonOf(source, error), position: error.range?.start });
}

function reasonOf(source: string, error: EvaluationError): string {
  const fixed = REASONS_WITHOUT_DATA[error.code];
  if (fixed !== undefined) return fixed;
  const node = error.node;
  if (error.code === 'unknown_variable') {
    const name = node === undefined ? '' : source.slice(node.start, node.end);
    return name.startsWith('waits') ? 'only inputs of steps read waits' : 'loop exists only inside a loop';
  }
  if (error.code === 'no_such_overload') return `${error.summary}${conversionHint(source, error.summary, node)}`;
  if (error.code !== 'no_such_key' || node === undefined) return error.summary;
  const missing = source.slice(node.start, node.end);
  const hint = /\.length$/.test(missing) ? `; size(${missing.slice(0, -'.length'.length)}) counts` : '';
  return `there is no ${missing}${hint}`;
}

/**
 * The end of the string literal or comment that begins at `at`, or `at` if none begins there. A backslash escapes the
 * next character in raw strings too, as for the CEL parser in use.
 */
function skipLiteral(text: string, at: number): number {
  if (text.startsWith('//', at)) {
    const lineEnd = text.indexOf('\n', at);
    return lineEnd === -1 ? text.length : lineEnd;
  }
  const quote = text[at];
  if (quote !== '"' && quote !== "'") return at;
  const delimiter = text.startsWith(quote.repeat(3), at) ? quote.repeat(3) : quote;
  for (let index = at + delimiter.length; index < text.length; index += 1) {
    if (text[index] === '\\') index += 1;
    else if (text.startsWith(delimiter, index)) return index + delimiter.length;
  }
  return text.length;
}

/** The text with spaces in place of literals and comments. */
function withoutLiterals(text: string): string {
  let code = '';
  while (code.length < text.length) {
    const end = skipLiteral(text, code.length);
    code += end > code.length ? ' '.repeat(end - code.length) : text[code.length];
  }
  return code;
}

/** Offset of the brace that closes a placeholder whose expression begins at `start`; undefined if there is none. */
export function findClosingBrace(text: string, start: number): number | undefined {
  let depth = 0;
  for (let index = start; index < text.length; ) {
    const end = skipLiteral(text, index);
    if (end > index) {
      index = end;
      continue;
    }
    if (text[index] === '}' && depth === 0) return index;
    if (text[index] === '{') depth += 1;
    if (text[index] === '}') depth -= 1;
    index += 1;
  }
  return undefined;
}

/** Replaces a name used alone, not inside a literal or as a property. The replacement has the same length. */
function renameIdentifier(text: string, name: string, replacement: string): string {
  const word = /\w+/y;
  let renamed = '';
  for (let index = 0; index < text.length; ) {
    word.lastIndex = index;
    const end = skipLiteral(text, index);
    const identifier = end === index ? (word.exec(text)?.[0] ?? '') : '';
    const length = Math.max(end - index, identifier.length, 1);
    const isAlone = identifier === name && !/\.\s*$/.test(renamed);
    renamed += isAlone ? replacement : text.slice(index, index + length);
    index += length;
  }
  return renamed;
}

const SHOWN_CHARACTERS = 120;

interface ExpressionProblem {
  readonly expression: string;
  readonly reason: string;
  /** Offset in the expression, from 0. */
  readonly position?: number | undefined;
  /** The place of the expression inside the templated value. */
  readonly path?: JsonPath | undefined;
}

/** An expression that cannot be compiled or evaluated. The message quotes the expression, but no value that it read. */
export class ExpressionError extends Error {
  readonly problem: ExpressionProblem;

  constructor(problem: ExpressionProblem) {
    super(describe(problem));
    this.name = 'ExpressionError';
    this.problem = problem;
  }

  /** The same error, with the place of the expression inside a templated value. */
  at(path: JsonPath): ExpressionError {
    return new ExpressionError({ ...this.problem, path });
  }

  /** The message without the path, for callers that report the path themselves. */
  get messageWithoutPath(): string {
    return describe({ ...this.problem, path: undefined });
  }
}

function describe({ expression, reason, position, path }: ExpressionProblem): string {
  // Someone may have written the secret itself instead of its reference.
  const known = expression.replace(/(secret\s*\(\s*['"])(?!env:|file:)[^'"]*/g, '$1***');
  const shown = known.length > SHOWN_CHARACTERS ? `${known.slice(0, SHOWN_CHARACTERS)}…` : known;
  const place = path === undefined || path.length === 0 ? '' : `${formatPath(path)}: `;
  const character = position === undefined ? '' : ` (at character ${position + 1})`;
  return `${place}expression "${shown}": ${reason}${character}`;
}
