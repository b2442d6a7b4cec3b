import { deliveryShares } from '../../migrations/0003-delivery-shares.ts';

export const sharedDeliveries = { version: 3, name: 'delivery shares', compatibleFrom: 1, sql: deliveryShares };
