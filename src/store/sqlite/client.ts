import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';
import { StoreUnavailableError } from '../../errors.ts';
import type { DeliveryRecord } from '../../model/delivery.ts';
import { Places } from '../../model/places.ts';
import { SOLE_OWNER } from '../../model/runtime-keys.ts';
import { handlesOf } from '../part.ts';
import type { ChainKey } from '../sealed-body.ts';
import { SHARE_MS, SharedCommits } from '../shared-commits.ts';
import type { Acceptance, SharedAcceptance, StepOutcome, Store } from '../store.ts';
import {
  type Answer,
  type Call,
  type Failure,
  type FromThread,
  inMemory,
  type Opened,
  type OperationName,
  type StoreOptions,
  type ThreadRole,
  type ToThread,
} from './messages.ts';
import { crossings, operationNames, threadOf } from './operations.ts';
import { soleReplica } from './sole-replica.ts';

export const UNBOUNDED = { maxRows: Number.POSITIVE_INFINITY, maxBytes: Number.POSITIVE_INFINITY };

export interface SqliteStoreOptions {
  /** A file, created with its folders if it does not exist, or `:memory:`. */
  readonly path: string;
  /** Called when a new, empty database was made because there was none at the path. */
  readonly onCreated?: (() => void) | undefined;
  /** Called before each change to the schema of an existing database, with the names of the missing migrations. */
  readonly onMigrating?: ((names: readonly string[]) => Promise<void>) | undefined;
  /** Called with the triggers, views and indexes of the database that no migration made. */
  readonly onForeign?: ((names: readonly string[]) => void) | undefined;
  /** Called after each transaction that wrote, with the duration of its commit, flush included. */
  readonly onCommitted?: ((seconds: number) => void) | undefined;
  /** Called once when a thread of the store has ended by itself; every call rejects from then on. */
  readonly onFatal?: (error: Error) => void;
  /** Called once when the database file was removed, replaced or found malformed; every write rejects from then on. */
  readonly onLost?: (error: Error) => void;
  /** The delivery log: by default in the database and unbounded. */
  readonly log?: StoreOptions['log'];
  /** The limits of held deliveries; unbounded by default. */
  readonly held?: StoreOptions['held'];
  /** Makes the hashes of the activity log; without it anyone who can write to the database can make them. */
  readonly chainKey?: ChainKey | undefined;
  /** Names this process in the list of replicas, in which it is alone. */
  readonly replica?: string | undefined;
}

/**
 * Opens the store on a SQLite database: one thread that writes and one that reads, so that neither a slow disk nor a
 * slow query blocks the event loop, and no query delays a commit. Rejects with an error that names the path if the
 * database cannot be opened, is another program's, is newer than this release or is in use by another process.
 */
export async function openSqliteStore(opened: SqliteStoreOptions): Promise<Store> {
  const {
    path,
    onCreated,
    onMigrating,
    onForeign,
    onCommitted,
    onFatal,
    onLost,
    replica = SOLE_OWNER,
    ...given
  } = opened;
  const options: StoreOptions = {
    log: given.log ?? { inMemory: false, ...UNBOUNDED },
    held: given.held ?? UNBOUNDED,
    chainKey: given.chainKey,
  };
  let isOpen = false;
  const die = (error: Error) => {
    void abandon(error);
    if (isOpen) onFatal?.(error);
  };
  let isLost = false;
  // Whichever thread found out: the writer must not acknowledge what it is about to commit.
  const lose = (failure: Failure) => {
    writer.lose(failure);
    if (isLost) return;
    isLost = true;
    onLost?.(toError(failure));
  };
  let told = Promise.resolve();
  const writer = new StoreThread('writer', {
    onMigrating(names) {
      told = told.then(() => onMigrating?.(names));
      // A rejection fails the opening, below.
      told.catch(() => {});
    },
    onDeath: die,
    onLost: lose,
    onLogGrown: () => reader.post({ kind: 'checkpoint' }),
    onCommitted,
  });
  const reader =
    path === inMemory
      ? writer
      : new StoreThread('reader', {
          onDeath: die,
          onLost: lose,
          onCheckpointed: () => writer.post({ kind: 'checkpointed' }),
        });
  const abandon = (error: Error) => Promise.all([writer.abandon(error), reader.abandon(error)]);

  try {
    const { isNew, foreign } = await writer.open(path, options);
    await told;
    if (reader !== writer) await reader.open(path, options);
    isOpen = true;
    if (isNew) onCreated?.();
    if (foreign.length > 0) onForeign?.(foreign);
  } catch (error) {
    await abandon(error instanceof Error ? error : new Error(String(error)));
    throw error;
  }

  let endChanges = () => {};
  const hasClosed = new Promise<void>((resolve) => {
    endChanges = resolve;
  });
  const threads = { writer, reader };
  // Messages are untyped; the table of operations types both ends.
  const members = Object.fromEntries(
    operationNames.map((name) => [name, memberOf(name, threads[threadOf(name, options)])]),
  ) as Pick<Store, OperationName>;
  return {
    ...members,
    of: handlesOf(members),
    ...soleReplica({
      name: replica,
      hasClosed,
      keepTime: members.keepTime,
      countRunning: async (now) => (await members.listSlotWaits({ now, dueBefore: 0 })).running,
    }),
    async close() {
      endChanges();
      writer.refuse();
      await reader.close();
      // The writer closes last, because it tidies up the files, which needs exclusive access.
      await writer.close();
    },
  };
}

/** A member of the store as callers see it. */
export function memberOf(
  name: OperationName,
  thread: Pick<StoreThread, 'call'>,
): (...given: Parameters<Store[OperationName]>) => Promise<unknown> {
  const { rows, first, answer } = crossings[name] ?? {};
  if ((rows ?? first ?? answer) === undefined) return (...given) => thread.call(name, given);
  return async (...given) => {
    const [one, ...others] = given;
    const shareMs = shareMsOf(name, one);
    const value = await (rows === undefined
      ? thread.call(name, [first === undefined ? one : first.pack(one), ...others], { shareMs })
      : thread.call(name, [rows(...given)], {
          body: bodyOf(one as Acceptance | DeliveryRecord | SharedAcceptance[]),
          shareMs,
        }));
    return answer === undefined ? value : answer.unpack(value);
  };
}

/** How long a call may wait for others to share its commit. */
function shareMsOf(name: OperationName, given: unknown): number {
  if (name === 'advance') return (given as StepOutcome).mayShareCommit === true ? SHARE_MS.advance : 0;
  if (name === 'acceptShared') return SHARE_MS.accept;
  return name === 'accept' || name === 'recordDelivery' ? SHARE_MS[name] : 0;
}

function bodyOf(given: Acceptance | DeliveryRecord | readonly SharedAcceptance[]): Uint8Array | null {
  // All members are of one delivery, so each has its bytes.
  if ('length' in given) return given[0]?.acceptance.run.trigger.body ?? null;
  return 'run' in given ? given.run.trigger.body : given.body;
}

interface ThreadEvents {
  /** The schema of an existing database is about to be changed. */
  onMigrating?(names: readonly string[]): void;
  /** The log has grown enough for a checkpoint. */
  onLogGrown?(): void;
  /** The checkpoint that was asked for has ended. */
  onCheckpointed?(): void;
  readonly onCommitted?: ((seconds: number) => void) | undefined;
  /** The database file is missing or malformed. */
  onLost(failure: Failure): void;
  /** The thread ended by itself and answers no more calls. */
  onDeath(error: Error): void;
}

/** Once this many bytes of bodies are sent, calls wait here, uncopied, until the thread has answered some. */
const maxSentBytes = 16 * 1024 * 1024;

/**
 * The threads of closed stores, for the next stores: a new thread takes 70 ms of CPU to load and compile its code, and
 * `runFlow` opens a store for each run. They keep no process alive.
 */
const spareThreads: Record<ThreadRole, Worker[]> = { writer: [], reader: [] };
/** For each role. */
const maxSpareThreads = 4;

interface Waiting<Value = unknown> {
  resolve(value: Value): void;
  reject(error: Error): void;
}

interface WaitingCall extends Waiting {
  readonly bytes: number;
}

interface OutgoingCall {
  readonly call: Call;
  readonly body: Uint8Array | null;
}

/** The main thread's handle of a thread that holds one connection. */
class StoreThread {
  readonly #role: ThreadRole;
  readonly #events: ThreadEvents;
  readonly #worker: Worker;
  /** A released thread serves other stores: send it nothing more, and do not end it. */
  #state: 'held' | 'released' | 'ended' = 'held';
  readonly #isDone: Promise<void>;
  readonly #waiting = new Places<WaitingCall>();
  #opening: Waiting<Opened> | undefined;
  #calls: OutgoingCall[] = [];
  readonly #sending = new SharedCommits(() => this.#flush(maxSentBytes));
  #sentBytes = 0;
  #isClosing = false;
  /** Why the thread fails every call from now on: the database file is missing or malformed. */
  #loss: Failure | undefined;
  /** Why calls are refused. */
  #end: Error | undefined;

  constructor(role: ThreadRole, events: ThreadEvents) {
    this.#role = role;
    this.#events = events;
    this.#worker = spareThreads[role].pop() ?? startThread(role);
    this.#worker.ref();
    this.#worker.on('error', (error) => this.#die(error));
    this.#isDone = new Promise((resolve) => {
      this.#worker.on('message', (message: FromThread) => {
        if (message.kind !== 'closed') return this.#take(message);
        this.#release();
        resolve();
      });
      this.#worker.on('exit', (code) => {
        const error = new Error(`the thread ended with exit code ${code}`);
        this.#die(error);
        this.#rejectAll(error);
        resolve();
      });
    });
  }

  /** Yields the thread's findings. Rejects with an error that names the path. */
  open(path: string, options: StoreOptions): Promise<Opened> {
    return new Promise((resolve, reject) => {
      this.#opening = { resolve, reject };
      this.post({ kind: 'open', path, role: this.#role, options });
    });
  }

  /** Sends the calls of one turn of the event loop in one message; calls that can wait `shareMs`, with later ones. */
  call(
    name: OperationName,
    args: readonly unknown[],
    { body = null, shareMs = 0 }: { body?: Uint8Array | null; shareMs?: number } = {},
  ): Promise<unknown> {
    if (this.#end !== undefined) return Promise.reject(unavailable(this.#end, true));
    return new Promise((resolve, reject) => {
      const id = this.#waiting.add({ resolve, reject, bytes: body?.byteLength ?? 0 });
      this.#calls.push({ call: [id, name, args, body?.byteLength], body });
      this.#sending.expect(shareMs, this.#calls.length);
    });
  }

  post(message: ToThread): void {
    if (this.#state === 'held') this.#worker.postMessage(message);
  }

  /** Fails every call from now on, and every unanswered one. */
  lose(failure: Failure): void {
    if (this.#loss !== undefined) return;
    this.#loss = failure;
    this.post({ kind: 'lost', failure });
  }

  /** Takes no more calls. */
  refuse(): void {
    this.#end ??= new Error('the store is closed');
  }

  /** Resolves when all calls are answered and the thread has released the database. */
  async close(): Promise<void> {
    this.refuse();
    if (!this.#isClosing) {
      this.#isClosing = true;
      this.#sending.cancel();
      this.#flush(Number.POSITIVE_INFINITY);
      this.post({ kind: 'close', isLast: spareThreads[this.#role].length >= maxSpareThreads });
    }
    await this.#isDone;
  }

  /** Rejects all waiting and future calls, and ends the thread. */
  async abandon(error: Error): Promise<void> {
    this.#isClosing = true;
    this.#end = error;
    this.#rejectAll(error);
    if (this.#state === 'released') return;
    this.#state = 'ended';
    await this.#worker.terminate();
  }

  #release(): void {
    if (this.#state !== 'held') return;
    this.#state = 'released';
    for (const name of ['message', 'error', 'exit']) this.#worker.removeAllListeners(name);
    this.#worker.unref();
    spareThreads[this.#role].push(this.#worker);
  }

  #rejectAll(error: Error): void {
    this.#opening?.reject(unavailable(error));
    for (const { reject } of this.#waiting.takeAll()) reject(unavailable(error));
    this.#calls = [];
  }

  /** Sends calls in their order while fewer bytes than the limit are unanswered. */
  #flush(limit: number): void {
    let count = 0;
    for (; count < this.#calls.length && this.#sentBytes < limit; count += 1) {
      this.#sentBytes += this.#calls[count]?.body?.byteLength ?? 0;
    }
    const calls = this.#calls.splice(0, count);
    if (calls.length > 0) this.#send(calls);
  }

  #send(calls: readonly OutgoingCall[]): void {
    try {
      const message: ToThread = { kind: 'calls', calls: calls.map(({ call }) => call) };
      const bytes = joinBodies(calls);
      // A transfer takes 4 µs of CPU, as much as the rest of a message.
      if (bytes.byteLength === 0) this.#worker.postMessage(message);
      else this.#worker.postMessage({ ...message, bytes } satisfies ToThread, [bytes.buffer]);
    } catch (error) {
      // A call that cannot be cloned must not fail the others.
      if (calls.length > 1) for (const call of calls) this.#send([call]);
      else
        for (const { call } of calls) this.#settle([call[0], undefined, { message: String(error), code: undefined }]);
    }
  }

  #take(message: Exclude<FromThread, { kind: 'closed' }>): void {
    switch (message.kind) {
      case 'migrating':
        this.#events.onMigrating?.(message.names);
        break;
      case 'opened':
        this.#opening?.resolve(message);
        break;
      case 'notOpened':
        this.#isClosing = true;
        this.#opening?.reject(unavailable(toError(message.failure)));
        break;
      case 'answers':
        if (message.commitSeconds !== undefined) this.#events.onCommitted?.(message.commitSeconds);
        for (const answer of message.answers) this.#settle(answer);
        // Sends calls that the byte limit held back.
        if (this.#calls.length > 0 && this.#sending.isIdle) this.#sending.sendSoon();
        break;
      case 'logGrown':
        this.#events.onLogGrown?.();
        break;
      case 'checkpointed':
        this.#events.onCheckpointed?.();
        break;
      case 'lost':
        this.#events.onLost(message.failure);
        break;
    }
  }

  #settle([id, value, failure]: Answer): void {
    const waiting = this.#waiting.take(id);
    this.#sentBytes -= waiting?.bytes ?? 0;
    const refused = this.#loss ?? failure;
    if (refused !== undefined) waiting?.reject(unavailable(toError(refused), this.#loss !== undefined));
    else waiting?.resolve(value);
  }

  #die(error: Error): void {
    if (!this.#isClosing)
      this.#events.onDeath(new Error(`the store's ${this.#role} stopped: ${error.message}`, { cause: error }));
  }
}

function startThread(role: ThreadRole): Worker {
  // A thread starts from the built file, even if this module runs from source. It must not inherit options of the
  // process, such as the one to read a script from standard input.
  const entry = createRequire(import.meta.url).resolve('#sqlite-worker');
  return new Worker(entry, { name: `sqlite-${role}`, execArgv: [] });
}

/**
 * One buffer with exactly these bytes, for transfer: bodies are slices of larger buffers of Node or of a socket, and
 * cloning a slice would copy the whole buffer.
 */
function joinBodies(calls: readonly OutgoingCall[]): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(calls.reduce((sum, { body }) => sum + (body?.byteLength ?? 0), 0));
  let offset = 0;
  for (const { body } of calls) {
    if (body === null) continue;
    joined.set(body, offset);
    offset += body.byteLength;
  }
  return joined;
}

function unavailable(cause: Error, isForGood = false): StoreUnavailableError {
  return new StoreUnavailableError(cause.message, { cause, isForGood });
}

function toError({ message, code }: Failure): Error {
  return Object.assign(new Error(message), code === undefined ? {} : { code });
}
