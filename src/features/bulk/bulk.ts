import type { Logger } from 'pino';
import { StoreUnavailableError } from '../../errors.ts';
import { type Catalog, startsRuns } from '../../flows/catalog.ts';
import type { Engine, RunControl } from '../../flows/engine.ts';
import type { Clock } from '../../model/clock.ts';
import { ALERT_FLOW_ID, type RunStatus } from '../../model/manifest.ts';
import { unhandledFailures, wire } from '../../model/planner.ts';
import type { Run } from '../../model/run.ts';
import type { RunFilter, Store } from '../../store/store.ts';

export const BULK_ACTIONS = ['cancel', 'retry', 'rerun'] as const;
export type BulkAction = (typeof BULK_ACTIONS)[number];

/** Why a run is left out. */
export const LEFT_OUT_REASONS = [
  'run_ended',
  'run_not_ended',
  'not_failed',
  'stopped',
  'changed',
  'nothing_to_retry',
  'order_deadlock',
  'flow_disabled',
  'flow_unreadable',
  'built_in_flow',
  'unknown_flow',
  'unknown_run',
  'error',
] as const;
type LeftOutReason = (typeof LEFT_OUT_REASONS)[number];

interface LeftOut {
  readonly reason: LeftOutReason;
  readonly count: number;
  /** One of these runs. */
  readonly example: string;
}

/** The plan as of now. */
interface BulkPlan {
  /** Milliseconds. */
  readonly at: number;
  /** Runs that match, including those beyond the limit. */
  readonly total: number;
  /** Runs that were checked: the newest that match. */
  readonly looked: number;
  /** Runs to act on, oldest first. */
  readonly runs: readonly Run[];
  readonly leftOut: readonly LeftOut[];
}

/** A plan to carry out. */
interface PlannedBulk {
  readonly action: BulkAction;
  /** Identifies the plan: if it is carried out again, it repeats nothing on any run. */
  readonly planId: string;
  /** When it was planned, milliseconds. */
  readonly at: number;
  readonly runIds: readonly string[];
  /** The flows whose runs it may still change; all if absent. */
  readonly mayReach?: ((flowId: string) => boolean) | undefined;
  /** Kept with each cancelled run. */
  readonly reason: string | null;
}

export interface BulkProgress {
  /** Runs that were changed. */
  readonly done: number;
  readonly leftOut: readonly LeftOut[];
}

/** Applies one action to many runs. */
export interface Bulk {
  /** Checks the newest `limit` runs of a filter and says which would change. Changes nothing. */
  plan(request: { action: BulkAction; filter: RunFilter; limit: number }): Promise<BulkPlan>;
  /**
   * Carries out a plan, run after run, after earlier plans. Calls `onProgress` now and then, and at the end. Resolves
   * with whether it reached the end: not if the process stops or the store becomes unavailable.
   */
  carryOut(planned: PlannedBulk, onProgress: (progress: BulkProgress) => Promise<void>): Promise<boolean>;
  /** Resolves when nothing is under way; nothing begins after the call. */
  stop(): Promise<void>;
}

interface BulkServices {
  readonly store: Pick<Store, 'listRuns' | 'findRun' | 'outlineSteps'>;
  readonly catalog: Pick<Catalog, 'find' | 'pinned'>;
  readonly engine: Pick<Engine, 'rerun'>;
  readonly control: Pick<RunControl, 'cancel' | 'retryStep'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Rows of one read: about 3 ms. */
const RUNS_AT_ONCE = 500;
const RUNS_A_NOTE = 100;

/** The status of runs that an action is for, unless the filter names one. */
const STATUS: Readonly<Record<BulkAction, RunStatus | undefined>> = {
  cancel: 'Running',
  retry: 'Failed',
  rerun: undefined,
};

export function createBulk(services: BulkServices): Bulk {
  const { store, clock, logger } = services;
  let isStopping = false;
  let last: Promise<unknown> = Promise.resolve();

  const carryOut = async (planned: PlannedBulk, onProgress: (progress: BulkProgress) => Promise<void>) => {
    const tally = createTally();
    let done = 0;
    const tell = () => onProgress({ done, leftOut: tally.groups() });
    for (const [index, runId] of planned.runIds.entries()) {
      const reason = isStopping ? 'away' : await doTo(runId, planned, services);
      if (reason === 'away') {
        await tell();
        return false;
      }
      if (reason === null) done += 1;
      else tally.add(reason, runId);
      if ((index + 1) % RUNS_A_NOTE === 0) await tell();
    }
    await tell();
    return true;
  };
  return {
    async plan({ action, filter, limit }) {
      const at = clock.now();
      const tally = createTally();
      const runs: Run[] = [];
      let total = 0;
      let looked = 0;
      for (let before: Run | undefined, isMore = true; isMore && looked < limit; ) {
        const take = Math.min(RUNS_AT_ONCE, limit - looked);
        const status = filter.status ?? STATUS[action];
        const includeTotal = before === undefined;
        const page = await store.listRuns({ ...filter, status, before, skip: 0, take, includeTotal });
        if (includeTotal) total = page.total ?? 0;
        for (const run of page.items) {
          const reason = whyLeftOut(run, action, services);
          if (reason === null) runs.push(run);
          else tally.add(reason, run.id);
        }
        looked += page.items.length;
        isMore = page.items.length === take;
        before = page.items.at(-1);
      }
      return { at, total: Math.max(total, looked), looked, runs: runs.reverse(), leftOut: tally.groups() };
    },
    carryOut(planned, onProgress) {
      // One plan after another and run by run, so deliveries share their commits with at most one change.
      const result = last.then(() => carryOut(planned, onProgress));
      last = result.catch((error: unknown) => {
        logger.error({ err: error, planId: planned.planId }, 'a bulk action on runs could not be completed');
      });
      return result;
    },
    async stop() {
      isStopping = true;
      await last;
    },
  };
}

/** Why the action does not apply to this run; null if it does. */
function whyLeftOut(run: Run, action: BulkAction, { catalog }: Pick<BulkServices, 'catalog'>): LeftOutReason | null {
  const { status } = run;
  if (action === 'cancel') return status === 'Running' ? null : 'run_ended';
  if (status === 'Running') return 'run_not_ended';
  if (action === 'retry') {
    if (status === 'Failed') return null;
    return status === 'Cancelled' || status === 'TimedOut' ? 'stopped' : 'not_failed';
  }
  if (run.flowId === ALERT_FLOW_ID) return 'built_in_flow';
  const flow = catalog.find(run.flowId);
  if (flow === undefined) return 'unknown_flow';
  if (flow.loaded.unreadable !== undefined) return 'flow_unreadable';
  return startsRuns(flow.record) ? null : 'flow_disabled';
}

/** Null if it is done; `away` if the store is unavailable. */
async function doTo(
  runId: string,
  planned: PlannedBulk,
  services: BulkServices,
): Promise<LeftOutReason | 'away' | null> {
  try {
    if (planned.mayReach !== undefined) {
      const run = await services.store.findRun(runId);
      // A deploy may have moved its flow out of the caller's limits.
      if (run === undefined || !planned.mayReach(run.flowId)) return 'unknown_run';
    }
    switch (planned.action) {
      case 'cancel': {
        const { kind } = await services.control.cancel(runId, planned.reason);
        if (kind === 'accepted') return null;
        return kind === 'ended' ? 'run_ended' : 'unknown_run';
      }
      case 'retry':
        return await retry(runId, planned, services);
      default:
        return await rerun(runId, planned, services);
    }
  } catch (error) {
    const isAway = error instanceof StoreUnavailableError;
    services.logger.warn({ err: error, runId, planId: planned.planId }, 'a planned action on a run failed');
    return isAway ? 'away' : 'error';
  }
}

/** Retries the steps that made the run fail. */
async function retry(
  runId: string,
  { at }: PlannedBulk,
  { store, catalog, control }: BulkServices,
): Promise<LeftOutReason | null> {
  const run = await store.findRun(runId);
  if (run === undefined) return 'unknown_run';
  // A run that was retried and failed again was not planned: somebody may be carrying out the plan a second time.
  if (run.status !== 'Failed' || (run.completedAt ?? 0) > at) return 'changed';
  const { graph } = await catalog.pinned(run.flowId, run.revision);
  const steps = await store.outlineSteps(runId, Object.keys(graph));
  const states = new Map(steps.map(({ stepKey, status }) => [stepKey, status]));
  let left: LeftOutReason | null = 'nothing_to_retry';
  for (const stepKey of unhandledFailures(wire(graph), states)) {
    const { kind } = await control.retryStep(runId, stepKey);
    if (kind === 'accepted') left = null;
    // The whole run has a deadlock: every step would be refused.
    if (kind === 'orderDeadlock') return 'order_deadlock';
  }
  return left;
}

async function rerun(
  runId: string,
  { planId }: PlannedBulk,
  { store, engine }: BulkServices,
): Promise<LeftOutReason | null> {
  const run = await store.findRun(runId);
  if (run === undefined) return 'unknown_run';
  if (run.status === 'Running') return 'changed';
  const { kind } = await engine.rerun(run, `${planId}/${runId}`);
  if (kind === 'disabled') return 'flow_disabled';
  if (kind === 'unreadable') return 'flow_unreadable';
  if (kind === 'builtIn') return 'built_in_flow';
  if (kind === 'conflict') return 'changed';
  return kind === 'unknown' ? 'unknown_flow' : null;
}

function createTally() {
  const groups = new Map<LeftOutReason, LeftOut>();
  return {
    add(reason: LeftOutReason, example: string) {
      const known = groups.get(reason) ?? { reason, count: 0, example };
      groups.set(reason, { ...known, count: known.count + 1 });
    },
    groups: () => [...groups.values()],
  };
}
