import SqliteDatabase from 'better-sqlite3';
import { refuseIncomplete } from '../schema-objects.ts';
import { openWriter } from './connection.ts';
import { inMemory } from './messages.ts';
import { schemaDifferenceOf } from './schema.ts';

/** Copies one instant of a database, checks the copy and yields its number of pages. No writer waits for it. */
export async function copyPages(path: string, target: string): Promise<number> {
  const source = new SqliteDatabase(path, { readonly: true, fileMustExist: true });
  try {
    // In few steps: a write by the service in between would restart the copy.
    const { totalPages } = await source.backup(target, {
      progress: ({ remainingPages }) => Math.max(remainingPages, 1),
    });
    const copy = new SqliteDatabase(target);
    try {
      copy.pragma('journal_mode = DELETE');
      const found = copy.pragma('integrity_check', { simple: true });
      if (found !== 'ok') throw new Error(`the copy is damaged: ${String(found)}; run sluice doctor on the database`);
      refuseIncomplete(schemaDifferenceOf(copy, () => openWriter(inMemory)));
    } finally {
      copy.close();
    }
    return totalPages;
  } finally {
    source.close();
  }
}
