import { toSqlite } from '../../migrations/0001-tables.ts';
import { consumers } from '../../migrations/0006-consumers.ts';

export const consumersOfDeliveries = { version: 6, name: 'consumers', sql: toSqlite(consumers) };
