import { LRUCache } from 'lru-cache';
import type { RunnableManifest } from '../../model/manifest.ts';
import { entryOf, type WiredGraph, wire } from '../../model/planner.ts';
import { manifestDigest } from '../digest.ts';
import type { FlowRecord, RemovedRevision, RevisionRecord } from '../store.ts';
import { storedKeyReader } from '../stored-order-key.ts';
import type { Decision } from './decision.ts';
import { findFlow } from './flows.ts';
import { fixed, type Port, sql } from './port.ts';
import type { Answer, Given, Verbs } from './verb.ts';

/** The part of a revision that its runs follow. */
export interface RunnableRevision {
  /** From its manifest. */
  readonly name?: string | undefined;
  readonly version?: string | undefined;
  readonly graph: WiredGraph;
  /** How every run of it begins. */
  readonly entry: ReturnType<typeof entryOf>;
  /** Id of the flow that a failed run starts. */
  readonly onFailure: string | null;
  /** Absent if its runs may overlap. */
  readonly order?: { readonly readKey: ReturnType<typeof storedKeyReader>; readonly isStopped: boolean } | undefined;
}

/** How many revisions are kept, parsed and wired; a revision never changes. */
const KEPT_REVISIONS = 100;

const recentRevisions = () => new LRUCache<string, RunnableRevision>({ max: KEPT_REVISIONS });

/** A revision in the form that its runs follow; throws if the database does not have it. Hardly ever reads. */
export function* revisionOf(port: Port, flowId: string, revision: number): Decision<RunnableRevision> {
  const recent = port.kept(recentRevisions);
  const key = `${flowId}:${revision}`;
  const known = recent.get(key);
  if (known !== undefined) return known;
  const row = yield* port.get<{ snapshot: string | null }>(
    sql`SELECT snapshot FROM sluice.revisions WHERE flow_id = ${flowId} AND revision = ${revision}`,
  );
  if (row === undefined || row.snapshot === null)
    throw new Error(`Revision ${revision} of the flow ${flowId} is not in the database.`);
  const manifest = JSON.parse(row.snapshot) as RunnableManifest & Pick<RunnableRevision, 'name' | 'version'>;
  const { name, version, onFailure = null } = manifest;
  const read = {
    name,
    version,
    graph: wire(manifest.steps),
    entry: entryOf(manifest),
    onFailure,
    order: orderIn(manifest),
  };
  recent.set(key, read);
  return read;
}

function orderIn({ serialize, serializeOnFailure }: RunnableManifest): RunnableRevision['order'] {
  return serialize === undefined
    ? undefined
    : { readKey: storedKeyReader(serialize), isStopped: serializeOnFailure === 'stop' };
}

/** Runs in flight. SQLite uses the index of all statuses but one only if the statement has the index's own words. */
export const inFlight = fixed("status = 'Running' AND status <> 'Succeeded'");
export const runsByStatus = fixed('sluice.runs /*sqlite: INDEXED BY runs_by_status */');

function* findRevision(
  port: Port,
  flowId: string,
  revision: number,
): Decision<RevisionRecord | RemovedRevision | undefined> {
  type Row = Omit<RevisionRecord, 'snapshot' | 'needs'> & Readonly<Record<'snapshot' | 'needs', string | null>>;
  const row = yield* port.get<Row>(sql`
    SELECT flow_id AS "flowId", revision, version, hash, snapshot, created_at AS "createdAt", source, needs
    FROM sluice.revisions WHERE flow_id = ${flowId} AND revision = ${revision}`);
  if (row === undefined) return undefined;
  const { snapshot, ...record } = row;
  const needs = row.needs === null ? null : JSON.parse(row.needs);
  return { ...record, needs, snapshot: snapshot === null ? undefined : JSON.parse(snapshot) };
}

/** Its manifest is never removed. */
export function* newestRevision(
  port: Port,
  { id, revision }: Pick<FlowRecord, 'id' | 'revision'>,
): Decision<RevisionRecord | undefined> {
  const newest = yield* findRevision(port, id, revision);
  return newest?.snapshot === undefined ? undefined : newest;
}

function* findSuperseded(
  port: Port,
  { id, name, snapshot, isNamedByFile }: Given<'findSuperseded'>,
): Decision<Answer<'findSuperseded'>> {
  const flow = yield* findFlow(port, id);
  if (flow === undefined) return undefined;
  const found = yield* port.get<{ revision: number; isRemoved: boolean }>(sql`
    SELECT revision, (snapshot IS NULL)::boolean AS "isRemoved" FROM sluice.revisions
    WHERE flow_id = ${id} AND digest = ${manifestDigest(snapshot)}::uuid AND (${isNamedByFile} OR name = ${name})
    ORDER BY revision DESC LIMIT 1`);
  const isInForce = found?.revision === flow.revision && flow.deletedAt === undefined;
  return found === undefined || isInForce ? undefined : { ...found, newest: flow.revision };
}

/** A slice ends with the manifest that brings it to this size: freeing pages costs as much as writing them. */
const SLICE_BYTES = 1024 * 1024;

/**
 * No run can begin to use an old revision, unless another run has pinned it: an unused one stays unused. The last
 * revision by which a slug led to a trigger stays: it says who got in.
 */
function* purgeRevisions(
  port: Port,
  { kept, after, limit }: Given<'purgeRevisions'>,
): Decision<Answer<'purgeRevisions'>> {
  const rows = yield* port.all<{ flowId: string; revision: number; bytes: number; isUsed: boolean }>(sql`
    SELECT r.flow_id AS "flowId", r.revision, octet_length(r.snapshot) AS bytes, (
      EXISTS (SELECT 1 FROM sluice.runs AS u WHERE u.flow_id = r.flow_id AND u.revision = r.revision)
      OR EXISTS (SELECT 1 FROM sluice.run_pins AS p WHERE p.flow_id = r.flow_id AND p.revision = r.revision)
      OR EXISTS (SELECT 1 FROM sluice.routes AS s WHERE s.flow_id = r.flow_id AND s.revision = r.revision)
    )::boolean AS "isUsed"
    FROM sluice.flows AS f /*sqlite: CROSS */
    JOIN sluice.revisions AS r /*sqlite: INDEXED BY revisions_with_snapshot */
      ON r.flow_id = f.id AND r.revision <= f.revision - ${kept}::integer
    WHERE r.snapshot IS NOT NULL AND f.id >= ${after.flowId} AND (f.id > ${after.flowId} OR r.revision > ${after.revision})
    ORDER BY f.id, r.revision LIMIT ${limit}`);
  let removed = 0;
  let bytes = 0;
  for (const { flowId, revision, isUsed, ...row } of rows) {
    if (isUsed) continue;
    if (bytes >= SLICE_BYTES) return { removed, next: { flowId, revision: revision - 1 } };
    port.later(sql`
      UPDATE sluice.revisions SET snapshot = NULL, needs = NULL, findings = '[]'
      WHERE flow_id = ${flowId} AND revision = ${revision}`);
    removed += 1;
    bytes += row.bytes;
  }
  const last = rows.length < limit ? undefined : rows.at(-1);
  return { removed, next: last === undefined ? null : { flowId: last.flowId, revision: last.revision } };
}

export const revisionVerbs: Verbs<'findRevision' | 'findSuperseded' | 'purgeRevisions' | 'renewNeeds'> = {
  findRevision: { access: 'read', decide: findRevision },
  findSuperseded: { access: 'read', decide: findSuperseded },
  purgeRevisions: { access: 'write', changes: null, decide: purgeRevisions },
  renewNeeds: {
    access: 'write',
    changes: null,
    *decide(port, { flowId, revision, needs }) {
      yield* port.run(sql`
        UPDATE sluice.revisions SET needs = ${JSON.stringify(needs)}
        WHERE flow_id = ${flowId} AND revision = ${revision} AND needs IS NOT NULL`);
    },
  },
};
