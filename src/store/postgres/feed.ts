import { hash } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import pg from 'pg';
import type { Change, FlowChange, Changes as StoreChanges } from '../store.ts';
import { channelOf } from './announce.ts';
import { ANSWER_MS, type Direct, directClient } from './direct.ts';
import { type RunNotice, RunNotices } from './run-notices.ts';
import type { Sql } from './sql.ts';

/** A notice can be lost with the connection, so changes are looked up this often. */
const POLL_MS = 5000;
const RECONNECT_MS = 200;
/** A listener that does not hear its own notices for longer listens elsewhere, such as to a former primary. */
const UNHEARD_MS = 5000;

/** The number of the transaction up to which a replica has seen all changes. */
type Seen = string;

/** Changes that commit later belong to transactions from this number on. */
export async function seenNow(sql: Sql): Promise<Seen> {
  const row = await sql.get<{ seen: string }>('SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS seen');
  return row?.seen ?? '0';
}

interface FeedOptions {
  /** Leads to PostgreSQL itself: a pooler does not carry notices. */
  readonly url: string;
  readonly schema: string;
  readonly applicationName: string;
  /** The lock that only one living process has: see `takeName`. */
  readonly nameLock: string;
  /** Called when its connection listened elsewhere: others made at the same time may do so too. */
  readonly onMoved?: (() => void) | undefined;
  read<Value>(work: (sql: Sql) => Promise<Value>): Promise<Value>;
}

/**
 * Reports changes since the store was opened. Its connection, which only a living process has, also holds the lock on
 * the name of this process.
 */
export class Feed implements StoreChanges {
  readonly #options: FeedOptions;
  readonly #readers = new Set<Reader>();
  #seen: Seen = '0';
  /** By a clock that is never set. */
  #seenAt = performance.now();
  /** Changes found by the last look: the next finds some again, if older transactions were still under way. */
  #found = new Set<string>();
  readonly #closing = new AbortController();
  readonly #runs = new RunNotices((notice) => this.#send(notice));
  #direct: Direct | undefined;
  #isConnected = false;
  /** When the first of its own notices was sent that has not arrived, by a clock that is never set. */
  #unheardSince: number | undefined;
  #hasNameLock = false;
  #locking: Promise<void> | undefined;
  /** Whether it has had a reader. */
  #isRead = false;
  #listening: Promise<void> | undefined;
  readonly #wasTried: Promise<void>;
  #tried = () => {};
  #polling: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: FeedOptions) {
    this.#options = options;
    this.#wasTried = new Promise((resolve) => {
      this.#tried = resolve;
    });
  }

  get #ownChannel(): string {
    return `sluice_self_${hash('sha256', this.#options.nameLock).slice(0, 32)}`;
  }

  get #listenText(): string {
    return `LISTEN ${pg.escapeIdentifier(channelOf(this.#options.schema))}`;
  }

  [Symbol.asyncIterator](): AsyncIterator<Change> {
    const reader = new Reader(() => this.#readers.delete(reader));
    if (this.#closing.signal.aborted) {
      reader.end();
      return reader;
    }
    this.#readers.add(reader);
    this.#isRead = true;
    this.#listening ??= this.#listen();
    void this.#poll();
    return reader;
  }

  /** Reports changes from now on. */
  begin(seen: Seen): void {
    this.#seen = seen;
    this.#seenAt = performance.now();
  }

  unseenMs(): number {
    return performance.now() - this.#seenAt;
  }

  /** Connects if necessary, and yields whether it could lock the name of this process; it goes on trying. */
  async takeName(): Promise<boolean> {
    this.#listening ??= this.#listen();
    await this.#wasTried;
    await this.#poll();
    return this.#hasNameLock;
  }

  /** Notes that a run went on here. */
  runChanged(runId: string): void {
    this.#runs.changed(runId);
  }

  /** Whether this process wants to hear of other processes' runs. */
  watchRuns(isWatching: boolean): void {
    if (!this.#closing.signal.aborted) this.#runs.watch(isWatching);
  }

  /** Ends every reader; resolves when all its work has ended. */
  async close(): Promise<void> {
    this.#closing.abort();
    clearTimeout(this.#timer);
    this.#runs.close();
    for (const reader of this.#readers) reader.end();
    await this.#direct?.end();
    await Promise.all([this.#listening, this.#polling]);
  }

  /** Listens until the store closes, over as many connections as necessary. */
  async #listen(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await this.#listenOnce().catch(() => {
        // The database is away, so nothing changes there meanwhile.
      });
      await setTimeout(RECONNECT_MS, undefined, { ref: false, signal }).catch(() => {});
    }
  }

  /** Resolves or rejects when the connection is lost. */
  async #listenOnce(): Promise<void> {
    const { url, applicationName } = this.#options;
    const direct = directClient({ url, applicationName: `${applicationName}/changes`, answerMs: ANSWER_MS });
    const { client } = direct;
    this.#direct = direct;
    try {
      const lost = new Promise<void>((resolve) => {
        client.on('error', () => resolve());
        client.on('end', () => resolve());
      });
      client.on('notification', ({ channel, payload }) => {
        if (channel === this.#ownChannel) this.#unheardSince = undefined;
        else this.#hear(JSON.parse(payload ?? 'null') as FlowChange | RunNotice);
      });
      await direct.connect();
      this.#isConnected = true;
      await this.#lockName();
      await client.query(`LISTEN ${pg.escapeIdentifier(this.#ownChannel)}`);
      await client.query(this.#listenText);
      // Reads the changes from before this connection listened.
      await this.#poll();
      this.#tried();
      if (!this.#closing.signal.aborted) await lost;
    } finally {
      this.#isConnected = false;
      this.#unheardSince = undefined;
      this.#hasNameLock = false;
      this.#tried();
      await direct.end();
    }
  }

  /** The lock lasts as long as the connection. A lost connection that has not ended yet may still have it. */
  async #lockName(): Promise<void> {
    if (!this.#isConnected || this.#hasNameLock) return;
    // A look at the rows can come while the new connection asks for the lock.
    this.#locking ??= this.#tryLock().finally(() => {
      this.#locking = undefined;
    });
    await this.#locking;
  }

  async #tryLock(): Promise<void> {
    const lock = 'SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS "isLocked"';
    const { rows } = (await this.#direct?.client.query(lock, [this.#options.nameLock])) ?? { rows: [] };
    this.#hasNameLock = rows[0]?.isLocked === true;
  }

  #pollAgain(): void {
    clearTimeout(this.#timer);
    if (this.#closing.signal.aborted) return;
    this.#timer = globalThis.setTimeout(() => void this.#poll(), POLL_MS).unref();
  }

  /** Looks at the rows; one look at a time. */
  #poll(): Promise<void> {
    this.#polling ??= this.#look()
      .catch(() => {
        // The database is away. The next look finds all changes since.
      })
      .finally(() => {
        this.#polling = undefined;
        this.#pollAgain();
      });
    return this.#polling;
  }

  async #look(): Promise<void> {
    await this.#lockName();
    const lookedAt = performance.now();
    if (!this.#isRead) return;
    const listener = this.#isConnected ? this.#direct : undefined;
    if (listener !== undefined) this.#unheardSince ??= lookedAt;
    const { seen, rows } = await this.#options.read(async (sql) => ({
      // Sent on the server of the writes: the listener hears it if it is on the same one.
      told: await sql.all(`SELECT pg_notify($1, '')`, [this.#ownChannel]),
      rows: await sql.all<FlowChange & { xid: string }>(
        'SELECT flow_id AS "flowId", kind, xid::text AS xid FROM sluice.changes WHERE xid >= $1::xid8 ORDER BY xid',
        [this.#seen],
      ),
      // From the same snapshot as the rows.
      seen: await seenNow(sql),
    }));
    const found = new Set<string>();
    for (const { xid, kind, flowId } of rows) {
      const name = `${xid} ${kind} ${flowId}`;
      found.add(name);
      if (!this.#found.has(name)) this.#tell({ kind, flowId });
    }
    this.#found = found;
    this.#seen = seen;
    this.#seenAt = lookedAt;
    if (listener !== undefined) await this.#proveListener(listener, lookedAt);
  }

  /** Ends a connection that does not answer, or missed its own notice from the server of writes: another is made. */
  async #proveListener(listener: Direct, at: number): Promise<void> {
    // Notices that it heard come before the answer.
    const answered = await listener.client.query(this.#listenText).catch(() => undefined);
    const isElsewhere = this.#unheardSince !== undefined && at - this.#unheardSince > UNHEARD_MS;
    if (listener !== this.#direct || (answered !== undefined && !isElsewhere)) return;
    await listener.end();
    if (isElsewhere) this.#options.onMoved?.();
  }

  #hear(notice: FlowChange | RunNotice): void {
    if (notice.kind !== 'watch' && notice.kind !== 'runs') {
      this.#tell(notice);
      return;
    }
    const runIds = this.#runs.heard(notice);
    if (runIds !== undefined) this.#tell({ kind: 'runs', runIds });
  }

  #send(notice: RunNotice): void {
    if (!this.#isConnected) return;
    const values = [channelOf(this.#options.schema), JSON.stringify(notice)];
    this.#direct?.client.query('SELECT pg_notify($1, $2)', values).catch(() => {
      // The connection was lost: reads the changes by others in the meantime.
    });
  }

  #tell(change: Change): void {
    for (const reader of this.#readers) reader.put(change);
  }
}

type RunsChange = Extract<Change, { kind: 'runs' }>;

/** Beyond this number, the change names no runs. */
const MOST_WAITING_RUNS = 1000;

/** Changes that one reader has not taken yet, each only once. */
class Reader implements AsyncIterator<Change> {
  readonly #onEnd: () => void;
  readonly #waiting = new Map<string, Change>();
  #hasEnded = false;
  #wake: (() => void) | undefined;

  constructor(onEnd: () => void) {
    this.#onEnd = onEnd;
  }

  put(change: Change): void {
    if (change.kind === 'runs') this.#waiting.set('runs', this.#joined(change));
    else this.#waiting.set(`${change.kind} ${change.flowId}`, change);
    this.#wake?.();
  }

  #joined({ runIds }: RunsChange): RunsChange {
    const waiting = this.#waiting.get('runs');
    if (waiting?.kind !== 'runs') return { kind: 'runs', runIds };
    const all = new Set([...waiting.runIds, ...runIds]);
    const isAny = waiting.runIds.length === 0 || runIds.length === 0 || all.size > MOST_WAITING_RUNS;
    return { kind: 'runs', runIds: isAny ? [] : [...all] };
  }

  end(): void {
    this.#hasEnded = true;
    this.#wake?.();
  }

  async next(): Promise<IteratorResult<Change>> {
    for (;;) {
      for (const [name, value] of this.#waiting) {
        this.#waiting.delete(name);
        return { done: false, value };
      }
      if (this.#hasEnded) return { done: true, value: undefined };
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  async return(): Promise<IteratorResult<Change>> {
    this.end();
    this.#onEnd();
    return { done: true, value: undefined };
  }
}
