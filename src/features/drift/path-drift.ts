import type { PathDrift, PathType, PathUse } from './paths.ts';
import type { PathCount } from './store.ts';

/** Counts of deliveries of one event at one path, by hour and type. */
type CountedRow = Pick<PathCount, 'hour' | 'type' | 'count' | 'firstId' | 'lastId'>;

/** A count with the number of runs that failed because of the path. */
interface PathRow extends Omit<CountedRow, 'type'> {
  readonly type: PathType;
  readonly failed: number;
}

/** A drift, and the last usual delivery before it. */
export type FoundDrift = Omit<PathDrift, 'event' | 'path' | 'firstAt'> & { readonly lastUsualId: string };

/** Number of earlier deliveries that establish what is usual. */
const ENOUGH = 20;
/** Enough for a trigger with few deliveries, if they came over a week. */
const ENOUGH_IN_A_WEEK = 5;
const WEEK_HOURS = 7 * 24;
/** Part of them that must be alike: an exception in a hundred does not make a path optional. */
const ALIKE = 0.99;
/**
 * Number that must differ if each of their runs would fail because of it, or if the type changed: a single one may be a
 * test. One is enough if its run did fail and no usual delivery has come since.
 */
const SOME = 3;
/**
 * Number that must differ over a day, without a usual one, if the difference can be right: other kinds of deliveries
 * lack a path that is read under a condition, and null can mean that there is nothing. Deliveries of one kind come
 * together, and some kinds come at night.
 */
const MANY = 20;
const DAY_HOURS = 24;

/**
 * Finds out whether deliveries lack what they used to have. Reports late rather than wrongly: it ignores paths that
 * varied before or have few samples. A drift ends with the first usual delivery after a complete break, and with three
 * after a partial one; if runs failed for lack of the path, not before the next hour. Such a run is better evidence
 * than any number of deliveries without the path.
 */
export function findDrift(counted: readonly CountedRow[], use: PathUse): FoundDrift | undefined {
  const rows = counted.map(
    (row): PathRow =>
      row.type === 'failed' ? { ...row, type: 'absent', failed: row.count } : { ...row, type: row.type, failed: 0 },
  );
  // Most paths in most minutes.
  if (rows.every(({ type }) => type === rows[0]?.type)) return undefined;
  const [first, ...others] = spellsOf(rows);
  let before = first;
  for (const [cut, spell] of others.entries()) {
    if (before === undefined) break;
    const known = before;
    before = totalOf([known, spell]);
    const usual = usualType(known);
    if (usual === undefined || isPure(spell, usual)) continue;
    const drift = differenceIn(others.slice(cut), { usual, use, before: known });
    if (drift !== undefined) return drift;
  }
  return recentFailures(rows);
}

/**
 * Runs of the last hour that failed for lack of the path, although other deliveries had it by then: within an hour, we
 * cannot be sure that all deliveries are as usual again.
 */
function recentFailures(rows: readonly PathRow[]): FoundDrift | undefined {
  const lastHour = Math.max(...rows.map(({ hour }) => hour));
  const [failing, others] = [rows.filter(({ failed }) => failed > 0), rows.filter(({ failed }) => failed === 0)];
  const recent = failing.filter(({ hour }) => hour === lastHour);
  const failed = recent.reduce((sum, { count }) => sum + count, 0);
  if (failed < SOME || others.length === 0) return undefined;
  const known = totalOf(spellsOf(others));
  const was = usualType(known);
  if (was === undefined) return undefined;
  const firstId = recent.reduce((first, row) => least(first, row.firstId), recent[0]?.firstId ?? '');
  const earlier = others.map(({ lastId }) => lastId).filter((id) => id < firstId);
  const lastUsualId = earlier.reduce(greatest, earlier[0] ?? firstId);
  return { was, now: 'absent', firstId, before: countOf(known, was), differing: failed, failed, lastUsualId };
}

/** Consecutive deliveries, with the count of each type. */
interface Spell {
  readonly firstHour: number;
  readonly lastHour: number;
  readonly total: number;
  readonly types: ReadonlyMap<PathType, TypeRow>;
  readonly lastId: string;
}

type TypeRow = Pick<PathRow, 'count' | 'failed' | 'firstId' | 'lastId'>;

/** In order of arrival: separates deliveries whose ids do not overlap, even within an hour; joins those of one type. */
function spellsOf(rows: readonly PathRow[]): Spell[] {
  const spells: Spell[] = [];
  for (const row of rows.toSorted((one, other) => (one.firstId < other.firstId ? -1 : 1))) {
    const own = { firstHour: row.hour, lastHour: row.hour, total: row.count, types: new Map([[row.type, row]]) };
    const spell = { ...own, lastId: row.lastId };
    const last = spells.at(-1);
    const isAlike = last !== undefined && isPure(last, row.type);
    const isApart = last === undefined || (row.firstId > last.lastId && !isAlike);
    if (isApart) spells.push(spell);
    else spells[spells.length - 1] = totalOf([last, spell]);
  }
  return spells;
}

function totalOf(spells: readonly Spell[]): Spell {
  const types = new Map<PathType, TypeRow>();
  for (const [type, row] of spells.flatMap((spell) => [...spell.types])) {
    const known = types.get(type) ?? row;
    const isFirst = known === row;
    const count = isFirst ? row.count : known.count + row.count;
    const failed = isFirst ? row.failed : known.failed + row.failed;
    types.set(type, {
      count,
      failed,
      firstId: least(known.firstId, row.firstId),
      lastId: greatest(known.lastId, row.lastId),
    });
  }
  return {
    firstHour: Math.min(...spells.map(({ firstHour }) => firstHour)),
    lastHour: Math.max(...spells.map(({ lastHour }) => lastHour)),
    total: spells.reduce((sum, { total }) => sum + total, 0),
    types,
    lastId: spells.reduce((last, { lastId }) => greatest(last, lastId), ''),
  };
}

const least = (one: string, other: string): string => (one < other ? one : other);
const greatest = (one: string, other: string): string => (one > other ? one : other);

const countOf = ({ types }: Spell, type: PathType): number => types.get(type)?.count ?? 0;

const isPure = (spell: Spell, type: PathType): boolean => countOf(spell, type) === spell.total;

/** The type in nearly all deliveries; undefined if types varied, nothing was there, or deliveries are too few. */
function usualType(before: Spell): PathType | undefined {
  const isLong = before.lastHour - before.firstHour >= WEEK_HOURS;
  if (before.total < (isLong ? ENOUGH_IN_A_WEEK : ENOUGH)) return undefined;
  const [usual] = [...before.types.keys()].filter((type) => countOf(before, type) >= before.total * ALIKE);
  return usual === 'absent' || usual === 'null' || usual === 'mixed' ? undefined : usual;
}

interface Baseline {
  readonly usual: PathType;
  readonly use: PathUse;
  readonly before: Spell;
}

function differenceIn(spells: readonly Spell[], { usual, use, before }: Baseline): FoundDrift | undefined {
  const after = totalOf(spells);
  const [now, row] = [...after.types]
    .filter(([type]) => type !== usual)
    .reduce((one, other) => (other[1].count > one[1].count ? other : one));
  if (now === 'absent' && use === 'optional' && row.failed === 0) return undefined;
  const end = spells.at(-1);
  const isRecovering = end !== undefined && isPure(end, usual);
  const rest = isRecovering ? totalOf(spells.slice(0, -1)) : after;
  const isComplete = countOf(rest, usual) === 0;
  if (isRecovering && (isComplete || end.total >= SOME)) return undefined;
  const isCertain = row.failed > 0 || (now !== 'null' && (now !== 'absent' || use === 'required'));
  const fewest = row.failed > 0 && isComplete ? 1 : SOME;
  if (row.count < (isCertain ? fewest : MANY)) return undefined;
  if (!isCertain && (!isComplete || after.lastHour - after.firstHour < DAY_HOURS)) return undefined;
  if (row.failed < SOME && row.count * 2 <= after.total) return undefined;
  return {
    was: usual,
    now,
    firstId: row.firstId,
    before: countOf(before, usual),
    differing: row.count,
    failed: row.failed,
    lastUsualId: before.lastId,
  };
}
