import { reconciliationTable } from '../../migrations/0008-reconciliations.ts';

export const reconciliations = { version: 8, name: 'reconciliations', compatibleFrom: 1, sql: reconciliationTable };
