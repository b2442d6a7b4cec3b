import type { Intervention, NewIntervention, Page } from '../store.ts';
import type { Given, Operations } from './operation.ts';
import { filter, readPage } from './paging.ts';
import type { Sql } from './sql.ts';
import { uuidOf } from './uuids.ts';

export const activityOperations: Operations<
  'beginIntervention' | 'noteIntervention' | 'endIntervention' | 'listInterventions' | 'purgeInterventions'
> = {
  beginIntervention: { lane: 'write', run: beginIntervention },
  noteIntervention: { lane: 'write', run: noteIntervention },
  endIntervention: { lane: 'write', run: endIntervention },
  listInterventions: { lane: 'read', run: listInterventions },
  purgeInterventions: { lane: 'write', run: purgeInterventions },
};

async function beginIntervention(sql: Sql, intervention: NewIntervention): Promise<void> {
  const { id, at, actor, clientIp, action, target, details, reason } = intervention;
  const { type = null, id: targetId = null } = target ?? {};
  await sql.run(
    `INSERT INTO sluice.interventions (id, at, actor, client_ip, action, target_type, target_id, details, reason)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    [id, at, actor, clientIp, action, type, targetId, JSON.stringify(details), reason],
  );
}

async function noteIntervention(sql: Sql, { id, details }: Given<'noteIntervention'>): Promise<void> {
  const kept = await sql.get<{ details: string }>('SELECT details FROM sluice.interventions WHERE id = $1 FOR UPDATE', [
    uuidOf(id),
  ]);
  if (kept === undefined) return;
  // Joined here: jsonb has an order of its own for the names.
  const joined = { ...JSON.parse(kept.details), ...details };
  await sql.run('UPDATE sluice.interventions SET details = $1 WHERE id = $2', [JSON.stringify(joined), uuidOf(id)]);
}

async function endIntervention(sql: Sql, { id, statusCode }: Given<'endIntervention'>): Promise<void> {
  await sql.run('UPDATE sluice.interventions SET status_code = $1 WHERE id = $2', [statusCode, uuidOf(id)]);
}

interface Row extends Omit<Intervention, 'target' | 'details'> {
  readonly targetType: NonNullable<Intervention['target']>['type'] | null;
  readonly targetId: string | null;
  readonly details: string;
}

const listing = {
  table: 'interventions',
  order: ['id'],
  select: `SELECT id, at, actor, client_ip AS "clientIp", action, target_type AS "targetType", target_id AS "targetId",
      details, reason, status_code AS "statusCode"
    FROM sluice.interventions AS own`,
  toItem: ({ targetType, targetId, details, ...row }: Row): Intervention => ({
    ...row,
    target: targetType === null || targetId === null ? null : { type: targetType, id: targetId },
    details: JSON.parse(details),
  }),
};

async function listInterventions(sql: Sql, query: Given<'listInterventions'>): Promise<Page<Intervention>> {
  const filters = [
    filter.equals('id', query.id),
    filter.equals('actor', query.actor),
    filter.equals('action', query.action),
    filter.equals('target_id', query.target),
    filter.within('at', query),
  ];
  return readPage(sql, listing, { query, filters });
}

async function purgeInterventions(sql: Sql, { before, limit }: Given<'purgeInterventions'>): Promise<number> {
  return sql.run(
    `DELETE FROM sluice.interventions
    WHERE id = ANY (array(SELECT id FROM sluice.interventions WHERE at < $1 ORDER BY at LIMIT $2))`,
    [before, limit],
  );
}
