import type { NewIntervention } from '../../dashboard/activity.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { filter, readPage } from '../../store/decisions/lists.ts';
import { storePart } from '../../store/decisions/part.ts';
import { type Port, sql } from '../../store/decisions/port.ts';
import type { PageQuery, TimeSpan } from '../../store/store.ts';
import { uuidOf } from '../../store/uuids.ts';
import { checkRows, purgeRows } from './chain.ts';
import { addRow, addState, changeKey } from './rows.ts';

interface InterventionQuery extends PageQuery, TimeSpan {
  readonly id?: string | undefined;
  readonly actor?: string | undefined;
  readonly action?: string | undefined;
  /** The id of a flow, run, delivery or schedule. */
  readonly target?: string | undefined;
}

export interface Intervention extends NewIntervention {
  /** HTTP status of the answer; null while the request is under way, or if the process died during it. */
  readonly statusCode: number | null;
}

interface Row extends Omit<Intervention, 'target' | 'details'> {
  readonly targetType: NonNullable<Intervention['target']>['type'] | null;
  readonly targetId: string | null;
  readonly details: string;
}

/** Only the newest row of an intervention, which has all its facts. */
const NEWEST = sql`NOT EXISTS (
  SELECT 1 FROM sluice.interventions AS later WHERE later.id = interventions.id AND later.seq > interventions.seq)`;

const listing = {
  table: 'sluice.interventions',
  // By the start of the intervention, newest first, however late its newest row.
  order: ['id'],
  place: 'seq',
  select: sql`SELECT id, at, actor, client_ip AS "clientIp", action, target_type AS "targetType",
      target_id AS "targetId", details, reason, status_code AS "statusCode"
    FROM sluice.interventions AS own`,
  toItem: ({ targetType, targetId, details, ...row }: Row): Intervention => ({
    ...row,
    target: targetType === null || targetId === null ? null : { type: targetType, id: targetId },
    details: JSON.parse(details),
  }),
};

/**
 * Interventions are a chain of rows that never change (`hashes.ts`): each later statement about one adds a row that
 * repeats all of it. Of several processes one adds at a time, within the transaction that adds.
 */
export const activityStore = storePart({
  name: 'activity',
  verbs: {
    /** Stores an intervention that is about to happen. */
    beginIntervention: {
      access: 'write',
      changes: null,
      *decide(port: Port, { target, details, ...intervention }: NewIntervention): Decision<void> {
        const { type = null, id = null } = target ?? {};
        const about = { targetType: type, targetId: id, details: JSON.stringify(details), statusCode: null };
        yield* addRow(port, { ...intervention, ...about });
      },
    },
    /** Stores how it ended. Changes nothing if it was never begun. */
    endIntervention: {
      access: 'write',
      changes: null,
      *decide(port: Port, { id, statusCode }: { id: string; statusCode: number }): Decision<void> {
        yield* addState(port, uuidOf(id), () => ({ statusCode }));
      },
    },
    changeActivityKey: { access: 'write', changes: null, decide: changeKey },
    /** Newest first. */
    listInterventions: {
      access: 'read',
      decide: (port: Port, query: InterventionQuery) =>
        readPage(port, listing, {
          query,
          filters: [
            filter.equals('id', query.id === undefined ? undefined : uuidOf(query.id)),
            filter.equals('actor', query.actor),
            filter.equals('action', query.action),
            filter.equals('target_id', query.target),
            filter.within('at', query),
            NEWEST,
          ],
        }),
    },
    /**
     * Deletes up to `limit` rows at the old end of the chain, of interventions that began before an instant, and keeps
     * where the rest begins. Stops before a row that is not as it was written: it and the rows after it are evidence.
     */
    purgeInterventions: { access: 'write', changes: null, decide: purgeRows },
    /** Checks the next rows of the chain; the first ones if no place is given. */
    checkInterventions: { access: 'read', decide: checkRows },
  },
});
