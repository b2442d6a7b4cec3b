import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { StoreUnavailableError } from '../../errors.ts';
import { partsOf } from './counters.ts';
import { ANSWER_MS, directClient } from './direct.ts';
import { codeOf, losesConnection, Outage, type OutageListener, requireWritable } from './outage.ts';
import { type Sql, type SqlOptions, Statements, sendInOneWrite, sendTogether, sqlOf } from './sql.ts';

export interface ConnectionOptions extends SqlOptions, OutageListener {
  /** A `postgres://` URL. */
  readonly url: string;
  /** PostgreSQL shows it for each connection, with the connection's purpose. */
  readonly applicationName: string;
  /** Whether the URL leads to a pooler, which accepts no settings with a connection; false by default. */
  readonly isPooled?: boolean | undefined;
  /** Called after each transaction that wrote, with the time that it waited for its commit. */
  readonly onCommitted?: ((seconds: number) => void) | undefined;
  /** Connections for acceptances; two by default, so that one decides while the other is flushed. */
  readonly acceptConnections?: number | undefined;
}

/** The purposes of connections, with their numbers. Slow reads and steps never delay a delivery. */
const SIZES = { accept: 2, write: 3, read: 2 } as const;

export type Purpose = keyof typeof SIZES;

/** PostgreSQL gives up a statement before its caller does, so that no abandoned statement goes on. */
const STATEMENT_MS = 4000;
const READ_STATEMENT_MS = 30_000;
/** After this, a read checks the database on another connection; without an answer there, it ends with the others. */
const READ_ASK_MS = 2000;
/** A hanging process loses the locks of its transaction before other replicas take over its leases. */
const IDLE_MS = 10_000;
const READ_IDLE_MS = 30_000;

const statementMsOf = (purpose: Purpose) => (purpose === 'read' ? READ_STATEMENT_MS : STATEMENT_MS);
const idleMsOf = (purpose: Purpose) => (purpose === 'read' ? READ_IDLE_MS : IDLE_MS);

/**
 * Every write finds its rows by their keys. A statement keeps the plan of its first calls, and while a table has a few
 * rows PostgreSQL plans to read all of them: with thousands of rows a minute later, that took longer than the write.
 * With these settings, PostgreSQL before 18 rates a table that it can only read as a whole as extremely expensive, and
 * compiles such plans: half a second for a few rows.
 */
const BY_KEYS = ['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'jit'].map((way) => `${way} = off`);

/** What a transaction reads after a lock has to include what the one before committed, whatever the database sets. */
const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED';

/**
 * The settings of what writes, for one transaction (`isLocal`) or for the connection. Without the flush of commits a 200
 * would be sent for what a crash of the server loses; the operator's other values stay, since they may wait for standbys.
 */
const settingsOfWrites = (isLocal: boolean): string[] => [
  ...BY_KEYS.map((way) => `SET ${isLocal ? 'LOCAL ' : ''}${way}`),
  `SELECT set_config('synchronous_commit', 'local', ${isLocal}) WHERE current_setting('synchronous_commit') = 'off'`,
];

const UNBOUNDED = { maxRows: Number.POSITIVE_INFINITY, maxBytes: Number.POSITIVE_INFINITY };

/** Transactions on a PostgreSQL database, over a few connections for each purpose. */
export interface Connections {
  /** From now on counts under the numbers of this store, which no other store has: see the columns named `slot`. */
  countAs(store: number): void;
  /** Runs the work in a transaction of its own, and again if PostgreSQL chose it to break a deadlock. */
  transact<Value>(purpose: Exclude<Purpose, 'read'>, work: (sql: Sql) => Promise<Value>): Promise<Value>;
  readonly acceptConnections: number;
  /** Like `transact`, within a tracked call: it is not refused while the store closes. */
  transactTracked: Connections['transact'];
  /** Runs a call that shares transactions with others: the end of the store waits for it. */
  tracked<Value>(call: () => Promise<Value>): Promise<Value>;
  /** Reads one state of the database, with any number of statements. */
  read<Value>(work: (sql: Sql) => Promise<Value>): Promise<Value>;
  /** Refuses new calls. Resolves when earlier calls have ended, followed by a last transaction, even if that fails. */
  close(last?: (sql: Sql) => Promise<void>): Promise<void>;
}

/** Opens no connection yet: each opens when it is first needed, and again after it was lost. */
export function createConnections({ url, applicationName, ...options }: ConnectionOptions): Connections {
  const { schema, replica, chainKey, onCommitted } = options;
  const instance = randomUUID();
  const statements = new Statements(options);
  const bounds = { log: options.log ?? UNBOUNDED, held: options.held ?? UNBOUNDED };
  const acceptConnections = options.acceptConnections ?? SIZES.accept;
  const { connect, slots, outage, end } = createPools({ url, applicationName, ...options }, acceptConnections);
  const underWay = new Set<Promise<unknown>>();
  let closing: Promise<void> | undefined;

  /** A pool that ends forgets callers that wait for a connection, so it must not end while there are any. */
  function tracked<Value>(run: () => Promise<Value>): Promise<Value> {
    if (closing !== undefined)
      return Promise.reject(new StoreUnavailableError('the store is closed', { isForGood: true }));
    const running = run();
    const ended = running.then(
      () => void underWay.delete(ended),
      () => void underWay.delete(ended),
    );
    underWay.add(ended);
    return running;
  }

  async function inTransaction<Value>(
    { purpose, begin }: { purpose: Purpose; begin: string },
    work: (sql: Sql) => Promise<Value>,
  ): Promise<Value> {
    const client = await connect(purpose);
    // A statement that reads may take long: its silence proves nothing, but is a reason to ask the database.
    const asking = purpose === 'read' ? setTimeout(() => outage.ask(), READ_ASK_MS).unref() : undefined;
    let broken: Error | undefined;
    const later: Promise<unknown>[] = [];
    const failures = new Failures();
    try {
      sendInOneWrite(client);
      later.push(failures.noted(client.query(options.isPooled === true ? begin + settingsOf(purpose) : begin)));
      const committed = async () => {
        const slot = slots.of(client);
        const own = { statements, slot, schema, replica, instance, bounds, chainKey, later };
        const sql = sqlOf(client, { ...own, noted: (answer) => failures.noted(answer) });
        const value = await work(sql);
        sendTogether(sql, partsOf(sql.counts, sql.slot));
        sendInOneWrite(client);
        const seconds = await commit(client, later);
        if (purpose !== 'read') onCommitted?.(seconds);
        return value;
      };
      return await outage.during(committed());
    } catch (error) {
      const first = failures.causeOf(error);
      const failure = outage.noticed(first);
      // A connection that is lost, or does not answer, ends its transaction by itself.
      broken =
        failure.isAway || losesConnection(first)
          ? failure
          : await client.query('ROLLBACK').then(
              () => undefined,
              (refused: Error) => refused,
            );
      throw failure;
    } finally {
      clearTimeout(asking);
      client.release(broken);
    }
  }

  async function transactTracked<Value>(
    purpose: Exclude<Purpose, 'read'>,
    work: (sql: Sql) => Promise<Value>,
  ): Promise<Value> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await inTransaction({ purpose, begin: BEGIN }, work);
      } catch (error) {
        if (tries === CONFLICT_TRIES || !isConflict(error)) throw error;
      }
    }
  }

  return {
    countAs: (store) => slots.begin(store),
    acceptConnections,
    tracked,
    transactTracked,
    transact: (purpose, work) => tracked(() => transactTracked(purpose, work)),
    read: (work) =>
      tracked(() => inTransaction({ purpose: 'read', begin: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY' }, work)),
    close(last = async () => {}) {
      closing ??= Promise.all(underWay).then(async () => {
        await transactTracked('write', last).catch(() => {});
        await end();
      });
      return closing;
    },
  };
}

/** Yields how long the commit took. */
async function commit(client: pg.PoolClient, later: readonly Promise<unknown>[]): Promise<number> {
  const from = performance.now();
  const [{ command }] = await Promise.all([client.query('COMMIT'), ...later]);
  // PostgreSQL rolls a transaction back, without an error, if one of its statements failed.
  if (command !== 'COMMIT') {
    throw Object.assign(new Error('a statement of the transaction failed'), { code: FAILED_BEFORE });
  }
  return (performance.now() - from) / 1000;
}

/** The settings of a connection for one transaction: through a pooler it belongs to others before and after. */
function settingsOf(purpose: Purpose): string {
  const settings = [
    `SET LOCAL statement_timeout = ${statementMsOf(purpose)}`,
    `SET LOCAL idle_in_transaction_session_timeout = ${idleMsOf(purpose)}`,
    ...(purpose === 'read' ? [] : settingsOfWrites(true)),
  ];
  return settings.map((setting) => `; ${setting}`).join('');
}

/** The connections. When the database was away, all are made again. */
function createPools({ url, applicationName, isPooled, ...listener }: ConnectionOptions, acceptConnections: number) {
  const slots = new Slots();
  const sizes = { ...SIZES, accept: acceptConnections };
  const open = (purpose: Purpose): pg.Pool => {
    const pool = createPool(purpose, { url, applicationName, isPooled, max: sizes[purpose] });
    pool.on('remove', (client) => slots.free(client));
    return pool;
  };
  const openAll = () => ({ accept: open('accept'), write: open('write'), read: open('read') });
  let pools = openAll();
  const outage = new Outage({
    ...listener,
    probe: () => probe(url, applicationName),
    // Each connection to a dead server would otherwise hang again separately.
    forget() {
      const former = pools;
      pools = openAll();
      slots.forget();
      for (const pool of Object.values(former)) void pool.end().catch(() => {});
    },
  });
  return {
    slots,
    outage,
    connect: (purpose: Purpose): Promise<pg.PoolClient> =>
      outage
        .connected(() => pools[purpose].connect())
        .catch((error: unknown) => {
          throw outage.noticed(error);
        }),
    async end() {
      outage.close();
      await Promise.all(Object.values(pools).map((pool) => pool.end()));
    },
  };
}

function createPool(
  purpose: Purpose,
  {
    url,
    applicationName,
    isPooled,
    max,
  }: Pick<ConnectionOptions, 'url' | 'applicationName' | 'isPooled'> & { readonly max: number },
) {
  const statementMs = statementMsOf(purpose);
  const pool = new pg.Pool({
    Client: ImpatientClient,
    connectionString: url,
    max,
    application_name: `${applicationName}/${purpose}`,
    // Callers that wait for a connection in use hear first that its user got no answer.
    connectionTimeoutMillis: ANSWER_MS + 1000,
    ...(isPooled === true
      ? {}
      : { statement_timeout: statementMs, idle_in_transaction_session_timeout: idleMsOf(purpose) }),
    query_timeout: statementMs + ANSWER_MS - STATEMENT_MS,
    keepAlive: true,
    // Statements that do not wait for each other's answers, and the end of the transaction, share a round trip.
    pipeline: true,
    idleTimeoutMillis: 0,
  });
  // An idle connection that breaks leaves the pool by itself; the next call opens another.
  pool.on('error', () => {});
  // One that breaks in use fails its statements. Without a listener its error would end the process as well.
  pool.on('connect', (client) => {
    client.on('error', () => {});
    if (purpose === 'read' || isPooled === true) return;
    // Sent before the first transaction. If this fails, the transaction also fails, or is only slower.
    client.query(settingsOfWrites(false).join('; ')).catch(() => {});
  });
  return pool;
}

/** Gives up connecting before callers that wait for a connection in use give up. */
class ImpatientClient extends pg.Client {
  constructor(config?: pg.ClientConfig) {
    super({ ...config, connectionTimeoutMillis: ANSWER_MS });
  }
}

/** Resolves if the database answers on a separate connection and accepts writes there. */
async function probe(url: string, applicationName: string): Promise<void> {
  const direct = directClient({ url, applicationName: `${applicationName}/probe`, answerMs: ANSWER_MS });
  try {
    await direct.connect();
    await requireWritable((text) => direct.client.query(text));
  } finally {
    void direct.end();
  }
}

// The repetition may lock the row that the other transaction was about to lock, and so block it once more.
const CONFLICT_TRIES = 5;

/** Writing connections of a store count under separate numbers, so that none waits for another's commit. */
const SLOTS_OF_A_STORE = 16;

/** Numbers of connections: the lowest that no other connection has. */
class Slots {
  #first = 0;
  readonly #clients: (pg.ClientBase | undefined)[] = [];

  begin(store: number): void {
    this.#first = store * SLOTS_OF_A_STORE;
  }

  of(client: pg.ClientBase): number {
    const known = this.#clients.indexOf(client);
    if (known !== -1) return this.#first + known;
    const free = this.#clients.indexOf(undefined);
    const slot = free === -1 ? this.#clients.length : free;
    this.#clients[slot] = client;
    return this.#first + slot;
  }

  forget(): void {
    this.#clients.length = 0;
  }

  free(client: pg.ClientBase): void {
    const slot = this.#clients.indexOf(client);
    if (slot !== -1) this.#clients[slot] = undefined;
  }
}

/** Knows the statement that failed first: the following ones of its transaction fail too, for no other reason. */
class Failures {
  #first: unknown;

  /** Answers come in the order of the statements, but their callers may hear of them in another order. */
  noted<Answer>(answer: Promise<Answer>): Promise<Answer> {
    answer.catch((error: unknown) => {
      this.#first ??= error;
    });
    return answer;
  }

  causeOf(error: unknown): unknown {
    return codeOf(error) === FAILED_BEFORE ? (this.#first ?? error) : error;
  }
}

const FAILED_BEFORE = '25P02';

/** Deadlocks, and transactions that cannot be put into any order; SQLSTATE in PostgreSQL's manual, appendix A. */
const CONFLICTS = new Set(['40P01', '40001']);

function isConflict(error: unknown): boolean {
  return error instanceof StoreUnavailableError && CONFLICTS.has(codeOf(error.cause) ?? '');
}
