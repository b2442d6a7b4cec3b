import type { SignalClaim } from '../../model/delivery.ts';
import type { ChainKey } from '../activity-chain.ts';
import type { AwaitingStep } from '../store.ts';
import type { Count } from './counts.ts';
import type { Ask, Decision } from './decision.ts';

type Scalar = string | number | boolean | null;

/** What a statement takes in place of `${…}`; a list is one array parameter, for `= ANY (${list})` and `unnest(${list})`. */
export type SqlValue = Scalar | Uint8Array | readonly Scalar[] | Rows;

/** Rows as one parameter, for `jsonb_to_recordset(${rows})`: objects with columns as their keys. */
export class Rows {
  readonly rows: readonly Readonly<Record<string, Scalar>>[];

  constructor(rows: Rows['rows']) {
    this.rows = rows;
  }
}

/**
 * How a decision asks and writes rows, within the transaction that it is part of.
 *
 * Statements are written once, in PostgreSQL's words, by the tag `sql`. SQLite takes them by a small dialect
 * (`sqlite/dialect.ts`), which says what it changes. Names of columns come back as they are called in the
 * statement: `flow_id AS "flowId"`. Booleans come back as such, times and counts as numbers, bytes as a `Uint8Array`.
 */
export interface Port {
  /** The first row that a statement yields. */
  get<Row>(query: Query): Ask<Row | undefined>;
  /** All rows that a statement yields. */
  all<Row>(query: Query): Ask<Row[]>;
  /** How many rows the statement changed. */
  run(query: Query): Ask<number>;
  /**
   * Writes without an answer: PostgreSQL sends it together with what is asked next. Later statements see it, and the
   * transaction commits only if it succeeds.
   */
  later(query: Query): void;
  /** Adds to a count. Counts are gathered, and written with the transaction: no statement of it sees them. */
  readonly count: Count;
  /** What the hashes of the activity log are made with; absent if the service has no key. */
  readonly chainKey: ChainKey | undefined;
  /** What the store keeps in memory from one transaction to the next: made when first asked for, one for each function. */
  kept<Value>(make: () => Value): Value;
  /** What is made of this port when it is first asked for, one for each function. */
  own<Value>(make: (port: Port) => Value): Value;
  /** What finds runs by their search keys. */
  readonly runKeys: readonly KeyIndex[];
  readonly commitOrder: CommitOrder;
  readonly answering: Answering | undefined;
  /** The delivery log in the database, where one in memory may hide it. */
  readonly storedLog?: Port;
}

/** What finds rows by their search keys; it is called `k`. */
export interface KeyIndex {
  readonly table: string;
  /** The column that says whose key it is. */
  readonly owner: string;
  /** What orders the keys of one value so that those of the newest rows come first. */
  readonly newest: string;
  /** An order in which a range of values is read and nothing is sorted; without one PostgreSQL may read the whole table. */
  readonly any?: string;
}

/** How a backend knows the order in which runs, and the deliveries that joined one, were committed. */
export interface CommitOrder {
  /** The column of `runs` that grows with it. */
  readonly column: string;
  /** A condition on a run `r`: none that will be committed can come before it. It may leave out runs of no delivery. */
  readonly isSettled: string;
  /** The place that all which is committed from now on comes behind. */
  readonly end: string;
  readonly joins: {
    /** Where a delivery `j` that joined a run comes among runs. */
    readonly at: string;
    /** As `isSettled`, of such a delivery. */
    readonly isSettled: string;
    /** What grows from one of them to the next; null where `at` is as good. */
    readonly number: string | null;
    /** The number of the last one. */
    readonly end: string;
  };
  /** Makes an order of runs that another database numbered; yields whether there were any. */
  adopt?(port: Port): Decision<boolean>;
}

/** How deliveries answer steps that wait; a part of the store says it. */
export interface Answering {
  /** Until the transaction ends, no step begins to wait for one of these deliveries, and no other one answers for it. */
  lock(port: Port, calls: readonly Signalled[]): void;
  /** Answers the steps that wait for a delivery, which is locked, and keeps it for others; yields how many it answered. */
  answer(port: Port, call: Signalled): Decision<number>;
  /** Notes what a step waits for, and gives it the first delivery that was kept for it, unless it is answered; whether one was. */
  await(port: Port, step: AwaitingStep): Decision<boolean>;
}

/** It answers nothing without a signal. */
export interface Signalled {
  readonly flowId: string;
  readonly signal: SignalClaim | undefined;
}

export function* answerBy(port: Port, call: Signalled): Decision<number> {
  return port.answering === undefined ? 0 : yield* port.answering.answer(port, call);
}

/** Values that are made when they are first asked for, one for each key. */
export class Made {
  readonly #values = new Map<unknown, unknown>();

  of<Value>(key: unknown, make: () => Value): Value {
    if (!this.#values.has(key)) this.#values.set(key, make());
    return this.#values.get(key) as Value;
  }
}

/** A statement with its values, or a part of one. */
export interface Query {
  /** What stands between the values, one more than there are values. The same array each time if the text is fixed. */
  readonly strings: readonly string[];
  readonly values: readonly SqlValue[];
  /**
   * Whether the text never changes. Such statements are prepared and planned once; others are planned for their values
   * each time, as lists with optional filters need it.
   */
  readonly isFixed: boolean;
}

/** Text of this program that several statements share, such as an expression that an index is made of. */
export interface FixedText {
  readonly text: string;
}

export function fixed(text: string): FixedText {
  return { text };
}

type Given = SqlValue | FixedText | Query;

const isText = (given: Given): given is FixedText => given !== null && typeof given === 'object' && 'text' in given;
const isQuery = (given: Given): given is Query => given !== null && typeof given === 'object' && 'strings' in given;

/** What a template became with the texts and statements in it, once for each that it was given. */
const joinedTemplates = new WeakMap<
  TemplateStringsArray,
  { readonly parts: readonly (string | readonly string[])[]; readonly strings: readonly string[] }[]
>();

/**
 * Makes a statement: `sql\`SELECT … WHERE id = ${id}\``. A value is always a parameter; only a `fixed` text, and the text
 * of another `sql`, become part of the statement.
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

/** Joins conditions and the like, of which there may be any number; `empty` where there are none. */
export function joined(queries: readonly Query[], separator: string, empty = ''): Query {
  const [first, ...others] = queries;
  if (first === undefined) return { strings: [empty], values: [], isFixed: false };
  return others.reduce((left, right) => sql`${left}${fixed(separator)}${right}`, { ...first, isFixed: false });
}
