import { parentPort } from 'node:worker_threads';
import type { Database } from 'better-sqlite3';
import { prepareAcceptanceRows } from './acceptance.ts';
import { type Job, prepareBatch, type Settled } from './batch.ts';
import { damageOf, keepLogInMemory, openReader, openWriter, reasonOf, sqliteCode } from './connection.ts';
import { keepLogBounded } from './deliveries.ts';
import type { FileWatch } from './file-watch.ts';
import {
  type Answer,
  type Call,
  type Failure,
  type FromThread,
  inMemory,
  type Opened,
  type StoreOptions,
  type ToThread,
} from './messages.ts';
import { openIndexes, warmIndexes, withIndexing } from './nonce-index.ts';
import { operations, prepareRuns, threadOf } from './operations.ts';
import { openPort } from './port.ts';

if (parentPort === null) throw new Error('This file is the entry of a worker thread.');
const port = parentPort;
const send = (message: FromThread) => port.postMessage(message);
let service: Service | undefined;

port.on('message', (message: ToThread) => {
  switch (message.kind) {
    case 'open':
      open(message);
      break;
    case 'calls':
      service?.take(message.calls, message.bytes);
      break;
    case 'checkpoint':
      service?.checkpoint?.();
      break;
    case 'checkpointed':
      service?.checkpointed?.();
      break;
    case 'lost':
      service?.lost?.(new Error(message.failure.message));
      break;
    case 'close':
      service?.close();
      service = undefined;
      if (message.isLast) port.close();
      else send({ kind: 'closed' });
      break;
  }
});

function open({ path, role, options }: Extract<ToThread, { kind: 'open' }>): void {
  try {
    service = role === 'writer' ? openWriterService(path, options) : openReaderService(path, options);
    send({ kind: 'opened', ...(service.opened ?? { isNew: false, foreign: [] }) });
  } catch (error) {
    send({ kind: 'notOpened', failure: toFailure(damageOf(error, path) ?? error) });
    port.close();
  }
}

/** The work of a thread with its connection. */
interface Service {
  readonly opened?: Opened;
  take(calls: readonly Call[], bytes?: Uint8Array): void;
  /** The reader's part of a checkpoint. */
  checkpoint?(): void;
  /** The writer's part, once the reader has done its part. */
  checkpointed?(): void;
  /** The reader found the file malformed. */
  lost?(error: Error): void;
  /** Answers earlier calls, then releases the database. */
  close(): void;
}

/** The limits of a batch, so that its first caller waits for a commit of bounded size. */
const maxCalls = 512;
const maxBytes = 8 * 1024 * 1024;

/** Runs writing operations, in batches. For a store in memory it runs reads too, since no other connection sees it. */
function openWriterService(path: string, options: StoreOptions): Service {
  const onMigrating = (names: readonly string[]) => send({ kind: 'migrating', names });
  const { db, isNew, foreign, watch, close } = openWriter(path, { onMigrating });
  openPort(db, options.chainKey);
  const isAlone = path === inMemory;
  if (options.log.inMemory) keepLogInMemory(db);
  const indexes = openIndexes(db);
  const state = { indexes, rows: prepareAcceptanceRows(db, indexes), held: options.held };
  const runs = prepareRuns((name) => {
    const operation = operations[name];
    if (operation.thread === 'writer') return operation.prepare(db, state);
    return isAlone || threadOf(name, options) === 'writer' ? operation.prepare(db) : undefined;
  });
  // The last counter of a batch, because it relies on the others' counts.
  keepLogBounded(db, options.log);
  const log = watch && watchLog(db, watch, () => send({ kind: 'logGrown' }));
  let commitSeconds: number | undefined;
  const committed = (seconds: number) => {
    commitSeconds = seconds;
  };
  const takeCommitSeconds = () => {
    const taken = commitSeconds;
    commitSeconds = undefined;
    return taken;
  };
  const runIndexed = withIndexing(db, prepareBatch(db, 'BEGIN IMMEDIATE', committed), indexes);
  const runLogged = (jobs: readonly Job[]) => {
    const settled = runIndexed(jobs);
    log?.committed();
    return settled;
  };
  const runBatch = watch === undefined ? runLogged : withWatch(runLogged, watch);
  const queue = new CallQueue({ path, runs, runBatch, maxCalls, maxBytes, takeCommitSeconds });
  return {
    opened: { isNew, foreign },
    take: (calls, bytes) => queue.take(calls, bytes),
    checkpointed: () => log?.checkpointed(),
    lost: (error) => watch?.lose(error),
    close() {
      queue.drain();
      close();
    },
  };
}

/**
 * Runs nothing once the database file is lost, and acknowledges nothing that may have been written to a lost file: it
 * checks before each batch and again between commit and answers.
 */
function withWatch(runBatch: (jobs: readonly Job[]) => Settled[], watch: FileWatch): typeof runBatch {
  const check = () => {
    const error = watch.check();
    if (error !== undefined && watch.isLost) tellLost(error);
    return error;
  };
  return (jobs) => {
    const settled = check() === undefined ? runBatch(jobs) : [];
    const damage = damageAmong(settled, watch.path);
    if (damage !== undefined) watch.lose(damage);
    const error = check();
    return error === undefined ? settled : jobs.map(() => ({ isFulfilled: false, error }));
  };
}

/** Explains the first of the errors that a malformed file caused. */
function damageAmong(settled: readonly Settled[], path: string): Error | undefined {
  for (const one of settled) {
    const damage = one.isFulfilled ? undefined : damageOf(one.error, path);
    if (damage !== undefined) return damage;
  }
  return undefined;
}

/** The store tells its operator once, however many threads report this, however often. */
function tellLost(error: Error): void {
  send({ kind: 'lost', failure: toFailure(error) });
}

/** For work whose failure matters only if the file is malformed. */
function tellDamage(error: unknown, path: string): void {
  const damage = damageOf(error, path);
  if (damage !== undefined) tellLost(damage);
}

/** Runs reading operations, one call a transaction, so that a slow query never delays the calls before it. */
function openReaderService(path: string, options: StoreOptions): Service {
  const { db, close } = openReader(path);
  openPort(db, options.chainKey);
  const runs = prepareRuns((name) => {
    const operation = operations[name];
    return operation.thread === 'reader' ? operation.prepare(db) : undefined;
  });
  const runPlainly = prepareBatch(db, 'BEGIN');
  const runBatch = (jobs: readonly Job[]) => {
    const settled = runPlainly(jobs);
    const damage = damageAmong(settled, path);
    if (damage === undefined) return settled;
    tellLost(damage);
    return settled.map((one): Settled => (one.isFulfilled ? one : { isFulfilled: false, error: damage }));
  };
  const queue = new CallQueue({ path, runs, runBatch, maxCalls: 1, maxBytes: 0 });
  const stopWarming = warmCache(db, path);
  return {
    take: (calls, bytes) => queue.take(calls, bytes),
    checkpoint() {
      checkpoint(db, path);
      send({ kind: 'checkpointed' });
    },
    close() {
      stopWarming();
      queue.drain();
      close();
    },
  };
}

/** Reads the index of nonces ahead, between calls, over a connection whose cache stays small. Yields how to stop. */
function warmCache(db: Database, path: string): () => void {
  let own: ReturnType<typeof openReader> | undefined;
  const parts = warmIndexes(db, () => {
    own ??= openReader(path);
    own.db.pragma('cache_size = -256');
    return own.db;
  });
  const next = () => {
    try {
      if (!parts.next().done) return void setImmediate(next);
    } catch (error) {
      tellDamage(error, path);
    }
    stop();
  };
  const stop = () => {
    parts.return();
    if (own?.db.open) own.close();
  };
  next();
  return stop;
}

interface CallQueueOptions {
  /** The path of the database. */
  readonly path: string;
  readonly runs: ReturnType<typeof prepareRuns>;
  readonly runBatch: (jobs: readonly Job[]) => Settled[];
  /** A batch ends after this many calls, or with the call that brings its bodies to this many bytes. */
  readonly maxCalls: number;
  readonly maxBytes: number;
  /** The duration of the last batch's commit. */
  readonly takeCommitSeconds?: () => number | undefined;
}

const NO_BYTES = new Uint8Array();

interface QueuedCall {
  readonly id: number;
  readonly job: Job;
  readonly bytes: number;
}

/**
 * Runs calls in batches that set their own pace: calls that arrive while one commits wait in the thread's port and form
 * the next one. No call waits for a timer.
 */
class CallQueue {
  readonly #options: CallQueueOptions;
  #queue: QueuedCall[] = [];
  #isScheduled = false;

  constructor(options: CallQueueOptions) {
    this.#options = options;
  }

  take(calls: readonly Call[], bytes: Uint8Array = NO_BYTES): void {
    let offset = 0;
    for (const [id, name, args, bodyBytes] of calls) {
      const run = this.#options.runs[name];
      if (run === undefined) throw new Error(`${name} is not for this thread`);
      const length = bodyBytes ?? 0;
      const body = bodyBytes === undefined ? [] : [bytes.subarray(offset, offset + length)];
      offset += length;
      // Messages are untyped; the table of operations types both ends.
      this.#queue.push({ id, job: () => run(...([...args, ...body] as never[])), bytes: length });
    }
    this.#schedule();
  }

  /** Runs all calls taken so far. */
  drain(): void {
    while (this.#queue.length > 0) this.#runNext();
  }

  #schedule(): void {
    if (this.#isScheduled || this.#queue.length === 0) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      if (this.#queue.length > 0) this.#runNext();
      this.#schedule();
    });
  }

  #runNext(): void {
    const calls = this.#queue.splice(0, this.#nextLength());
    const settled = this.#options.runBatch(calls.map(({ job }) => job));
    const answers = calls.map(({ id }, at) => toAnswer(id, settled[at], this.#options.path));
    send({ kind: 'answers', answers, commitSeconds: this.#options.takeCommitSeconds?.() });
  }

  #nextLength(): number {
    const { maxCalls, maxBytes } = this.#options;
    let bytes = 0;
    let length = 0;
    for (const call of this.#queue) {
      length += 1;
      bytes += call.bytes;
      if (length >= maxCalls || bytes >= maxBytes) break;
    }
    return length;
  }
}

function toAnswer(id: number, settled: Settled | undefined, path: string): Answer {
  return settled?.isFulfilled ? [id, settled.value] : [id, undefined, toFailure(settled?.error, path)];
}

function toFailure(error: unknown, path?: string): Failure {
  const message = error instanceof Error ? error.message : String(error);
  return { message: path === undefined ? message : reasonOf(error, path), code: sqliteCode(error) };
}

/** Small steps that never hold the disk for long. */
const checkpointBytes = 4 * 1024 * 1024;
/** See `watchLog`. */
const restartBytes = 16 * 1024 * 1024;

interface LogState {
  /** Pages in the log. */
  readonly log: number;
  /** How many of them are also in the database file. */
  readonly checkpointed: number;
}

interface LogWatch {
  /** Call after each commit. */
  committed(): void;
  /** Call when the requested checkpoint is done. */
  checkpointed(): void;
}

/**
 * Keeps the write-ahead log short without making commits wait.
 *
 * Another thread copies the log into the database file while commits continue. The log can restart only when all of it
 * is copied, which never happens during a steady stream of commits. So once the log is long, the writer copies the
 * small rest itself, between two transactions.
 */
function watchLog(db: Database, watch: FileWatch, askForCheckpoint: () => void): LogWatch {
  const measure = db.prepare<[], LogState>('PRAGMA wal_checkpoint(NOOP)');
  const pageBytes = Number(db.pragma('page_size', { simple: true }));
  let isAsked = false;
  return {
    committed() {
      const state = isAsked ? undefined : measure.get();
      if (state === undefined || (state.log - state.checkpointed) * pageBytes < checkpointBytes) return;
      isAsked = true;
      try {
        watch.renewStamp();
      } catch (error) {
        // The next checkpoint renews the stamp.
        tellDamage(error, watch.path);
      }
      askForCheckpoint();
    },
    checkpointed() {
      isAsked = false;
      if ((measure.get()?.log ?? 0) * pageBytes >= restartBytes) checkpoint(db, watch.path);
    },
  };
}

/** Copies all frames that no reader holds back, without waiting for readers. */
function checkpoint(db: Database, path: string): void {
  try {
    db.pragma('wal_checkpoint(PASSIVE)');
  } catch (error) {
    // Unless the file is damaged, the log is complete without its copy, and asks again as it grows.
    tellDamage(error, path);
  }
}
