import { createHash } from 'node:crypto';
import pg from 'pg';
import { storable } from '../../model/text.ts';
import { CollectedCounts } from '../decisions/counts.ts';
import { awaited } from '../decisions/decision.ts';
import {
  type CommitOrder,
  type KeyIndex,
  Made,
  type Port,
  type Query,
  Rows,
  type SqlValue,
  sql,
} from '../decisions/port.ts';
import { answering } from '../decisions/verbs.ts';
import type { ChainKey } from '../sealed-body.ts';

export type { SqlValue } from '../decisions/port.ts';

/**
 * Runs statements, for one transaction. Their SQL names tables in the schema `sluice`, whatever this database calls its
 * schema, objects of graphile-worker in `graphile_worker`, and columns as JavaScript does: `flow_id AS "flowId"`.
 */
export interface Sql {
  /** The same transaction, for verbs that are written once for every backend. */
  readonly port: Port;
  /** Counts not sent yet: they are sent with the commit. */
  readonly counts: CollectedCounts;
  /** All rows that a statement yields. */
  all<Row>(text: string, values?: readonly SqlValue[]): Promise<Row[]>;
  /** The first row that a statement yields. */
  get<Row>(text: string, values?: readonly SqlValue[]): Promise<Row | undefined>;
  /** Yields how many rows the statement changed. */
  run(text: string, values?: readonly SqlValue[]): Promise<number>;
  /**
   * Sends a statement without waiting for it. The transaction commits only if the statement succeeds; later statements
   * see its writes.
   */
  later(text: string, values?: readonly SqlValue[]): void;
  /** The number of the writer that counts: see the columns named `slot`. */
  readonly slot: number;
  readonly schema: string;
  /** The name of this process among those that share the database. */
  readonly replica: string;
  /** Distinguishes this process from another one of the same name. */
  readonly instance: string;
  /** A value that this store keeps between transactions: made at the first request, one for each function. */
  kept<Value>(make: () => Value): Value;
  readonly bounds: Bounds;
}

/** How much the store keeps. */
interface Bounds {
  /** Records of deliveries that started no run; more of them push out the oldest. */
  readonly log: Bound;
  /** Held deliveries; more are refused. */
  readonly held: Bound;
}

interface Bound {
  readonly maxRows: number;
  readonly maxBytes: number;
}

export interface SqlOptions {
  readonly schema: string;
  /** Whether statements are prepared by name; a pooler may not support names. */
  readonly isPrepared: boolean;
  /** Both are unbounded by default. */
  readonly log?: Bounds['log'] | undefined;
  readonly held?: Bounds['held'] | undefined;
  readonly replica: string;
  /** Makes the hashes of the activity log; without it anyone who can write to the database can make them. */
  readonly chainKey?: ChainKey | undefined;
}

const BIGINT = 20;
const NUMERIC = 1700;
const BYTEA = 17;

/** Times and counts are safe as numbers; bytes become plain arrays, as the rest of the service expects. */
export const types: pg.CustomTypesConfig = {
  getTypeParser(id: number, format?: 'text' | 'binary') {
    if (id === BIGINT || id === NUMERIC) return Number;
    const parse = pg.types.getTypeParser(id, format ?? 'text');
    if (id !== BYTEA) return parse;
    return (text: string) => {
      const buffer: Buffer = parse(text);
      return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
    };
  },
};

/**
 * Shared by the transactions of one store: texts of statements with the name of the schema in them, the names that they
 * are prepared under, and values that members keep in memory.
 */
export class Statements {
  readonly #schema: string;
  readonly #workerSchema: string;
  readonly #lockScope: string;
  readonly #isPrepared: boolean;
  readonly #texts = new Map<string, { readonly text: string; readonly name?: string }>();
  readonly #queries = new WeakMap<readonly string[], { readonly text: string; readonly name?: string }>();
  readonly kept = new Made();

  constructor({ schema, isPrepared }: Pick<SqlOptions, 'schema' | 'isPrepared'>) {
    this.#schema = pg.escapeIdentifier(schema);
    this.#workerSchema = pg.escapeIdentifier(workerSchemaOf(schema));
    this.#lockScope = lockScopeOf(schema);
    this.#isPrepared = isPrepared;
  }

  /** The text of a statement of the port. */
  ofQuery({ strings, isFixed }: Query): { readonly text: string; readonly name?: string } {
    const known = this.#queries.get(strings);
    if (known !== undefined) return known;
    const text = strings.reduce((before, after, at) => `${before}$${at}${after}`);
    if (!isFixed) return { text: this.rename(text) };
    const statement = this.of(text);
    this.#queries.set(strings, statement);
    return statement;
  }

  /** Only for texts of this program: each is kept for ever. */
  of(text: string): { readonly text: string; readonly name?: string } {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    const own = this.rename(text);
    const statement = this.#isPrepared
      ? { text: own, name: createHash('sha256').update(own).digest('base64url').slice(0, 24) }
      : { text: own };
    this.#texts.set(text, statement);
    return statement;
  }

  rename(text: string): string {
    return text.replace(/\b(?:(sluice|graphile_worker)\.|sluice_lock_scope\b)/g, (_text, name) => {
      if (name === undefined) return this.#lockScope;
      return name === 'sluice' ? `${this.#schema}.` : `${this.#workerSchema}.`;
    });
  }
}

/**
 * The value of `sluice_lock_scope` in a statement: the seed for the hashes of advisory locks. Advisory locks belong to
 * a whole database, and services with different schemas in it must not wait for each other.
 */
function lockScopeOf(schema: string): string {
  const digest = createHash('sha256').update(schema).digest();
  return String(digest.readBigUInt64BE() >> 1n);
}

/** graphile-worker puts the schema into names of statements, of which PostgreSQL keeps 63 bytes. */
const MAX_WORKER_SCHEMA = 40;

/** The schema of graphile-worker's jobs for a schema: each schema of a database has its own. */
export function workerSchemaOf(schema: string): string {
  if (schema === 'sluice') return 'graphile_worker';
  const name = `${schema}_worker`;
  if (Buffer.byteLength(name) <= MAX_WORKER_SCHEMA) return name;
  const digest = createHash('sha256').update(schema).digest('hex');
  const start = `${schema.replace(/[^\w]/g, '').slice(0, 16)}_worker_`;
  return start + digest.slice(0, MAX_WORKER_SCHEMA - start.length);
}

interface SqlContext extends Pick<Sql, 'slot' | 'schema' | 'replica' | 'instance' | 'bounds'> {
  readonly statements: Statements;
  readonly chainKey: ChainKey | undefined;
  /** Receives the answers that the end of the transaction waits for. */
  readonly later: Promise<unknown>[];
  /** Sees every answer, before its caller does. */
  readonly noted: <Answer>(answer: Promise<Answer>) => Promise<Answer>;
}

/**
 * Sends everything of this turn of the event loop in one write. Each write is a system call and wakes the server, which
 * answers it before it reads the next.
 */
export function sendInOneWrite(client: pg.PoolClient): void {
  const { stream } = client.connection;
  if (stream.writableCorked > 0) return;
  stream.cork();
  process.nextTick(() => stream.uncork());
}

/** The statements of one transaction. */
export function sqlOf(client: pg.PoolClient, { statements, later, noted, chainKey, ...given }: SqlContext): Sql {
  const send = (statement: { readonly text: string; readonly name?: string }, values: readonly SqlValue[]) => {
    sendInOneWrite(client);
    return noted(client.query({ ...statement, values: values.map(toParameter), types }));
  };
  const query = (text: string, values: readonly SqlValue[]) => send(statements.of(text), values);
  /** Checked at the end of the transaction; nothing waits for it before that. */
  const write = (answer: Promise<unknown>) => void later.push(answer);
  const counts = new CollectedCounts();
  const own = new Made();
  const ask = (asked: Query) => send(statements.ofQuery(asked), asked.values);
  const port: Port = {
    get: <Row>(asked: Query) => awaited(ask(asked).then(({ rows }) => rows[0] as Row | undefined)),
    all: <Row>(asked: Query) => awaited(ask(asked).then(({ rows }) => rows as Row[])),
    run: (asked) => awaited(ask(asked).then(({ rowCount }) => rowCount ?? 0)),
    later: (asked) => write(ask(asked)),
    count: counts.add,
    chainKey,
    runKeys,
    commitOrder,
    answering,
    kept: (make) => statements.kept.of(make, make),
    own: (make) => own.of(make, () => make(port)),
  };
  return {
    ...given,
    port,
    counts,
    kept: port.kept,
    async all<Row>(text: string, values: readonly SqlValue[] = []) {
      return (await query(text, values)).rows as Row[];
    },
    async get<Row>(text: string, values: readonly SqlValue[] = []) {
      return (await query(text, values)).rows[0] as Row | undefined;
    },
    later: (text, values = []) => write(query(text, values)),
    async run(text, values = []) {
      return (await query(text, values)).rowCount ?? 0;
    },
  };
}

// JSON's form of NUL and of half of a surrogate pair. In a text that is JSON itself they have one more backslash before
// them, which costs a second look and nothing else.
const UNSTORABLE = /\\u(0000|d[89a-f])/;

/** A row as columns. */
export type Row = Readonly<Record<string, string | number | boolean | null>>;

/** Rows as one parameter, for `jsonb_to_recordset`. */
export function jsonRows(rows: readonly object[]): string {
  const text = JSON.stringify(rows);
  if (!UNSTORABLE.test(text)) return text;
  return JSON.stringify(rows, (_key, value) => (typeof value === 'string' ? storable(value) : value));
}

/** A statement without a result; `bind` adds a value to its parameters and yields its name there. */
export type Part = (bind: (value: SqlValue) => string) => string;

/** Sends several as one statement, which costs less than sending each alone. They do not see each other's writes. */
export function sendTogether(sql: Sql, parts: readonly Part[]): void {
  if (parts.length === 0) return;
  const values: SqlValue[] = [];
  const texts = parts.map((part) =>
    part((value) => {
      values.push(value);
      return `$${values.length}`;
    }),
  );
  sql.later(`WITH ${texts.map((text, n) => `part_${n} AS (${text})`).join(', ')} SELECT`, values);
}

function toParameter(value: SqlValue): unknown {
  if (typeof value === 'string') return storable(value);
  if (value instanceof Rows) return jsonRows(value.rows);
  if (Array.isArray(value)) return value.map((item) => (typeof item === 'string' ? storable(item) : item));
  return value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value;
}

const runKeys: readonly KeyIndex[] = [
  { table: 'sluice.run_keys', owner: 'k.run_id', newest: 'k.run_id DESC', any: 'k.folded' },
];

/** Commits become visible in another order than transaction numbers, so a run waits for all earlier transactions. */
const commitOrder: CommitOrder = {
  column: 'xid',
  isSettled: 'r.delivery_id IS NOT NULL AND r.xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint',
  end: 'pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1',
  joins: {
    at: 'j.xid',
    isSettled: 'j.xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint',
    number: null,
    end: '0',
  },
  // A server restored from a dump starts its transaction numbers again.
  *adopt(port) {
    const foreign = yield* port.run(sql`
      UPDATE sluice.runs SET xid = 0
      WHERE delivery_id IS NOT NULL AND xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint`);
    const joined = yield* port.run(sql`
      UPDATE sluice.run_deliveries SET xid = 0
      WHERE place > 1 AND xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint`);
    return foreign + joined > 0;
  },
};
