import type { SignalClaim } from '../../model/delivery.ts';
import type { ChainKey } from '../sealed-body.ts';
import type { AwaitingStep } from '../store.ts';
import type { Count } from './counts.ts';
import type { Ask, Decision } from './decision.ts';

type Scalar = string | number | boolean | null;

/** A value for `${…}` in a statement; a list is one array parameter, for `= ANY (${list})` and `unnest(${list})`. */
export type SqlValue = Scalar | Uint8Array | readonly Scalar[] | Rows;

/** Rows as one parameter, for `jsonb_to_recordset(${rows})`: objects with columns as their keys. */
export class Rows {
  readonly rows: readonly Readonly<Record<string, Scalar>>[];

  constructor(rows: Rows['rows']) {
    this.rows = rows;
  }
}

/**
 * How a decision reads and writes rows, within its transaction.
 *
 * Statements are written once, in PostgreSQL's words, with the tag `sql`. SQLite takes them through a small dialect
 * (`sqlite/dialect.ts`), which lists its changes. Columns come back under their names in the statement: `flow_id AS
 * "flowId"`. Booleans come back as booleans, times and counts as numbers, bytes as a `Uint8Array`.
 */
export interface Port {
  /** The first row that a statement yields. */
  get<Row>(query: Query): Ask<Row | undefined>;
  /** All rows that a statement yields. */
  all<Row>(query: Query): Ask<Row[]>;
  /** Yields how many rows the statement changed. */
  run(query: Query): Ask<number>;
  /**
   * Writes without an answer: PostgreSQL sends it together with the next question. Later statements see it, and the
   * transaction commits only if it succeeds.
   */
  later(query: Query): void;
  /** Adds to a count. Counts are collected, and written with the transaction: its statements do not see them. */
  readonly count: Count;
  /** The key for the hashes of the activity log; absent if the service has none. */
  readonly chainKey: ChainKey | undefined;
  /** A value that the store keeps in memory between transactions: made at the first request, one for each function. */
  kept<Value>(make: () => Value): Value;
  /** A value made from this port at the first request, one for each function. */
  own<Value>(make: (port: Port) => Value): Value;
  /** The indexes of runs by search key. */
  readonly runKeys: readonly KeyIndex[];
  readonly commitOrder: CommitOrder;
  readonly answering: Answering | undefined;
  /** The delivery log in the database, if one in memory may hide it. */
  readonly storedLog?: Port;
}

/** An index of rows by search key; statements call it `k`. */
export interface KeyIndex {
  readonly table: string;
  /** The column with the owner of a key. */
  readonly owner: string;
  /** Orders the keys of one value so that those of the newest rows come first. */
  readonly newest: string;
  /** An order in which a range of values is read without sorting; without one PostgreSQL may read the whole table. */
  readonly any?: string;
}

/** How a backend knows the order in which runs, and deliveries that joined one, were committed. */
export interface CommitOrder {
  /** The column of `runs` that grows in this order. */
  readonly column: string;
  /** A condition on a run `r`: no run committed later comes before it. May leave out runs without a delivery. */
  readonly isSettled: string;
  /** The place after which everything committed from now on comes. */
  readonly end: string;
  readonly joins: {
    /** The place of a delivery `j`, which joined a run, among runs. */
    readonly at: string;
    /** Like `isSettled`, for such a delivery. */
    readonly isSettled: string;
    /** A number that grows from each such delivery to the next; null if `at` does as well. */
    readonly number: string | null;
    /** The number of the last one. */
    readonly end: string;
  };
  /** Orders runs that another database numbered; yields whether there were any. */
  adopt?(port: Port): Decision<boolean>;
}

/** How deliveries answer waiting steps; a part of the store implements it. */
export interface Answering {
  /** Until the transaction ends, no step begins to wait for these deliveries, and no other one answers for them. */
  lock(port: Port, calls: readonly Signalled[]): void;
  /** Answers the steps that wait for a locked delivery, and keeps it for others; yields how many it answered. */
  answer(port: Port, call: Signalled): Decision<number>;
  /** Notes what a step waits for and, unless answered, gives it the first delivery kept for it; whether it did. */
  await(port: Port, step: AwaitingStep): Decision<boolean>;
}

/** A delivery without a signal answers nothing. */
export interface Signalled {
  readonly flowId: string;
  readonly signal: SignalClaim | undefined;
}

export function* answerBy(port: Port, call: Signalled): Decision<number> {
  return port.answering === undefined ? 0 : yield* port.answering.answer(port, call);
}

/** Values made at their first request, one for each key. */
export class Made {
  readonly #values = new Map<unknown, unknown>();

  of<Value>(key: unknown, make: () => Value): Value {
    if (!this.#values.has(key)) this.#values.set(key, make());
    return this.#values.get(key) as Value;
  }
}

/** A statement with its values, or a part of one. */
export interface Query {
  /** The text around the values, one part more than there are values. The same array each time if the text is fixed. */
  readonly strings: readonly string[];
  readonly values: readonly SqlValue[];
  /**
   * Whether the text never changes. Such statements are prepared and planned once; others are planned for their values
   * each time, as lists with optional filters need.
   */
  readonly isFixed: boolean;
}

/** Text of this program that several statements share, such as the expression of an index. */
export interface FixedText {
  readonly text: string;
}

export function fixed(text: string): FixedText {
  return { text };
}

type Given = SqlValue | FixedText | Query;

const isText = (given: Given): given is FixedText => given !== null && typeof given === 'object' && 'text' in given;
const isQuery = (given: Given): given is Query => given !== null && typeof given === 'object' && 'strings' in given;

/** A template joined with the texts and statements in it, once for each combination. */
const joinedTemplates = new WeakMap<
  TemplateStringsArray,
  { readonly parts: readonly (string | readonly string[])[]; readonly strings: readonly string[] }[]
>();

/**
 * Makes a statement: `sql\`SELECT … WHERE id = ${id}\``. A value is always a parameter; only a `fixed` text, and the
 * text of another `sql`, become part of the statement.
 */
export function sql(strings: TemplateStringsArray, ...given: readonly Given[]): Query {
  if (!given.some((one) => isText(one) || isQuery(one))) {
    return { strings, values: given as readonly SqlValue[], isFixed: true };
  }
  if (given.some((one) => isQuery(one) && !one.isFixed)) return joinedWithQueries(strings, given);
  const parts = given.filter((one) => isText(one) || isQuery(one)).map((one) => (isText(one) ? one.text : one.strings));
  const values = given.flatMap((one) => (isText(one) ? [] : isQuery(one) ? one.values : [one]));
  const known = joinedTemplates.get(strings) ?? [];
  if (known.length === 0) joinedTemplates.set(strings, known);
  const same = known.find((joined) => parts.every((part, at) => part === joined.parts[at]));
  if (same !== undefined) return { strings: same.strings, values, isFixed: true };
  const made = joinedWithQueries(strings, given).strings;
  known.push({ parts, strings: made });
  return { strings: made, values, isFixed: true };
}

function joinedWithQueries(strings: TemplateStringsArray, given: readonly Given[]): Query {
  const joined = [strings[0] ?? ''];
  const values: SqlValue[] = [];
  const append = (text: string) => {
    joined.push((joined.pop() ?? '') + text);
  };
  for (const [at, one] of given.entries()) {
    if (isText(one)) append(one.text);
    else if (isQuery(one)) {
      append(one.strings[0] ?? '');
      joined.push(...one.strings.slice(1));
      values.push(...one.values);
    } else {
      values.push(one);
      joined.push('');
    }
    append(strings[at + 1] ?? '');
  }
  return { strings: joined, values, isFixed: false };
}

/** Joins any number of conditions or the like; `empty` if there are none. */
export function joined(queries: readonly Query[], separator: string, empty = ''): Query {
  const [first, ...others] = queries;
  if (first === undefined) return { strings: [empty], values: [], isFixed: false };
  return others.reduce((left, right) => sql`${left}${fixed(separator)}${right}`, { ...first, isFixed: false });
}
