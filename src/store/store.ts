import type { DeliveryRecord, Reason } from '../model/delivery.ts';
import type { Json } from '../model/json.ts';
import type { ManifestSnapshot, ManifestSource, RunStatus, StepStatus } from '../model/manifest.ts';
import type { Attempt, Run, RunTrigger, Step, StepError } from '../model/run.ts';
import type { ControlStore } from './control-store.ts';
import type { DeliveryLogStore } from './delivery-log.ts';
import type { DeployStore } from './deploy-store.ts';
import type { DispatchStore } from './dispatch-store.ts';
import type { FigureStore } from './figure-store.ts';
import type { HoldStore } from './hold-store.ts';
import type { InsightStore } from './insight-store.ts';
import type { LearnedKeyStore } from './learned-key-store.ts';
import type { OutlineStore } from './outline-store.ts';
import type { ScheduleStore } from './schedule-store.ts';

export type * from './control-store.ts';
export type * from './deploy-store.ts';
export type * from './dispatch-store.ts';
export type * from './figure-store.ts';
export type * from './hold-store.ts';
export type * from './insight-store.ts';
export type * from './learned-key-store.ts';
export type * from './outline-store.ts';
export type * from './schedule-store.ts';

/**
 * What Sluice keeps, whatever keeps it.
 *
 * Every member is one transaction that is durable when its promise resolves; when it rejects, nothing of it remains.
 * The contract is coarse so that a backend answers in one round trip, and asynchronous so that it may live in another
 * thread or on another machine. Times are milliseconds since the Unix epoch, given by the caller: a store has no clock.
 * `test/store/conformance.ts` says the same as a test suite that every backend passes.
 */
export interface Store
  extends FlowStore,
    DeployStore,
    HoldStore,
    DeliveryStore,
    DeliveryLogStore,
    RunStore,
    DispatchStore,
    ControlStore,
    InsightStore,
    FigureStore,
    OutlineStore,
    ScheduleStore,
    LearnedKeyStore {
  /** Resolves when the store can write, rejects with `StoreUnavailableError` when it cannot. */
  ping(): Promise<void>;
  /** Finishes what was called before, then releases files and threads. Idempotent. */
  close(): Promise<void>;
}

/** Deployed flows and their revisions. */
export interface FlowStore {
  /** Keeps the manifest as a new revision unless its hash equals the newest one's; a first deploy enables the flow. */
  deployFlow(deploy: FlowDeploy): Promise<FlowRecord>;
  /** Yields undefined for an unknown flow. Setting what is already set changes nothing. */
  setFlowEnabled(change: { flowId: string; isEnabled: boolean; at: number }): Promise<FlowRecord | undefined>;
  /** Every flow ever deployed, by name. */
  listFlows(): Promise<FlowRecord[]>;
  findFlow(flowId: string): Promise<FlowRecord | undefined>;
  findRevision(flowId: string, revision: number): Promise<RevisionRecord | undefined>;
}

export interface FlowDeploy {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  /** SHA-256 of the snapshot, hex. */
  readonly hash: string;
  readonly snapshot: ManifestSnapshot;
  readonly at: number;
}

export interface FlowRecord {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  /** Number of the newest revision, from 1. */
  readonly revision: number;
  readonly isEnabled: boolean;
  /** Since when it starts no runs, so that those in flight run out; absent while it is not drained. */
  readonly drainingSince?: number | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
}

export interface RevisionRecord {
  readonly flowId: string;
  readonly revision: number;
  readonly version: string;
  readonly hash: string;
  readonly snapshot: ManifestSnapshot;
  readonly createdAt: number;
  /** Null where an earlier release deployed it, from the folder. */
  readonly source: ManifestSource | null;
}

/** Acceptance and the delivery log. */
export interface DeliveryStore {
  /**
   * Inserts nonce, idempotency key, delivery, run and due steps, or nothing. One transaction with asking whether the run's
   * revision is the newest and its flow starts runs: else the result is 'outdated'.
   */
  accept(acceptance: Acceptance): Promise<AcceptResult>;
  /** Keeps the record of a delivery that starts no run. */
  recordDelivery(record: DeliveryRecord): Promise<void>;
  /** Newest first. Of a body its first 64 KiB are in a list, for a page of whole ones could fill the memory. */
  listDeliveries(query: DeliveryQuery): Promise<Page<DeliveryRecord>>;
  findDelivery(id: string): Promise<DeliveryRecord | undefined>;
  /** Counts over `receivedAt >= since`. */
  deliveryStats(since: number): Promise<DeliveryStats>;
  /** Deletes at most `limit` nonces that expired before `now`; yields how many. */
  purgeNonces(purge: { now: number; limit: number }): Promise<number>;
}

export interface Acceptance {
  /**
   * Absent where no webhook started the run. Its `runId` is the run's. One that names a `redeliveredFrom` for the second
   * time yields 'duplicate' with the first one's run, and nothing is written.
   */
  readonly delivery?: DeliveryRecord | undefined;
  readonly nonce?: NonceClaim | undefined;
  /** Scoped to the flow and the trigger. */
  readonly idempotencyKey?: string | undefined;
  readonly run: NewRun;
}

export interface NonceClaim {
  readonly value: string;
  /** Hex SHA-256 of the body, to tell an honest retry from a forgery. */
  readonly bodySha256: string;
  /** From this instant on the nonce counts as new again. */
  readonly expiresAt: number;
  /** Whether a known nonce refuses the delivery; else it is accepted and `nonce_replayed` joins its violations. */
  readonly isEnforced: boolean;
}

export type AcceptResult =
  /** All of it is durable. `isReplay`: the nonce was known and not enforced. */
  | { readonly kind: 'accepted'; readonly runId: string; readonly isReplay: boolean }
  /** The idempotency key was known: the delivery is kept, with the first run's id; no run was started. */
  | { readonly kind: 'duplicate'; readonly runId: string; readonly isReplay: boolean }
  /** The nonce was known and enforced: nothing was written. */
  | { readonly kind: 'replayed'; readonly runId: string; readonly hasSameBody: boolean }
  /** The run is not of the newest revision, or the flow starts no runs now: nothing was written; plan it again. */
  | { readonly kind: 'outdated' };

/** A run and its entry steps, as the engine planned them. */
export interface NewRun extends Omit<Run, 'status' | 'completedAt'> {
  /** `Running`, or the end of a flow without steps. */
  readonly status: RunStatus;
  readonly completedAt: number | null;
  readonly trigger: RunTrigger;
  readonly timeoutAt: number | null;
  /** W3C trace context of what started the run, so that its steps join the same trace. */
  readonly traceparent: string | null;
  readonly steps: readonly NewStep[];
}

export interface NewStep {
  readonly stepKey: string;
  readonly stepType: string;
  readonly dueAt: number;
}

export interface PageQuery {
  readonly skip: number;
  readonly take: number;
  /** Whether `total` is wanted: counting costs more than the page. */
  readonly includeTotal?: boolean | undefined;
}

export interface Page<T> {
  readonly items: T[];
  /** Rows that match, paging aside; undefined unless asked for. */
  readonly total: number | undefined;
}

export interface DeliveryQuery extends PageQuery {
  readonly flowId?: string | undefined;
  readonly reason?: Reason | undefined;
  readonly rejectedOnly?: boolean | undefined;
  readonly acceptedOnly?: boolean | undefined;
  /** Answered with an error and started no run. */
  readonly refusedOnly?: boolean | undefined;
  /** Received from this instant on. */
  readonly since?: number | undefined;
  /** Received before this instant. */
  readonly until?: number | undefined;
  /**
   * Part of an id, client address, scheme, reason, detail or run id, any case, in the newest 10 000 that the other
   * filters leave; eight or more characters of the beginning of an id are found however old.
   */
  readonly search?: string | undefined;
}

export interface DeliveryStats {
  /** Deliveries by the reason that Enforce answers with. */
  readonly counts: Readonly<Partial<Record<Reason, number>>>;
  readonly accepted: number;
  readonly rejected: number;
  readonly total: number;
}

/** Reading runs. */
export interface RunStore {
  /** Newest first. */
  listRuns(query: RunQuery): Promise<Page<Run>>;
  findRun(runId: string): Promise<RunDetail | undefined>;
  /**
   * Steps that have a row, whole: started, due or skipped; undefined for an unknown run. For runs that are known to be
   * small, as those of tests are: `pageSteps` is bounded.
   */
  listSteps(runId: string): Promise<StepDetail[] | undefined>;
  /**
   * What expressions and `forwardBody` read: what started the run, and those of the named steps that have ended, or all
   * that have where none are named. Nothing is read where that is more than `maxBytes`; there is no limit by default.
   */
  readRunInput(query: RunInputQuery): Promise<RunInput | LargeRunInput | undefined>;
}

export interface RunQuery extends PageQuery {
  readonly flowId?: string | undefined;
  readonly status?: RunStatus | undefined;
  /** Part of a run id, flow name, trigger key or delivery id, any case; looked for as in deliveries. */
  readonly search?: string | undefined;
  /** Those that stand behind this run in the list. */
  readonly before?: { readonly startedAt: number; readonly id: string } | undefined;
}

export interface RunDetail extends Run {
  readonly trigger: RunTrigger;
  readonly timeoutAt: number | null;
  readonly timedOutAt: number | null;
  readonly cancelRequestedAt: number | null;
  readonly cancelReason: string | null;
  readonly idempotencyKey: string | null;
}

export interface StepDetail extends Step {
  /** Oldest first. */
  readonly attempts: readonly Attempt[];
}

export interface RunInputQuery {
  readonly runId: string;
  readonly stepKeys?: readonly string[] | undefined;
  readonly maxBytes?: number | undefined;
}

/** How much there is to be read: bytes of the trigger's body, and of the outputs of the steps as JSON. */
export interface LargeRunInput {
  readonly kind: 'tooLarge';
  readonly bodyBytes: number;
  readonly outputBytes: number;
}

export interface RunInput {
  readonly kind?: undefined;
  readonly trigger: RunTrigger;
  readonly steps: Readonly<Record<string, { status: StepStatus; output: Json; error: StepError | null }>>;
}
