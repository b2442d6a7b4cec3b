import { createHash } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import type { SchemaDifference } from '../contract/examination.ts';
import { type SchemaObjects, schemaDifference } from '../schema-objects.ts';

interface SchemaRow {
  readonly type: string;
  readonly name: string;
  readonly tbl_name: string;
  readonly sql: string | null;
}

/** Digest of the schema that the migrations make, so that a start need not make one to compare. A test checks it. */
export const SCHEMA_DIGEST = 'rUcoHCfSUJRTD-oYB-GKelGDLP4vb1JlHU_oyCFveeA';

const NOTHING: SchemaDifference = { lacks: [], foreign: [] };

/** How a file differs from what the migrations of this release make; `make` yields a database made by them. */
export function schemaDifferenceOf(
  db: Database,
  make: () => { readonly db: Database; close(): void },
): SchemaDifference {
  if (digestOfSchema(db) === SCHEMA_DIGEST) return NOTHING;
  const made = make();
  try {
    return schemaDifference(objectsIn(db), objectsIn(made.db));
  } finally {
    made.close();
  }
}

export function digestOfSchema(db: Database): string {
  const hash = createHash('sha256');
  for (const { type, name, sql } of rowsOf(db)) hash.update(`${type} ${name} ${sql}\n`);
  return hash.digest('base64url');
}

function objectsIn(db: Database): SchemaObjects {
  const columnsOf = db.prepare<[string], { name: string; type: string }>('SELECT name, type FROM pragma_table_info(?)');
  return new Map(
    rowsOf(db).flatMap(({ type, name, tbl_name: table, sql }): (readonly [string, string])[] => {
      if (type === 'view') return [[`view ${name}`, sql ?? '']];
      if (type !== 'table') return [[`${type} ${name} on ${table}`, sql ?? '']];
      const columns = columnsOf.all(name).map((column) => [`column ${name}.${column.name}`, column.type] as const);
      return [[`table ${name}`, ''], ...columns];
    }),
  );
}

/** In a fixed order, without SQLite's internal objects. */
const rowsOf = (db: Database) =>
  db
    .prepare<[], SchemaRow>(
      "SELECT type, name, tbl_name, sql FROM main.sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type, name",
    )
    .all();
