import type { DeliveryRecord } from '../../model/delivery.ts';
import type { SearchKeys } from '../../model/search-keys.ts';
import { type SearchKeyRow, searchKeyRows } from '../../model/text.ts';
import { countDelivery, countRun } from '../decisions/counts.ts';
import { copyDeliveries } from '../decisions/run-deliveries.ts';
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
import { SQL_TYPES, TABLES } from '../tables.ts';
import { givenForm } from './arrays.ts';
import { partsOf } from './counters.ts';
import { type Part, type Row, type Sql, sendTogether } from './sql.ts';

/** A row, with the bytes of its body if it has one. */
type RowWithBody = Readonly<Record<string, Row[string] | Uint8Array>>;

/** Collects the deliveries and runs that one transaction inserts, and inserts all of them at once. */
export class NewRows {
  readonly #sql: Sql;
  readonly #deliveries: RowWithBody[] = [];
  readonly #runs: RowWithBody[] = [];
  readonly #steps: Row[] = [];
  readonly #pins: Row[] = [];
  readonly #shares: Row[] = [];
  readonly #copies: (readonly [runId: string, from: string])[] = [];
  readonly #keys = { delivery: [] as Row[], run: [] as Row[] };

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** The body is null if the run has it, or a held delivery, or if none was read. */
  addDelivery(delivery: DeliveryRecord, body: Uint8Array | null): void {
    const row = deliveryRow(delivery);
    const keys = searchKeyRows(delivery.searchKeys);
    const shares = shareRows(delivery.id, delivery.shares);
    const sharesBytes = shares.reduce((sum, share) => sum + bytesOf(share), 0);
    const keptBytes = bytesOf(row) + bytesOfKeys(keys) + sharesBytes + (body?.byteLength ?? 0) + ROW_BYTES;
    this.#shares.push(...shares);
    this.#deliveries.push({ ...row, kept_bytes: keptBytes, body });
    this.addKeys('delivery', delivery.id, delivery.searchKeys);
    const { violations } = row;
    const isRedelivered = row.redelivered_from !== null;
    countDelivery(this.#sql.port.count, { ...delivery, violations: String(violations), isRedelivered }, keptBytes);
  }

  /** Adds the run with the revisions that it pins: see `pinned`. */
  addRun(
    run: NewRun,
    { idempotencyKey = null, lease }: { idempotencyKey?: string | null; lease?: BirthLease | undefined },
  ) {
    this.#runs.push({ ...runRow(run, idempotencyKey), trigger_body: run.trigger.body });
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

  /** Sends all collected rows; later statements see them. */
  write(): void {
    const lists = [
      [INSERTS.deliveries, this.#deliveries],
      [INSERTS.runs, this.#runs],
      [INSERTS.steps, this.#steps],
      [INSERTS.run_pins, this.#pins],
      [INSERTS.delivery_keys, this.#keys.delivery],
      [INSERTS.delivery_shares, this.#shares],
      [INSERTS.run_keys, this.#keys.run],
    ] as const;
    const given = givenForm(lists.map(([, rows]) => rows));
    const inserts = lists.flatMap(([{ table, types }, rows]): Part[] => {
      const names = Object.keys(types).join(', ');
      const insert = `INSERT INTO sluice.${table} (${names}) SELECT ${names} FROM `;
      return rows.length === 0 ? [] : [(bind) => insert + given(types, rows, bind)];
    });
    sendTogether(this.#sql, [...inserts, ...partsOf(this.#sql.counts, this.#sql.slot)]);
    for (const [runId, from] of this.#copies) copyDeliveries(this.#sql.port, runId, from);
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

interface Insert {
  readonly table: keyof typeof TABLES;
  /** The written columns and their types. */
  readonly types: Readonly<Record<string, string>>;
}

function insertOf(table: keyof typeof TABLES, columns: readonly string[]): Insert {
  // The table of runs itself has the columns of what started a run.
  const known: Readonly<Record<string, keyof typeof SQL_TYPES>> = { ...TABLES[table].columns, trigger_body: 'bytes' };
  return { table, types: Object.fromEntries(columns.map((name) => [name, SQL_TYPES[known[name] ?? 'text']])) };
}

const INSERTS = {
  deliveries: insertOf('deliveries', [...DELIVERY_COLUMNS, 'kept_bytes', 'body']),
  runs: insertOf('runs', [...RUN_COLUMNS, 'trigger_body']),
  steps: insertOf('steps', STEP_COLUMNS),
  run_pins: insertOf('run_pins', ['run_id', 'flow_id', 'revision']),
  delivery_keys: insertOf('delivery_keys', ['delivery_id', 'name', 'folded', 'value']),
  delivery_shares: insertOf('delivery_shares', SHARE_COLUMNS),
  run_keys: insertOf('run_keys', ['run_id', 'name', 'folded', 'value']),
} as const;
