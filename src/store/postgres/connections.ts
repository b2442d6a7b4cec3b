import pg from 'pg';
import { StoreUnavailableError } from '../../errors.ts';
import { type Sql, type SqlOptions, Statements, sqlOf } from './sql.ts';

export interface ConnectionOptions extends SqlOptions {
  /** A `postgres://` URL. */
  readonly url: string;
  /** Shown by PostgreSQL for each connection, with its purpose. */
  readonly applicationName: string;
}

/** What a connection is used for, and how many there are. Slow reads and steps never keep a delivery waiting. */
const SIZES = { accept: 2, write: 3, read: 2 } as const;

export type Lane = keyof typeof SIZES;

/** Connecting, and any answer, takes at most so long; then the database counts as away. */
const ANSWER_MS = 5000;
/** PostgreSQL gives a statement up before the caller does, so that nothing runs on that nobody waits for. */
const STATEMENT_MS = 4000;
const READ_STATEMENT_MS = 30_000;

const UNBOUNDED = { maxRows: Number.POSITIVE_INFINITY, maxBytes: Number.POSITIVE_INFINITY };

/** Transactions on a PostgreSQL database, over a few connections for each purpose. */
export interface Connections {
  /** The number that transactions count under: see the columns named `slot`. */
  slot: number;
  /** Runs the work in a transaction of its own, and again where PostgreSQL chose it to break a deadlock. */
  transact<Value>(lane: Exclude<Lane, 'read'>, work: (sql: Sql) => Promise<Value>): Promise<Value>;
  /** Reads one state of the database, however many statements that takes. */
  read<Value>(work: (sql: Sql) => Promise<Value>): Promise<Value>;
  /** Refuses what is called from now on and resolves when what was called before has ended. */
  close(): Promise<void>;
}

/** Opens no connection yet: each is opened when it is first needed, and again after it was lost. */
export function createConnections({ url, applicationName, ...options }: ConnectionOptions): Connections {
  const statements = new Statements(options);
  const bounds = { log: options.log ?? UNBOUNDED, held: options.held ?? UNBOUNDED };
  const poolOf = (lane: Lane): pg.Pool => {
    const statementMs = lane === 'read' ? READ_STATEMENT_MS : STATEMENT_MS;
    const pool = new pg.Pool({
      connectionString: url,
      max: SIZES[lane],
      application_name: `${applicationName}/${lane}`,
      connectionTimeoutMillis: ANSWER_MS,
      statement_timeout: statementMs,
      query_timeout: statementMs + ANSWER_MS - STATEMENT_MS,
      idle_in_transaction_session_timeout: 30_000,
      keepAlive: true,
      // Statements that do not wait for each other's answers, and the end of the transaction, share a round trip.
      pipeline: true,
      idleTimeoutMillis: 0,
    });
    // An idle connection that breaks leaves the pool by itself; the next call opens another.
    pool.on('error', () => {});
    return pool;
  };
  const pools = { accept: poolOf('accept'), write: poolOf('write'), read: poolOf('read') };
  const underWay = new Set<Promise<unknown>>();
  let closing: Promise<void> | undefined;

  /** A pool that ends forgets those who wait for a connection, so it may only end when none does. */
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
    { lane, begin }: { lane: Lane; begin: string },
    work: (sql: Sql) => Promise<Value>,
  ): Promise<Value> {
    const client = await pools[lane].connect().catch((error: unknown) => {
      throw toStoreError(error);
    });
    let broken: Error | undefined;
    try {
      void client.query(begin).catch(() => {});
      const value = await work(
        sqlOf(client, { statements, slot: own.slot, schema: options.schema, replica: options.replica, bounds }),
      );
      const { command } = await client.query('COMMIT');
      // PostgreSQL rolls back, without an error, a transaction in which a statement failed.
      if (command !== 'COMMIT') throw new Error('a statement of the transaction failed');
      return value;
    } catch (error) {
      broken = await client.query('ROLLBACK').then(
        () => undefined,
        (failure: Error) => failure,
      );
      throw toStoreError(error);
    } finally {
      client.release(broken);
    }
  }

  const own: Connections = {
    slot: 0,
    transact: (lane, work) =>
      tracked(async () => {
        for (let tries = 1; ; tries += 1) {
          try {
            return await inTransaction({ lane, begin: 'BEGIN' }, work);
          } catch (error) {
            if (tries === CONFLICT_TRIES || !isConflict(error)) throw error;
          }
        }
      }),
    read: (work) =>
      tracked(() => inTransaction({ lane: 'read', begin: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY' }, work)),
    close() {
      closing ??= Promise.all(underWay).then(async () => {
        await Promise.all(Object.values(pools).map((pool) => pool.end()));
      });
      return closing;
    },
  };
  return own;
}

// What begins again may lock the row that the other one was about to lock, and so block it once more.
const CONFLICT_TRIES = 5;

/** Deadlocks, and transactions that cannot be put into any order; SQLSTATE of PostgreSQL's manual, appendix A. */
const CONFLICTS = new Set(['40P01', '40001']);

function isConflict(error: unknown): boolean {
  return error instanceof StoreUnavailableError && CONFLICTS.has(codeOf(error.cause) ?? '');
}

function codeOf(error: unknown): string | undefined {
  return (error as { code?: string } | null | undefined)?.code;
}

/** Whatever keeps a transaction from its commit, the caller can only try again: nothing of it remains. */
export function toStoreError(error: unknown): StoreUnavailableError {
  if (error instanceof StoreUnavailableError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new StoreUnavailableError(message || (codeOf(error) ?? 'PostgreSQL does not answer'), { cause: error });
}
