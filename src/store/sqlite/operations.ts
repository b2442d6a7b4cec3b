import { statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Database } from 'better-sqlite3';
import { StoreUnavailableError } from '../../errors.ts';
import { parseJson } from '../../model/json.ts';
import { askedNonce } from '../decisions/accepted-names.ts';
import { decideNow } from '../decisions/decision.ts';
import { keepLedgerTime } from '../decisions/ledger-time.ts';
import { listTriggerKeys } from '../decisions/nonce-names.ts';
import { fixed, type Port, sql } from '../decisions/port.ts';
import { LAST_JOINED, LAST_RUN } from '../decisions/run-deliveries.ts';
import type { Answer, Given } from '../decisions/verb.ts';
import { verbsWith } from '../decisions/verbs.ts';
import { eventDigest } from '../digest.ts';
import type {
  AcceptedQuery,
  HoldResult,
  LargeRunInput,
  RunInput,
  SharedResult,
  StorageMeasure,
  Store,
} from '../store.ts';
import { acceptanceOperations, prepareEvents, prepareNonces, type WriterState } from './acceptance.ts';
import { deliveryOperations, sentDelivery } from './deliveries.ts';
import { forgetRunKeys } from './key-index.ts';
import type { Member, OperationName, StoreOptions, ThreadRole } from './messages.ts';
import { membersOf, portOf } from './port.ts';
import { sentAcceptance, sentNonce, sentShared } from './sent-acceptance.ts';
import { dispatchOperations } from './turns.ts';

/** How a value crosses threads: packed in one, unpacked in the other. */
interface Form<Value> {
  pack(value: Value): unknown;
  unpack(packed: unknown): Value;
}

/** How a member's arguments and its answer cross threads, unless they are cloned unchanged. */
interface Crossing<Name extends OperationName> {
  /** The values of rows that the member takes, with a body, instead of its arguments; made by the caller's thread. */
  rows?(...given: Parameters<Store[Name]>): unknown;
  readonly first?: Form<Given<Name>>;
  readonly answer?: Form<Answer<Name>>;
}

// Values of flows cross as JSON text: a clone would turn an exact number into an object, and costs three times as much.
const asText = {
  pack: (value: unknown): string | undefined => JSON.stringify(value),
  unpack: <Value>(text: string | undefined) => (text === undefined ? undefined : parseJson(text)) as Value,
};

/** Passes results on, and throws if held deliveries have reached their limit. */
const unlessFull = {
  pack: (result: unknown) => result,
  unpack<Result>(result: Result | 'full'): Result {
    if (result === 'full') throw new StoreUnavailableError('the limit of held deliveries is reached');
    return result;
  },
};

const ownCrossings = {
  accept: { rows: sentAcceptance },
  acceptShared: { rows: sentShared, answer: { ...unlessFull, unpack: unlessFull.unpack<SharedResult> } },
  holdDelivery: { rows: sentAcceptance, answer: { ...unlessFull, unpack: unlessFull.unpack<HoldResult> } },
  recordDelivery: { rows: sentDelivery },
  advance: { first: asText, answer: asText },
  deliverSignal: { first: asText },
  claimDue: { answer: asText },
  claimOverdue: { answer: asText },
  listSteps: { answer: asText },
  findStep: { answer: asText },
  pageSteps: { answer: asText },
  readRunInput: {
    // The trigger's body stays bytes.
    answer: {
      pack: (input) => (input?.kind === undefined ? input && { ...input, steps: asText.pack(input.steps) } : input),
      unpack: (input: LargeRunInput | (Omit<RunInput, 'steps'> & { steps: string }) | undefined) =>
        input?.kind === undefined ? input && { ...input, steps: asText.unpack(input.steps) } : input,
    },
  },
} satisfies { readonly [Name in OperationName]?: Crossing<Name> };

export const crossings: { readonly [Name in OperationName]?: Crossing<OperationName> } = ownCrossings;

type OwnCrossing<Name> = Name extends keyof typeof ownCrossings ? (typeof ownCrossings)[Name] : undefined;

/** A member in its thread. */
type Run<Name extends OperationName> = (
  ...args: OwnCrossing<Name> extends { rows(...given: never[]): infer Sent }
    ? [sent: Sent, body: Uint8Array]
    : Parameters<Member<Name>>
) => Answer<Name> | (Name extends 'holdDelivery' | 'acceptShared' ? 'full' : never);

/** Names the thread that runs a member, and prepares its statements, once for each connection. */
type Operation<Name extends OperationName> =
  | { readonly thread: 'writer'; prepare(db: Database, state: WriterState): Run<Name> }
  | { readonly thread: 'reader'; readonly readsLog?: true; prepare(db: Database): Run<Name> };

function forgetRuns(port: Port, runIds: readonly string[]): void {
  forgetRunKeys(port, runIds);
  // SQLite would give out the numbers of the newest runs again, and consumers would skip the runs that get them.
  port.later(sql`UPDATE run_numbers SET run = ${fixed(LAST_RUN)}, joined = ${fixed(LAST_JOINED)}`);
}

export const operations: { readonly [Name in OperationName]: Operation<Name> } = {
  ...membersOf(verbsWith({ forgetRuns })),
  ping: { thread: 'writer', prepare: preparePing },
  keepTime: {
    thread: 'writer',
    // A file has no clock.
    prepare: (db) => (time) => ({ at: undefined, ledgerAt: decideNow(keepLedgerTime(portOf(db), time)) }),
  },
  measureStorage: { thread: 'reader', prepare: prepareMeasureStorage },
  ...acceptanceOperations,
  areAccepted: { thread: 'writer', prepare: prepareAreAccepted },
  ...deliveryOperations,
  releaseSpace: { thread: 'writer', prepare: prepareReleaseSpace },
  ...dispatchOperations,
};

/** The thread that runs a member: a log in memory is visible only to the connection that writes it. */
export function threadOf(name: OperationName, { log }: StoreOptions): ThreadRole {
  const operation = operations[name];
  return operation.thread === 'reader' && operation.readsLog === true && log.inMemory ? 'writer' : operation.thread;
}

export const operationNames = Object.keys(operations) as OperationName[];

/** Prepared members by name; absent if this connection does not run the member. */
type Runs = Readonly<Partial<Record<OperationName, (...args: never[]) => unknown>>>;

export function prepareRuns(prepare: (name: OperationName) => Runs[OperationName]): Runs {
  return Object.fromEntries(operationNames.map((name) => [name, crossed(name, prepare(name))]));
}

/** A member whose arguments and answer are in the form that crosses threads. */
function crossed(name: OperationName, run: Runs[OperationName]): Runs[OperationName] {
  const { first, answer } = crossings[name] ?? {};
  if (run === undefined || (first ?? answer) === undefined) return run;
  return (...[sent, ...others]: unknown[]) => {
    const value = run(...([first === undefined ? sent : first.unpack(sent), ...others] as never[]));
    return answer === undefined ? value : answer.pack(value as never);
  };
}

/** Raises a number, because a transaction without a change would commit even on a full or read-only disk. */
function preparePing(db: Database): () => void {
  const write = db.prepare('UPDATE pings SET count = count + 1');
  return () => {
    write.run();
  };
}

/** Free pages to keep for new rows: 8 MiB of a new database. */
const SPARE_PAGES = 4096;

function prepareReleaseSpace(db: Database): Member<'releaseSpace'> {
  const free = db.prepare<[], number>('PRAGMA freelist_count').pluck();
  const count = () => free.get() ?? 0;
  return ({ pages }) => {
    const before = count();
    if (before <= SPARE_PAGES) return 0;
    db.pragma(`incremental_vacuum(${Math.min(pages, before - SPARE_PAGES)})`);
    return before - count();
  };
}

/** Bytes that a process without root's rights can still write. */
function freeBytesAt(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

function prepareMeasureStorage(db: Database): () => StorageMeasure {
  const oldest = db.prepare<[], { end: number | null }>('SELECT min(expires_at) AS end FROM nonces');
  const sizeOf = (path: string) => (db.memory ? 0 : (statSync(path, { throwIfNoEntry: false })?.size ?? 0));
  return () => ({
    fileBytes: sizeOf(db.name),
    walBytes: sizeOf(`${db.name}-wal`),
    freeBytes: db.memory ? null : freeBytesAt(dirname(db.name)),
    oldestNonceEnd: oldest.get()?.end ?? null,
  });
}

/** Runs in the writer, whose memory has the newest names. */
function prepareAreAccepted(db: Database, { indexes }: WriterState): (query: AcceptedQuery) => readonly boolean[] {
  const nonces = prepareNonces(db, indexes.nonces);
  const events = prepareEvents(db, indexes.events);
  return ({ names, ...query }) => {
    const { flowId, triggerKey, at } = query;
    const [keys = []] = decideNow(listTriggerKeys(portOf(db), [{ flowId, triggerKey }]));
    return names.map((name) => {
      const { eventId: id } = name;
      const event = id === undefined ? undefined : { id, name: eventDigest(query, id), arrivedAt: at };
      if (events.find({ event }, keys) !== undefined) return true;
      const asked = askedNonce(query, name);
      return asked !== undefined && nonces.find({ ...asked, nonce: sentNonce(query, asked.nonce) }, keys) !== undefined;
    });
  };
}
