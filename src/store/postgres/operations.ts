import { acceptanceOperations } from './acceptance.ts';
import { activityOperations } from './activity.ts';
import { alertOperations } from './alerts.ts';
import { controlOperations } from './control.ts';
import { deliveryOperations } from './deliveries.ts';
import { deployOperations } from './deploys.ts';
import { dispatchOperations } from './dispatch.ts';
import { figureOperations } from './figures.ts';
import { flowOperations } from './flows.ts';
import { holdOperations } from './holds.ts';
import { hostOperations } from './hosts.ts';
import { keyOperations } from './keys.ts';
import { learnedKeyOperations } from './learned-keys.ts';
import type { Operations } from './operation.ts';
import { payloadOperations } from './payloads.ts';
import { removalOperations } from './removal.ts';
import { replicaOperations } from './replicas.ts';
import { runOperations } from './runs.ts';
import { scheduleOperations } from './schedules.ts';
import type { Sql } from './sql.ts';
import { stepOperations } from './step-views.ts';

const ownOperations: Operations<'ping'> = {
  ping: { lane: 'write', run: ping },
};

export const operations = {
  ...ownOperations,
  ...flowOperations,
  ...deployOperations,
  ...scheduleOperations,
  ...learnedKeyOperations,
  ...acceptanceOperations,
  ...holdOperations,
  ...deliveryOperations,
  ...removalOperations,
  ...runOperations,
  ...dispatchOperations,
  ...replicaOperations,
  ...controlOperations,
  ...stepOperations,
  ...figureOperations,
  ...activityOperations,
  ...alertOperations,
  ...keyOperations,
  ...payloadOperations,
  ...hostOperations,
};

/** Raises a number, because a transaction without a change would commit even on a full or read-only disk. */
async function ping(sql: Sql): Promise<void> {
  await sql.run(
    'INSERT INTO sluice.pings AS p (slot, count) VALUES ($1, 1) ON CONFLICT (slot) DO UPDATE SET count = p.count + 1',
    [sql.slot],
  );
}
