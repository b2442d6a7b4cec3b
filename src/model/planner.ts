import {
  type Edge,
  type Graph,
  type RunnableManifest,
  type RunStatus,
  type RunTriggerType,
  type StepDefinition,
  type StepStatus,
  subFlowsOf,
} from './manifest.ts';
import type { NewRun, RunOrder, RunTrigger } from './run.ts';
import type { SearchKeys } from './search-keys.ts';

/** Statuses of the steps that have been reached; other steps are missing. */
type StepStates = ReadonlyMap<string, StepStatus>;

interface Plan {
  /** Keys of steps whose edges are all satisfied and that have not been reached yet. */
  readonly start: readonly string[];
  /** Steps that can never start, in the order in which that became certain. */
  readonly skip: readonly SkippedStep[];
  /** How the run ended; null while a step can start, waits or runs. */
  readonly end: RunStatus | null;
}

interface SkippedStep {
  readonly stepKey: string;
  readonly reason: string;
}

/** A graph with the edges of each step in both directions, in manifest order: made once for planning many times. */
export type WiredGraph = Readonly<Record<string, WiredStep>>;

interface WiredStep extends StepDefinition {
  readonly upstream: readonly StepEdge[];
  /** Steps that run after this one, with the edges to them. */
  readonly downstream: readonly StepEdge[];
  /** The children of a loop. */
  readonly steps?: WiredGraph | undefined;
}

type StepEdge = readonly [stepKey: string, edge: Edge];

/**
 * Plans what follows from the states of a run. Pure: the same graph and states give the same plan, whatever the order
 * in which the states were reached, so that the engine, the store's transaction, recovery and the page agree.
 *
 * A step starts when every edge is satisfied (AND) and is skipped as soon as one edge can no longer be. Skips cascade
 * in the same plan, because a skipped step may satisfy an edge that lists Skipped or break one that does not.
 */
export function planNext(graph: WiredGraph, states: StepStates): Plan {
  const steps = Object.entries(graph);
  const known = new Map(states);
  const skip: SkippedStep[] = [];
  // Every step with all of its edges, and then the steps after each skipped one, with the edge from that one.
  const looked: [string, readonly StepEdge[]][] = steps.map(([stepKey, { upstream }]) => [stepKey, upstream]);
  for (const [stepKey, edges] of looked) {
    const reason = known.has(stepKey) ? undefined : brokenEdge(edges, known);
    if (reason === undefined) continue;
    known.set(stepKey, 'Skipped');
    skip.push({ stepKey, reason });
    for (const [after, edge] of graph[stepKey]?.downstream ?? []) looked.push([after, [[stepKey, edge]]]);
  }
  const start = steps.flatMap(([stepKey, step]) => (known.has(stepKey) || !isReady(step, known) ? [] : [stepKey]));
  return { start, skip, end: start.length === 0 ? runEnd(steps, known) : null };
}

/** With more steps, it costs too much to look at all of them each time one ends. */
const MANY_STEPS = 64;

const large = new WeakMap<WiredGraph, boolean>();

/** Whether a graph has so many steps that `planAfter` is the cheaper way to plan. */
export function isLarge(graph: WiredGraph): boolean {
  const known = large.get(graph) ?? Object.keys(graph).length > MANY_STEPS;
  large.set(graph, known);
  return known;
}

/** Whether a graph has one step. */
export const isAlone = (graph: WiredGraph): boolean => !isLarge(graph) && Object.keys(graph).length === 1;

/** Asks for the states of steps; `yield*` gives the answer. */
type AskStates<Asked> = (stepKeys: readonly string[]) => {
  [Symbol.iterator](): Iterator<Asked, StepStates, unknown>;
};

/**
 * Plans what follows from a step that has just ended, as `planNext` does, but asks only for the states of its
 * downstream steps. Says whether it saw a step that has not ended, but not whether the run ends. A step with very many
 * upstream steps is planned in its turn: as soon as one of them has not ended, the others are not looked at.
 * `lastOpen` notes where that one is, so that it is looked at first when the next of them ends; no plan depends on it.
 */
export function* planAfter<Asked>(
  graph: WiredGraph,
  ended: string,
  { statesOf, lastOpen }: { readonly statesOf: AskStates<Asked>; readonly lastOpen: Map<string, number> },
): Generator<Asked, Omit<Plan, 'end'> & { readonly isOpen: boolean }, unknown> {
  const known = new Map<string, StepStatus>();
  const start: string[] = [];
  const skip: SkippedStep[] = [];
  // A skipped step has ended too, so its downstream steps are looked at, again if they were before.
  for (let changed = [ended]; changed.length > 0; ) {
    const next = new Map<string, StepEdge[]>();
    for (const key of changed) {
      for (const [after, edge] of graph[key]?.downstream ?? []) {
        if (next.get(after)?.push([key, edge]) === undefined) next.set(after, [[key, edge]]);
      }
    }
    const first = [...next.keys()].flatMap((key) => partsOf(graph[key], lastOpen.get(key)).next().value?.keys ?? []);
    yield* learn(known, [...changed, ...next.keys(), ...first], statesOf);
    changed = [];
    for (const [stepKey, edges] of next) {
      const step = graph[stepKey];
      if (step === undefined || known.has(stepKey)) continue;
      let reason: string | undefined;
      for (const { part, keys, end } of partsOf(step, lastOpen.get(stepKey))) {
        yield* learn(known, keys, statesOf);
        reason = brokenEdge(part, known);
        const open = keys.findLastIndex((key) => !hasEnded(known.get(key) ?? 'Pending'));
        if (open !== -1) lastOpen.set(stepKey, end - keys.length + open + 1);
        if (open !== -1 || reason !== undefined) break;
      }
      reason ??= brokenEdge(edges, known);
      if (reason !== undefined) {
        skip.push({ stepKey, reason });
        changed.push(stepKey);
        known.set(stepKey, 'Skipped');
      } else if (isReady(step, known)) {
        start.push(stepKey);
        known.set(stepKey, 'Pending');
      }
    }
  }
  return { start, skip, isOpen: [...known.values()].some((status) => !hasEnded(status)) };
}

/** The upstream steps of a step up to number `end`, the last first, and then the others; very many in growing parts. */
function* partsOf({ upstream }: Pick<WiredStep, 'upstream'> = { upstream: [] }, end = upstream.length) {
  let left = upstream.length;
  for (let size = left > MANY_STEPS ? 1 : MANY_STEPS; left > 0; size *= 2) {
    const part = upstream.slice(Math.max(0, end - size), end);
    yield { part, keys: part.map(([key]) => key), end };
    left -= part.length;
    end = end === part.length ? upstream.length : end - part.length;
  }
}

/** Asks for the states that are not known yet. */
function* learn<Asked>(
  known: Map<string, StepStatus>,
  stepKeys: readonly string[],
  statesOf: AskStates<Asked>,
): Generator<Asked, void, unknown> {
  const asked = [...new Set(stepKeys)].filter((key) => !known.has(key));
  if (asked.length === 0) return;
  for (const [key, status] of yield* statesOf(asked)) known.set(key, status);
}

function isReady({ upstream }: WiredStep, known: StepStates): boolean {
  return upstream.every(([stepKey, edge]) => {
    const status = known.get(stepKey);
    return status !== undefined && edge.statuses.includes(status);
  });
}

function brokenEdge(upstream: readonly StepEdge[], known: StepStates): string | undefined {
  for (const [stepKey, edge] of upstream) {
    const status = known.get(stepKey);
    if (status !== undefined && hasEnded(status) && !edge.statuses.includes(status)) {
      return `"${stepKey}" ended ${status}; this step runs after ${edge.statuses.join(' or ')}`;
    }
  }
  return undefined;
}

function runEnd(steps: readonly (readonly [string, WiredStep])[], known: StepStates): RunStatus | null {
  if (!steps.every(([stepKey]) => hasEnded(known.get(stepKey) ?? 'Pending'))) return null;
  if (steps.some(([stepKey, step]) => known.get(stepKey) === 'Failed' && !isHandled(step, known))) return 'Failed';
  const leaves = steps.filter(([, { downstream }]) => downstream.length === 0);
  return leaves.length > 0 && leaves.every(([stepKey]) => known.get(stepKey) === 'Skipped') ? 'Skipped' : 'Succeeded';
}

/** Keys of the steps that make an ended graph Failed: failed steps that no later step handled. */
export function unhandledFailures(graph: WiredGraph, states: StepStates): string[] {
  return Object.entries(graph).flatMap(([stepKey, step]) =>
    states.get(stepKey) === 'Failed' && !isHandled(step, states) ? [stepKey] : [],
  );
}

/** A failure is handled by a downstream step that listed Failed and succeeded. */
function isHandled({ downstream }: WiredStep, known: StepStates): boolean {
  return downstream.some(([stepKey, edge]) => known.get(stepKey) === 'Succeeded' && edge.statuses.includes('Failed'));
}

function hasEnded(status: StepStatus): boolean {
  return status === 'Succeeded' || status === 'Failed' || status === 'Skipped';
}

export function wire(graph: Graph): WiredGraph {
  const downstream = new Map<string, StepEdge[]>(Object.keys(graph).map((stepKey) => [stepKey, []]));
  for (const [stepKey, { runAfter }] of Object.entries(graph)) {
    for (const [upstreamKey, edge] of Object.entries(runAfter)) downstream.get(upstreamKey)?.push([stepKey, edge]);
  }
  const wireStep = (stepKey: string, { steps, ...definition }: StepDefinition): WiredStep => ({
    ...definition,
    upstream: Object.entries(definition.runAfter),
    downstream: downstream.get(stepKey) ?? [],
    ...(steps === undefined ? {} : { steps: wire(steps) }),
  });
  return Object.fromEntries(Object.entries(graph).map(([stepKey, step]) => [stepKey, wireStep(stepKey, step)]));
}

/** The input for planning a run. */
interface RunRequest {
  /** UUID v7. */
  readonly runId: string;
  /** The newest revision; for a run that a `RunFlow` step starts, the revision that the step's run has pinned. */
  readonly flow: {
    readonly record: {
      readonly id: string;
      readonly name: string;
      readonly version: string;
      readonly revision: number;
    };
    readonly prepared: { readonly entry: Entry };
  };
  readonly triggerType: RunTriggerType;
  readonly trigger: RunTrigger;
  readonly deliveryId: string | null;
  /** The run that this one repeats, or whose failure or step starts it. */
  readonly sourceRunId: string | null;
  readonly traceparent: string | null;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  /** When its first steps are due and its time limit begins; defaults to `at`. */
  readonly dueAt?: number | undefined;
  /** Absent if the trigger names none. */
  readonly searchKeys?: SearchKeys | undefined;
  /** Absent if the flow lets runs overlap. */
  readonly order?: RunOrder | undefined;
}

/** The beginning of every run of a revision. */
interface Entry {
  /** The steps without upstream steps. */
  readonly steps: readonly Pick<NewRun['steps'][number], 'stepKey' | 'stepType'>[];
  /** How a run without steps ends at once; otherwise null. */
  readonly end: RunStatus | null;
  readonly timeoutSeconds: number | undefined;
  /** Flows that its steps run; absent if there are none. */
  readonly subFlows?: readonly string[] | undefined;
}

export function entryOf({ steps: graph, timeoutSeconds }: Pick<RunnableManifest, 'steps' | 'timeoutSeconds'>): Entry {
  const { start, end } = planNext(wire(graph), new Map());
  const steps = start.map((stepKey) => ({ stepKey, stepType: graph[stepKey]?.type ?? '' }));
  const subFlows = subFlowsOf(graph);
  return { steps, end, timeoutSeconds, ...(subFlows.length > 0 && { subFlows }) };
}

/** The state that decides whether a flow starts runs. */
export interface FlowSwitches {
  readonly isEnabled: boolean;
  readonly drainingSince?: number | undefined;
  readonly deletedAt?: number | undefined;
}

/** Why a flow starts no runs now; undefined if it does. */
export function whyClosed(flow: FlowSwitches | undefined): 'unknown' | 'deleted' | 'disabled' | 'draining' | undefined {
  if (flow === undefined) return 'unknown';
  if (flow.deletedAt !== undefined) return 'deleted';
  if (!flow.isEnabled) return 'disabled';
  return flow.drainingSince === undefined ? undefined : 'draining';
}

/** Plans a run of a revision. Pure; a flow without steps yields a run that has ended. */
export function planRun({ runId, flow, trigger, at, dueAt = at, order, ...origin }: RunRequest): NewRun {
  const { record, prepared } = flow;
  const { steps, end, timeoutSeconds, subFlows } = prepared.entry;
  return {
    id: runId,
    flowId: record.id,
    flowName: record.name,
    flowVersion: record.version,
    revision: record.revision,
    status: end ?? 'Running',
    startedAt: at,
    completedAt: end === null ? null : at,
    timeoutAt: end !== null || timeoutSeconds === undefined ? null : dueAt + Math.ceil(timeoutSeconds * 1000),
    triggerKey: trigger.key,
    trigger,
    ...origin,
    ...(subFlows !== undefined && { subFlows }),
    ...(order !== undefined && end === null && { order }),
    steps: steps.map((step) => ({ ...step, dueAt })),
  };
}
