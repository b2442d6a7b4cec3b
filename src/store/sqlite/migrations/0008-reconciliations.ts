import { toSqlite } from '../../migrations/0001-tables.ts';
import { reconciliationTable } from '../../migrations/0008-reconciliations.ts';

export const reconciliations = { version: 8, name: 'reconciliations', sql: toSqlite(reconciliationTable) };
