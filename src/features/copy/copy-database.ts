import { createHash } from 'node:crypto';
import {
  COPIED_TABLES,
  type CopiedDatabase,
  type CopiedRow,
  type CopiedTable,
  type CopyEnd,
} from './copied-database.ts';

/** A copy that cannot be made, or that differs from its source. */
class CopyError extends Error {}

/** Opens `sqlite:PATH`, or the schema of a `postgres://` database; throws an error that names the database. */
export async function openCopiedDatabase(
  url: string,
  { schema, isSource }: CopyEnd & { readonly schema: string },
): Promise<CopiedDatabase> {
  if (url.startsWith('sqlite:')) {
    const { openCopiedSqlite } = await import('./sqlite-rows.ts');
    return openCopiedSqlite(url.slice('sqlite:'.length), { isSource });
  }
  const { openCopiedPostgres } = await import('./postgres-rows.ts');
  return openCopiedPostgres({ url, schema, isSource });
}

export interface CopyReport {
  /** Whether rows are copied, or compared. */
  readonly phase: 'copied' | 'compared';
  readonly table: string;
  readonly rows: number;
}

/**
 * Copies all rows of one database to an empty one, or continues an interrupted copy. Finally it reads both and compares
 * their rows; until then no service opens the copy. Returns the number of rows.
 */
export async function copyDatabase(
  from: CopiedDatabase,
  to: CopiedDatabase,
  onProgress: (report: CopyReport) => void,
): Promise<number> {
  if ((await from.findProgress()) !== undefined) {
    throw new CopyError(`${from.name} is itself an unfinished copy`);
  }
  const begun = await to.findProgress();
  if (begun === undefined) {
    if (!(await to.isEmpty())) throw new CopyError(`${to.name} is not empty`);
    await to.begin(from.name);
  } else if (begun.source !== from.name) {
    throw new CopyError(`${to.name} is an unfinished copy of ${begun.source}`);
  }
  for (const table of COPIED_TABLES) {
    let total = begun?.rows.get(table.name) ?? 0;
    for await (const rows of from.read(table, total)) {
      total += rows.length;
      await to.write(table, { rows, total }).catch((error: unknown) => {
        const reason = error instanceof Error ? error.message : String(error);
        throw new CopyError(`${table.name}: ${reason}`, { cause: error });
      });
      onProgress({ phase: 'copied', table: table.name, rows: total });
    }
  }
  await to.derive();
  const total = await compare(from, to, onProgress);
  await to.finish();
  return total;
}

async function compare(
  from: CopiedDatabase,
  to: CopiedDatabase,
  onProgress: (report: CopyReport) => void,
): Promise<number> {
  let total = 0;
  for (const table of COPIED_TABLES) {
    const [source, copy] = [await digestRows(from, table), await digestRows(to, table)];
    if (source.rows !== copy.rows || source.digest !== copy.digest) {
      throw new CopyError(
        `${table.name} has ${source.rows} rows in ${from.name} and ${copy.rows} in the copy, or they differ: the source changed during the copy; start again with an empty database`,
      );
    }
    total += copy.rows;
    if (copy.rows > 0) onProgress({ phase: 'compared', table: table.name, rows: copy.rows });
  }
  return total;
}

/** Sums the digests of the rows, because each database has another order. */
async function digestRows(database: CopiedDatabase, table: CopiedTable): Promise<{ rows: number; digest: bigint }> {
  let rows = 0;
  let digest = 0n;
  for await (const slice of database.read(table, 0)) {
    rows += slice.length;
    for (const row of slice) digest = BigInt.asUintN(128, digest + digestOfRow(row));
  }
  return { rows, digest };
}

function digestOfRow(row: CopiedRow): bigint {
  const hash = createHash('sha256');
  for (const value of row) {
    const bytes = value instanceof Uint8Array ? value : Buffer.from(JSON.stringify(value));
    hash.update(`${value instanceof Uint8Array ? 'bytes' : 'value'} ${bytes.byteLength}:`);
    hash.update(bytes);
  }
  return BigInt(`0x${hash.digest('hex').slice(0, 32)}`);
}
