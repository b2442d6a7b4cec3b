import { rhythmTables } from '../../migrations/0005-rhythms.ts';

export const rhythms = { version: 5, name: 'rhythms', compatibleFrom: 1, sql: rhythmTables };
