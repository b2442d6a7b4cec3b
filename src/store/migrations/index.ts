import { order } from './0002-order.ts';
import { sharedDeliveries } from './0003-delivery-shares.ts';
import { coalescing } from './0004-coalescing.ts';
import { rhythms } from './0005-rhythms.ts';
import { consumersOfDeliveries } from './0006-consumers.ts';
import { joinedDeliveries } from './0007-joined-deliveries.ts';
import { reconciliations } from './0008-reconciliations.ts';
import { slugs } from './0009-slugs.ts';
import { heldShares } from './0010-held-shares.ts';
import { signals } from './0011-signals.ts';
import type { SharedMigration } from './migration.ts';

/** All but the first, in order; append only. A migration imports other migrations alone, so that no later change of code changes it. */
export const sharedMigrations: readonly SharedMigration[] = [
  order,
  sharedDeliveries,
  coalescing,
  rhythms,
  consumersOfDeliveries,
  joinedDeliveries,
  reconciliations,
  slugs,
  heldShares,
  signals,
];
