import pg from 'pg';
import { decide } from '../decisions/decision.ts';
import { examineContents } from '../decisions/examination.ts';
import { canBeRead } from '../schema-objects.ts';
import type { Examination, ExaminationRequest } from '../store.ts';
import { POSTGRES_ADDS, TABLES } from '../tables.ts';
import { readDatabase } from './inspect.ts';
import { schemaDifferenceOf } from './schema.ts';
import type { Sql } from './sql.ts';

/** Examines a schema in one read-only transaction: no writer waits for it. */
export async function examineDatabase(
  database: { readonly directUrl: string; readonly schema: string },
  { before, isQuick }: ExaminationRequest,
): Promise<Examination> {
  return readDatabase(database, async (sql) => {
    const tables = await measureTables(sql);
    const schema = await schemaDifferenceOf((text, values) => sql.all(text, [...values]), sql.schema);
    return {
      damage: isQuick ? null : await readDamage(sql, tables),
      schemaVersion:
        (await sql.get<{ version: number }>('SELECT max(version) AS version FROM sluice.schema_migrations'))?.version ??
        0,
      schema,
      fileBytes: tables.reduce((sum, { bytes }) => sum + bytes, 0),
      walBytes: null,
      tables,
      contents: canBeRead(schema) ? await decide(examineContents(sql.port, before)) : null,
    };
  });
}

const measureTables = (sql: Sql) =>
  sql.all<{ name: string; bytes: number }>(
    `SELECT relname AS name, pg_total_relation_size(oid) AS bytes FROM pg_class
    WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'm') ORDER BY bytes DESC`,
    [pg.escapeIdentifier(sql.schema)],
  );

/** Damage that PostgreSQL itself knows of, without the extension amcheck, which a role can seldom add. */
async function readDamage(sql: Sql, tables: NonNullable<Examination['tables']>): Promise<string[]> {
  const views = new Set<string>(['run_inputs']);
  const missing = [...Object.keys(TABLES), ...Object.keys(POSTGRES_ADDS.tables)].filter(
    (name) => !views.has(name) && !tables.some((table) => table.name === name),
  );
  const broken = await sql.all<{ name: string }>(
    `SELECT c.relname AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = $1::regnamespace AND NOT (i.indisvalid AND i.indisready) ORDER BY name`,
    [pg.escapeIdentifier(sql.schema)],
  );
  const checksums = await sql.get<{ failures: number | null }>(
    'SELECT checksum_failures AS failures FROM pg_stat_database WHERE datname = current_database()',
  );
  const failures = checksums?.failures ?? 0;
  return [
    ...missing.map((name) => `the table ${name} is missing`),
    ...broken.map(({ name }) => `the index ${name} is not valid: REINDEX it`),
    ...(failures > 0 ? [`PostgreSQL found ${failures} pages with a wrong checksum`] : []),
  ];
}
