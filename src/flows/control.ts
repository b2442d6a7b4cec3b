import { hasPlaceholder } from '../expressions/template.ts';
import type { Clock } from '../model/clock.ts';
import type { Json } from '../model/json.ts';
import type { Graph } from '../model/manifest.ts';
import type { CancelResult, RetryResult, SignalResult, Store } from '../store/store.ts';
import type { Catalog } from './catalog.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { Report } from './report.ts';

/** What people and programs do to runs that were started. */
export interface RunControl {
  /** Ends a run: at once where nothing of it runs, else as soon as its steps have heard of it. */
  cancel(runId: string, reason: string | null): Promise<CancelResult>;
  retryStep(runId: string, stepKey: string): Promise<RetryResult>;
  /** `unknownName` where the run's flow waits for signals, and for none of this name. */
  signal(signal: { runId: string; name: string; body: Json }): Promise<SignalResult | { kind: 'unknownName' }>;
}

export interface ControlServices {
  readonly store: Pick<Store, 'cancelRun' | 'retryStep' | 'deliverSignal' | 'findRun'>;
  readonly catalog: Pick<Catalog, 'pinned' | 'find'>;
  readonly dispatcher: Pick<Dispatcher, 'nudge' | 'stopRun'>;
  readonly clock: Clock;
  readonly report: Report;
}

export function createRunControl({ store, catalog, dispatcher, clock, report }: ControlServices): RunControl {
  return {
    async cancel(runId, reason) {
      const result = await store.cancelRun({ runId, reason, at: clock.now() });
      if (result.kind !== 'accepted') return result;
      dispatcher.stopRun(runId, 'cancelled');
      report.runStopped(result.run, 'Cancelled');
      return result;
    },
    async retryStep(runId, stepKey) {
      const result = await store.retryStep({ runId, stepKey, at: clock.now() });
      if (result.kind === 'accepted') dispatcher.nudge();
      return result;
    },
    async signal({ runId, name, body }) {
      const run = await store.findRun(runId);
      if (run === undefined) return { kind: 'unknown' };
      const { graph: pinned } = await catalog.pinned(run.flowId, run.revision);
      const newest = catalog.find(run.flowId)?.loaded.manifest.steps ?? pinned;
      if (![pinned, newest].some((graph) => mayWaitFor(graph, name))) return { kind: 'unknownName' };
      const result = await store.deliverSignal({ runId, name, body, at: clock.now() });
      if (result.kind === 'accepted' && result.stepKey !== null) dispatcher.nudge();
      return result;
    },
  };
}

/**
 * Whether a step could wait for a signal of this name. A name that an expression gives is any name, and so is what an
 * operator's own handler waits for.
 */
function mayWaitFor(graph: Graph, name: string): boolean {
  return Object.values(graph).some(({ type, inputs, steps }) => {
    if (steps !== undefined) return mayWaitFor(steps, name);
    if (BUILT_IN.has(type)) return false;
    const given = inputs.signalName;
    return type !== 'WaitForSignal' || typeof given !== 'string' || given === name || hasPlaceholder(given);
  });
}

const BUILT_IN: ReadonlySet<string> = new Set(['NoOp', 'LogMessage', 'HttpRequest', 'Delay', 'Transform', 'Fail']);
