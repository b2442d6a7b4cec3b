import type { Decision } from '../../store/decisions/decision.ts';
import { findFlow } from '../../store/decisions/flows.ts';
import { storePart } from '../../store/decisions/part.ts';
import { type Port, sql } from '../../store/decisions/port.ts';
import { inFlight, runsByStatus } from '../../store/decisions/revisions.ts';
import type { RevisionSummary, TimeSpan } from '../../store/store.ts';

interface RevisionPage {
  readonly items: readonly RevisionSummary[];
  readonly total: number;
}

interface RevisionQuery extends TimeSpan {
  readonly flowId: string;
  readonly skip: number;
  readonly take: number;
}

/** Runs of one revision are counted up to this number. */
const COUNTED_RUNS = 10_000;

type RevisionRow = Omit<RevisionSummary, 'findings' | 'overrides'> & {
  readonly findings: string;
  readonly overrides: string;
};

function* listRevisions(
  port: Port,
  { flowId, skip, take, since = Number.MIN_SAFE_INTEGER, until = Number.MAX_SAFE_INTEGER }: RevisionQuery,
): Decision<RevisionPage | undefined> {
  if ((yield* findFlow(port, flowId)) === undefined) return undefined;
  const isListed = sql`flow_id = ${flowId} AND created_at >= ${since} AND created_at < ${until}`;
  const rows = yield* port.all<RevisionRow>(sql`
    WITH in_flight AS (
      SELECT revision, count(*) AS count FROM ${runsByStatus} WHERE ${inFlight} AND flow_id = ${flowId} GROUP BY revision
    )
    SELECT flow_id AS "flowId", own.revision, version, hash, created_at AS "createdAt", source, actor, reason, access,
      findings, overrides, (snapshot IS NULL)::boolean AS "isRemoved",
      (SELECT count(*) FROM (
        SELECT 1 FROM sluice.runs AS r /*sqlite: INDEXED BY runs_by_revision */
        WHERE r.flow_id = ${flowId} AND r.revision = own.revision LIMIT ${COUNTED_RUNS}
      ) AS counted) AS runs,
      coalesce((SELECT count FROM in_flight WHERE in_flight.revision = own.revision), 0) AS "runsInFlight"
    FROM (
      SELECT * FROM sluice.revisions WHERE ${isListed} ORDER BY revision DESC LIMIT ${take} OFFSET ${skip}
    ) AS own ORDER BY own.revision DESC`);
  const counted = yield* port.get<{ total: number }>(
    sql`SELECT count(*) AS total FROM sluice.revisions WHERE ${isListed}`,
  );
  const items = rows.map((row) => ({
    ...row,
    findings: JSON.parse(row.findings),
    overrides: JSON.parse(row.overrides),
  }));
  return { items, total: counted?.total ?? 0 };
}

export const revisionsStore = storePart({
  name: 'revisions',
  verbs: {
    /** Newest first; undefined for an unknown flow. `since` and `until` limit the time of the deploy. */
    listRevisions: { access: 'read', decide: listRevisions },
  },
});
