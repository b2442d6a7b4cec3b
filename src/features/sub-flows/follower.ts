import { MAX_FLOW_DEPTH, RUN_FLOW_KEY } from '../../model/manifest.ts';
import { planRun, whyClosed } from '../../model/planner.ts';
import { type StepErrorCode, waitingRun } from '../../model/run.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import type { AskedRun, FollowedRun, Follower, Orphan, SubRun } from '../../store/decisions/follower.ts';
import { pinsOf } from '../../store/decisions/pins.ts';
import { joinPlace, orderIn } from '../../store/decisions/placing.ts';
import type { RunRows } from '../../store/decisions/rows.ts';
import type { StepAddress, StepOutcome } from '../../store/store.ts';
import { type SubRunRows, subRunRows } from './rows.ts';

// A sub-run is a run that a `RunFlow` step of another run, its parent, has started. A parent's transaction locks none
// of its sub-runs, and the end of a sub-run only wakes one step of its parent, so neither waits for the other. If a
// parent stops, this is noted, and another transaction then stops its sub-runs.

interface Rows extends RunRows, SubRunRows {}

function* withSubRuns(rows: RunRows): Decision<Rows> {
  return { ...rows, ...(yield* rows.port()).own(subRunRows) };
}

/** Starts the sub-run that a step asks for, with the revision pinned by the step's run. */
function* startSubRun(
  runRows: RunRows,
  { runId, stepKey, at }: StepOutcome,
  { asked, parent }: AskedRun,
): Decision<SubRun> {
  const rows = yield* withSubRuns(runRows);
  const { flowId, isAwaited } = asked;
  const pins = yield* rows.findPins(runId);
  const above = parent.triggerType === 'flow' ? yield* rows.findParent(runId) : undefined;
  const depth = (above?.depth ?? 0) + 1;
  if (depth >= MAX_FLOW_DEPTH) {
    return refused('flows_too_deep', `${depth} flows already run each other; at most ${MAX_FLOW_DEPTH} may`, null);
  }
  const record = yield* rows.findFlow(flowId);
  const rootStartedAt = above?.rootStartedAt ?? parent.startedAt;
  const pinned = pins[flowId];
  // If the flow existed but is not pinned, it was draining then, for a deploy that may have happened since.
  if (record === undefined || (pinned === undefined && record.createdAt >= rootStartedAt)) {
    const message = `the flow ${flowId} was not deployed when this run started, and a run cannot start flows that were deployed later`;
    return refused('flow_not_pinned', `${message}; repeat the run`, null);
  }
  const closedSince = record.deletedAt ?? record.drainingSince;
  // A drain or a deletion lets runs in flight end, and this sub-run is part of one.
  const isClosedLater = pinned !== undefined && closedSince !== undefined && rootStartedAt < closedSince;
  const why = isClosedLater && record.isEnabled ? undefined : whyClosed(record);
  if (why !== undefined) {
    return refused('flow_closed', `the flow ${record.name} is ${why} and starts no runs`, asked.retryAt);
  }
  const revision = pinned ?? record.revision;
  const prepared = yield* rows.revisionOf(flowId, revision);
  const { name = record.name, version = record.version } = prepared;
  const origin = yield* rows.findOrigin(runId);
  const own = {
    key: RUN_FLOW_KEY,
    contentType: 'application/json',
    headers: {},
    body: Buffer.from(JSON.stringify(asked.body)),
  };
  const planned = planRun({
    runId: yield* rows.newId(),
    flow: { record: { id: flowId, name, version, revision }, prepared },
    triggerType: 'flow',
    trigger: own,
    order: orderIn(prepared, own, null),
    deliveryId: null,
    sourceRunId: runId,
    traceparent: origin?.traceparent ?? null,
    at,
  });
  const joined = yield* joinPlace(rows, planned, isAwaited ? runId : undefined);
  if (typeof joined === 'string') {
    const message = `the run would have to wait for the run ${joined} to end, which waits for it`;
    return refused('order_deadlock', message, null);
  }
  const ordered = joined ? waitingRun(planned) : planned;
  // Its own time limit starts when it may run; this does not prolong the wait of the parent's step.
  const limits = isAwaited ? [ordered.timeoutAt, parent.timeoutAt, asked.limitAt ?? null] : [ordered.timeoutAt];
  const times = limits.filter((time) => time !== null);
  const timeoutAt = planned.completedAt === null && times.length > 0 ? Math.min(...times) : null;
  const isOfFailure = origin?.triggerType === 'failure' || above?.isOfFailure === true;
  const { trigger, ...run } = {
    ...ordered,
    timeoutAt,
    ...(planned.subFlows && { pins: yield* pinsOf(rows, planned.subFlows, pinned === undefined ? undefined : pins) }),
  };
  rows.insertRun({ ...run, trigger });
  if (revision !== record.revision) rows.markUnordered(flowId);
  rows.insertParent(run.id, { runId, stepKey, isAwaited, depth, rootStartedAt, isOfFailure });
  if (!isAwaited) return { result: { kind: 'succeeded', output: { runId: run.id } }, run };
  // A run without steps has ended already, so nothing would wake the step.
  const dueAt = run.completedAt === null ? null : at;
  return { result: { kind: 'waiting', state: { subRun: run.id }, dueAt, signalName: null }, run };
}

function refused(code: StepErrorCode, message: string, retryAt: number | null): SubRun {
  const error = { code, message, retryable: retryAt !== null };
  return { result: retryAt === null ? { kind: 'failed', error } : { kind: 'retry', error, dueAt: retryAt }, run: null };
}

/** Makes the step due that waits for the ended run, if there is one; yields its address. */
function* wakeParent(runRows: RunRows, { runId, at }: FollowedRun): Decision<StepAddress | undefined> {
  const rows = (yield* runRows.port()).own(subRunRows);
  const parent = yield* rows.findParent(runId);
  if (parent?.isAwaited !== true) return undefined;
  const step = { runId: parent.runId, stepKey: parent.stepKey };
  rows.wakeWaiting(step, runId, at);
  return step;
}

function* takeOrphans(runRows: RunRows, limit: number): Decision<Orphan[]> {
  const taken = yield* (yield* runRows.port()).own(subRunRows).takeOrphans(limit);
  return taken.map(({ parentRunId, ...run }) => {
    return { run, reason: `The run ${parentRunId ?? ''}, which waited for this one, was stopped.` };
  });
}

export const subFlowsFollower: Follower = {
  name: 'sub-flows',
  *end(rows, ended) {
    // Most runs are not sub-runs and need no reads here.
    const woken = ended.triggerType === 'flow' ? yield* wakeParent(rows, ended) : undefined;
    return woken === undefined ? {} : { woken };
  },
  subRuns: {
    start: startSubRun,
    *orphan(rows, runId) {
      (yield* rows.port()).own(subRunRows).orphanSubRuns(runId);
    },
    takeOrphans,
  },
};
