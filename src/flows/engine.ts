import { StoreUnavailableError } from '../errors.ts';
import { readTrigger } from '../expressions/order-key.ts';
import { hasPlaceholder } from '../expressions/template.ts';
import { ArrivingBody, declaredBy } from '../expressions/trigger-body.ts';
import { keyReaderOf } from '../manifest/trigger-objects.ts';
import type { Clock } from '../model/clock.ts';
import type { Json } from '../model/json.ts';
import { ALERT_FLOW_ID, type Graph, type RunTriggerType } from '../model/manifest.ts';
import { planRun } from '../model/planner.ts';
import { waitingRun } from '../model/run.ts';
import type { SearchKeys } from '../model/search-keys.ts';
import type {
  Acceptance,
  AcceptResult,
  NewRun,
  RunDetail,
  SharedAcceptance,
  SharedResult,
  StartedRun,
  Store,
} from '../store/store.ts';
import { inSpan, traceparentOf } from '../telemetry/tracing.ts';
import type { AcceptanceLimits } from './acceptance-limits.ts';
import { type Catalog, type DeployedFlow, startsRuns, whyUnreadable } from './catalog.ts';
import type { Dispatcher, ReservedLease } from './dispatcher.ts';
import type { HandlerTable } from './handlers/index.ts';
import { orderOf } from './prepared-revision.ts';
import type { Report } from './report.ts';

interface TriggerRequest {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly triggerType: RunTriggerType;
  /** Exact bytes; empty if there is no body. */
  readonly body: Uint8Array;
  readonly contentType: string | null;
  /** Lower-case names, credentials redacted. */
  readonly headers: Readonly<Record<string, string>>;
  readonly idempotencyKey?: string | undefined;
}

interface StartRequest extends TriggerRequest {
  readonly sourceRunId?: string;
  /** Search keys of the repeated run, which has the same body and headers. */
  readonly searchKeys?: SearchKeys | undefined;
  /** The repeated run, if several deliveries share it: the new run shares them too. */
  readonly deliveriesOf?: string | undefined;
}

export type TriggerResult =
  | { readonly kind: 'started'; readonly runId: string }
  /** The idempotency key was known; the id is the first run's. */
  | { readonly kind: 'duplicate'; readonly runId: string }
  /** The key was known with another body. */
  | { readonly kind: 'conflict'; readonly runId: string }
  | { readonly kind: 'disabled' }
  /** This process cannot read its manifest, or a reference that it needs. */
  | { readonly kind: 'unreadable'; readonly why: string }
  /** A flow of Sluice itself, which users cannot run. */
  | { readonly kind: 'builtIn' }
  | { readonly kind: 'unknown' };

/** Starts runs. */
export interface Engine {
  /** Plans a run and its entry steps, for a caller that stores them together with more; pure. */
  readonly planRun: typeof planRun;
  /** Stores a planned run with its cause. Its steps start if it is accepted. */
  accept(acceptance: Acceptance): Promise<AcceptResult>;
  /** Like `accept`, for a delivery to several triggers. */
  acceptShared(members: readonly SharedAcceptance[]): Promise<SharedResult>;
  /** Reports that a planned run is durable: its steps start. */
  announce(run: StartedRun): void;
  /** Starts a run of the newest revision with the same input as another run, which is its source. */
  rerun(source: RunDetail, idempotencyKey?: string): Promise<TriggerResult>;
  /** Plans a run of the newest revision and makes it durable; rejects with `StoreUnavailableError`. */
  triggerFlow(request: TriggerRequest): Promise<TriggerResult>;
}

interface EngineServices {
  readonly store: Pick<Store, 'accept' | 'acceptShared'>;
  readonly catalog: Pick<Catalog, 'find' | 'unreadable'>;
  readonly dispatcher: Pick<Dispatcher, 'nudge' | 'reserve' | 'started'>;
  readonly acceptanceLimits: Pick<AcceptanceLimits, 'admit'>;
  readonly clock: Clock;
  /** UUID v7. */
  readonly newId: () => string;
  readonly report: Report;
  readonly refresh: RefreshFlow;
}

/**
 * Reads a flow from the store again after the store refused outdated data: the flow was deployed, disabled, drained or
 * has held deliveries since it was read, perhaps by another process. Resolves when the catalog and everything derived
 * from it are up to date; rejects as the store does.
 */
export type RefreshFlow = (flowId: string) => Promise<void>;

/** A run is planned again if the flow changes before its acceptance; after this many tries the sender can try later. */
export const START_TRIES = 3;

export function createEngine(services: EngineServices): Engine {
  const { store, catalog, dispatcher, acceptanceLimits, clock, newId, report, refresh } = services;
  const announce = (run: StartedRun, reserved?: ReservedLease) => {
    report.runStarted(run);
    dispatcher.started(run, reserved);
  };

  const accept = async (acceptance: Acceptance): Promise<AcceptResult> => {
    const admitted = acceptanceLimits.admit(acceptance);
    if (admitted !== undefined) await admitted;
    const startsNow = acceptance.coalesce === undefined && acceptance.signal === undefined;
    const reserved = startsNow ? dispatcher.reserve(acceptance.run) : undefined;
    try {
      const result = await store.accept(acceptance, reserved?.lease);
      if (result.kind === 'accepted') announce(startedOf(acceptance.run, result), reserved);
      if (result.kind === 'coalesced' && result.startsNow) dispatcher.nudge();
      if (result.kind === 'answered' && result.answered > 0) dispatcher.nudge();
      return result;
    } finally {
      reserved?.release();
    }
  };

  const startRun = (flow: DeployedFlow, request: StartRequest): Promise<TriggerResult | undefined> => {
    const { triggerKey, triggerType, body, contentType, headers, idempotencyKey, deliveriesOf } = request;
    const attributes = { 'flow.id': request.flowId, 'flow.trigger': triggerKey };
    return inSpan({ name: 'flow.trigger', parent: null, attributes }, async (span) => {
      const trigger = { key: triggerKey, body, contentType, headers };
      const planned = planRun({
        runId: newId(),
        flow,
        triggerType,
        trigger,
        deliveryId: null,
        sourceRunId: request.sourceRunId ?? null,
        traceparent: traceparentOf(span),
        at: clock.now(),
        searchKeys: request.sourceRunId === undefined ? searchKeysOf(flow, request) : request.searchKeys,
        // A repetition is trusted exactly as its source run.
        order: orderOf(flow.prepared, readTrigger(trigger), request.sourceRunId === undefined ? true : null),
      });
      const run = deliveriesOf === undefined ? planned : { ...planned, deliveriesOf };
      const result = await accept({ run, idempotencyKey });
      if (result.kind === 'outdated') return undefined;
      if (result.kind === 'conflict') return result;
      if (result.kind === 'duplicate') return { kind: 'duplicate', runId: result.runId ?? run.id };
      if (result.kind !== 'accepted') throw new Error(`A trigger without nonce and filter was ${result.kind}.`);
      return { kind: 'started', runId: run.id };
    });
  };

  const start = async (
    request: StartRequest,
    mayStart: (flow: DeployedFlow) => boolean = () => true,
  ): Promise<TriggerResult> => {
    if (request.flowId === ALERT_FLOW_ID) return { kind: 'builtIn' };
    const known = catalog.find(request.flowId);
    // Another process may have deployed or opened it.
    if (known === undefined || !startsRuns(known.record)) await refresh(request.flowId);
    for (let left = START_TRIES; left > 0; left -= 1) {
      const flow = catalog.find(request.flowId);
      const why = whyUnreadable(request.flowId, catalog);
      if (why !== undefined) return { kind: 'unreadable', why };
      if (flow === undefined || !mayStart(flow)) return { kind: 'unknown' };
      if (!startsRuns(flow.record)) {
        report.triggerDisabled(request.flowId, request.triggerKey);
        return { kind: 'disabled' };
      }
      const result = await startRun(flow, request);
      if (result !== undefined) return result;
      await refresh(request.flowId);
    }
    throw new StoreUnavailableError(`the flow ${request.flowId} kept changing while a run was about to start`);
  };

  return {
    planRun,
    accept,
    acceptShared: (members) => acceptShared(services, members, announce),
    announce: (run) => announce(run),
    rerun(
      { id, flowId, triggerKey, triggerType, searchKeys, deliveries, trigger: { body, contentType, headers } },
      idempotencyKey,
    ) {
      const request = { flowId, triggerKey, triggerType, body, contentType, headers, idempotencyKey, searchKeys };
      return start({ ...request, sourceRunId: id, ...(deliveries !== null && { deliveriesOf: id }) });
    },
    triggerFlow: (request) => start(request, (flow) => mayTrigger(flow, request)),
  };
}

async function acceptShared(
  { store, dispatcher, acceptanceLimits }: EngineServices,
  members: readonly SharedAcceptance[],
  announce: (run: StartedRun, reserved?: ReservedLease) => void,
): Promise<SharedResult> {
  const now = members.filter(({ start }) => start === 'now');
  for (const { acceptance } of now) await acceptanceLimits.admit(acceptance);
  const reserved = new Map(now.map((member) => [member, dispatcher.reserve(member.acceptance.run)]));
  try {
    const leased = members.map((member) => ({ ...member, lease: reserved.get(member)?.lease }));
    const result = await store.acceptShared(leased);
    for (const [at, member] of members.entries()) {
      const outcome = result.kind === 'shared' ? result.outcomes[at] : undefined;
      if (outcome?.kind === 'accepted') announce(startedOf(member.acceptance.run, outcome), reserved.get(member));
      if (outcome?.kind === 'answered' && outcome.answered !== 0) dispatcher.nudge();
    }
    return result;
  } finally {
    for (const lease of reserved.values()) lease?.release();
  }
}

const startedOf = (run: NewRun, { isWaiting }: { readonly isWaiting?: true }): NewRun =>
  isWaiting === true ? waitingRun(run) : run;

/** Search keys of a run that is started by hand; a webhook reads those of its deliveries itself. */
function searchKeysOf(
  { loaded }: DeployedFlow,
  { triggerKey, triggerType, body, contentType, headers }: TriggerRequest,
): SearchKeys | undefined {
  const { triggers } = loaded.manifest;
  const trigger = Object.hasOwn(triggers, triggerKey) ? triggers[triggerKey] : undefined;
  if (triggerType !== 'manual' || trigger === undefined) return undefined;
  return keyReaderOf(trigger)?.read(headers, new ArrivingBody(body, declaredBy({ contentType, headers })));
}

/** Every flow can be started by hand, whether or not its manifest has a manual trigger. */
function mayTrigger({ loaded }: DeployedFlow, { triggerKey, triggerType }: TriggerRequest): boolean {
  return triggerType === 'manual' || Object.hasOwn(loaded.manifest.triggers, triggerKey);
}

/** Operations of people and programs on started runs. */
export interface RunControl {
  /** Ends a run: at once if none of its steps runs, otherwise as soon as its steps know. */
  cancel(runId: string, reason: string | null): ReturnType<Store['cancelRun']>;
  retryStep(runId: string, stepKey: string): ReturnType<Store['retryStep']>;
  /** A stored change let a run continue, which has this much time. */
  wentOn(timeoutAt: number | null): void;
  /** `unknownName` if the run's flow waits for signals, but not for this name. */
  signal(signal: {
    runId: string;
    name: string;
    body: Json;
  }): Promise<Awaited<ReturnType<Store['deliverSignal']>> | { kind: 'unknownName' }>;
}

interface ControlServices {
  readonly store: Pick<Store, 'cancelRun' | 'retryStep' | 'deliverSignal' | 'findRun'>;
  readonly catalog: Pick<Catalog, 'pinned' | 'find'>;
  readonly handlers: HandlerTable;
  readonly dispatcher: Pick<Dispatcher, 'nudge' | 'stopRun'>;
  readonly clock: Clock;
  readonly report: Report;
}

export function createRunControl({ store, catalog, handlers, dispatcher, clock, report }: ControlServices): RunControl {
  return {
    async cancel(runId, reason) {
      const result = await store.cancelRun({ runId, reason, at: clock.now() });
      if (result.kind !== 'accepted') return result;
      dispatcher.stopRun(runId, 'cancelled');
      report.runStopped(result.run, 'Cancelled');
      // A step of another run, or the next run of its key, may have waited for its end, and its own steps for other
      // runs.
      dispatcher.nudge(clock.now());
      return result;
    },
    async retryStep(runId, stepKey) {
      const result = await store.retryStep({ runId, stepKey, at: clock.now() });
      if (result.kind === 'accepted') dispatcher.nudge();
      return result;
    },
    wentOn: (timeoutAt) => dispatcher.nudge(timeoutAt),
    async signal({ runId, name, body }) {
      const run = await store.findRun(runId);
      if (run === undefined) return { kind: 'unknown' };
      const { graph: pinned } = await catalog.pinned(run.flowId, run.revision);
      const newest = catalog.find(run.flowId)?.loaded.manifest.steps ?? pinned;
      if (![pinned, newest].some((graph) => mayWaitFor(graph, name, handlers))) return { kind: 'unknownName' };
      const result = await store.deliverSignal({ runId, name, body, at: clock.now() });
      if (result.kind === 'accepted' && result.stepKey !== null) dispatcher.nudge();
      return result;
    },
  };
}

/** Whether a step could wait for a signal of this name. */
function mayWaitFor(graph: Graph, name: string, handlers: HandlerTable): boolean {
  return Object.entries(graph).some(([key, { type, inputs, steps }]) => {
    if (steps !== undefined) return mayWaitFor(steps, name, handlers);
    const names = handlers.get(type)?.waitsFor?.(inputs, key);
    return names === undefined || names.some((given) => given === name || hasPlaceholder(given));
  });
}
