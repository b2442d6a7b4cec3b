import { SURVIVED } from '../decisions/step-rows.ts';

/** Kinds of rows that outcomes of steps write, all rows of a kind at once. */
export type Kind = 'ended' | 'endedFirst' | 'notedFirst' | 'skipped' | 'inserted' | 'runEnded';

const GIVEN_STEP = 's.run_id = given.run_id AND s.step_key = given.step_key';
const GIVEN_ATTEMPT = 'a.run_id = given.run_id AND a.step_key = given.step_key AND a.attempt = given.attempt';
const KEPT_TRACE =
  'evaluation_trace = CASE WHEN given.is_traced THEN given.evaluation_trace ELSE s.evaluation_trace END';

const GIVEN_TRACE = { is_traced: 'boolean', evaluation_trace: 'text' } as const;
const ENDED = {
  run_id: 'uuid',
  step_key: 'text',
  status: 'text',
  retry_at: 'bigint',
  uncounted: 'integer',
  attempt: 'integer',
  attempt_status: 'text',
  due_at: 'bigint',
  started_at: 'bigint',
  completed_at: 'bigint',
  input: 'text',
  output: 'text',
  error: 'text',
  inputs_revision: 'integer',
  ...GIVEN_TRACE,
} as const;
const SKIPPED = {
  run_id: 'uuid',
  step_key: 'text',
  attempt: 'integer',
  skip_reason: 'text',
  completed_at: 'bigint',
  ...GIVEN_TRACE,
} as const;
const INSERTED = {
  run_id: 'uuid',
  flow_id: 'text',
  step_key: 'text',
  step_type: 'text',
  status: 'text',
  due_at: 'bigint',
  lease_token: 'text',
  lease_owner: 'text',
  started_at: 'bigint',
  skip_reason: 'text',
  completed_at: 'bigint',
} as const;

const endSteps = (given: string) => `
  UPDATE sluice.steps s SET status = given.status, due_at = given.retry_at,
    completed_at = CASE WHEN given.retry_at IS NULL THEN given.completed_at END, lease_token = NULL, wait = NULL,
    signal_name = NULL, input = given.input, output = given.output, error = given.error,
    inputs_revision = given.inputs_revision, ${KEPT_TRACE},
    attempt_base = s.attempt_base + s.interruptions + given.uncounted, ${SURVIVED}
  FROM ${given} WHERE ${GIVEN_STEP}`;

const endFirstSteps = (given: string) => `
  UPDATE sluice.steps s SET status = given.status, due_at = given.retry_at,
    completed_at = CASE WHEN given.retry_at IS NULL THEN given.completed_at END, lease_token = NULL, attempt_count = 1,
    attempt_base = given.uncounted, started_at = given.started_at, input = given.input, output = given.output, error = given.error,
    inputs_revision = given.inputs_revision, ${KEPT_TRACE}
  FROM ${given} WHERE ${GIVEN_STEP}`;

interface KindOfRows {
  /** The columns of its rows. */
  readonly types: Readonly<Record<string, string>>;
  /** Their statements, given the rows as a table; as in `decisions/step-rows.ts`, but for many rows at once. */
  readonly parts: readonly ((given: string) => string)[];
}

export const KINDS: Readonly<Record<Kind, KindOfRows>> = {
  ended: {
    types: ENDED,
    parts: [
      endSteps,
      (given) => `
        UPDATE sluice.attempts a SET status = given.attempt_status, input = given.input, output = given.output,
          error = given.error, completed_at = given.completed_at, inputs_revision = given.inputs_revision
        FROM ${given} WHERE ${GIVEN_ATTEMPT}`,
    ],
  },
  endedFirst: { types: ENDED, parts: [endFirstSteps] },
  notedFirst: {
    types: ENDED,
    parts: [
      endFirstSteps,
      (given) => `
        INSERT INTO sluice.attempts (run_id, step_key, attempt, due_at, started_at, status, input, output, error,
          completed_at, inputs_revision)
        SELECT run_id, step_key, 1, due_at, started_at, attempt_status, input, output, error, completed_at,
          inputs_revision
        FROM ${given}`,
    ],
  },
  skipped: {
    types: SKIPPED,
    parts: [
      (given) => `
        UPDATE sluice.steps s SET status = 'Skipped', due_at = NULL, lease_token = NULL,
          skip_reason = given.skip_reason, completed_at = given.completed_at,
          attempt_count = greatest(0, attempt_count - 1),
          started_at = CASE WHEN attempt_count <= 1 THEN NULL ELSE started_at END, ${KEPT_TRACE}
        FROM ${given} WHERE ${GIVEN_STEP}`,
      (given) => `DELETE FROM sluice.attempts a USING ${given} WHERE ${GIVEN_ATTEMPT}`,
    ],
  },
  inserted: {
    types: INSERTED,
    parts: [
      (given) => {
        const names = Object.keys(INSERTED).join(', ');
        return `INSERT INTO sluice.steps (${names}) SELECT ${names} FROM ${given}`;
      },
    ],
  },
  runEnded: {
    types: { run_id: 'uuid', status: 'text', completed_at: 'bigint' },
    parts: [
      (given) => `
        UPDATE sluice.runs r SET status = given.status, completed_at = given.completed_at
        FROM ${given} WHERE r.id = given.run_id`,
    ],
  },
};

export const KINDS_IN_ORDER = Object.keys(KINDS) as Kind[];
