import { toSqlite } from '../../migrations/0001-tables.ts';
import { orderTables } from '../../migrations/0002-order.ts';

export const order = { version: 2, name: 'order', sql: toSqlite(orderTables) };
