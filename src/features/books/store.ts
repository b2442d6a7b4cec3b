import { HOUR_MS } from '../../model/clock.ts';
import { DETAILS } from '../../model/delivery.ts';
import { firstIdAt } from '../../model/payload.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { idsWithin } from '../../store/decisions/deliveries.ts';
import { filter, where } from '../../store/decisions/lists.ts';
import { storePart } from '../../store/decisions/part.ts';
import { fixed, type Port, sql } from '../../store/decisions/port.ts';
import type { TimeSpan } from '../../store/store.ts';

/** Deliveries that were accepted: each is in exactly one of the figures after the first, but for `reconciled` and `givenUp`. */
export interface Books {
  readonly accepted: number;
  readonly runs: number;
  readonly held: number;
  readonly discarded: number;
  readonly filtered: number;
  readonly duplicates: number;
  /** They answered steps that wait, or are kept for some that will. */
  readonly answered: number;
  /** They joined the runs of others. */
  readonly coalesced: number;
  /** Of all these: they were fetched from the logs of their publishers. */
  readonly reconciled: number;
  /** Nothing is stored of what they were accepted for. */
  readonly unaccounted: number;
  /** Deliveries that were never accepted: the logs of their publishers had them, and they could not be fetched. */
  readonly givenUp: number;
}

interface BooksQuery extends TimeSpan {
  /** Of these flows alone. */
  readonly flowIds?: readonly string[] | undefined;
}

/** In the words of its index. */
const isDiscarded = fixed(`strpos(first.detail, '${DETAILS.discarded}') = 1`);

/**
 * From the tables alone, so that a counter that is wrong cannot hide what is missing. What repeats a delivery whose run has
 * not started, or never will, is looked up last: hardly any delivery is left until then. An event is known for longer than
 * its run may be kept: what repeats one from before the span is a duplicate, and the books of that time have the first. One
 * that several triggers were owed is accounted for where it is at each.
 */
function* countBooks(port: Port, span: BooksQuery): Decision<Books> {
  const within = [
    yield* idsWithin(port, span),
    filter.within('received_at', span),
    filter.among('flow_id', span.flowIds),
  ];
  const conditions = [
    ...within,
    sql`status_code BETWEEN 200 AND 299`,
    sql`run_id IS NOT NULL OR strpos(coalesce(detail, ''), ${DETAILS.handshake}) <> 1`,
  ];
  // The run of a delivery is named a moment after the delivery.
  const sharedSince = firstIdAt((span.since ?? 0) - HOUR_MS);
  const books = yield* port.get<Books>(sql`
    SELECT count(*) AS accepted, count(*) FILTER (WHERE fate = 'run') AS runs,
      count(*) FILTER (WHERE fate = 'held') AS held, count(*) FILTER (WHERE fate = 'discarded') AS discarded,
      count(*) FILTER (WHERE fate = 'filtered') AS filtered,
      count(*) FILTER (WHERE fate = 'answered') AS answered,
      count(*) FILTER (WHERE fate = 'duplicate') AS duplicates,
      count(*) FILTER (WHERE fate = 'coalesced') AS coalesced,
      count(*) FILTER (WHERE is_reconciled) AS reconciled, count(*) FILTER (WHERE fate IS NULL) AS unaccounted,
      (SELECT count(*) FROM sluice.deliveries ${where([...within, sql`outcome = 'givenUp'`])}) AS "givenUp"
    FROM (
      SELECT strpos(coalesce(d.detail, ''), ${DETAILS.reconciled}) = 1 AS is_reconciled, CASE
          WHEN EXISTS (
            SELECT 1 FROM sluice.delivery_shares AS s
            WHERE s.delivery_id = d.id AND s.outcome IS NULL AND s.run_id IS NOT NULL
              AND NOT EXISTS (SELECT 1 FROM sluice.runs AS o WHERE o.id = s.run_id)
              AND NOT EXISTS (SELECT 1 FROM sluice.held_deliveries AS o WHERE o.run_id = s.run_id)
              AND (s.run_id <> d.run_id OR strpos(coalesce(d.detail, ''), ${DETAILS.discarded}) <> 1)) THEN NULL
          WHEN r.delivery_id = d.id THEN 'run'
          WHEN EXISTS (SELECT 1 FROM sluice.held_deliveries AS h WHERE h.delivery_id = d.id) THEN 'held'
          WHEN d.outcome = 'filtered' AND d.run_id IS NULL THEN 'filtered'
          WHEN d.outcome IN ('answered', 'unevaluated') AND d.run_id IS NULL THEN 'answered'
          WHEN d.outcome = 'duplicate' AND d.run_id IS NULL THEN 'duplicate'
          WHEN strpos(d.detail, ${DETAILS.discarded}) = 1 THEN 'discarded'
          WHEN d.outcome = 'coalesced' THEN (
            SELECT 'coalesced' FROM sluice.run_deliveries AS j
            WHERE r.id IS NOT NULL AND j.run_id = d.run_id AND j.delivery_id = d.id LIMIT 1)
          WHEN r.id IS NOT NULL OR d.run_id IN (SELECT run_id FROM sluice.held_deliveries)
            OR EXISTS (SELECT 1 FROM sluice.deliveries AS first WHERE first.run_id = d.run_id AND ${isDiscarded})
            OR d.run_id IN (
              SELECT run_id FROM sluice.delivery_shares WHERE outcome = 'discarded' AND delivery_id >= ${sharedSince})
            OR (d.outcome = 'duplicate' AND d.run_id < ${firstIdAt(span.since ?? 0)})
            THEN 'duplicate'
          END AS fate
      FROM (SELECT id, run_id, detail, outcome FROM sluice.deliveries ${where(conditions)}) AS d
      LEFT JOIN sluice.runs AS r ON r.id = d.run_id
    ) AS told`);
  if (books === undefined) throw new Error('A count has no row.');
  return books;
}

export const booksStore = storePart({
  name: 'books',
  verbs: {
    /** What became of the deliveries that were accepted in that time, counted from their records. Handshakes are none. */
    countBooks: { access: 'log', decide: countBooks },
  },
});
