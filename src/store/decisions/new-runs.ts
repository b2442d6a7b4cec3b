import { type SearchKeyRow, searchKeyRows } from '../../model/text.ts';
import { INPUT_COLUMNS, RUN_COLUMNS, runRow, STEP_COLUMNS, stepRows, type Value } from '../new-rows.ts';
import type { NewRun } from '../store.ts';
import { givenRows, TABLES } from '../tables.ts';
import { countRun } from './counts.ts';
import { insertPins } from './pins.ts';
import { fixed, type Port, Rows, sql } from './port.ts';
import { LAST_RUN } from './run-deliveries.ts';

const ownColumns = RUN_COLUMNS.slice(0, -INPUT_COLUMNS.length);
const runColumns = fixed(ownColumns.join(', '));
const stepColumns = fixed(STEP_COLUMNS.join(', '));
const asRun = fixed(givenRows(TABLES.runs.columns, ownColumns));
const asSteps = fixed(givenRows(TABLES.steps.columns, STEP_COLUMNS));

const lastRun = fixed(LAST_RUN);

const KEYS = {
  run: { owner: fixed('run'), given: fixed(givenRows(TABLES.run_keys.columns)) },
  delivery: { owner: fixed('delivery'), given: fixed(givenRows(TABLES.delivery_keys.columns)) },
};

/** Stores a single run, with the revisions that it pins: see `withPins`. */
export function insertRun(port: Port, run: NewRun, idempotencyKey: string | null = null): void {
  const { id, trigger } = run;
  const row = new Rows([runRow(run, idempotencyKey)]);
  port.later(sql`
    INSERT INTO sluice.runs (/*sqlite: seq, */ ${runColumns})
    SELECT /*sqlite: 1 + ${lastRun}, */ ${runColumns} FROM jsonb_to_recordset(${row}) ${asRun}`);
  port.later(sql`
    INSERT INTO sluice.run_inputs (run_id, content_type, headers, body)
    VALUES (${id}, ${trigger.contentType}, ${JSON.stringify(trigger.headers)}, ${trigger.body})`);
  const steps = stepRows(run, undefined);
  if (steps.length > 0) {
    port.later(sql`
      INSERT INTO sluice.steps (${stepColumns})
      SELECT ${stepColumns} FROM jsonb_to_recordset(${new Rows(steps)}) ${asSteps}`);
  }
  insertKeys(port, 'run', { id, keys: searchKeyRows(run.searchKeys) });
  if (run.pins !== undefined) insertPins(port, id, run.pins);
  countRun(port.count, run);
}

/** Stores the search keys of a run or a delivery. */
export function insertKeys(
  port: Port,
  of: keyof typeof KEYS,
  { id, keys }: { readonly id: Value; readonly keys: readonly SearchKeyRow[] },
): void {
  if (keys.length === 0) return;
  const { owner, given } = KEYS[of];
  const rows = new Rows(keys.map(([name, folded, value]) => ({ [`${of}_id`]: id, name, folded, value })));
  port.later(sql`
    INSERT INTO sluice.${owner}_keys (${owner}_id, name, folded, value)
    SELECT ${owner}_id, name, folded, value FROM jsonb_to_recordset(${rows}) ${given}`);
}
