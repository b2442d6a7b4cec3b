import { execFile } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, '../..');
const PUBLISHERS = 'src/webhooks/schemes/publishers';
const TIME = 1_700_000_000;
const KEY = 'key of a made-up publisher';
const BODY = '{"event":"parcel.sent"}';

// Step 1 of the recipe in CONTRIBUTING.md: one file.
const SCHEME = `import { jsonSample, type PublisherSpec, part } from '../spec.ts';

export const parcels: PublisherSpec = {
  name: 'Parcels',
  headers: [{ signature: 'X-Parcels-Signature', timestamp: 'X-Parcels-Time', deliveryId: 'X-Parcels-Id' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  prefix: 'p1=',
  signs: [part.timestamp, '.', part.body],
  timestamp: { in: 'header', unit: 'seconds' },
  eventType: { path: ['event'] },
  eventId: { headers: ['X-Parcels-Id'] },
  sample: jsonSample({ event: 'parcel.sent' }),
  source: 'made up for a test, read 2026-11',
};
`;

// Step 3: known requests, one that is right and one that is wrong.
const signature = `p1=${createHmac('sha256', KEY).update(`${TIME}.${BODY}`).digest('hex')}`;
const vector = (name: string, body: string, valid: boolean) => ({
  scheme: 'Parcels',
  name,
  source: 'computed with node:crypto from the documented form',
  method: 'POST',
  headers: { 'content-type': 'application/json', 'x-parcels-signature': signature, 'x-parcels-time': String(TIME) },
  bodyUtf8: body,
  key: KEY,
  now: TIME,
  toleranceSeconds: 300,
  valid,
});

let tree: string;
beforeAll(async () => {
  tree = await mkdtemp(join(tmpdir(), 'sluice-recipe-'));
  for (const name of ['src', 'test', 'docs', 'manifests', 'package.json', 'vitest.config.ts', 'tsconfig.json']) {
    await cp(join(ROOT, name), join(tree, name), { recursive: true });
  }
  for (const name of ['node_modules', 'dist']) await symlink(join(ROOT, name), join(tree, name));
  await writeFile(join(tree, PUBLISHERS, 'parcels.ts'), SCHEME);
  // Step 2: the scheme in the list, and the import that it needs.
  const list = await readFile(join(tree, PUBLISHERS, 'index.ts'), 'utf8');
  const listed = list.replace(/,\n\];/, ',\n  parcels,\n];');
  await writeFile(join(tree, PUBLISHERS, 'index.ts'), `import { parcels } from './parcels.ts';\n${listed}`);
});
afterAll(() => rm(tree, { recursive: true, force: true }));

interface Result {
  readonly isGreen: boolean;
  readonly output: string;
}

/** The schemes' own tests, in the copy. */
async function testSchemes(...folders: string[]): Promise<Result> {
  const args = ['node_modules/vitest/vitest.mjs', 'run', '--project', 'fast', '--maxWorkers=1', '--reporter=verbose'];
  const env = { ...process.env, NO_COLOR: '1', FORCE_COLOR: '0' };
  try {
    const { stdout } = await run(process.execPath, [...args, ...folders], { cwd: tree, env, maxBuffer: 1e8 });
    return { isGreen: true, output: stdout };
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    return { isGreen: false, output: `${stdout}${stderr}` };
  }
}

it('misses the known requests of a scheme that has none, and names the scheme', async () => {
  const { isGreen, output } = await testSchemes('test/webhooks/schemes/publisher-vectors.test.ts');
  expect(isGreen).toBe(false);
  expect(output).toMatch(/FAIL.*Parcels > is covered by known answers of both kinds/);
});

it('verifies, signs and describes a scheme after one file, one line and its known requests', async () => {
  const vectors = [vector('signed', BODY, true), vector('another-body', `${BODY} `, false)];
  await writeFile(join(tree, 'test/vectors/parcels.json'), JSON.stringify(vectors, null, 2));
  const { isGreen, output } = await testSchemes('test/webhooks/schemes', 'test/webhooks/headers', 'test/publishers');
  expect(isGreen, output.slice(-4000)).toBe(true);
  expect(output).toMatch(/Parcels > gives the verdict of the known answer "signed"/);
  expect(output).toMatch(/Parcels > verifies what it signs/);
  expect(output).toMatch(/Parcels > answers the known request "signed" over a socket/);
});
