import { toSqlite } from '../../migrations/0001-tables.ts';
import { signals as shared } from '../../migrations/0011-signals.ts';

export const signals = { version: 11, name: 'signals', sql: toSqlite(shared) };
