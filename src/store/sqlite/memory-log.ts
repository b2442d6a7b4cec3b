import type { Database } from 'better-sqlite3';

/** What the delivery log consists of. */
const LOG_TABLES = ['deliveries', 'delivery_counts', 'delivery_hours', 'delivery_totals', 'refused_state'];

interface SchemaObject {
  readonly type: string;
  readonly sql: string;
}

/**
 * Puts tables in front of those of the delivery log that live in this connection's memory and are gone with it. They
 * have the same definition and are found by the same names, so every statement works on them unchanged, and an
 * acceptance stays one transaction. To be called before anything is prepared.
 */
export function keepLogInMemory(db: Database): void {
  db.pragma('temp_store = MEMORY');
  const objects = db
    .prepare<string[], SchemaObject>(`
      SELECT type, sql FROM main.sqlite_schema
      WHERE sql IS NOT NULL AND tbl_name IN (${LOG_TABLES.map(() => '?').join(', ')})
      ORDER BY type <> 'table', type <> 'index'`)
    .all(...LOG_TABLES);
  for (const { sql } of objects) db.exec(asTemporary(sql));
  // In memory all records are bounded, not only those that started no run.
  db.exec(`
    INSERT INTO temp.refused_state (id, rows, bytes) VALUES (1, 0, 0);
    CREATE TEMP TRIGGER started_added AFTER INSERT ON deliveries WHEN new.run_id IS NOT NULL BEGIN
      UPDATE refused_state SET rows = rows + 1, bytes = bytes + new.kept_bytes;
    END;
    CREATE TEMP TRIGGER started_deleted AFTER DELETE ON deliveries WHEN old.run_id IS NOT NULL BEGIN
      UPDATE refused_state SET rows = rows - 1, bytes = bytes - old.kept_bytes;
    END;`);
}

function asTemporary(sql: string): string {
  return sql
    .replace(/^CREATE (TABLE|TRIGGER) /, 'CREATE TEMP $1 ')
    .replace(/^CREATE (UNIQUE )?INDEX /, (_, unique = '') => `CREATE ${unique}INDEX temp.`);
}
