import { statSync } from 'node:fs';
import type { Database } from 'better-sqlite3';
import { decideNow } from '../decisions/decision.ts';
import { examineContents } from '../decisions/examination.ts';
import { canBeRead } from '../schema-objects.ts';
import type { Examination, ExaminationRequest } from '../store.ts';
import { damageOf, openWriter, schemaVersion } from './connection.ts';
import { openInspected } from './inspect.ts';
import { inMemory } from './messages.ts';
import { portOf } from './port.ts';
import { schemaDifferenceOf } from './schema.ts';

/** Examines a database over a read-only connection: nothing waits for it, and it changes nothing. */
export function examineDatabase(path: string, { before, isQuick }: ExaminationRequest): Examination {
  const db = openInspected(path);
  try {
    const sizeOf = (suffix: string) => statSync(`${db.name}${suffix}`, { throwIfNoEntry: false })?.size ?? 0;
    const damage = isQuick ? null : [...readDamage(db)];
    const readable = <Value>(read: () => Value): Value | null => {
      try {
        return read();
      } catch (error) {
        const found = damageOf(error, path);
        if (found === undefined) throw error;
        damage?.push(found.message);
        return null;
      }
    };
    const schema = readable(() => schemaDifferenceOf(db, () => openWriter(inMemory)));
    return {
      schemaVersion: schemaVersion(db),
      schema,
      fileBytes: sizeOf(''),
      walBytes: sizeOf('-wal'),
      tables: isQuick ? null : readable(() => measureTables(db)),
      contents:
        schema !== null && canBeRead(schema) ? readable(() => decideNow(examineContents(portOf(db), before))) : null,
      damage,
    };
  } finally {
    db.close();
  }
}

/** How many lines of SQLite are read; a file can be damaged in too many places to name. */
const MOST_LINES = 20;

function readDamage(db: Database): string[] {
  try {
    const lines = db.prepare<[], string>(`PRAGMA integrity_check(${MOST_LINES})`).pluck().all();
    return lines.length === 1 && lines[0] === 'ok' ? [] : lines;
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)];
  }
}

function measureTables(db: Database): NonNullable<Examination['tables']> {
  return db
    .prepare<[], { name: string; bytes: number }>(`
      SELECT s.tbl_name AS name, sum(d.pgsize) AS bytes FROM dbstat AS d
      JOIN sqlite_schema AS s ON s.name = d.name WHERE d.aggregate = TRUE GROUP BY s.tbl_name ORDER BY bytes DESC`)
    .all();
}
