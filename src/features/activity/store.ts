import { filter, readPage } from '../../store/decisions/lists.ts';
import { storePart } from '../../store/decisions/part.ts';
import { type Port, sql } from '../../store/decisions/port.ts';
import type { NewIntervention, PageQuery, TimeSpan } from '../../store/store.ts';
import { uuidOf } from '../../store/uuids.ts';
import { checkRows, purgeRows } from './chain.ts';

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

export const activityStore = storePart({
  name: 'activity',
  verbs: {
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
