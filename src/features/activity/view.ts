import type { Store } from '../../store/store.ts';
import type { ActivityFault, CheckedInterventions } from './chain.ts';
import { activityStore, type Intervention } from './store.ts';

export const OUTCOMES = ['done', 'refused', 'failed', 'unknown'] as const;

/** An intervention as people and programs read it. */
export interface InterventionView extends Omit<Intervention, 'at' | 'details'> {
  readonly at: string;
  readonly details: Record<string, string>;
  readonly outcome: (typeof OUTCOMES)[number];
}

export function interventionView({ at, details, ...kept }: Intervention): InterventionView {
  return { ...kept, at: new Date(at).toISOString(), details: { ...details }, outcome: outcomeOf(kept.statusCode) };
}

function outcomeOf(statusCode: number | null): InterventionView['outcome'] {
  if (statusCode === null) return 'unknown';
  if (statusCode < 400) return 'done';
  return statusCode < 500 ? 'refused' : 'failed';
}

/** A row of the activity log, and its hash. */
export interface ChainPoint {
  readonly seq: number;
  readonly hash: string;
}

interface FaultView extends Omit<ActivityFault, 'row'> {
  /** The row as it is now; null if there is none. */
  readonly row: (Omit<NonNullable<ActivityFault['row']>, 'at'> & { readonly at: string }) | null;
}

/** The result of a check of the activity log. */
export interface ActivityVerdict {
  /** `unknown` if some rows have a key that was not given, and the others are whole. */
  readonly verdict: 'whole' | 'broken' | 'unknown';
  readonly rows: number;
  /** Anyone who can write to the database could have made these rows. */
  readonly rowsWithoutKey: number;
  readonly rowsOfOtherKeys: number;
  /** The last row that retention removed, and the newest row; null if there is none. */
  readonly removed: ChainPoint | null;
  readonly newest: ChainPoint | null;
  readonly faults: readonly FaultView[];
  /** Number of faults that `faults` leaves out. */
  readonly moreFaults: number;
}

const ROWS_AT_ONCE = 1000;
const MAX_FAULTS = 100;

/** Checks the whole log. `expected` is a row that an earlier check called the newest: it must still be there. */
export async function verifyActivity(store: Pick<Store, 'of'>, expected?: ChainPoint): Promise<ActivityVerdict> {
  const faults: ActivityFault[] = [];
  let [rows, withoutKey, otherKey] = [0, 0, 0];
  let checked: CheckedInterventions;
  let isExpectedMet = expected === undefined;
  let from: CheckedInterventions['next'] = null;
  do {
    const left = expected === undefined || isExpectedMet ? ROWS_AT_ONCE : expected.seq - (from?.last.seq ?? 0);
    const limit = Math.max(1, Math.min(ROWS_AT_ONCE, left));
    checked = await store.of(activityStore).checkInterventions({ from: from ?? undefined, limit });
    rows += checked.rows;
    withoutKey += checked.withoutKey;
    otherKey += checked.otherKey;
    faults.push(...checked.faults);
    from = checked.next;
    isExpectedMet ||= from?.last.seq === expected?.seq && from?.last.hash === expected?.hash;
  } while (from !== null);
  const { ends } = checked;
  const removed = ends === null || ends.removedSeq === 0 ? null : { seq: ends.removedSeq, hash: ends.removedHash };
  if (expected !== undefined && !isExpectedMet && !isGone(expected, removed)) {
    const message = `row ${expected.seq} is not the one that it was: rows were changed or removed`;
    faults.push({ kind: 'changed', seq: expected.seq, row: null, message });
  }
  return {
    verdict: faults.length > 0 ? 'broken' : otherKey > 0 ? 'unknown' : 'whole',
    rows,
    rowsWithoutKey: withoutKey,
    rowsOfOtherKeys: otherKey,
    removed,
    newest: ends === null || ends.newestSeq === 0 ? null : { seq: ends.newestSeq, hash: ends.newestHash },
    faults: faults
      .slice(0, MAX_FAULTS)
      .map(({ row, ...fault }) => ({ ...fault, row: row && { ...row, at: new Date(row.at).toISOString() } })),
    moreFaults: Math.max(0, faults.length - MAX_FAULTS),
  };
}

/** Whether retention removed it: the last row that was removed is this one, or a later one. */
function isGone({ seq, hash }: ChainPoint, removed: ChainPoint | null): boolean {
  return removed !== null && (seq < removed.seq || (seq === removed.seq && hash === removed.hash));
}
