import { TypeError as CelTypeError, Environment, EvaluationError, ParseError } from '@marcbachmann/cel-js';
import type { Json } from '../model/json.ts';
import { type ExpressionContext, PROPERTIES, type Root } from './context.ts';
import { ExpressionError } from './errors.ts';
import { findReferences, type Reference } from './references.ts';
import { renameIdentifier } from './scan.ts';
import { ConversionError, fromCel, toCel } from './values.ts';
import { TimeLimitError, withinTimeLimit } from './watchdog.ts';

const MAX_LENGTH = 4096;

// CEL reserves the word `loop`. The alias has the same length, so that positions in errors stay right.
const LOOP_ALIAS = 'l0op';

/** A CEL expression that parsed, is well typed and reads only what exists. */
export interface CompiledExpression {
  readonly source: string;
  readonly roots: ReadonlySet<Root>;
  /** Every constant path that it may read. */
  readonly references: readonly Reference[];
  /** CEL's name of the result's type; `dyn` where only the data tells. */
  readonly type: string;
  /** Throws `ExpressionError` where the expression fails or its result is no JSON. */
  evaluate(context: ExpressionContext): Json;
  /** The same over a context that is shared by several expressions, so that its data is converted once. */
  evaluateIn(data: CelData): Json;
}

/** A context as CEL reads it; each root is converted when it is first read. */
export type CelData = Readonly<Record<string, unknown>>;

const STEP_ROOTS = ['trigger', 'steps', LOOP_ALIAS];
const stepEnvironment = makeEnvironment(STEP_ROOTS);
const responseEnvironment = makeEnvironment(['response']);

/** Throws `ExpressionError`, with the position where there is one. */
export function compileExpression(source: string, reads: 'step' | 'response' = 'step'): CompiledExpression {
  if (source.trim() === '') throw new ExpressionError({ expression: source, reason: 'is empty' });
  if (source.length > MAX_LENGTH) {
    throw new ExpressionError({
      expression: source,
      reason: `has ${source.length} characters; at most ${MAX_LENGTH} are accepted`,
    });
  }
  const parsed = parse(source, reads === 'step' ? stepEnvironment : responseEnvironment);
  const { references, isDataBound, shadowedAt } = findReferences(parsed.ast, source);
  if (shadowedAt !== undefined) {
    throw new ExpressionError({ expression: source, reason: 'a variable hides a root', position: shadowedAt });
  }
  for (const reference of references) checkProperties(source, reference);
  const checked = parsed.check();
  if (!checked.valid) throw compileError(source, checked.error);

  const evaluateIn = (data: CelData): Json => {
    const run = () => fromCel(parsed(data));
    try {
      return isDataBound ? withinTimeLimit(run) : run();
    } catch (error) {
      throw evaluationError(source, error);
    }
  };
  return {
    source,
    roots: new Set(references.map((reference) => reference.root)),
    references,
    type: checked.type ?? 'dyn',
    evaluate: (context) => evaluateIn(prepareContext(context)),
    evaluateIn,
  };
}

export function prepareContext(context: ExpressionContext): CelData {
  const converted = new Map<string, unknown>();
  const once = (root: Root) => {
    if (!converted.has(root)) converted.set(root, toCel(context[root]));
    return converted.get(root);
  };
  return {
    get trigger() {
      return once('trigger');
    },
    get steps() {
      return once('steps');
    },
    get response() {
      return once('response');
    },
    get [LOOP_ALIAS]() {
      return once('loop');
    },
  };
}

/**
 * CEL has no arithmetic across its number types, but every number of JSON is a double and every literal without a
 * point an int: `trigger.body.amount / 100` would fail. Mixed operands count as doubles here.
 */
function makeEnvironment(roots: readonly string[]): Environment {
  const made = new Environment({
    homogeneousAggregateLiterals: false,
    limits: { maxAstNodes: 2000, maxDepth: 64, maxListElements: 500, maxMapEntries: 500 },
  });
  const arithmetic: Readonly<Record<string, (left: number, right: number) => number>> = {
    '+': (left, right) => left + right,
    '-': (left, right) => left - right,
    '*': (left, right) => left * right,
    '/': (left, right) => left / right,
    '%': (left, right) => left % right,
  };
  for (const [operator, calculate] of Object.entries(arithmetic)) {
    const handler = (left: unknown, right: unknown) => calculate(Number(left), Number(right));
    made.registerOperator(`int ${operator} double: double`, handler);
    made.registerOperator(`double ${operator} int: double`, handler);
    if (operator === '%') made.registerOperator('double % double: double', handler);
  }
  for (const root of roots) made.registerVariable(root, 'map');
  return made;
}

function parse(source: string, environment: Environment) {
  try {
    const withoutAlias = renameIdentifier(source, LOOP_ALIAS, 'none');
    return environment.parse(renameIdentifier(withoutAlias, 'loop', LOOP_ALIAS));
  } catch (error) {
    throw compileError(source, error);
  }
}

function checkProperties(source: string, { root, path, position }: Reference): void {
  const property = root === 'steps' ? path[2] : path[1];
  const known = PROPERTIES[root];
  if (property !== undefined && !known.some((name) => name === property)) {
    const owner = root === 'steps' ? 'a step' : root;
    const reason = `${owner} has no ${JSON.stringify(property)}; it has ${known.join(', ')}`;
    throw new ExpressionError({ expression: source, reason, position });
  }
  const header = root === 'trigger' && property === 'headers' ? path[2] : undefined;
  if (typeof header === 'string' && header !== header.toLowerCase()) {
    const reason = `header names are lower-case: "${header.toLowerCase()}"`;
    throw new ExpressionError({ expression: source, reason, position });
  }
}

function compileError(source: string, error: unknown): ExpressionError {
  if (!(error instanceof ParseError || error instanceof CelTypeError)) throw error;
  const position = error.range?.start;
  if (error.code !== 'unknown_variable' || position === undefined) {
    return new ExpressionError({ expression: source, reason: error.summary, position });
  }
  const name = /^\w*/.exec(source.slice(position))?.[0] ?? '';
  // `steps.my-step.status` subtracts: the likeliest way to an unknown name.
  const hint = source[position - 1] === '-' ? '; a key with a dash is written ["like-this"]' : '';
  const reason = `"${name}" is not known; expressions read trigger, steps and loop${hint}`;
  return new ExpressionError({ expression: source, reason, position });
}

/** Reasons whose own text would quote data that the expression read. */
const REASONS_WITHOUT_DATA: Readonly<Record<string, string>> = {
  bool_conversion_error: 'bool() cannot convert this string',
  invalid_duration: 'duration() cannot read this string',
  invalid_regular_expression: 'matches() got an invalid pattern',
  numeric_overflow: 'integer overflow',
};

function evaluationError(source: string, error: unknown): ExpressionError {
  if (error instanceof ConversionError || error instanceof TimeLimitError) {
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
  if (error.code === 'unknown_variable') return 'loop is known inside a loop only';
  if (error.code !== 'no_such_key' || node === undefined) return error.summary;
  return `there is no ${source.slice(node.start, node.end)}`;
}
