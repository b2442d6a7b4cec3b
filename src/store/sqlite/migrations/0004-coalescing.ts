import { toSqlite } from '../../migrations/0001-tables.ts';
import { coalescing as tables } from '../../migrations/0004-coalescing.ts';

export const coalescing = { version: 4, name: 'coalescing', sql: toSqlite(tables) };
