import type { Json } from '../../model/json.ts';
import type { StepError } from '../../model/run.ts';
import type { NewRun } from '../../store/contract/runs.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { insertRun } from '../../store/decisions/new-runs.ts';
import { storePart } from '../../store/decisions/part.ts';
import { pinRows, withPins } from '../../store/decisions/pins.ts';
import { type Port, sql } from '../../store/decisions/port.ts';
import { fromJson, toError, toJson } from '../../store/json-columns.ts';

interface AlertRecord {
  /** 0 if there is none. */
  readonly version: number;
  /** Null if there is none. */
  readonly state: Json;
  readonly failures: readonly FailedRunNotice[];
}

interface AlertCommit {
  /** The version that was read. */
  readonly version: number;
  readonly state: Json;
  readonly taken: readonly number[];
  readonly runs: readonly NewRun[];
}

/** A run that failed. */
export interface FailedRunNotice {
  readonly seq: number;
  readonly runId: string;
  readonly flowId: string;
  readonly flowName: string;
  readonly triggerKey: string;
  readonly startedAt: number;
  readonly completedAt: number;
  readonly status: 'Failed' | 'TimedOut';
  /** The step that failed last, a child before its loop; null if none failed. */
  readonly stepKey: string | null;
  readonly error: StepError | null;
}

/** The memory of the alert watch: with it, a crash neither loses nor repeats an alert. */
export const alertsStore = storePart({
  name: 'alerts',
  verbs: {
    /** The state that was stored last, and the noted failed runs, oldest first. */
    readAlerts: {
      access: 'read',
      /** Reads the version first, so a notice that a later version takes is not reported twice. */
      *decide(port: Port, { limit }: { limit: number }): Decision<AlertRecord> {
        const row = yield* port.get<{ version: number; state: string }>(
          sql`SELECT version, state FROM sluice.alert_state`,
        );
        const notices = yield* port.all<Omit<FailedRunNotice, 'error'> & { error: string | null }>(sql`
        SELECT n.seq, r.id AS "runId", r.flow_id AS "flowId", r.flow_name AS "flowName",
          r.trigger_key AS "triggerKey", r.started_at AS "startedAt", r.completed_at AS "completedAt", r.status,
          s.step_key AS "stepKey", s.error
        FROM sluice.failed_run_notices AS n /*sqlite: CROSS */ JOIN sluice.runs AS r ON r.id = n.run_id
        LEFT JOIN sluice.steps AS s ON s.run_id = r.id AND s.step_key = (
          SELECT step_key FROM sluice.steps WHERE run_id = r.id AND status = 'Failed'
          ORDER BY completed_at DESC, length(step_key) DESC LIMIT 1)
        ORDER BY n.seq LIMIT ${limit}`);
        const failures = notices.map((notice): FailedRunNotice => ({ ...notice, error: toError(notice.error) }));
        return { version: row?.version ?? 0, state: fromJson(row?.state ?? null), failures };
      },
    },
    /**
     * Replaces the state of that version, deletes the notices taken and starts the runs, or does nothing and returns
     * `outdated` if the version changed. From the first commit on, the transaction in which a run ends as Failed or
     * TimedOut notes it; the runs are of flows that are deployed.
     */
    commitAlerts: {
      access: 'write',
      changes: null,
      *decide(port: Port, { version, state, taken, runs }: AlertCommit): Decision<'committed' | 'outdated'> {
        const text = toJson(state);
        const changes = yield* port.run(
          version === 0
            ? sql`INSERT INTO sluice.alert_state (id, version, state) VALUES (1, 1, ${text}) ON CONFLICT DO NOTHING`
            : sql`UPDATE sluice.alert_state SET version = version + 1, state = ${text} WHERE version = ${version}`,
        );
        if (changes === 0) return 'outdated';
        port.later(sql`DELETE FROM sluice.failed_run_notices WHERE seq = ANY (${taken})`);
        for (const run of runs) insertRun(port, yield* withPins(pinRows(port), run));
        return 'committed';
      },
    },
    /** Forgets the state and the notices. Failed runs are not noted until the next commit. */
    forgetAlerts: {
      access: 'write',
      changes: null,
      *decide(port: Port): Decision<void> {
        yield* port.run(sql`DELETE FROM sluice.alert_state`);
        yield* port.run(sql`DELETE FROM sluice.failed_run_notices`);
      },
    },
  },
});
