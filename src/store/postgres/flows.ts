import type { FlowRecord, RevisionRecord } from '../store.ts';
import type { Given, Operations } from './operation.ts';
import type { Sql } from './sql.ts';

export const flowOperations: Operations<
  'deployFlow' | 'setFlowEnabled' | 'setFlowDraining' | 'listFlows' | 'findFlow' | 'findRevision'
> = {
  deployFlow: { lane: 'write', run: deployFlow },
  setFlowEnabled: { lane: 'write', run: setFlowEnabled },
  setFlowDraining: { lane: 'write', run: setFlowDraining },
  listFlows: { lane: 'read', run: listFlows },
  findFlow: { lane: 'read', run: findFlow },
  findRevision: { lane: 'read', run: findRevision },
};

interface FlowRow extends Omit<FlowRecord, 'drainingSince'> {
  readonly drainingSince: number | null;
}

const columns = `id, name, version, revision, is_enabled AS "isEnabled", draining_since AS "drainingSince",
  created_at AS "createdAt", updated_at AS "updatedAt"`;

/**
 * Makes every other change of these flows and of their keys wait until the transaction ends. A flow that does not exist
 * has no row to lock, and of two that deploy it first one must wait too.
 */
export async function lockFlowIds(sql: Sql, flowIds: readonly string[]): Promise<readonly string[]> {
  // In one order everywhere, or two deploys of the same flows could block each other.
  const ids = [...new Set(flowIds)].sort();
  await sql.run(`SELECT pg_advisory_xact_lock(${LOCK_OF_FLOW}) FROM unnest($1::text[]) AS id`, [ids]);
  return ids;
}

/**
 * The number of a flow's lock, by its `id`. Acceptances share it before they share the flow's row: who waits for a row
 * that is shared again and again may wait for seconds, and has its turn at this lock.
 */
export const LOCK_OF_FLOW = "hashtextextended('sluice flow ' || id, sluice_lock_scope)";

/**
 * As `lockFlowIds`, and makes acceptances wait too, which hold their flow's row: what is read afterwards has every run
 * that was accepted for these flows until then. Yields the flows that exist.
 */
export async function lockFlows(sql: Sql, flowIds: readonly string[]): Promise<ReadonlyMap<string, FlowRecord>> {
  const ids = await lockFlowIds(sql, flowIds);
  const rows = await sql.all<FlowRow>(`SELECT ${columns} FROM sluice.flows WHERE id = ANY($1) ORDER BY id FOR UPDATE`, [
    ids,
  ]);
  return new Map(rows.map((row) => [row.id, toFlow(row)]));
}

/** The flow, which stays as it is until the transaction ends: whoever deploys, disables or drains it waits for that. */
export async function shareFlow(sql: Sql, flowId: string): Promise<FlowRecord | undefined> {
  sql.later(`SELECT pg_advisory_xact_lock_shared(${LOCK_OF_FLOW}) FROM unnest($1::text[]) AS id`, [[flowId]]);
  const row = await sql.get<FlowRow>(`SELECT ${columns} FROM sluice.flows WHERE id = $1 FOR SHARE`, [flowId]);
  return row && toFlow(row);
}

type FlowDeploy = Given<'deployFlow'>;

async function deployFlow(sql: Sql, deploy: FlowDeploy): Promise<FlowRecord> {
  const deployed = (await lockFlows(sql, [deploy.id])).get(deploy.id);
  const isSame = deployed !== undefined && (await hasHash(sql, deployed, deploy.hash));
  return isSame ? deployed : insertRevision(sql, deployed?.revision ?? 0, deploy);
}

/** Whether the newest revision of a flow has the manifest. */
export async function hasHash(sql: Sql, { id, revision }: FlowRecord, hash: string): Promise<boolean> {
  const found = await sql.get('SELECT FROM sluice.revisions WHERE flow_id = $1 AND revision = $2 AND hash = $3', [
    id,
    revision,
    hash,
  ]);
  return found !== undefined;
}

/** Stores a manifest as the revision after `newest`, under the lock of its flow. */
export async function insertRevision(sql: Sql, newest: number, deploy: FlowDeploy): Promise<FlowRecord> {
  const { id, name, version, hash, snapshot, at } = deploy;
  const row = await sql.get<FlowRow>(
    `WITH revision AS (
      INSERT INTO sluice.revisions (flow_id, revision, version, hash, snapshot, created_at)
      VALUES ($1, $2, $3, $4, $5, $6)
    )
    INSERT INTO sluice.flows (id, name, version, revision, is_enabled, created_at, updated_at)
    VALUES ($1, $7, $3, $2, true, $6, $6)
    ON CONFLICT (id) DO UPDATE SET name = excluded.name, version = excluded.version, revision = excluded.revision,
      updated_at = excluded.updated_at
    RETURNING ${columns}`,
    [id, newest + 1, version, hash, JSON.stringify(snapshot), at, name],
  );
  if (row === undefined) throw new Error(`The flow ${id} was not stored.`);
  return toFlow(row);
}

async function setFlowEnabled(
  sql: Sql,
  { flowId, isEnabled, at }: Given<'setFlowEnabled'>,
): Promise<FlowRecord | undefined> {
  await lockFlowIds(sql, [flowId]);
  await sql.run('UPDATE sluice.flows SET is_enabled = $1, updated_at = $2 WHERE id = $3 AND is_enabled <> $1', [
    isEnabled,
    at,
    flowId,
  ]);
  return findFlow(sql, flowId);
}

/** Waits for the acceptances that are under way: what the caller counts afterwards is all that is in flight. */
async function setFlowDraining(
  sql: Sql,
  { flowId, isDraining, at }: Given<'setFlowDraining'>,
): Promise<FlowRecord | undefined> {
  await lockFlowIds(sql, [flowId]);
  await sql.run(
    isDraining
      ? 'UPDATE sluice.flows SET draining_since = $2 WHERE id = $1 AND draining_since IS NULL'
      : 'UPDATE sluice.flows SET draining_since = NULL WHERE id = $1 AND draining_since IS NOT NULL',
    isDraining ? [flowId, at] : [flowId],
  );
  return findFlow(sql, flowId);
}

export async function listFlows(sql: Sql): Promise<FlowRecord[]> {
  const rows = await sql.all<FlowRow>(
    `SELECT ${columns} FROM sluice.flows ORDER BY lower(name COLLATE "und-x-icu") COLLATE "C", id`,
  );
  return rows.map(toFlow);
}

export async function findFlow(sql: Sql, flowId: string): Promise<FlowRecord | undefined> {
  const row = await sql.get<FlowRow>(`SELECT ${columns} FROM sluice.flows WHERE id = $1`, [flowId]);
  return row && toFlow(row);
}

export async function findRevision(sql: Sql, flowId: string, revision: number): Promise<RevisionRecord | undefined> {
  const row = await sql.get<Omit<RevisionRecord, 'snapshot'> & { readonly snapshot: string }>(
    `SELECT flow_id AS "flowId", revision, version, hash, snapshot, created_at AS "createdAt", source
    FROM sluice.revisions WHERE flow_id = $1 AND revision = $2`,
    [flowId, revision],
  );
  return row && { ...row, snapshot: JSON.parse(row.snapshot) };
}

function toFlow({ drainingSince, ...row }: FlowRow): FlowRecord {
  return { ...row, ...(drainingSince === null ? {} : { drainingSince }) };
}
