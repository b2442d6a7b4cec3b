import type { DeliveryRecord } from '../../model/delivery.ts';
import type { SearchKeys } from '../../model/search-keys.ts';
import { type SearchKeyRow, searchKeyRows } from '../../model/text.ts';
import { copyDeliveries } from '../decisions/coalescing.ts';
import { countDelivery, countRun } from '../decisions/counts.ts';
import {
  DELIVERY_COLUMNS,
  deliveryRow,
  ROW_BYTES,
  RUN_COLUMNS,
  runRow,
  SHARE_COLUMNS,
  STEP_COLUMNS,
  shareRows,
  stepRows,
} from '../new-rows.ts';
import type { BirthLease, NewRun } from '../store.ts';
import { givenRows, TABLES } from '../tables.ts';
import { partsOf } from './counters.ts';
import { jsonRows, type Part, type Row, type Sql, sendTogether } from './sql.ts';

const deliveryColumns = [...DELIVERY_COLUMNS, 'kept_bytes'];

/** Collects the deliveries and runs that one transaction inserts, and inserts all of them at once. */
export class NewRows {
  readonly #sql: Sql;
  readonly #deliveries = new Rows();
  readonly #runs = new Rows();
  readonly #steps: Row[] = [];
  readonly #pins: Row[] = [];
  readonly #shares: Row[] = [];
  readonly #copies: (readonly [runId: string, from: string])[] = [];
  readonly #keys = { delivery: [] as Row[], run: [] as Row[] };

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** The body is null where the run has it, or a held delivery, or where none was read. */
  addDelivery(delivery: DeliveryRecord, body: Uint8Array | null): void {
    const row = deliveryRow(delivery);
    const keys = searchKeyRows(delivery.searchKeys);
    const shares = shareRows(delivery.id, delivery.shares);
    const sharesBytes = shares.reduce((sum, share) => sum + bytesOf(share), 0);
    const keptBytes = bytesOf(row) + bytesOfKeys(keys) + sharesBytes + (body?.byteLength ?? 0) + ROW_BYTES;
    this.#shares.push(...shares);
    this.#deliveries.add({ ...row, kept_bytes: keptBytes }, body);
    this.addKeys('delivery', delivery.id, delivery.searchKeys);
    const { violations } = row;
    const isRedelivered = row.redelivered_from !== null;
    countDelivery(this.#sql.port.count, { ...delivery, violations: String(violations), isRedelivered }, keptBytes);
  }

  /** With the revisions that it pins: see `pinned`. */
  addRun(
    run: NewRun,
    { idempotencyKey = null, lease }: { idempotencyKey?: string | null; lease?: BirthLease | undefined },
  ) {
    this.#runs.add(runRow(run, idempotencyKey), run.trigger.body);
    this.#steps.push(...stepRows(run, lease));
    this.addKeys('run', run.id, run.searchKeys);
    for (const [flowId, revision] of Object.entries(run.pins ?? {})) {
      this.#pins.push({ run_id: run.id, flow_id: flowId, revision });
    }
    if (run.deliveriesOf !== undefined) this.#copies.push([run.id, run.deliveriesOf]);
    countRun(this.#sql.port.count, run);
  }

  addKeys(owner: 'run' | 'delivery', ownerId: string, keys: SearchKeys | undefined): void {
    for (const [name, folded, value] of searchKeyRows(keys)) {
      this.#keys[owner].push({ [`${owner}_id`]: ownerId, name, folded, value });
    }
  }

  /** Sends all that was collected; what is sent later sees it. */
  write(): void {
    const parts = [
      ...(this.#deliveries.isEmpty
        ? []
        : [insertWithBodies('deliveries', { columns: deliveryColumns, body: 'body', rows: this.#deliveries })]),
      ...(this.#runs.isEmpty
        ? []
        : [insertWithBodies('runs', { columns: RUN_COLUMNS, body: 'trigger_body', rows: this.#runs })]),
      ...(this.#steps.length === 0 ? [] : [insertRows('steps', STEP_COLUMNS, this.#steps)]),
      ...(this.#pins.length === 0 ? [] : [insertRows('run_pins', ['run_id', 'flow_id', 'revision'], this.#pins)]),
      ...(this.#keys.delivery.length === 0
        ? []
        : [insertRows('delivery_keys', ['delivery_id', 'name', 'folded', 'value'], this.#keys.delivery)]),
      ...(this.#shares.length === 0 ? [] : [insertRows('delivery_shares', SHARE_COLUMNS, this.#shares)]),
      ...(this.#keys.run.length === 0
        ? []
        : [insertRows('run_keys', ['run_id', 'name', 'folded', 'value'], this.#keys.run)]),
      ...partsOf(this.#sql.counts, this.#sql.slot),
    ];
    sendTogether(this.#sql, parts);
    for (const [runId, from] of this.#copies) copyDeliveries(this.#sql.port, runId, from);
  }
}

/** Rows that travel as JSON, and their bodies as one string of bytes in which each row names its own. */
class Rows {
  readonly #rows: Row[] = [];
  readonly #bodies: Uint8Array[] = [];
  #bytes = 0;

  get isEmpty(): boolean {
    return this.#rows.length === 0;
  }

  add(row: Row, body: Uint8Array | null): void {
    this.#rows.push({ ...row, body_at: body === null ? null : this.#bytes + 1, body_length: body?.byteLength ?? null });
    if (body === null) return;
    this.#bodies.push(body);
    this.#bytes += body.byteLength;
  }

  get json(): string {
    return jsonRows(this.#rows);
  }

  get bodies(): Uint8Array {
    return Buffer.concat(this.#bodies);
  }
}

function bytesOf(row: Row): number {
  return Object.values(row).reduce<number>(
    (sum, value) => sum + (typeof value === 'string' ? Buffer.byteLength(value) : 0),
    0,
  );
}

function bytesOfKeys(keys: readonly SearchKeyRow[]): number {
  return keys.flat().reduce<number>((sum, text) => sum + Buffer.byteLength(text ?? ''), 0);
}

/** What inserts rows, whose columns have the types that their table has. */
function insertRows(table: keyof typeof TABLES, columns: readonly string[], rows: readonly Row[]): Part {
  const names = columns.join(', ');
  return (bind) => `
    INSERT INTO sluice.${table} (${names})
    SELECT ${names} FROM jsonb_to_recordset(${bind(jsonRows(rows))}) ${givenRows(TABLES[table].columns, columns)}`;
}

/** The same with bodies, in the column that is named. */
function insertWithBodies(
  table: keyof typeof TABLES,
  { columns, body, rows }: { columns: readonly string[]; body: string; rows: Rows },
): Part {
  const names = columns.join(', ');
  const given = givenRows(TABLES[table].columns, columns).slice(0, -1);
  return (bind) => `
    INSERT INTO sluice.${table} (${names}, ${body})
    SELECT ${names}, substring(${bind(rows.bodies)}::bytea FROM body_at FOR body_length)
    FROM jsonb_to_recordset(${bind(rows.json)}) ${given}, body_at integer, body_length integer)`;
}
