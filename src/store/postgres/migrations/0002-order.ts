import { orderTables } from '../../migrations/0002-order.ts';

export const order = { version: 2, name: 'order', compatibleFrom: 2, locks: ['held_deliveries'], sql: orderTables };
