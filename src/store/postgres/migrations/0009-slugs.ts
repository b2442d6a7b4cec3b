import { slugTable } from '../../migrations/0009-slugs.ts';

export const slugs = { version: 9, name: 'slugs', compatibleFrom: 1, sql: slugTable };
