import type { Database } from 'better-sqlite3';
import { parseJson } from '../../model/json.ts';
import type { HoldResult, LargeRunInput, RunInput, Store } from '../store.ts';
import { type AcceptanceValues, prepareAccept, prepareFindAcceptedNonce, type WriterState } from './acceptance.ts';
import { prepareAdvance } from './advance.ts';
import { prepareCancelRun, prepareDeliverSignal, prepareRetryStep } from './control.ts';
import {
  type DeliveryValues,
  prepareFindDelivery,
  prepareFindRedelivery,
  prepareInsertDelivery,
  prepareListDeliveries,
  prepareSummariseDeliveries,
} from './deliveries.ts';
import {
  prepareApplyDeploys,
  prepareFindSuperseded,
  prepareListDeployed,
  prepareListRevisions,
  prepareReadLiveFlow,
  prepareSetFlowDraining,
} from './deploys.ts';
import {
  prepareClaimDue,
  prepareClaimOverdue,
  prepareRecover,
  prepareRenewLeases,
  prepareReturnLeases,
} from './dispatch.ts';
import {
  prepareCountDeliveries,
  prepareCountEndedRuns,
  prepareCountRuns,
  prepareDeliveryStats,
  prepareDeliveryTimeseries,
  prepareRunTimeseries,
} from './figures.ts';
import {
  prepareDeployFlow,
  prepareFindFlow,
  prepareFindRevision,
  prepareFireSchedule,
  prepareForgetKey,
  prepareLearnKey,
  prepareListFlows,
  prepareListLearnedKeys,
  prepareListSchedules,
  prepareSaveSchedule,
  prepareSetFlowEnabled,
  type SentTick,
} from './flows.ts';
import { type HeldValues, prepareCountHeld, prepareHoldDelivery, prepareReleaseHeld } from './holds.ts';
import type { OperationName, StoreOptions, ThreadRole } from './messages.ts';
import { preparePurgeDeliveries, preparePurgeNonces, preparePurgeRuns, prepareReleaseSpace } from './removal.ts';
import {
  prepareFindLineage,
  prepareFindRun,
  prepareListRuns,
  prepareListSignals,
  prepareListSteps,
  prepareReadRunInput,
} from './runs.ts';
import {
  prepareCountChildren,
  prepareFindIterations,
  prepareFindStep,
  prepareListLoops,
  prepareListMoments,
  prepareOutlineSteps,
  preparePageSteps,
  prepareReadValue,
} from './step-views.ts';
import { prepareListSlotWaits } from './turns.ts';

/** Arguments of members in their thread, where they differ from those of the caller. */
interface Sent {
  accept: [acceptance: AcceptanceValues, body: Uint8Array];
  holdDelivery: [acceptance: AcceptanceValues, held: HeldValues, body: Uint8Array];
  recordDelivery: [delivery: DeliveryValues, body?: Uint8Array];
  fireSchedule: [tick: SentTick, body: Uint8Array];
  advance: [outcome: string];
  deliverSignal: [signal: string];
}

/**
 * Answers of members from their thread, where they differ from what the caller gets. Here and above, values of flows
 * cross threads as JSON text: a clone would turn an exact number into an object, and costs three times as much.
 */
interface Answered {
  holdDelivery: HoldResult | 'full';
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

type Args<Name extends OperationName> = Name extends keyof Sent ? Sent[Name] : Parameters<Store[Name]>;
type Result<Name extends OperationName> = Name extends keyof Answered
  ? Answered[Name]
  : Awaited<ReturnType<Store[Name]>>;

/** What a member does inside its transaction, as a `Job` of a batch. */
type Run<Name extends OperationName> = (...args: Args<Name>) => Result<Name>;

/** Names the thread that runs a member, and prepares its statements, once for each connection. */
type Operation<Name extends OperationName> =
  | { readonly thread: 'writer'; prepare(db: Database, state: WriterState): Run<Name> }
  | { readonly thread: 'reader'; readonly readsLog?: true; prepare(db: Database): Run<Name> };

const takingText =
  <Argument, Value>(run: (argument: Argument) => Value) =>
  (text: string): Value =>
    run(parseJson(text) as Argument);

const givingText =
  <Given extends unknown[], Value>(run: (...given: Given) => Value) =>
  (...given: Given) => {
    const value = run(...given);
    return (value === undefined ? undefined : JSON.stringify(value)) as Value extends undefined ? undefined : string;
  };

export const operations: { readonly [Name in OperationName]: Operation<Name> } = {
  ping: { thread: 'writer', prepare: preparePing },

  deployFlow: { thread: 'writer', prepare: prepareDeployFlow },
  setFlowEnabled: { thread: 'writer', prepare: prepareSetFlowEnabled },
  listFlows: { thread: 'reader', prepare: prepareListFlows },
  findFlow: { thread: 'reader', prepare: prepareFindFlow },
  findRevision: { thread: 'reader', prepare: prepareFindRevision },

  readLiveFlow: { thread: 'reader', prepare: prepareReadLiveFlow },
  applyDeploys: { thread: 'writer', prepare: prepareApplyDeploys },
  findSuperseded: { thread: 'reader', prepare: prepareFindSuperseded },
  listRevisions: { thread: 'reader', prepare: prepareListRevisions },
  listDeployed: { thread: 'reader', prepare: prepareListDeployed },
  setFlowDraining: { thread: 'writer', prepare: prepareSetFlowDraining },

  holdDelivery: { thread: 'writer', prepare: prepareHoldDelivery },
  releaseHeld: { thread: 'writer', prepare: prepareReleaseHeld },
  countHeld: { thread: 'reader', prepare: prepareCountHeld },

  accept: { thread: 'writer', prepare: prepareAccept },
  recordDelivery: { thread: 'writer', prepare: prepareInsertDelivery },
  listDeliveries: { thread: 'reader', readsLog: true, prepare: prepareListDeliveries },
  findDelivery: { thread: 'reader', readsLog: true, prepare: prepareFindDelivery },
  deliveryStats: { thread: 'reader', readsLog: true, prepare: prepareDeliveryStats },
  purgeNonces: { thread: 'writer', prepare: preparePurgeNonces },
  findRedelivery: { thread: 'reader', readsLog: true, prepare: prepareFindRedelivery },
  findAcceptedNonce: { thread: 'reader', readsLog: true, prepare: prepareFindAcceptedNonce },
  summariseDeliveries: { thread: 'reader', readsLog: true, prepare: prepareSummariseDeliveries },
  purgeDeliveries: { thread: 'writer', prepare: preparePurgeDeliveries },
  releaseSpace: { thread: 'writer', prepare: prepareReleaseSpace },

  listRuns: { thread: 'reader', prepare: prepareListRuns },
  findRun: { thread: 'reader', prepare: prepareFindRun },
  listSteps: { thread: 'reader', prepare: (db) => givingText(prepareListSteps(db)) },
  readRunInput: {
    thread: 'reader',
    prepare: (db) => {
      const read = prepareReadRunInput(db);
      return (...given) => {
        const input = read(...given);
        if (input === undefined || input.kind !== undefined) return input;
        return { trigger: input.trigger, steps: JSON.stringify(input.steps) };
      };
    },
  },

  claimDue: { thread: 'writer', prepare: (db) => givingText(prepareClaimDue(db)) },
  claimOverdue: { thread: 'writer', prepare: (db) => givingText(prepareClaimOverdue(db)) },
  renewLeases: { thread: 'writer', prepare: prepareRenewLeases },
  returnLeases: { thread: 'writer', prepare: prepareReturnLeases },
  advance: { thread: 'writer', prepare: (db) => takingText(prepareAdvance(db)) },
  listSlotWaits: { thread: 'reader', prepare: prepareListSlotWaits },
  recover: { thread: 'writer', prepare: prepareRecover },

  cancelRun: { thread: 'writer', prepare: prepareCancelRun },
  retryStep: { thread: 'writer', prepare: prepareRetryStep },
  deliverSignal: { thread: 'writer', prepare: (db) => takingText(prepareDeliverSignal(db)) },

  findLineage: { thread: 'reader', prepare: prepareFindLineage },
  listSignals: { thread: 'reader', prepare: prepareListSignals },
  outlineSteps: { thread: 'reader', prepare: prepareOutlineSteps },
  findStep: { thread: 'reader', prepare: (db) => givingText(prepareFindStep(db)) },
  pageSteps: { thread: 'reader', prepare: (db) => givingText(preparePageSteps(db)) },
  readValue: { thread: 'reader', prepare: prepareReadValue },
  listMoments: { thread: 'reader', prepare: prepareListMoments },
  listLoops: { thread: 'reader', prepare: prepareListLoops },
  countChildren: { thread: 'reader', prepare: prepareCountChildren },
  findIterations: { thread: 'reader', prepare: prepareFindIterations },
  purgeRuns: { thread: 'writer', prepare: preparePurgeRuns },

  countDeliveries: { thread: 'reader', readsLog: true, prepare: prepareCountDeliveries },
  deliveryTimeseries: { thread: 'reader', readsLog: true, prepare: prepareDeliveryTimeseries },
  countRuns: { thread: 'reader', prepare: prepareCountRuns },
  countEndedRuns: { thread: 'reader', prepare: prepareCountEndedRuns },
  runTimeseries: { thread: 'reader', prepare: prepareRunTimeseries },

  listSchedules: { thread: 'reader', prepare: prepareListSchedules },
  saveSchedule: { thread: 'writer', prepare: prepareSaveSchedule },
  fireSchedule: { thread: 'writer', prepare: prepareFireSchedule },

  learnKey: { thread: 'writer', prepare: prepareLearnKey },
  listLearnedKeys: { thread: 'reader', prepare: prepareListLearnedKeys },
  forgetKey: { thread: 'writer', prepare: prepareForgetKey },
};

/** The thread that runs a member: only the connection that writes a log in memory sees it. */
export function threadOf(name: OperationName, { log }: StoreOptions): ThreadRole {
  const operation = operations[name];
  return operation.thread === 'reader' && operation.readsLog === true && log.inMemory ? 'writer' : operation.thread;
}

export const operationNames = Object.keys(operations) as OperationName[];

/** Prepared members by name; absent if this connection does not run the member. */
export type Runs = Readonly<Partial<Record<OperationName, (...args: never[]) => unknown>>>;

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
