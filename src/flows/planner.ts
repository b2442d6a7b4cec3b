import type { Edge, Graph, RunnableManifest, RunStatus, StepStatus, TriggerType } from '../model/manifest.ts';
import type { RunTrigger } from '../model/run.ts';
import type { FlowRecord, NewRun } from '../store/store.ts';

/** Statuses of the steps that have been reached; a step that is not in it has not. */
type StepStates = ReadonlyMap<string, StepStatus>;

interface Plan {
  /** Keys of steps whose edges are all satisfied and that have not been reached yet. */
  readonly start: readonly string[];
  /** Steps that can never start, in the order in which that became certain. */
  readonly skip: readonly SkippedStep[];
  /** How the run ended; null while anything is to be started, waits or runs. */
  readonly end: RunStatus | null;
}

interface SkippedStep {
  readonly stepKey: string;
  readonly reason: string;
}

/** A graph as planning walks it. */
interface Wiring {
  /** In manifest order. */
  readonly steps: readonly WiredStep[];
  /** Keys of steps that no other runs after. */
  readonly leaves: readonly string[];
}

interface WiredStep {
  readonly stepKey: string;
  readonly upstream: readonly (readonly [string, Edge])[];
  /** Steps that run after this one, with the edge between. */
  readonly downstream: readonly (readonly [string, Edge])[];
}

/**
 * Says what follows from the states of a run. Pure: the same graph and states give the same plan, whatever order the
 * states were reached in, so that the engine, the store's transaction, recovery and the page agree.
 *
 * A step starts when every edge is satisfied (AND) and is skipped as soon as one edge can no longer be. Skips cascade
 * in the same plan, because a skipped step may satisfy an edge that lists Skipped or break one that does not.
 */
export function planNext(graph: Graph, states: StepStates): Plan {
  const wiring = wiringOf(graph);
  const known = new Map(states);
  const skip: SkippedStep[] = [];
  for (let isSettled = false; !isSettled; ) {
    isSettled = true;
    for (const step of wiring.steps) {
      if (known.has(step.stepKey)) continue;
      const reason = brokenEdge(step, known);
      if (reason === undefined) continue;
      known.set(step.stepKey, 'Skipped');
      skip.push({ stepKey: step.stepKey, reason });
      isSettled = false;
    }
  }
  const start = wiring.steps.filter((step) => !known.has(step.stepKey) && isReady(step, known));
  return {
    start: start.map(({ stepKey }) => stepKey),
    skip,
    end: start.length === 0 ? runEnd(wiring, known) : null,
  };
}

function isReady({ upstream }: WiredStep, known: StepStates): boolean {
  return upstream.every(([stepKey, edge]) => {
    const status = known.get(stepKey);
    return status !== undefined && edge.statuses.includes(status);
  });
}

function brokenEdge({ upstream }: WiredStep, known: StepStates): string | undefined {
  for (const [stepKey, edge] of upstream) {
    const status = known.get(stepKey);
    if (status !== undefined && hasEnded(status) && !edge.statuses.includes(status)) {
      return `"${stepKey}" ended ${status}; this step runs after ${edge.statuses.join(' or ')}`;
    }
  }
  return undefined;
}

function runEnd({ steps, leaves }: Wiring, known: StepStates): RunStatus | null {
  if (!steps.every(({ stepKey }) => hasEnded(known.get(stepKey) ?? 'Pending'))) return null;
  if (steps.some((step) => known.get(step.stepKey) === 'Failed' && !isHandled(step, known))) return 'Failed';
  return leaves.length > 0 && leaves.every((stepKey) => known.get(stepKey) === 'Skipped') ? 'Skipped' : 'Succeeded';
}

/** Keys of the steps that make an ended graph Failed: those that failed and that no later step handled. */
export function unhandledFailures(graph: Graph, states: StepStates): string[] {
  const failed = wiringOf(graph).steps.filter((step) => states.get(step.stepKey) === 'Failed');
  return failed.filter((step) => !isHandled(step, states)).map(({ stepKey }) => stepKey);
}

/** A failure is handled by a downstream step that listed Failed and succeeded. */
function isHandled({ downstream }: WiredStep, known: StepStates): boolean {
  return downstream.some(([stepKey, edge]) => known.get(stepKey) === 'Succeeded' && edge.statuses.includes('Failed'));
}

function hasEnded(status: StepStatus): boolean {
  return status === 'Succeeded' || status === 'Failed' || status === 'Skipped';
}

// A revision's graph never changes and is planned once for every step of every run.
const wirings = new WeakMap<Graph, Wiring>();

function wiringOf(graph: Graph): Wiring {
  const known = wirings.get(graph);
  if (known !== undefined) return known;
  const downstream = new Map<string, [string, Edge][]>(Object.keys(graph).map((stepKey) => [stepKey, []]));
  for (const [stepKey, { runAfter }] of Object.entries(graph)) {
    for (const [upstreamKey, edge] of Object.entries(runAfter)) downstream.get(upstreamKey)?.push([stepKey, edge]);
  }
  const steps = Object.entries(graph).map(([stepKey, { runAfter }]) => ({
    stepKey,
    upstream: Object.entries(runAfter),
    downstream: downstream.get(stepKey) ?? [],
  }));
  const leaves = steps.filter(({ downstream }) => downstream.length === 0).map(({ stepKey }) => stepKey);
  const wiring = { steps, leaves };
  wirings.set(graph, wiring);
  return wiring;
}

/** What a run is planned from. */
export interface RunRequest {
  /** UUID v7. */
  readonly runId: string;
  /** The newest revision. */
  readonly flow: {
    readonly record: Pick<FlowRecord, 'id' | 'name' | 'version' | 'revision'>;
    readonly prepared: { readonly entry: Entry };
  };
  readonly triggerType: TriggerType;
  readonly trigger: RunTrigger;
  readonly deliveryId: string | null;
  /** The run that this one repeats. */
  readonly sourceRunId: string | null;
  readonly traceparent: string | null;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
}

/** How every run of a revision begins. */
export interface Entry {
  /** The steps that run after no other. */
  readonly steps: readonly Pick<NewRun['steps'][number], 'stepKey' | 'stepType'>[];
  /** How the run ends at once where there are none. */
  readonly end: RunStatus | null;
  readonly timeoutSeconds: number | undefined;
}

export function entryOf({ steps: graph, timeoutSeconds }: Pick<RunnableManifest, 'steps' | 'timeoutSeconds'>): Entry {
  const { start, end } = planNext(graph, new Map());
  return { steps: start.map((stepKey) => ({ stepKey, stepType: graph[stepKey]?.type ?? '' })), end, timeoutSeconds };
}

/** Plans a run of a flow's newest revision. Pure; a flow without steps yields a run that has ended. */
export function planRun({ runId, flow, trigger, at, ...origin }: RunRequest): NewRun {
  const { record, prepared } = flow;
  const { steps, end, timeoutSeconds } = prepared.entry;
  return {
    id: runId,
    flowId: record.id,
    flowName: record.name,
    flowVersion: record.version,
    revision: record.revision,
    status: end ?? 'Running',
    startedAt: at,
    completedAt: end === null ? null : at,
    timeoutAt: end !== null || timeoutSeconds === undefined ? null : at + Math.ceil(timeoutSeconds * 1000),
    triggerKey: trigger.key,
    trigger,
    ...origin,
    steps: steps.map((step) => ({ ...step, dueAt: at })),
  };
}
