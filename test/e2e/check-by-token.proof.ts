import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { runCli } from './cli.ts';
import { githubManifest } from './service.ts';
import { useService } from './used-service.ts';

const TOKENS = [
  { name: 'ci', token: 'ci-of-the-shop-4f1c9d7ab2e8', scopes: ['deploy'] },
  { name: 'reader', token: 'reader-of-the-shop-9a8b7c6d', scopes: ['read'] },
];

const { workspace, service } = useService(async ({ folder, writeManifest }) => {
  const tokens = join(folder, 'tokens.json');
  await writeFile(tokens, JSON.stringify(TOKENS));
  await writeManifest('push.json', githubManifest());
  return { SLUICE_TOKENS: tokens, SLUICE_STORE_KEY: 'the key of the store' };
});

const check = (token: string) =>
  runCli(workspace, ['check', '--against', service.url, '--token', token, '--rehearse', '5', '--json']);

it('checks and rehearses for a token that may deploy and read nothing', async () => {
  const { code, stdout, stderr } = await check('ci-of-the-shop-4f1c9d7ab2e8');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(JSON.parse(stdout)).toMatchObject({ outcomes: [{ action: 'unchanged' }], notInFolder: [], rehearsals: [] });
});

it('does not for one that may not deploy', async () => {
  const { code, stderr } = await check('reader-of-the-shop-9a8b7c6d');
  expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining('needs the scope deploy') });
});
