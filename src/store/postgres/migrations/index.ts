import { sharedMigrations } from '../../migrations/index.ts';
import type { SharedMigration } from '../../migrations/migration.ts';
import { initial } from './0001-initial.ts';

/**
 * One step of the schema. The SQL names tables in the schema `sluice`, and what belongs to graphile-worker in
 * `graphile_worker`; a database with another schema gets the same with its names.
 */
export type Migration = Omit<SharedMigration, 'ofPostgres' | 'ofSqlite'>;

/** The schema's history in order. */
export const migrations: readonly Migration[] = [
  initial,
  ...sharedMigrations.map(({ sql, ofPostgres = '', ofSqlite, ...more }) => ({ ...more, sql: sql + ofPostgres })),
];
