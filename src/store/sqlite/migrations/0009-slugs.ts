import { toSqlite } from '../../migrations/0001-tables.ts';
import { slugTable } from '../../migrations/0009-slugs.ts';

export const slugs = { version: 9, name: 'slugs', sql: toSqlite(slugTable) };
