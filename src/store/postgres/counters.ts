import { HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import type { DeliveryRecord } from '../../model/delivery.ts';
import type { RunStatus } from '../../model/manifest.ts';
import { roundDuration } from '../durations.ts';
import { jsonRows, type Part, type Sql, sendTogether } from './sql.ts';

/** Tables whose `count` is raised: the columns of their key but for the slot, with their types. */
const SUMS = {
  delivery_totals: 'flow_id text, reason text, rejected boolean',
  run_totals: 'flow_id text, status text',
  run_starts: 'hour bigint, flow_id text, status text',
  run_ends: 'hour bigint, flow_id text, status text',
  run_durations: 'flow_id text, hour bigint, duration_ms bigint',
} as const;

type SumTable = keyof typeof SUMS;
type Key = readonly (string | number | boolean)[];

/** Rows that are kept within bounds: records of refused deliveries, and deliveries that are held. */
export type BoundedKind = 'refused' | 'held';

interface MinuteCount {
  readonly minute: number;
  readonly reason: string;
  readonly rejected: boolean;
  count: number;
  first_id: string;
  last_id: string;
}

interface HourCount extends Omit<MinuteCount, 'minute'> {
  readonly hour: number;
  readonly flow_id: string;
  readonly trigger_key: string;
  readonly mode: string;
  readonly violations: string;
  readonly redelivered: boolean;
  previous_key: number;
  first_at: number;
}

interface KeyCount {
  readonly flow_id: string;
  readonly trigger_key: string;
  readonly key_name: string;
  readonly hour: number;
  count: number;
  last_at: number;
  last_id: string;
}

interface SizeCount {
  readonly kind: BoundedKind;
  readonly rows: number;
  readonly bytes: number;
}

interface TriggerName {
  readonly flowId: string;
  readonly triggerKey: string;
}

/** A run as it is counted. */
export interface TalliedRun {
  readonly flowId: string;
  readonly status: RunStatus;
  readonly startedAt: number;
  readonly completedAt: number | null;
}

/**
 * Collects what one transaction counts, and parts it once for each key.
 *
 * Counts go to rows of the writer's own slot, so that no transaction waits for another one's row, and readers add the
 * slots up. A slot alone may hold a negative count: what one writer counted another may take back.
 */
export class Counters {
  readonly #sums = new Map<SumTable, Map<string, { readonly key: Key; by: number }>>();
  readonly #minutes = new Map<string, MinuteCount>();
  readonly #hours = new Map<string, HourCount>();
  readonly #keys = new Map<string, KeyCount>();
  readonly #sizes = new Map<BoundedKind, SizeCount>();

  /** Counts a delivery in its minute and hour, which outlive its record, and its record. */
  deliveryAdded(delivery: DeliveryRecord, keptBytes: number): void {
    this.recordsChanged({ ...delivery, isBounded: delivery.runId === null }, { rows: 1, bytes: keptBytes });
    const { id, receivedAt, rejected, mode, usedPreviousKey, redeliveredFrom } = delivery;
    const reason = delivery.reason ?? '';
    const minute = Math.floor(receivedAt / MINUTE_MS);
    const row = { reason, rejected, count: 1, first_id: id, last_id: id };
    merge(this.#minutes, JSON.stringify([minute, reason, rejected]), { minute, ...row });
    const hour = Math.floor(receivedAt / HOUR_MS);
    const [flow_id, trigger_key] = [delivery.flowId ?? '', delivery.triggerKey ?? ''];
    const violations = JSON.stringify(delivery.violations);
    const redelivered = redeliveredFrom !== undefined;
    const key = JSON.stringify([hour, flow_id, trigger_key, mode, reason, violations, rejected, redelivered]);
    const previous_key = Number(usedPreviousKey);
    const added = { hour, flow_id, trigger_key, mode, violations, redelivered, previous_key, first_at: receivedAt };
    const into = merge(this.#hours, key, { ...row, ...added });
    if (into === undefined) return;
    into.previous_key += previous_key;
    into.first_at = Math.min(into.first_at, receivedAt);
  }

  /** Counts an accepted delivery for the key that verified it. */
  keyUsed({ id, receivedAt }: DeliveryRecord, { flowId, triggerKey }: TriggerName, keyName: string): void {
    const hour = Math.floor(receivedAt / HOUR_MS);
    const key = JSON.stringify([flowId, triggerKey, keyName, hour]);
    const known = this.#keys.get(key);
    if (known === undefined) {
      const name = { flow_id: flowId, trigger_key: triggerKey, key_name: keyName };
      this.#keys.set(key, { ...name, hour, count: 1, last_at: receivedAt, last_id: id });
      return;
    }
    known.count += 1;
    known.last_at = Math.max(known.last_at, receivedAt);
    if (id > known.last_id) known.last_id = id;
  }

  /** Counts records that there are more, or fewer. Those that started no run are bounded. */
  recordsChanged(
    record: Pick<DeliveryRecord, 'flowId' | 'reason' | 'rejected'> & { readonly isBounded: boolean },
    by: { readonly rows: number; readonly bytes: number },
  ): void {
    this.#add('delivery_totals', [record.flowId ?? '', record.reason ?? '', record.rejected], by.rows);
    if (record.isBounded) this.sized('refused', by);
  }

  /** Counts bounded rows that there are more, or fewer. */
  sized(kind: BoundedKind, { rows, bytes }: { readonly rows: number; readonly bytes: number }): void {
    const size = this.#sizes.get(kind) ?? { rows: 0, bytes: 0 };
    this.#sizes.set(kind, { kind, rows: size.rows + rows, bytes: size.bytes + bytes });
  }

  runAdded(run: TalliedRun): void {
    this.#add('run_totals', [run.flowId, run.status], 1);
    if (run.status !== 'Running') this.#addEnded(run, 1);
  }

  /** Counts runs that are deleted. What they took and when stays counted. */
  runsRemoved({ flowId, status }: Pick<TalliedRun, 'flowId' | 'status'>, count: number): void {
    this.#add('run_totals', [flowId, status], -count);
  }

  /** Counts the end of a run that was in flight; it is given as it is now. */
  runEnded(run: TalliedRun): void {
    this.#add('run_totals', [run.flowId, 'Running'], -1);
    this.#add('run_totals', [run.flowId, run.status], 1);
    this.#addEnded(run, 1);
  }

  /** Takes back the end of a run that is in flight again; it is given as it was, and may have been in flight. */
  runReopened(run: TalliedRun): void {
    if (run.status === 'Running') return;
    this.#add('run_totals', [run.flowId, run.status], -1);
    this.#add('run_totals', [run.flowId, 'Running'], 1);
    this.#addEnded(run, -1);
  }

  /** Sends what adds all that was counted so far to what is stored, and starts again from nothing. */
  write(sql: Sql): void {
    sendTogether(sql, this.takeParts(sql.slot));
  }

  /** The same, to be sent together with others. */
  takeParts(slot: number): Part[] {
    const parts = [
      // In one order, or two transactions of one slot could block each other.
      ...(Object.keys(SUMS) as SumTable[]).map((table) => addSums(table, this.#sums.get(table) ?? new Map(), slot)),
      addMinutes(sorted(this.#minutes), slot),
      addHours(sorted(this.#hours), slot),
      addKeys(sorted(this.#keys), slot),
      addSizes(sorted(this.#sizes), slot),
    ];
    this.#sums.clear();
    this.#minutes.clear();
    this.#hours.clear();
    this.#keys.clear();
    this.#sizes.clear();
    return parts.filter((part) => part !== undefined);
  }

  #addEnded({ flowId, status, startedAt, completedAt }: TalliedRun, by: 1 | -1): void {
    const endedAt = completedAt ?? startedAt;
    const startHour = Math.floor(startedAt / HOUR_MS);
    const durationMs = roundDuration(endedAt - startedAt);
    this.#add('run_starts', [startHour, flowId, status], by);
    this.#add('run_ends', [Math.floor(endedAt / HOUR_MS), flowId, status], by);
    this.#add('run_durations', [flowId, startHour, durationMs], by);
    this.#add('run_durations', ['', startHour, durationMs], by);
  }

  #add(table: SumTable, key: Key, by: number): void {
    const sums = this.#sums.get(table) ?? new Map<string, { readonly key: Key; by: number }>();
    this.#sums.set(table, sums);
    const name = JSON.stringify(key);
    const sum = sums.get(name);
    if (sum === undefined) sums.set(name, { key, by });
    else sum.by += by;
  }
}

function merge<Row extends Omit<MinuteCount, 'minute'>>(
  rows: Map<string, Row>,
  key: string,
  row: Row,
): Row | undefined {
  const into = rows.get(key);
  if (into === undefined) {
    rows.set(key, row);
    return undefined;
  }
  into.count += row.count;
  if (row.first_id < into.first_id) into.first_id = row.first_id;
  if (row.last_id > into.last_id) into.last_id = row.last_id;
  return into;
}

/** Rows in the order of their keys: two transactions that share a slot lock them in the same order. */
function sorted<Row>(rows: ReadonlyMap<string, Row>): Row[] {
  return [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}

function addSums(
  table: SumTable,
  sums: ReadonlyMap<string, { readonly key: Key; readonly by: number }>,
  slot: number,
): Part | undefined {
  const names = SUMS[table].split(', ').map((column) => column.slice(0, column.indexOf(' ')));
  const rows = sorted(sums)
    .filter(({ by }) => by !== 0)
    .map(({ key, by }) => ({ ...Object.fromEntries(names.map((name, at) => [name, key[at]])), by }));
  if (rows.length === 0) return undefined;
  return (bind) => `
    INSERT INTO sluice.${table} AS t (${names.join(', ')}, slot, count)
    SELECT ${names.join(', ')}, ${bind(slot)}, by
    FROM jsonb_to_recordset(${bind(jsonRows(rows))}) AS given (${SUMS[table]}, by bigint)
    ON CONFLICT (${names.join(', ')}, slot) DO UPDATE SET count = t.count + excluded.count`;
}

function addMinutes(rows: readonly MinuteCount[], slot: number): Part | undefined {
  if (rows.length === 0) return undefined;
  return (bind) => `
    INSERT INTO sluice.delivery_counts AS t (minute, reason, rejected, slot, count, first_id, last_id)
    SELECT minute, reason, rejected, ${bind(slot)}, count, first_id, last_id
    FROM jsonb_to_recordset(${bind(jsonRows(rows))}) AS given (
      minute bigint, reason text, rejected boolean, count bigint, first_id uuid, last_id uuid
    )
    ON CONFLICT (minute, reason, rejected, slot) DO UPDATE SET count = t.count + excluded.count,
      first_id = least(t.first_id, excluded.first_id), last_id = greatest(t.last_id, excluded.last_id)`;
}

function addHours(rows: readonly HourCount[], slot: number): Part | undefined {
  if (rows.length === 0) return undefined;
  const key = 'hour, flow_id, trigger_key, mode, reason, violations, rejected, redelivered';
  const counts = 'count, previous_key, first_at, first_id, last_id';
  return (bind) => `
    INSERT INTO sluice.delivery_hours AS t (${key}, slot, ${counts})
    SELECT ${key}, ${bind(slot)}, ${counts}
    FROM jsonb_to_recordset(${bind(jsonRows(rows))}) AS given (
      hour bigint, flow_id text, trigger_key text, mode text, reason text, violations text, rejected boolean,
      redelivered boolean, count bigint, previous_key bigint, first_at bigint, first_id uuid, last_id uuid
    )
    ON CONFLICT (${key}, slot) DO UPDATE SET count = t.count + excluded.count,
      previous_key = t.previous_key + excluded.previous_key, first_at = least(t.first_at, excluded.first_at),
      first_id = least(t.first_id, excluded.first_id), last_id = greatest(t.last_id, excluded.last_id)`;
}

function addKeys(rows: readonly KeyCount[], slot: number): Part | undefined {
  if (rows.length === 0) return undefined;
  const key = 'flow_id, trigger_key, key_name, hour';
  return (bind) => `
    INSERT INTO sluice.key_hours AS t (${key}, slot, count, last_at, last_id)
    SELECT ${key}, ${bind(slot)}, count, last_at, last_id
    FROM jsonb_to_recordset(${bind(jsonRows(rows))}) AS given (
      flow_id text, trigger_key text, key_name text, hour bigint, count bigint, last_at bigint, last_id uuid
    )
    ON CONFLICT (${key}, slot) DO UPDATE SET count = t.count + excluded.count,
      last_at = greatest(t.last_at, excluded.last_at), last_id = greatest(t.last_id, excluded.last_id)`;
}

function addSizes(rows: readonly SizeCount[], slot: number): Part | undefined {
  if (rows.length === 0) return undefined;
  return (bind) => `
    INSERT INTO sluice.kept_sizes AS t (kind, slot, rows, bytes)
    SELECT kind, ${bind(slot)}, given.rows, bytes
    FROM jsonb_to_recordset(${bind(jsonRows(rows))}) AS given (kind text, rows bigint, bytes bigint)
    ON CONFLICT (kind, slot) DO UPDATE SET rows = t.rows + excluded.rows, bytes = t.bytes + excluded.bytes`;
}
