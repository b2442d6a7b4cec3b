import type { Json } from '../../model/json.ts';
import type { RunStatus, StepStatus } from '../../model/manifest.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { storePart } from '../../store/decisions/part.ts';
import { type Port, sql } from '../../store/decisions/port.ts';
import { runRowsOf } from '../../store/decisions/run-rows.ts';
import { statusAt } from '../../store/decisions/signal.ts';
import { fromJson } from '../../store/json-columns.ts';
import { uuidOf } from '../../store/uuids.ts';

interface StepOfRun {
  readonly runId: string;
  readonly stepKey: string;
}

interface WaitRow {
  readonly flowId: string;
  readonly flowName: string;
  readonly revision: number;
  readonly runStatus: RunStatus;
  readonly startedAt: number;
  /** Null if the step has not begun. */
  readonly status: StepStatus | null;
  /** The signal that it waits for; null if it waits for none. */
  readonly signalName: string | null;
  /** Whether it has waited in this attempt. */
  readonly hasWaited: 0 | 1;
  readonly answers: number;
}

/** The wait of a step, and whether it still takes an answer. */
export interface Wait extends WaitRow {
  /** As recorded; null before the step has begun. */
  readonly input: Json;
  readonly isOpen: boolean;
}

function* findWait(port: Port, { runId, stepKey }: StepOfRun): Decision<Wait | undefined> {
  const id = uuidOf(runId);
  const row = yield* port.get<WaitRow & { readonly input: string | null }>(sql`
    SELECT r.flow_id AS "flowId", r.flow_name AS "flowName", r.revision, r.status AS "runStatus",
      r.started_at AS "startedAt", s.status, s.signal_name AS "signalName", s.input,
      CASE WHEN s.wait IS NULL THEN 0 ELSE 1 END AS "hasWaited",
      (SELECT count(*) FROM sluice.signals AS g WHERE g.run_id = r.id AND g.step_key = ${stepKey}) AS answers
    FROM sluice.runs AS r LEFT JOIN sluice.steps AS s ON s.run_id = r.id AND s.step_key = ${stepKey}
    WHERE r.id = ${id}`);
  if (row === undefined) return undefined;
  const hasEnded = row.status !== null && row.status !== 'Pending' && row.status !== 'Running';
  const isOpen = row.runStatus === 'Running' && !hasEnded && row.answers === 0;
  return { ...row, input: fromJson(row.input), isOpen };
}

interface Answer extends StepOfRun {
  /** The signal that the step will wait for, if it does not wait yet. */
  readonly signalName: string | undefined;
  readonly body: Json;
  readonly at: number;
}

/**
 * Sends the answer to its step as a signal, or keeps it until the step waits. `gone` if the step takes no answer any
 * more; `busy` while the step continues after its wait, most likely because its time is over.
 */
function* answerWait(port: Port, { runId, stepKey, at, body, ...given }: Answer): Decision<'taken' | 'gone' | 'busy'> {
  const rows = runRowsOf(port);
  // Locks the run.
  const run = yield* rows.findRun(runId);
  const wait = yield* findWait(port, { runId, stepKey });
  const name = wait?.signalName ?? given.signalName;
  if (run === undefined || wait?.isOpen !== true || statusAt(run, at) !== 'Running' || name === undefined)
    return 'gone';
  if (wait.status === 'Running' && wait.hasWaited === 1) return 'busy';
  rows.insertSignal({ runId, name, body, at, stepKey });
  if (wait.signalName !== null) rows.wakeStep({ runId, stepKey }, at);
  return 'taken';
}

export const approvalsStore = storePart({
  name: 'approvals',
  verbs: {
    findWait: { access: 'read', decide: findWait },
    answerWait: { access: 'write', changes: null, decide: answerWait },
  },
});
