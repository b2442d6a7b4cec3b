import { mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { backupStore, inspectStore } from '../../../src/store/offline.ts';
import { openStore } from '../../../src/store/open-store.ts';
import { temporaryFolder } from '../../temporary.ts';

it('a copy of a database that is open for writing opens, and has what was committed', async () => {
  const folder = temporaryFolder('backup');
  mkdirSync(join(folder, 'data'));
  const path = join(folder, 'data', 'sluice.db');
  const store = await openStore({ kind: 'sqlite', path });
  onTestFinished(() => store.close());
  const copy = join(folder, 'copy.db');
  expect(await backupStore(path, copy)).toBeGreaterThan(0);
  const inspection = await inspectStore({ kind: 'sqlite', path: copy });
  await inspection.close();
  expect(statSync(copy).size).toBeGreaterThan(0);
  expect(readdirSync(folder).filter((name) => name.endsWith('-journal'))).toEqual([]);
});
