// Stores the databases as this version of package.json leaves them: `npm run freeze`. Run it for each release, once it
// has all its migrations; they are used to test later ones.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { copyDatabase } from '../../../src/features/copy/copy-database.ts';
import { openCopiedPostgres } from '../../../src/features/copy/postgres-rows.ts';
import { openCopiedSqlite } from '../../../src/features/copy/sqlite-rows.ts';
import { version } from '../../../src/version.ts';
import { filled } from '../../postgres/everything.ts';
import { startPostgres } from '../../postgres/server.ts';
import { digestsNow, dumpPostgres, writeFrozen } from './frozen.ts';

const folder = mkdtempSync(join(tmpdir(), 'sluice-frozen-'));
const server = await startPostgres();
try {
  const { path, expected } = await filled(join(folder, 'sluice.db'));
  const target = { url: server.url, schema: 'frozen' };
  const from = openCopiedSqlite(path, { isSource: true });
  const to = await openCopiedPostgres({ ...target, isSource: false });
  await copyDatabase(from, to, () => {});
  await from.close();
  await to.close();
  const compact = join(folder, 'compact.db');
  new SqliteDatabase(path).exec(`VACUUM INTO '${compact}'`).close();
  const postgres = await dumpPostgres(target.url, target.schema);
  writeFrozen(version, { sqlite: readFileSync(compact), postgres, answers: expected, migrations: digestsNow() });
  console.log(`Kept the databases of ${version} in test/store/frozen/${version}`);
} finally {
  await server.stop();
  rmSync(folder, { recursive: true });
}
