import { HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import { ALERT_FLOW_ID, type EnforcementMode, type RunStatus } from '../../model/manifest.ts';
import { roundDuration } from '../durations.ts';
import { type ColumnType, type CountName, TABLES, type Table } from '../tables.ts';

/** Sizes of bounded rows are counted like all else, under their kind: `refused` or `held`. */
export type CountTable = CountName | 'kept_sizes';

type Key = readonly (string | number | boolean)[];
type Amounts = Readonly<Record<string, number | string>>;

/** Adds to the row with that key, the values of the table's key columns in order; before the transaction commits. */
export type Count = (table: CountTable, key: Key, amounts: Amounts) => void;

interface CountColumn {
  readonly name: string;
  readonly merge: 'sum' | 'least' | 'greatest';
}

interface CountedTable {
  readonly key: readonly string[];
  readonly amounts: readonly CountColumn[];
  readonly types: Readonly<Record<string, ColumnType>>;
}

/** The name of a count's column decides how it is added. */
function countedTable({ key, columns }: Table): CountedTable {
  const names = Object.keys(columns).filter((name) => !key.includes(name));
  const mergeOf = (name: string) =>
    name.startsWith('first_') ? 'least' : name.startsWith('last_') ? 'greatest' : 'sum';
  return { key, amounts: names.map((name) => ({ name, merge: mergeOf(name) })), types: columns };
}

/** In the order in which one transaction writes them: in different orders, two of one slot could block each other. */
export const COUNTED: Readonly<Record<CountTable, CountedTable>> = {
  delivery_totals: countedTable(TABLES.delivery_totals),
  run_totals: countedTable(TABLES.run_totals),
  run_starts: countedTable(TABLES.run_starts),
  run_ends: countedTable(TABLES.run_ends),
  run_durations: countedTable(TABLES.run_durations),
  delivery_counts: countedTable(TABLES.delivery_counts),
  delivery_hours: countedTable(TABLES.delivery_hours),
  key_hours: countedTable(TABLES.key_hours),
  kept_sizes: countedTable({ key: ['kind'], columns: { kind: 'text', rows: 'integer', bytes: 'integer' } }),
};

export interface CountedRow {
  readonly key: Key;
  readonly amounts: Record<string, number | string>;
}

/** Collects counts, one row for each key: dozens of deliveries share a transaction, and nearly all of their keys. */
export class CollectedCounts {
  readonly #tables = new Map<CountTable, Map<string, CountedRow>>();

  readonly add: Count = (table, key, amounts) => {
    const rows = this.#tables.get(table) ?? new Map<string, CountedRow>();
    this.#tables.set(table, rows);
    const name = JSON.stringify(key);
    const into = rows.get(name)?.amounts;
    if (into === undefined) {
      rows.set(name, { key, amounts: { ...amounts } });
      return;
    }
    for (const { name: column, merge } of COUNTED[table].amounts) {
      const [was, is] = [into[column] ?? 0, amounts[column] ?? 0];
      if (merge === 'sum') into[column] = Number(was) + Number(is);
      else if (merge === 'least' ? is < was : is > was) into[column] = is;
    }
  };

  /** Yields the rows of each table in the order of their keys, without rows that add nothing, and forgets them. */
  take(): { readonly table: CountTable; readonly rows: readonly CountedRow[] }[] {
    const taken = (Object.keys(COUNTED) as CountTable[]).flatMap((table) => {
      const rows = [...(this.#tables.get(table) ?? [])]
        .filter(([, { amounts }]) => Object.values(amounts).some((amount) => amount !== 0))
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([, row]) => row);
      return rows.length === 0 ? [] : [{ table, rows }];
    });
    this.#tables.clear();
    return taken;
  }
}

/** By how much bounded rows grow, or shrink. */
interface SizeChange {
  readonly rows: number;
  readonly bytes: number;
}

interface CountedRecord {
  readonly flowId: string | null;
  readonly reason: string | null;
  readonly rejected: boolean;
}

/** The facts about a delivery that are counted. */
interface CountedDelivery extends CountedRecord {
  readonly id: string;
  readonly triggerKey: string | null;
  readonly receivedAt: number;
  readonly mode: EnforcementMode;
  /** As JSON text. */
  readonly violations: string;
  readonly usedPreviousKey: boolean;
  readonly isRedelivered: boolean;
  readonly runId: string | null;
  readonly outcome?: string | null | undefined;
}

/** Counts a delivery in its minute and hour, which outlive its record, and its record. */
export function countDelivery(count: Count, delivery: CountedDelivery, keptBytes: number): void {
  const { id, flowId, triggerKey, receivedAt, mode, reason, rejected, violations, isRedelivered } = delivery;
  // The same condition as for the removal of records.
  const isBounded = delivery.runId === null && (delivery.outcome ?? null) === null;
  countRecords(count, { ...delivery, isBounded }, { rows: 1, bytes: keptBytes });
  const cause = reason ?? '';
  const ids = { first_id: id, last_id: id };
  count('delivery_counts', [Math.floor(receivedAt / MINUTE_MS), cause, rejected], { count: 1, ...ids });
  count(
    'delivery_hours',
    [hourOf(receivedAt), flowId ?? '', triggerKey ?? '', mode, cause, violations, rejected, isRedelivered],
    { count: 1, previous_key: Number(delivery.usedPreviousKey), first_at: receivedAt, ...ids },
  );
}

/** Counts additional or removed records. Only records that started no run are bounded. */
export function countRecords(
  count: Count,
  { flowId, reason, rejected, isBounded }: CountedRecord & { readonly isBounded: boolean },
  by: SizeChange,
): void {
  count('delivery_totals', [flowId ?? '', reason ?? '', rejected], { count: by.rows });
  if (isBounded) count('kept_sizes', ['refused'], { rows: by.rows, bytes: by.bytes });
}

interface KeyUse {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly keyName: string;
  readonly at: number;
  readonly id: string;
}

/** Counts an accepted delivery for the key that verified it. */
export function countKeyUse(count: Count, { flowId, triggerKey, keyName, at, id }: KeyUse): void {
  count('key_hours', [flowId, triggerKey, keyName, hourOf(at)], { count: 1, last_at: at, last_id: id });
}

/** The facts about a run that are counted. */
export interface CountedRun {
  readonly flowId: string;
  readonly status: RunStatus;
  readonly startedAt: number;
  readonly completedAt: number | null;
}

export function countRun(count: Count, run: CountedRun): void {
  count('run_totals', [run.flowId, run.status], { count: 1 });
  if (run.status !== 'Running') countEnded(count, run, 1);
}

/** Counts the end of a run that was in flight; the run is given as it is now. */
export function countRunEnd(count: Count, run: CountedRun): void {
  count('run_totals', [run.flowId, 'Running'], { count: -1 });
  countRun(count, run);
}

/** Reverts the count of a run's end, since it is in flight again; takes the run as it was, maybe in flight then too. */
export function countRunReopened(count: Count, run: CountedRun): void {
  if (run.status === 'Running') return;
  count('run_totals', [run.flowId, run.status], { count: -1 });
  count('run_totals', [run.flowId, 'Running'], { count: 1 });
  countEnded(count, run, -1);
}

/** Counts a deleted run. When it ran, and for how long, stays counted. */
export function countRunRemoved(count: Count, { flowId, status }: Pick<CountedRun, 'flowId' | 'status'>): void {
  count('run_totals', [flowId, status], { count: -1 });
}

function countEnded(count: Count, { flowId, status, startedAt, completedAt }: CountedRun, by: 1 | -1): void {
  const endedAt = completedAt ?? startedAt;
  const startHour = hourOf(startedAt);
  const durationMs = roundDuration(endedAt - startedAt);
  count('run_starts', [startHour, flowId, status], { count: by });
  count('run_ends', [hourOf(endedAt), flowId, status], { count: by });
  count('run_durations', [flowId, startHour, durationMs], { count: by });
  // Figures of all flows leave out Sluice's own flow.
  if (flowId !== ALERT_FLOW_ID) count('run_durations', ['', startHour, durationMs], { count: by });
}

function hourOf(at: number): number {
  return Math.floor(at / HOUR_MS);
}
