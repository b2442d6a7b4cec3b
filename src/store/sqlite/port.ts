import type { Database, Statement } from 'better-sqlite3';
import { LRUCache } from 'lru-cache';
import { decideNow, known } from '../decisions/decision.ts';
import {
  type CommitOrder,
  type KeyIndex,
  Made,
  type Port,
  type Query,
  Rows,
  type SqlValue,
} from '../decisions/port.ts';
import { LAST_JOINED, LAST_RUN } from '../decisions/run-deliveries.ts';
import type { Verb, Verbs } from '../decisions/verb.ts';
import { answering } from '../decisions/verbs.ts';
import type { ChainKey } from '../sealed-body.ts';
import type { Store } from '../store.ts';
import { BatchCounters } from './batch-counters.ts';
import { booleansOf, deletesCounts, toSqlite } from './dialect.ts';
import type { Member, OperationName, ThreadRole } from './messages.ts';

type Row = Record<string, unknown>;

interface Prepared {
  readonly statement: Pick<Statement<unknown[], Row>, 'get' | 'all' | 'run'>;
  /** Columns that SQLite stores as 0 and 1. */
  readonly booleans: readonly string[];
  /** Whether it deletes counts: appended counts are first added to the tables, or they would reappear afterwards. */
  readonly deletesCounts: boolean;
}

/** How many statements of lists stay prepared: their texts vary with their filters, without end. */
const CHANGING_TEXTS = 256;

interface SqlitePort extends Port {
  readonly counters: BatchCounters;
}

const ports = new WeakMap<Database, SqlitePort>();

/** The port of a connection, which answers synchronously. */
export function portOf(db: Database): SqlitePort {
  return ports.get(db) ?? openPort(db);
}

/** Makes the port of a connection. Its activity log is written and checked with the key. */
export function openPort(db: Database, chainKey?: ChainKey): SqlitePort {
  const counters = new BatchCounters(db);
  const addCounts = () => counters.tables.addAppended();
  const storedLog = portTo(db, { schema: 'main.', count: counters.countStored, addCounts, chainKey });
  const own = portTo(db, { schema: '', count: counters.count, addCounts, chainKey });
  const port = Object.assign(own, { storedLog, counters });
  ports.set(db, port);
  return port;
}

interface PortOptions extends Pick<Port, 'count' | 'chainKey'> {
  /** The schema of the tables in statements; '' takes the first table found. */
  readonly schema: 'main.' | '';
  /** Adds appended counts to their tables. */
  readonly addCounts: () => void;
}

function portTo(db: Database, { schema, count, addCounts, chainKey }: PortOptions): Port {
  const prepared = new Map<readonly string[], Prepared>();
  const [memory, own] = [new Made(), new Made()];
  const changing = new LRUCache<string, Prepared>({ max: CHANGING_TEXTS });
  const prepare = (query: Query): Prepared => {
    const made = preparedOf(query);
    if (made.deletesCounts) addCounts();
    return made;
  };
  const preparedOf = ({ strings, isFixed }: Query): Prepared => {
    const kept = isFixed ? prepared.get(strings) : undefined;
    if (kept !== undefined) return kept;
    const text = strings.join('?');
    const recent = isFixed ? undefined : changing.get(text);
    if (recent !== undefined) return recent;
    const made = prepareText(db, text.replace(/\bsluice\./g, schema));
    if (isFixed) prepared.set(strings, made);
    else changing.set(text, made);
    return made;
  };
  const run = (query: Query) => prepare(query).statement.run(query.values.map(toParameter)).changes;
  const port: Port = {
    get<Value>(query: Query) {
      const { statement, booleans } = prepare(query);
      const row = statement.get(query.values.map(toParameter));
      return known((row === undefined ? undefined : decoded(row, booleans)) as Value | undefined);
    },
    all<Value>(query: Query) {
      const { statement, booleans } = prepare(query);
      const rows = statement.all(query.values.map(toParameter));
      if (booleans.length > 0) for (const row of rows) decoded(row, booleans);
      return known(rows as Value[]);
    },
    run: (query) => known(run(query)),
    later: (query) => void run(query),
    count,
    chainKey,
    runKeys,
    commitOrder,
    answering,
    kept: (make) => memory.of(make, make),
    own: (make) => own.of(make, () => make(port)),
  };
  return port;
}

/** A lock that does nothing, since only one connection writes. */
const NO_LOCK: Prepared = {
  statement: { get: () => undefined, all: () => [], run: () => ({ changes: 0, lastInsertRowid: 0 }) },
  booleans: [],
  deletesCounts: false,
};

function prepareText(db: Database, text: string): Prepared {
  if (/^\s*SELECT (?:pg_advisory_|1 FROM [\w.]+ WHERE id = \? FOR UPDATE$)/.test(text)) return NO_LOCK;
  const statement = db.prepare<unknown[], Row>(toSqlite(text));
  const deletes = { deletesCounts: deletesCounts(text) };
  if (!statement.reader) return { statement, booleans: [], ...deletes };
  const declared = statement.columns().flatMap(({ name, type }) => (type === 'BOOLEAN' ? [name] : []));
  return { statement, booleans: [...new Set([...declared, ...booleansOf(text)])], ...deletes };
}

function decoded(row: Row, booleans: readonly string[]): Row {
  for (const name of booleans) if (row[name] !== null) row[name] = row[name] !== 0;
  return row;
}

function toParameter(value: SqlValue): unknown {
  if (typeof value === 'boolean') return Number(value);
  if (value instanceof Rows) return JSON.stringify(value.rows);
  return Array.isArray(value) ? JSON.stringify(value) : value;
}

type Members<Name extends OperationName> = {
  readonly [Own in Name]: {
    readonly thread: ThreadRole;
    readonly readsLog?: true;
    prepare(db: Database): Member<Own>;
  };
};

/** Those members of this store that are verbs: each runs in one of its threads, within a transaction. */
export function membersOf<Name extends OperationName>(verbs: Verbs<Name>): Members<Name> {
  const members = Object.entries<Verb<Name>>(verbs).map(([name, { access, decide }]) => [
    name,
    {
      thread: access === 'write' ? 'writer' : 'reader',
      ...(access === 'log' && { readsLog: true }),
      prepare: (db: Database) => {
        const port = portOf(db);
        return (...given: Parameters<Store[Name]>) => decideNow(decide(port, ...given));
      },
    },
  ]);
  return Object.fromEntries(members);
}

/** The index of search keys, and the keys newer than it. `k.run`, `k.folded` and `k.name` mean the same in both. */
const runKeys: readonly KeyIndex[] = [
  {
    table: `(SELECT i.seq AS run, k.value ->> 0 AS name, k.value ->> 1 AS folded
      FROM run_input_rows i CROSS JOIN json_each(i.search_keys) k WHERE i.seq > (SELECT coalesce(max(last_run), 0) FROM run_key_segments))`,
    owner: 'k.run',
    newest: 'k.run DESC',
  },
  {
    table: 'run_key_segments s NATURAL CROSS JOIN run_key_index',
    owner: 'k.run',
    newest: 's.segment DESC, k.run DESC',
  },
];

/** Only one connection writes, so runs are committed in the order of their rows. */
const commitOrder: CommitOrder = {
  column: 'seq',
  isSettled: 'true',
  end: LAST_RUN,
  joins: {
    at: 'j.position',
    isSettled: 'true',
    number: 'j.joined',
    end: LAST_JOINED,
  },
};
