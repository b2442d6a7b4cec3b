import { toSqlite } from '../../migrations/0001-tables.ts';
import { sharedMigrations } from '../../migrations/index.ts';
import type { SharedMigration } from '../../migrations/migration.ts';
import { initial } from './0001-initial.ts';

/** One step of the schema. */
export type Migration = Pick<SharedMigration, 'version' | 'name' | 'sql'>;

/** The schema's history in order. */
export const migrations: readonly Migration[] = [
  initial,
  ...sharedMigrations.map(({ version, name, sql, ofSqlite = '' }) => ({
    version,
    name,
    sql: toSqlite(sql) + ofSqlite,
  })),
];
