import { ANYTHING, kindOfError } from '../../model/error-kind.ts';
import { toError } from '../json-columns.ts';
import type { CauseFilter, FailureGroup, FailureGroups, RunFilter, TrendRange } from '../store.ts';
import { isLike, SEARCHED_ROWS } from './lists.ts';
import { type FixedText, fixed, joined, type Query, sql } from './port.ts';

/*
 * Causes of failed steps. They are read from the steps' errors, which are JSON: text of this form never occurs within a
 * value, since quotation marks there are escaped.
 */

/** The code of a step's error, without characters that JSON escapes. An index of failed steps has the same text. */
const codeOfStep = fixed(`(split_part(split_part(error, '"code":"', 2), '"', 1) COLLATE "C")`);
const newest = fixed(String(SEARCHED_ROWS));
/** No index has hosts and messages: SQLite looks at this many in 250 ms. */
const newestRead = fixed('30000');

/** Whether a step `s`, outside of loops, failed like this, as far as indexes show it. */
function indexed({ step, code }: CauseFilter): Query[] {
  return [
    sql`s.status = 'Failed' AND strpos(s.step_key, '.') = 0`,
    ...(step === undefined ? [] : [sql`s.step_key = ${step}`]),
    ...(code === undefined ? [] : [sql`${codeOfStep} = ${code}`]),
  ];
}

/** The conditions that only the error itself shows. */
function read({ host, error }: CauseFilter): Query[] {
  return [
    ...(host === undefined ? [] : [hasHost(host.toLowerCase())]),
    ...(error === undefined ? [] : [hasMessage(error)]),
  ];
}

const hasFailedBy = (cause: CauseFilter) => joined([...indexed(cause), ...read(cause)], ' AND ');

function hasHost(host: string): Query {
  const origins = host.includes('://') ? [host] : [`https://${host}`, `http://${host}`];
  const conditions = origins.map((origin) => sql`strpos(error, ${`"host":${JSON.stringify(origin)}`}) > 0`);
  return sql`(${joined(conditions, ' OR ')})`;
}

function hasMessage(text: string): Query {
  const parts = text.split(ANYTHING).map((part) => JSON.stringify(part).slice(1, -1));
  return isLike('error', ['"message":"', ...parts, '"retryable":']);
}

/** Selects places of the runs with the newest steps that failed like this, among runs that match the filter. */
export function runsFailedBy(
  cause: CauseFilter,
  { flowId, flowIds, withoutFlow, status, since, until }: RunFilter,
  place: FixedText,
): Query {
  const conditions = [
    ...indexed(cause),
    ...(flowId === undefined ? [] : [sql`s.flow_id = ${flowId}`]),
    ...(flowIds === undefined ? [] : [sql`s.flow_id = ANY (${flowIds})`]),
    ...(withoutFlow === undefined ? [] : [sql`s.flow_id <> ${withoutFlow}`]),
    ...(status === undefined ? [] : [sql`r.status = ${status}`]),
    ...(since === undefined ? [] : [sql`r.started_at >= ${since}`]),
    ...(until === undefined ? [] : [sql`r.started_at < ${until}`]),
  ];
  const matching = sql`FROM sluice.steps AS s /*sqlite: CROSS */ JOIN sluice.runs AS r ON r.id = s.run_id
    WHERE ${joined(conditions, ' AND ')}`;
  const ofError = read(cause);
  // Ids grow as runs start, so the greatest are the newest.
  if (ofError.length === 0) return sql`SELECT r.${place} ${matching} ORDER BY s.run_id DESC LIMIT ${newest}`;
  return sql`
    SELECT place FROM (
      SELECT r.${place} AS place, s.run_id, error ${matching} ORDER BY s.run_id DESC LIMIT ${newestRead}
    ) AS failed WHERE ${joined(ofError, ' AND ')} ORDER BY run_id DESC LIMIT ${newest}`;
}

export interface FailedStepRow {
  readonly flowId: string;
  readonly step: string;
  readonly error: string | null;
  readonly at: number;
  readonly startedAt: number;
}

/** Selects the failed steps of runs, given as rows called `found`. */
export function failedStepsOf(runs: Query, cause: CauseFilter, place: FixedText): Query {
  return sql`
    SELECT s.flow_id AS "flowId", s.step_key AS step, error, s.completed_at AS at, r.started_at AS "startedAt"
    FROM ${runs} /*sqlite: CROSS */ JOIN sluice.runs AS r ON r.${place} = found.place
    /*sqlite: CROSS */ JOIN sluice.steps AS s ON s.run_id = r.id
    WHERE ${hasFailedBy(cause)} ORDER BY s.run_id DESC, s.step_key LIMIT ${newest}`;
}

/** More than a person reads. */
const MAX_GROUPS = 500;

interface OpenGroup extends FailureGroup {
  count: number;
  firstAt: number;
  lastAt: number;
  readonly trend: number[];
}

export function groupsOf(rows: readonly FailedStepRow[], trend: TrendRange): FailureGroups {
  const groups = new Map<string, OpenGroup>();
  for (const { flowId, step, error: text, at } of rows) {
    const { code = 'internal_error', message = '', host = null } = toError(text) ?? {};
    const cause = { flowId, step, code, host, error: kindOfError(message) };
    const key = JSON.stringify(Object.values(cause));
    const empty = { ...cause, count: 0, firstAt: at, lastAt: at, trend: Array<number>(trend.parts).fill(0) };
    const group: OpenGroup = groups.get(key) ?? empty;
    groups.set(key, group);
    group.count += 1;
    group.firstAt = Math.min(group.firstAt, at);
    group.lastAt = Math.max(group.lastAt, at);
    const part = Math.floor(((at - trend.since) / (trend.until - trend.since)) * trend.parts);
    if (part in group.trend) group.trend[part] = (group.trend[part] ?? 0) + 1;
  }
  const frequent = [...groups.values()].sort((a, b) => b.count - a.count || b.lastAt - a.lastAt).slice(0, MAX_GROUPS);
  if (rows.length < SEARCHED_ROWS) return { groups: frequent };
  return { groups: frequent, searchedUntil: Math.min(...rows.map(({ startedAt }) => startedAt)) };
}
