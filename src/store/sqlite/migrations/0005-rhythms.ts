import { toSqlite } from '../../migrations/0001-tables.ts';
import { rhythmTables } from '../../migrations/0005-rhythms.ts';

export const rhythms = { version: 5, name: 'rhythms', sql: toSqlite(rhythmTables) };
