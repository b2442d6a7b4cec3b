import { toSqlite } from '../../migrations/0001-tables.ts';
import { deliveryShares } from '../../migrations/0003-delivery-shares.ts';

export const sharedDeliveries = { version: 3, name: 'delivery shares', sql: toSqlite(deliveryShares) };
