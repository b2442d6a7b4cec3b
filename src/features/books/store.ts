import { HOUR_MS } from '../../model/clock.ts';
import { DETAILS } from '../../model/delivery.ts';
import { firstIdAt } from '../../model/delivery-ids.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { idsWithin } from '../../store/decisions/deliveries.ts';
import { filter, where } from '../../store/decisions/lists.ts';
import { storePart } from '../../store/decisions/part.ts';
import { fixed, type Port, sql } from '../../store/decisions/port.ts';
import type { TimeSpan } from '../../store/store.ts';

/** Figures of accepted deliveries: each is in exactly one after the first, not counting `reconciled` and `givenUp`. */
export interface Books {
  readonly accepted: number;
  readonly runs: number;
  readonly held: number;
  readonly discarded: number;
  readonly filtered: number;
  readonly duplicates: number;
  /** Deliveries that answered waiting steps, or are kept for steps that will wait. */
  readonly answered: number;
  /** Deliveries that joined the runs of others. */
  readonly coalesced: number;
  /** How many of all these were fetched from the logs of their publishers. */
  readonly reconciled: number;
  /** Deliveries whose result (such as a run) is not stored anywhere. */
  readonly unaccounted: number;
  /** Deliveries that were never accepted: their publishers' logs have them, but they could not be fetched. */
  readonly givenUp: number;
}

interface BooksQuery extends TimeSpan {
  /** Counts only these flows. */
  readonly flowIds?: readonly string[] | undefined;
}

/** Written like its index, so that the database uses it. */
const isDiscarded = fixed(`strpos(first.detail, '${DETAILS.discarded}') = 1`);

/**
 * Reads tables, not counters: a wrong counter cannot hide a loss. Looks up repeats of deliveries whose run has not
 * started, or never will, last, when hardly any delivery is left. An event can be known for longer than its run is
 * kept: a repeat of one from before the span is a duplicate, and the books of that time have the first. A delivery owed
 * to several triggers is accounted for only if each has it.
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
  // With a margin, because a delivery gets its id a moment before its run does.
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
    /** Sorts the deliveries accepted in that time by their result, from their records. Handshakes are left out. */
    countBooks: { access: 'log', decide: countBooks },
  },
});
