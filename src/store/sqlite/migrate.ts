import type { Database } from 'better-sqlite3';
import type { Migration } from './migrations/migration.ts';

/** Throws where the database is newer than the list of migrations or belongs to another program. Reads only. */
export function checkSchema(db: Database, migrations: readonly Migration[]): void {
  const newest = migrations.at(-1)?.version ?? 0;
  const current = schemaVersion(db);
  if (current <= newest) return;
  throw new Error(
    `its schema version is ${current} and the newest that this release knows is ${newest}; start a newer release, or use another database`,
  );
}

/** Brings the schema up to the newest migration, each in a transaction of its own; what is applied already stays. */
export function migrate(db: Database, migrations: readonly Migration[]): void {
  const applied = appliedVersions(db);
  for (const migration of migrations.filter(({ version }) => !applied.has(version))) apply(db, migration);
}

export function schemaVersion(db: Database): number {
  return Math.max(0, ...appliedVersions(db));
}

function appliedVersions(db: Database): Set<number> {
  const tables = db.prepare<[], { name: string }>("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
  if (tables.some(({ name }) => name === 'schema_migrations')) {
    const rows = db.prepare<[], { version: number }>('SELECT version FROM schema_migrations').all();
    return new Set(rows.map(({ version }) => version));
  }
  if (tables.length > 0) throw new Error(`it is a database of another program (it has a table "${tables[0]?.name}")`);
  return new Set();
}

function apply(db: Database, { version, name, sql }: Migration): void {
  db.transaction(() => {
    db.exec(`CREATE TABLE IF NOT EXISTS schema_migrations (
      version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL)`);
    db.exec(sql);
    db.prepare('INSERT INTO schema_migrations (version, name, applied_at) VALUES (?, ?, ?)').run(
      version,
      name,
      Date.now(),
    );
  }).immediate();
}
