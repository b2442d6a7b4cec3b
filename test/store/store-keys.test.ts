import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { storeKeys } from '../../src/store/store-keys.ts';
import { temporaryFolder } from '../temporary.ts';

test('a key that a killed start left unfinished is not used, and not left', () => {
  const folder = temporaryFolder('keys');
  const path = join(folder, 'sluice.db');
  writeFileSync(`${path}.key.new`, 'sluice-k', { mode: 0o644 });
  const made = storeKeys({ kind: 'sqlite', path }, { sealer: undefined, onMade: () => {} });
  expect(readdirSync(folder)).toEqual(['sluice.db.key']);
  expect(statSync(`${path}.key`).mode & 0o777).toBe(0o600);
  expect(readFileSync(`${path}.key`, 'utf8')).toMatch(/^sluice-key-\w+\n$/);
  const again = storeKeys({ kind: 'sqlite', path }, { sealer: undefined });
  expect(again.current?.keyId).toBe(made.current?.keyId);
});
