import type { Graph, Manifest, TriggerType } from '../model/manifest.ts';
import type { RunTrigger } from '../model/run.ts';
import type { FlowRecord, NewRun, NewStep } from '../store/store.ts';
import { type Plan, planNext } from './planner.ts';

/** What a run is planned from. */
export interface RunRequest {
  /** UUID v7. */
  readonly runId: string;
  /** The newest revision. */
  readonly flow: {
    readonly record: Pick<FlowRecord, 'id' | 'name' | 'version' | 'revision'>;
    readonly loaded: { readonly manifest: Pick<Manifest, 'steps' | 'timeoutSeconds'> };
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

/** Plans a run of a flow's newest revision. Pure; a flow without steps yields a run that has ended. */
export function planRun({ runId, flow, trigger, at, ...origin }: RunRequest): NewRun {
  const { record, loaded } = flow;
  const { steps: graph, timeoutSeconds } = loaded.manifest;
  const { start, end } = entryPlan(graph);
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
    steps: start.map((stepKey) => newStep(graph, stepKey, at)),
  };
}

const entryPlans = new WeakMap<Graph, Plan>();

/** Every run of a revision starts with the same steps. */
function entryPlan(graph: Graph): Plan {
  const planned = entryPlans.get(graph) ?? planNext(graph, new Map());
  entryPlans.set(graph, planned);
  return planned;
}

function newStep(graph: Graph, stepKey: string, dueAt: number): NewStep {
  const step = graph[stepKey];
  if (step === undefined) throw new Error(`the plan names the step "${stepKey}", which the graph does not have`);
  return { stepKey, stepType: step.type, dueAt };
}
