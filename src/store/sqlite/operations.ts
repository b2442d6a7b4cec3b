import { statSync } from 'node:fs';
import type { Database } from 'better-sqlite3';
import { parseJson } from '../../model/json.ts';
import { decideNow } from '../decisions/decision.ts';
import { keepLedgerTime } from '../decisions/ledger-time.ts';
import type { BirthLease, HoldResult, LargeRunInput, RunInput, StepOutcome, StorageMeasure } from '../store.ts';
import { verbsWith } from '../verbs.ts';
import { acceptanceOperations, type WriterState } from './acceptance.ts';
import { deliveryOperations } from './deliveries.ts';
import { holdOperations } from './holds.ts';
import { forgetRunKeys, RUN_KEY_TABLES } from './key-index.ts';
import type { Member, OperationName, StoreOptions, ThreadRole } from './messages.ts';
import { membersOf, portOf } from './port.ts';
import { dispatchOperations } from './turns.ts';

/** Members whose arguments the caller's thread sends in another form: as the values of rows, or as JSON text. */
type Repacked = 'accept' | 'holdDelivery' | 'recordDelivery' | 'advance' | 'deliverSignal';

/**
 * Answers of members from their thread, where they differ from what the caller gets. Here and above, values of flows
 * cross threads as JSON text: a clone would turn an exact number into an object, and costs three times as much.
 */
interface Answered {
  holdDelivery: HoldResult | 'full';
  advance: string | undefined;
  claimDue: string;
  claimOverdue: string;
  listSteps: string | undefined;
  findStep: string | undefined;
  pageSteps: string | undefined;
  readRunInput: AnsweredInput | LargeRunInput | undefined;
}

/** A run's input with its steps as JSON text; the trigger's body stays bytes. */
export interface AnsweredInput {
  readonly kind?: undefined;
  readonly trigger: RunInput['trigger'];
  readonly steps: string;
}

type Run<Name extends OperationName> = (
  ...args: Name extends Repacked ? never[] : Parameters<Member<Name>>
) => Name extends keyof Answered ? Answered[Name] : ReturnType<Member<Name>>;

/** Names the thread that runs a member, and prepares its statements, once for each connection. */
type Operation<Name extends OperationName> =
  | { readonly thread: 'writer'; prepare(db: Database, state: WriterState): Run<Name> }
  | { readonly thread: 'reader'; readonly readsLog?: true; prepare(db: Database): Run<Name> };

interface Prepared<Thread, Given extends unknown[], Value> {
  readonly thread: Thread;
  prepare(db: Database): (...given: Given) => Value;
}

function takingText<Thread, Argument, Value>({ thread, prepare }: Prepared<Thread, [Argument], Value>) {
  return {
    thread,
    prepare: (db: Database) => {
      const run = prepare(db);
      return (text: string) => run(parseJson(text) as Argument);
    },
  };
}

function givingText<Thread, Given extends unknown[], Value>({ thread, prepare }: Prepared<Thread, Given, Value>) {
  return {
    thread,
    prepare: (db: Database) => {
      const run = prepare(db);
      return (...given: Given) => {
        const value = run(...given);
        return (value === undefined ? undefined : JSON.stringify(value)) as Value extends undefined
          ? undefined
          : string;
      };
    },
  };
}

const verbs = membersOf(verbsWith({ runKeys: RUN_KEY_TABLES, forgetRuns: forgetRunKeys }));

export const operations: { readonly [Name in OperationName]: Operation<Name> } = {
  ...verbs,
  ping: { thread: 'writer', prepare: preparePing },
  keepTime: {
    thread: 'writer',
    // A file has no clock of its own.
    prepare: (db) => (time) => ({ at: undefined, ledgerAt: decideNow(keepLedgerTime(portOf(db), time)) }),
  },
  measureStorage: { thread: 'reader', prepare: prepareMeasureStorage },
  ...holdOperations,
  ...acceptanceOperations,
  ...deliveryOperations,
  releaseSpace: { thread: 'writer', prepare: prepareReleaseSpace },
  listSteps: givingText(verbs.listSteps),
  readRunInput: {
    thread: 'reader',
    prepare: (db) => {
      const read = verbs.readRunInput.prepare(db);
      return (...given) => {
        const input = read(...given);
        if (input === undefined || input.kind !== undefined) return input;
        return { trigger: input.trigger, steps: JSON.stringify(input.steps) };
      };
    },
  },
  ...dispatchOperations,
  claimDue: givingText(dispatchOperations.claimDue),
  claimOverdue: givingText(dispatchOperations.claimOverdue),
  advance: {
    thread: 'writer',
    prepare: (db) => {
      const advance = verbs.advance.prepare(db);
      return (outcome: string, lease: BirthLease | undefined) => {
        const led = advance(parseJson(outcome) as unknown as StepOutcome, lease);
        return led && JSON.stringify(led);
      };
    },
  },
  deliverSignal: takingText(verbs.deliverSignal),
  findStep: givingText(verbs.findStep),
  pageSteps: givingText(verbs.pageSteps),
};

/** The thread that runs a member: only the connection that writes a log in memory sees it. */
export function threadOf(name: OperationName, { log }: StoreOptions): ThreadRole {
  const operation = operations[name];
  return operation.thread === 'reader' && operation.readsLog === true && log.inMemory ? 'writer' : operation.thread;
}

export const operationNames = Object.keys(operations) as OperationName[];

/** Prepared members by name; absent if this connection does not run the member. */
type Runs = Readonly<Partial<Record<OperationName, (...args: never[]) => unknown>>>;

export function prepareRuns(prepare: (name: OperationName) => Runs[OperationName]): Runs {
  return Object.fromEntries(operationNames.map((name) => [name, prepare(name)]));
}

/** Raises a number, because a transaction without a change would commit even on a full or read-only disk. */
function preparePing(db: Database): () => void {
  const write = db.prepare('UPDATE pings SET count = count + 1');
  return () => {
    write.run();
  };
}

/** Free pages to keep for new rows: 8 MiB. */
const SPARE_PAGES = 1024;

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

function prepareMeasureStorage(db: Database): () => StorageMeasure {
  const oldest = db.prepare<[], { end: number | null }>('SELECT min(expires_at) AS end FROM nonces');
  const sizeOf = (path: string) => (db.memory ? 0 : (statSync(path, { throwIfNoEntry: false })?.size ?? 0));
  return () => ({
    fileBytes: sizeOf(db.name),
    walBytes: sizeOf(`${db.name}-wal`),
    oldestNonceEnd: oldest.get()?.end ?? null,
  });
}
