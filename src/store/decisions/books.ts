import { DETAILS } from '../../model/delivery.ts';
import type { Books } from '../store.ts';
import type { Decision } from './decision.ts';
import { idsWithin } from './deliveries.ts';
import { filter } from './lists.ts';
import { fixed, joined, type Port, sql } from './port.ts';
import type { Given, Verbs } from './verb.ts';

/** In the words of its index. */
const isDiscarded = fixed(`strpos(first.detail, '${DETAILS.discarded}') = 1`);

/** What may have become of a delivery that was accepted; `left` is none of them. */
interface Fates extends Omit<Books, 'unaccounted'> {
  readonly left: number;
}

/** From the tables alone, so that a counter that is wrong cannot hide what is missing. */
function* countBooks(port: Port, span: Given<'countBooks'>): Decision<Books> {
  const conditions = [
    yield* idsWithin(port, span),
    filter.within('received_at', span),
    sql`status_code BETWEEN 200 AND 299`,
    sql`(run_id IS NOT NULL OR strpos(coalesce(detail, ''), ${DETAILS.handshake}) <> 1)`,
  ];
  const accepted = sql`SELECT id, run_id, detail FROM sluice.deliveries WHERE ${joined(
    conditions.filter((condition) => condition !== undefined),
    ' AND ',
  )}`;
  const fates = sql`
    SELECT d.run_id, CASE
        WHEN r.delivery_id = d.id THEN 'run'
        WHEN EXISTS (SELECT 1 FROM sluice.held_deliveries AS h WHERE h.delivery_id = d.id) THEN 'held'
        WHEN strpos(d.detail, ${DETAILS.discarded}) = 1 THEN 'discarded'
        WHEN r.id IS NOT NULL THEN 'duplicate'
        ELSE 'left' END AS fate
    FROM (${accepted}) AS d LEFT JOIN sluice.runs AS r ON r.id = d.run_id`;
  const row = yield* port.get<Fates>(sql`
    SELECT count(*) AS accepted, count(*) FILTER (WHERE fate = 'run') AS runs,
      count(*) FILTER (WHERE fate = 'held') AS held, count(*) FILTER (WHERE fate = 'discarded') AS discarded,
      count(*) FILTER (WHERE fate = 'duplicate') AS duplicates, count(*) FILTER (WHERE fate = 'left') AS left
    FROM (${fates}) AS told`);
  if (row === undefined) throw new Error('A count has no row.');
  const { left, ...books } = row;
  if (left === 0) return { ...books, unaccounted: 0 };
  // Repetitions of a delivery whose run has not started, or never will.
  const repeated = yield* port.get<{ count: number }>(sql`
    SELECT count(*) AS count FROM (${fates}) AS told WHERE fate = 'left' AND (
      run_id IN (SELECT run_id FROM sluice.held_deliveries)
      OR EXISTS (SELECT 1 FROM sluice.deliveries AS first WHERE first.run_id = told.run_id AND ${isDiscarded}))`);
  const repetitions = repeated?.count ?? 0;
  return { ...books, duplicates: books.duplicates + repetitions, unaccounted: left - repetitions };
}

export const bookVerbs: Verbs<'countBooks'> = { countBooks: { access: 'log', decide: countBooks } };
