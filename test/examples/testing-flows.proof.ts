import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { commandsOf, follow } from '../docs/console.ts';
import { ROOT } from '../docs/pages.ts';
import { runCli } from '../e2e/cli.ts';
import { copyExample, fakeService, serveExample, variableOf } from './example.ts';

const PAGE = 'docs/testing-flows.md';
const EXECUTED = 'executed by test/examples/testing-flows.proof.ts';

it('does what the page about tests shows, with the test that the example has', async () => {
  const example = await copyExample('stripe-fulfilment');
  await fakeService(await variableOf(example, 'FULFILMENT_URL'), () => ({ body: { shipment: 1 } }));
  expect(await runCli(example, ['test'])).toMatchObject({
    code: 0,
    stdout: 'same     paid.test.json\n\n1 test: 1 same.\n',
  });
  const service = await serveExample(example);
  await follow(commandsOf(PAGE, EXECUTED), example);

  const saved = await readFile(join(example.folder, 'paid.test.json'), 'utf8');
  const own = await readFile(join(ROOT, 'examples/stripe-fulfilment/paid.test.json'), 'utf8');
  expect(JSON.parse(saved).expected).toEqual(JSON.parse(own).expected);

  const file = join(example.folder, 'manifests/orders.json');
  const manifest = await readFile(file, 'utf8');
  await writeFile(file, manifest.replace('data.object.amount}', 'data.object.amount / 100.0}'));
  await follow(commandsOf(PAGE, `${EXECUTED}, with the amount in units`), example);
  expect((await runCli(example, ['test'])).code).toBe(0);
  await service.stop('SIGTERM');
});
