import { setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { StoreUnavailableError } from '../errors.ts';
import type { Clock, ServiceClock } from '../model/clock.ts';
import { createIdSource } from '../model/ids.ts';
import type { Json } from '../model/json.ts';
import { SOLE_OWNER } from '../model/runtime-keys.ts';
import type { Beat, LostLeases, Store } from '../store/store.ts';
import type { Sweeper } from '../sweeper.ts';
import type { LiveEvents } from '../telemetry/events.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { createAcceptanceLimits } from './acceptance-limits.ts';
import type { Catalog } from './catalog.ts';
import { createDispatcher, type Dispatcher } from './dispatcher.ts';
import { createEngine, createRunControl, type Engine, type RefreshFlow, type RunControl } from './engine.ts';
import type { HandlerTable } from './handlers/index.ts';
import { createHeartbeat, type Heartbeat } from './heartbeat.ts';
import { LEASE_MS } from './leases.ts';
import { createReport } from './report.ts';
import { createHousekeeping, createRetention } from './retention.ts';
import { createRunStep } from './run-step.ts';
import type { StepsAtWork } from './steps-at-work.ts';
import type { WaitLinks } from './wait-links.ts';

/** Everything that runs flows. */
export interface Runtime {
  readonly engine: Engine;
  readonly dispatcher: Dispatcher;
  readonly control: RunControl;
  readonly heartbeat: Pick<Heartbeat, 'state' | 'isFit'>;
  /** Continues the last process' work, then dispatches. Parts that need the store use `persist`; rejects as it does. */
  start(persist?: Persist): Promise<void>;
  /** Lets running steps finish for `graceMs`; resolves when nothing of the runtime runs any more. */
  stop(graceMs: number): Promise<void>;
}

/** Does a part of a start; can repeat it after the store failed. */
export type Persist = (work: () => Promise<unknown>) => Promise<unknown>;

/** What replicas report to each other; nothing if not given. */
export interface ReplicaReports {
  /** Values that must be the same in all replicas. */
  readonly fingerprint?: (() => Json) | undefined;
  /** Whether another replica has the handler of a step type. */
  readonly isServedElsewhere?: ((stepType: string) => Promise<boolean>) | undefined;
}

interface RuntimeServices extends ReplicaReports {
  readonly store: Store;
  readonly catalog: Catalog;
  readonly handlers: HandlerTable;
  readonly readSecret: Parameters<typeof createRunStep>[0]['readSecret'];
  readonly clock: ServiceClock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly live?: LiveEvents | undefined;
  /** UUID v7, each above the last. */
  readonly newId?: (() => string) | undefined;
  /** Retention of ended runs; they are kept for ever if not given. */
  readonly runRetentionDays?: number | undefined;
  /** Further tasks that remove old data. */
  readonly sweepers?: readonly Sweeper[] | undefined;
  /** How many steps run at once; 64 if not given. */
  readonly concurrency?: number | undefined;
  /** A number from 0 up to 1. */
  readonly random?: (() => number) | undefined;
  /** By default all changes are made in this process, so the catalog has them by the next turn. */
  readonly refresh?: RefreshFlow | undefined;
  /** Version of this release, for the list of replicas. */
  readonly version?: string | undefined;
  readonly atWork?: readonly StepsAtWork[] | undefined;
  readonly waits?: WaitLinks | undefined;
  /** Called after each heartbeat with the number of live replicas. */
  readonly onReplicas?: ((count: number) => void) | undefined;
}

export function createRuntime(services: RuntimeServices): Runtime {
  const { catalog, clock, logger, newId = createIdSource(), concurrency = 64, random = Math.random } = services;
  const { store, lost } = leasesOf(services.store, clock);
  const { replica: owner } = store;
  const { refresh = () => setImmediate(), atWork = [] } = services;
  // No other process can declare the sole owner of a store dead.
  const isFit = () => (owner === SOLE_OWNER ? clock.isFit() : heartbeat.isFit());
  const report = createReport(services);
  const runStep = createRunStep({ ...services, store, random });
  const acceptanceLimits = createAcceptanceLimits({ ...services, store });
  const dispatcher = createDispatcher({
    store,
    catalog,
    acceptanceLimits,
    runStep,
    clock,
    logger,
    report,
    concurrency,
    random,
    owner,
    isFit,
    types: {
      has: (stepType) => services.handlers.has(stepType),
      isElsewhere: services.isServedElsewhere ?? (async () => false),
    },
  });
  for (const each of atWork) each.connect({ ...services, store, onReleased: () => dispatcher.nudge() });
  const engine = createEngine({
    store,
    catalog,
    dispatcher,
    acceptanceLimits,
    clock,
    newId: () => newId(),
    report,
    refresh,
  });
  const control = createRunControl({ store, catalog, handlers: services.handlers, dispatcher, clock, report });
  const retention = createRetention({ store, clock, logger, runRetentionDays: services.runRetentionDays });
  const sweepers = [retention, ...(services.sweepers ?? [])];
  const housekeeping = createHousekeeping({ store, clock, logger, sweepers, isShared: owner !== SOLE_OWNER, isFit });
  const heartbeat = createHeartbeat({
    store,
    clock,
    logger,
    version: services.version ?? '',
    fingerprint: services.fingerprint ?? (() => null),
    onReplicas: services.onReplicas,
    lost: () => lost(dispatcher.heldTokens()),
    // Steps that another process made due and cannot run, without a free slot or because it died, wait at most one
    // beat.
    onDue: () => dispatcher.nudge(0),
  });
  return {
    engine,
    dispatcher,
    heartbeat,
    control,
    async start(persist = (work) => work()) {
      await persist(() => recoverSteps({ store, clock, logger, owner }));
      // Before any step is claimed: if the others do not know this process, its steps would stay leased until their
      // leases expire.
      await persist(heartbeat.start);
      for (const { start } of atWork) await persist(start);
      dispatcher.start();
      store.onDue({
        hasSlot: () => dispatcher.hasSlot(),
        wake: () => dispatcher.wake(),
        everyMinute: housekeeping.everyMinute,
      });
      housekeeping.start();
      acceptanceLimits.start();
    },
    async stop(graceMs) {
      await Promise.all([dispatcher.stop(graceMs), housekeeping.stop(), acceptanceLimits.stop()]);
      await Promise.all(atWork.map(({ stop }) => stop()));
      // Until then, steps that still run must belong to this process.
      await heartbeat.stop();
    },
  };
}

/** A store with a sole owner cannot go away and come back, so there is nothing to watch. */
function leasesOf(store: Store, clock: Clock): ReturnType<typeof watchLeases> {
  return store.replica === SOLE_OWNER ? { store, lost: () => undefined } : watchLeases(store, clock);
}

/** After this, an earlier call has its answer, or never gets one. */
const ANSWERED_AFTER_MS = 5000;

/**
 * Notes when a call that leases steps was not answered. If the store carried it out, steps are leased that nothing
 * runs: they would wait until their leases end.
 */
function watchLeases(
  store: Store,
  clock: Clock,
): { store: Store; lost(held: readonly string[]): LostLeases | undefined } {
  let lostAt: number | undefined;
  // Returns the store's own promise: another one would delay whatever the answer starts by a turn.
  const watched = <Answer>(answer: Promise<Answer>): Promise<Answer> => {
    answer.catch((error: unknown) => {
      if (error instanceof StoreUnavailableError && error.isAway) lostAt = clock.now();
    });
    return answer;
  };
  return {
    store: {
      ...store,
      accept: (...given: Parameters<Store['accept']>) => watched(store.accept(...given)),
      acceptShared: (...given: Parameters<Store['acceptShared']>) => watched(store.acceptShared(...given)),
      advance: (...given: Parameters<Store['advance']>) => watched(store.advance(...given)),
      claimDue: (...given: Parameters<Store['claimDue']>) => watched(store.claimDue(...given)),
      claimOverdue: (...given: Parameters<Store['claimOverdue']>) => watched(store.claimOverdue(...given)),
      async beat(beat: Beat) {
        const at = lostAt;
        const answer = await store.beat(beat);
        if (beat.lost !== undefined && lostAt === at) lostAt = undefined;
        return answer;
      },
    },
    lost(held: readonly string[]): LostLeases | undefined {
      if (lostAt === undefined || clock.now() - lostAt < ANSWERED_AFTER_MS) return undefined;
      return { leasedBefore: lostAt + LEASE_MS, held };
    },
  };
}

/**
 * Makes the steps of a dead process due at once, instead of when their leases run out. Only for a start that knows that
 * no other process of its owner runs. Yields their number.
 */
async function recoverSteps(services: {
  store: Pick<Store, 'recover'>;
  clock: Clock;
  logger: Logger;
  owner: string;
}): Promise<number> {
  const steps = await services.store.recover({ owner: services.owner, now: services.clock.now() });
  if (steps > 0) services.logger.info({ steps }, 'resuming steps that the previous process left running');
  return steps;
}
