import type { Environment } from '@marcbachmann/cel-js';
import { UnsignedInt } from '@marcbachmann/cel-js/evaluator';
import { RE2JS } from 're2js';
import { isExactNumber } from '../model/json.ts';
import { Budget, BudgetError } from './budget.ts';
import { CORRECTIONS } from './corrections.ts';
import { DOCUMENT_FUNCTIONS } from './documents.ts';
import { asInt, ConversionError, inOrder, isEqual, isRecord, ofTimes, toOperand } from './values.ts';

type Handle = (...operands: unknown[]) => unknown;

/** The properties of a checked node that we use; the CEL library only declares types for the parsed node. */
interface CheckedNode {
  readonly op: string;
  readonly start: number;
  readonly end: number;
  readonly input: string;
  readonly args: unknown;
  readonly meta: { readonly alternate?: CheckedNode; readonly macro?: Macro; readonly evaluate: Evaluate };
  /** Applies the operator or function to evaluated operands. */
  handle?: Handle;
  evaluate: Evaluate;
}

type Evaluate = (evaluator: Evaluator, node: unknown, context: unknown) => unknown;

interface Macro {
  readonly evaluate: Evaluate;
}

interface Evaluator {
  run(node: unknown, context: unknown): unknown;
  tryEval(node: unknown, context: unknown): unknown;
  debugType(value: unknown): unknown;
  debugTypeDeep(value: unknown): unknown;
  readonly mapType: unknown;
}

/** An exception costs a stack trace and a marked-up copy of the expression. */
const ERROR_STEPS = 300;
/** A time zone is looked up by name at every call. */
const TIME_ZONE_STEPS = 2_000;
const SEARCHES: ReadonlySet<string> = new Set(['contains', 'indexOf', 'lastIndexOf', 'split']);
const COUNTS: ReadonlySet<string> = new Set(['size', 'substring', 'indexOf', 'lastIndexOf', 'trim']);
/** A longer search text defeats the engine's search tables: then each position of the text can cost its length. */
const MAX_TABLED_SEARCH = 250;
const PAIRS_PER_STEP = 256;

/** The budget of the current evaluation: evaluations are synchronous, so there is only one at a time. */
let current = new Budget();

export function withBudget<Result>(budget: Budget, work: () => Result): Result {
  const before = current;
  current = budget;
  try {
    return work();
  } finally {
    current = before;
  }
}

/**
 * Makes the evaluation of a checked expression charge the current budget: each node a step, operators and functions by
 * the size of their operands. Values stay JSON until an operator or function needs CEL's own.
 *
 * The library has no hook for this, so we change its nodes in place: `evaluate`, which runs a node, and `handle`, which
 * applies it. A test for each kind of work checks this with the version in use, so package.json pins that version.
 */
export function meter(ast: unknown): void {
  const seen = new Set<object>();
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null || seen.has(value)) return;
    if (isNode(value)) {
      seen.add(value);
      visit(value.meta.alternate);
      visit(value.meta.macro);
      visit(value.args);
      meterNode(value);
    } else if (Array.isArray(value)) {
      value.forEach(visit);
    } else if (isRecord(value)) {
      seen.add(value);
      Object.values(value).forEach(visit);
    }
  };
  visit(ast);
}

/** The compiled pattern of a `matches` call with a literal pattern. Throws `PatternError`. */
function writtenPattern(args: unknown) {
  const [name, , [pattern] = []] = args as [string, unknown, { op: string; args: unknown }[]?];
  const isWritten = name === 'matches' && pattern?.op === 'value' && typeof pattern.args === 'string';
  return isWritten ? compilePattern(String(pattern.args)) : undefined;
}

// Patterns from data are compiled at each call, so they must be small: one counted repetition can mean thousands of
// states.
const MAX_DYNAMIC_PATTERN = 100;
const COMPILE_STEPS = 5_000;

/** A pattern that `matches()` does not accept. The message does not quote it: it may come from the data. */
export class PatternError extends Error {}

/**
 * Compiles a pattern. The syntax is RE2's, as in the CEL specification: no lookaround and no backreferences, and in
 * return no pattern whose time explodes.
 */
function compilePattern(pattern: string): RE2JS {
  try {
    return RE2JS.compile(pattern);
  } catch {
    throw new PatternError('matches() got an invalid pattern; the syntax is RE2, without lookaround or backreferences');
  }
}

/** Compiles a pattern that is not a literal in the expression. */
function compileDynamicPattern(pattern: string, budget: Budget): RE2JS {
  budget.charge(COMPILE_STEPS);
  if (pattern.length > MAX_DYNAMIC_PATTERN || /\{\d/.test(pattern)) {
    throw new PatternError(
      `a pattern that is not written out in the expression has at most ${MAX_DYNAMIC_PATTERN} characters and no counted repetition`,
    );
  }
  return compilePattern(pattern);
}

/** Whether the text contains the pattern. Takes time linear in the text, times the states of the pattern. */
function matches(text: string, pattern: RE2JS, budget: Budget): boolean {
  budget.charge(text.length * pattern.programSize());
  return pattern.test(text);
}

function isNode(value: object): value is CheckedNode {
  return 'op' in value && 'meta' in value && 'evaluate' in value;
}

function meterNode(node: CheckedNode): void {
  const { alternate, macro, evaluate } = node.meta;
  // The library takes each character for one byte, CEL its UTF-8.
  if (node.args instanceof Uint8Array && /[^\0-\x7f]/.test(node.input.slice(node.start, node.end)))
    throw new PatternError('b"…" takes only ASCII; bytes("…") takes any text');
  const inner: Evaluate =
    alternate !== undefined
      ? (evaluator, _, context) => alternate.evaluate(evaluator, alternate, context)
      : macro !== undefined
        ? (evaluator, _, context) => macro.evaluate(evaluator, macro, context)
        : node.op === 'map'
          ? (evaluator, _, context) => makeRecord(evaluator, node.args, context)
          : (evaluator, own, context) => evaluate(evaluator, own, context);
  node.evaluate = (evaluator, own, context) => {
    current.charge(1);
    return inner(evaluator, own, context);
  };
  if (node.handle !== undefined) node.handle = meteredHandle(node, node.handle);
}

/** The library leaves out keys such as `constructor`, and takes anything as a key, even twice. */
function makeRecord(evaluator: Evaluator, args: unknown, context: unknown): unknown {
  const made = new Map<string, unknown>();
  for (const [given, value] of args as readonly (readonly [key: unknown, value: unknown])[]) {
    const key = keyOf(evaluator.run(given, context));
    if (key === undefined) throw new ConversionError('a key of an object is a text, a whole number, true or false');
    if (made.has(key)) throw new ConversionError('an object has one key twice');
    made.set(key, evaluator.run(value, context));
  }
  return Object.fromEntries(made);
}

/** The key as a text, as in JSON: 1 is the key "1". Undefined if CEL has no such keys. */
function keyOf(value: unknown): string | undefined {
  const key = toOperand(value);
  if (key instanceof UnsignedInt || Number.isSafeInteger(key)) return String(key);
  return ['string', 'bigint', 'boolean'].includes(typeof key) ? String(key) : undefined;
}

function valueAt(record: Readonly<Record<string, unknown>>, given: unknown): unknown {
  const key = keyOf(given);
  return key !== undefined && Object.hasOwn(record, key) ? record[key] : undefined;
}

/** Changes parts of an environment's evaluator that cost without bound, or take a property of the data for its type. */
export function adaptEvaluator(environment: Environment): void {
  const probe = environment.parse('0');
  const node: unknown = probe.ast;
  if (typeof node !== 'object' || node === null || !isNode(node)) throw new Error('the CEL library has no such nodes');
  node.evaluate = adapt;
  probe();
}

function adapt(evaluator: Evaluator): void {
  const typeOf = evaluator.debugType.bind(evaluator);
  evaluator.debugType = (value) => (isRecord(value) ? evaluator.mapType : typeOf(toOperand(value)));
  // The library stores nested types for good, so data of ever new shapes would fill the memory.
  evaluator.debugTypeDeep = evaluator.debugType;
  // `||` and `exists` catch errors and continue; an expression without budget must not.
  evaluator.tryEval = (node, context) => {
    try {
      return evaluator.run(node, context);
    } catch (error) {
      if (error instanceof BudgetError) throw error;
      current.charge(ERROR_STEPS);
      return error;
    }
  };
}

function meteredHandle({ op, args, start }: CheckedNode, handle: Handle): Handle {
  switch (op) {
    case '.':
    case '[]':
      return (left, right, ...rest) => {
        if (!isRecord(left)) return handle(toOperand(left), toOperand(right), ...rest);
        // With an empty map, the library reports that the key does not exist.
        const found = valueAt(left, right);
        return found === undefined ? handle({}, toOperand(right), ...rest) : found;
      };
    case '==':
    case '!=':
      return (left, right, ...rest) => {
        if (!isCollection(left) || !isCollection(right)) {
          chargeShorter(left, right);
          return handle(toOperand(left), toOperand(right), ...rest);
        }
        return isEqual(left, right, current) === (op === '==');
      };
    case 'in':
      return (left, right, ...rest) => {
        if (isRecord(right)) return valueAt(right, left) !== undefined;
        if (!Array.isArray(right)) return handle(toOperand(left), toOperand(right), ...rest);
        return right.some((item) => isEqual(left, item, current));
      };
    case '+':
    case '-':
      return (left, right, ...rest) => {
        chargeSize(left);
        chargeSize(right);
        return at(start, () => ofTimes(op, left, right)) ?? handle(toOperand(left), toOperand(right), ...rest);
      };
    case 'comprehension':
      return (items, ...rest) => {
        chargeSize(items);
        return handle(toOperand(items), ...rest);
      };
    case 'call':
    case 'rcall':
      return documentCall({ args, start }, handle) ?? meteredCall({ args, start }, handle);
    case '/':
      return (left, right, ...rest) => at(start, () => asInt(handle(toOperand(left), toOperand(right), ...rest)));
    case '-_':
      return (operand, ...rest) => at(start, () => asInt(handle(toOperand(operand), ...rest)));
    case '!_':
    case '?:':
      return (operand, ...rest) => handle(toOperand(operand), ...rest);
    default:
      return (left, right, ...rest) => {
        chargeSize(left);
        chargeSize(right);
        return handle(...inOrder(left, right), ...rest);
      };
  }
}

/** Parsing a character costs more than copying it. */
const PARSED_CHARACTERS_PER_STEP = 2;

/** A call that parses a document in a text; undefined for other calls. */
function documentCall({ args, start }: Pick<CheckedNode, 'args' | 'start'>, handle: Handle): Handle | undefined {
  const name = Array.isArray(args) ? String(args[0]) : '';
  const read = Object.hasOwn(DOCUMENT_FUNCTIONS, name) ? DOCUMENT_FUNCTIONS[name] : undefined;
  if (read === undefined) return undefined;
  return (given, ...rest) => {
    const [text] = Array.isArray(given) ? given : [];
    if (typeof text !== 'string') return handle(given, ...rest);
    current.charge(text.length / PARSED_CHARACTERS_PER_STEP);
    return at(start, () => read(text));
  };
}

function meteredCall({ args, start }: Pick<CheckedNode, 'args' | 'start'>, handle: Handle): Handle {
  const name = Array.isArray(args) ? String(args[0]) : '';
  const correct = Object.hasOwn(CORRECTIONS, name) ? CORRECTIONS[name] : undefined;
  const written = writtenPattern(args);
  return (given, ...rest) => {
    const [first] = Array.isArray(given) ? given : [];
    // A decimal keeps its original text: "1.10" stays "1.10".
    if (name === 'string' && isExactNumber(first)) return first.rawJSON;
    const operands = Array.isArray(given) ? given.map(toOperand) : [];
    chargeCall(name, operands);
    const [text, pattern] = operands;
    if (name === 'matches' && typeof text === 'string' && typeof pattern === 'string') {
      return matches(text, written ?? compileDynamicPattern(pattern, current), current);
    }
    const result =
      correct === undefined
        ? handle(operands, ...rest)
        : at(start, () => correct(operands, (given) => handle(given, ...rest)));
    chargeSize(result);
    return result;
  };
}

/** Has a conversion that fails name its place in the expression. */
function at<Result>(start: number, convert: () => Result): Result {
  try {
    return convert();
  } catch (error) {
    if (error instanceof ConversionError) error.position = start;
    throw error;
  }
}

function chargeCall(name: string, operands: readonly unknown[]): void {
  const [subject, argument] = operands;
  for (const operand of operands) if (!Array.isArray(operand)) chargeSize(operand);
  if (SEARCHES.has(name) && typeof subject === 'string' && typeof argument === 'string') {
    const isTabled = argument.length <= MAX_TABLED_SEARCH && name !== 'lastIndexOf';
    if (!isTabled) current.charge((subject.length * argument.length) / PAIRS_PER_STEP);
  }
  // Looks for the next unit from every digit on.
  if (name === 'duration' && typeof subject === 'string') current.charge(subject.length ** 2 / PAIRS_PER_STEP);
  if (name === 'join' && Array.isArray(subject)) {
    const separator = typeof argument === 'string' ? argument.length : 0;
    for (const item of subject) current.chargeText((typeof item === 'string' ? item.length : 0) + separator);
  }
  // Count code points one by one.
  if (COUNTS.has(name) && typeof subject === 'string') current.chargeItems(subject.length);
  if (name.startsWith('get') && typeof argument === 'string') current.charge(TIME_ZONE_STEPS);
}

function chargeSize(value: unknown): void {
  if (typeof value === 'string' || value instanceof Uint8Array) current.chargeText(value.length);
  else if (Array.isArray(value)) current.chargeItems(value.length);
  else if (isRecord(value)) current.chargeKeys(Object.keys(value).length);
}

function chargeShorter(left: unknown, right: unknown): void {
  if (typeof left === 'string' && typeof right === 'string') {
    current.chargeText(Math.min(left.length, right.length));
  }
}

function isCollection(value: unknown): boolean {
  return Array.isArray(value) || isRecord(value);
}
