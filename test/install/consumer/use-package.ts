import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { buildApp, defineConfig } from '@sluicehq/sluice';
import { runFlow, type TestCase, testFiles } from '@sluicehq/sluice/testing';
import config from './sluice.config.js';

// @ts-expect-error: the types of the package are read, so a wrong option is a mistake
defineConfig({ handlers: 'Greet' });

const manifest: unknown = JSON.parse(await readFile('manifests/greet.json', 'utf8'));
const run = await runFlow(manifest, {
  body: { repository: { name: 'Ada' } },
  handlers: { Greet: config.handlers?.[0] ?? (() => 'nobody') },
  secrets: { 'env:GREET_KEY': 'a key of the test, long enough' },
});
const output: unknown = run.steps.greet?.output;
assert.equal(output, 'Hello Ada');

const cases: readonly TestCase[] = await testFiles('.', { handlers: config.handlers ?? [] });
assert.deepEqual(cases, []);

const app = await buildApp({
  settings: { port: 0, databaseUrl: 'sqlite::memory:', logLevel: 'silent' },
  extensions: config,
  environment: { GREET_KEY: 'a key of the test, long enough' },
});
await app.listen();
await app.close();
