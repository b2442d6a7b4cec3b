import { toSqlite } from '../../migrations/0001-tables.ts';
import { heldShares as shared } from '../../migrations/0010-held-shares.ts';

export const heldShares = { version: 10, name: 'held shares', sql: toSqlite(shared) };
