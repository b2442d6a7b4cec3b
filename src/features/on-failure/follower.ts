import { planRun, unhandledFailures, whyClosed } from '../../model/planner.ts';
import { STOP_ERRORS, type StepError } from '../../model/run.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import type { FollowedRun, Follower } from '../../store/decisions/follower.ts';
import { readyRun } from '../../store/decisions/pins.ts';
import { orderIn } from '../../store/decisions/placing.ts';
import { type Port, sql } from '../../store/decisions/port.ts';
import type { RunRows } from '../../store/decisions/rows.ts';
import type { FailureStart } from '../../store/store.ts';

/**
 * Starts a run of the flow that the manifest of a failed run names, and yields the result; undefined if nothing is to
 * be started. The failed run's own revision names the flow, and the newest revision of that flow runs.
 *
 * A run started in this way never starts a failure run itself, whatever its manifest names, nor does a run started by
 * its steps: so flows that name each other end there. A run that fails again after a retry starts no second one.
 */
function* startFailureRun(
  rows: RunRows,
  { runId, flowId: ownId, revision, status, at }: FollowedRun,
): Decision<FailureStart | undefined> {
  if (status !== 'Failed' && status !== 'TimedOut') return undefined;
  const { graph, onFailure: flowId } = yield* rows.revisionOf(ownId, revision);
  // Most flows name none; then nothing else is read.
  if (flowId === null) return undefined;
  const found = yield* rows.findOrigin(runId);
  if (found === undefined || found.triggerType === 'failure') return undefined;
  const port = yield* rows.port();
  if (yield* hasFailureRun(port, runId)) return undefined;
  if (found.triggerType === 'flow' && (yield* isOfFailure(port, runId))) return undefined;
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

/** For a failed step without an error in its row. */
const NO_ERROR: StepError = { code: 'internal_error', message: 'The step failed without an error.', retryable: false };

function isoTime(at: number): string {
  return new Date(at).toISOString();
}

/** Whether the failure of this run has already started a run. */
function* hasFailureRun(port: Port, runId: string): Decision<boolean> {
  const started = yield* port.get(
    sql`SELECT 1 AS found FROM sluice.runs WHERE source_run_id = ${runId} AND trigger_type = 'failure' LIMIT 1`,
  );
  return started !== undefined;
}

/** Whether the topmost run above it was started by a failure. */
function* isOfFailure(port: Port, runId: string): Decision<boolean> {
  const above = yield* port.get<{ isOfFailure: boolean }>(
    sql`SELECT is_of_failure AS "isOfFailure" FROM sluice.sub_runs WHERE run_id = ${runId}`,
  );
  return above?.isOfFailure === true;
}

export const onFailureFollower: Follower = {
  name: 'on-failure',
  *end(rows, ended) {
    const failure = yield* startFailureRun(rows, ended);
    return failure === undefined ? {} : { failure };
  },
};
