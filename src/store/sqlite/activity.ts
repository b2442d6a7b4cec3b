import type { Database } from 'better-sqlite3';
import type { Intervention } from '../store.ts';
import type { SqlValue } from './columns.ts';
import type { Member } from './messages.ts';
import { filter, preparePages, where } from './paging.ts';

export const activityOperations = {
  beginIntervention: { thread: 'writer', prepare: prepareBegin },
  noteIntervention: { thread: 'writer', prepare: prepareNote },
  endIntervention: { thread: 'writer', prepare: prepareEnd },
  listInterventions: { thread: 'reader', prepare: prepareList },
  purgeInterventions: { thread: 'writer', prepare: preparePurge },
} as const;

function prepareBegin(db: Database): Member<'beginIntervention'> {
  const insert = db.prepare<SqlValue[]>(`
    INSERT INTO interventions (id, at, actor, client_ip, action, target_type, target_id, details, reason)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  return ({ id, at, actor, clientIp, action, target, details, reason }) => {
    const { type = null, id: targetId = null } = target ?? {};
    insert.run(id, at, actor, clientIp, action, type, targetId, JSON.stringify(details), reason);
  };
}

function prepareNote(db: Database): Member<'noteIntervention'> {
  const note = db.prepare<SqlValue[]>('UPDATE interventions SET details = json_patch(details, ?) WHERE id = ?');
  return ({ id, details }) => {
    note.run(JSON.stringify(details), id);
  };
}

function prepareEnd(db: Database): Member<'endIntervention'> {
  const end = db.prepare<SqlValue[]>('UPDATE interventions SET status_code = ? WHERE id = ?');
  return ({ id, statusCode }) => {
    end.run(statusCode, id);
  };
}

interface Row extends Omit<Intervention, 'target' | 'details'> {
  readonly targetType: NonNullable<Intervention['target']>['type'] | null;
  readonly targetId: string | null;
  readonly details: string;
}

function prepareList(db: Database): Member<'listInterventions'> {
  const pages = preparePages<Row, Intervention>(db, {
    page: `
      SELECT id, at, actor, client_ip AS clientIp, action, target_type AS targetType, target_id AS targetId, details, reason,
        status_code AS statusCode
      FROM interventions %where% ORDER BY id %order% LIMIT ? OFFSET ?`,
    table: 'interventions',
    toItem: ({ targetType, targetId, details, ...row }) => ({
      ...row,
      target: targetType === null || targetId === null ? null : { type: targetType, id: targetId },
      details: JSON.parse(details),
    }),
  });
  return (query) => {
    const condition = where([
      filter.equals('id', query.id),
      filter.equals('actor', query.actor),
      filter.equals('action', query.action),
      filter.equals('target_id', query.target),
      filter.within('at', query),
    ]);
    return pages({ query, condition, known: undefined });
  };
}

function preparePurge(db: Database): Member<'purgeInterventions'> {
  const purge = db.prepare<SqlValue[]>(
    'DELETE FROM interventions WHERE id IN (SELECT id FROM interventions WHERE at < ? ORDER BY id LIMIT ?)',
  );
  return ({ before, limit }) => purge.run(before, limit).changes;
}
