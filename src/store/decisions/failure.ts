import type { RunStatus } from '../../model/manifest.ts';
import { planRun, unhandledFailures, whyClosed } from '../../model/planner.ts';
import { STOP_ERRORS, type StepError } from '../../model/run.ts';
import type { FailureStart } from '../store.ts';
import type { Decision } from './decision.ts';
import { orderIn } from './placing.ts';
import type { RunRows } from './rows.ts';
import { readyRun } from './sub-runs.ts';

interface Failure {
  readonly runId: string;
  readonly flowId: string;
  readonly revision: number;
  readonly status: RunStatus;
  readonly at: number;
}

/**
 * Starts a run of the flow that the manifest of a failed run names, and yields what became of it; undefined where nothing
 * is to be started. The failed run's own revision says which flow, and that flow's newest revision is what starts.
 *
 * A run that was started like this starts none in turn, whatever its manifest names, nor does one that it started by a
 * step: flows that name each other end there. A run that fails again after a retry starts no second one.
 */
export function* startFailureRun(
  rows: RunRows,
  { runId, flowId: ownId, revision, status, at }: Failure,
): Decision<FailureStart | undefined> {
  if (status !== 'Failed' && status !== 'TimedOut') return undefined;
  const { graph, onFailure: flowId } = yield* rows.revisionOf(ownId, revision);
  // Most flows name none; then nothing else is read.
  if (flowId === null) return undefined;
  const found = yield* rows.findOrigin(runId);
  if (found === undefined || found.triggerType === 'failure' || (yield* rows.hasFailureRun(runId))) return undefined;
  if (found.triggerType === 'flow' && (yield* rows.findParent(runId))?.isOfFailure === true) return undefined;
  const { traceparent, ...run } = found;
  const record = yield* rows.findFlow(flowId);
  const why = whyClosed(record);
  if (record === undefined || why !== undefined) return { kind: 'closed', flowId, why: why ?? 'unknown' };

  const [stepKey] = status === 'Failed' ? unhandledFailures(graph, yield* rows.statesIn(runId, '', graph)) : [];
  const step = stepKey === undefined ? undefined : yield* rows.findStep(runId, stepKey);
  const body = {
    run: { ...run, id: runId, status, startedAt: isoTime(run.startedAt), completedAt: isoTime(at) },
    step: stepKey === undefined ? null : { key: stepKey, type: graph[stepKey]?.type ?? '' },
    error: step?.error ?? (status === 'TimedOut' ? STOP_ERRORS.timedOut : NO_ERROR),
  };
  const prepared = yield* rows.revisionOf(flowId, record.revision);
  const own = {
    key: 'onFailure',
    contentType: 'application/json',
    headers: {},
    body: Buffer.from(JSON.stringify(body)),
  };
  const planned = planRun({
    runId: yield* rows.newId(),
    flow: { record, prepared },
    triggerType: 'failure',
    trigger: own,
    order: orderIn(prepared, own, null),
    deliveryId: null,
    sourceRunId: runId,
    traceparent,
    at,
  });
  const { trigger, ...started } = yield* readyRun(rows, planned);
  rows.insertRun({ ...started, trigger });
  return { kind: 'started', run: started };
}

/** Of a failed step that has no error in its row. */
const NO_ERROR: StepError = { code: 'internal_error', message: 'The step failed without an error.', retryable: false };

function isoTime(at: number): string {
  return new Date(at).toISOString();
}
