import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import {
  createWorkspace,
  eventually,
  FLOW_ID,
  getJson,
  type Service,
  startService,
  type Workspace,
} from './service.ts';

/** Each part throws an error that no code can await. */
const CONFIG = `
  import { defineHandler, z } from '@sluicehq/sluice';
  const later = (fail) => setTimeout(fail, 1);
  const reject = (who) => void Promise.reject(new Error(who + ' rejected'));
  const fail = (who) => { throw new Error(who + ' threw'); };
  process.on('SIGUSR2', () => fail('module'));
  reject('import');
  export default {
    enforcementMode: 'Enforce',
    handlers: [defineHandler({
      type: 'Careless',
      inputs: z.unknown(),
      run() {
        reject('handler');
        void Promise.reject(Object.freeze(new Error('handler, frozen, rejected')));
        later(() => fail('handler'));
        setImmediate(() => { throw new Error('handler, immediately threw'); });
        later(() => { throw new Proxy(new Error(''), { get() { throw new Error('no'); } }); });
        return { kind: 'succeeded', output: null };
      },
    })],
    verifiers: [{ name: 'Careless', verify() {
      later(() => reject('verifier'));
      return { outcome: 'verified' };
    } }],
    payloadStrategies: { careless: ({ delivery }) => {
      reject('strategy');
      return delivery.body;
    } },
    gates: [
      { name: 'careless', prepare: () => ({ name: 'careless', async check() {
        await null;
        later(() => fail('gate'));
        return { passed: true };
      } }) },
      { name: 'broken', prepare: ({ inputs }) => inputs.webhookSlug === 'broken'
        ? { name: 'broken', check: () => fail('gate') } : undefined },
    ],
  };
`;

let workspace: Workspace;
let service: Service;
beforeAll(async () => {
  workspace = await createWorkspace();
  await writeFile(join(workspace.folder, 'sluice.config.mjs'), CONFIG);
  const hook = (slug: string, inputs: object) => ({ type: 'webhook', inputs: { webhookSlug: slug, ...inputs } });
  const custom = {
    webhookSignatureScheme: 'Custom',
    webhookHmacKey: 'a key that is long enough',
    webhookSignatureHeader: 'X-Signature',
    webhookSignedPayloadStrategy: 'Custom',
    webhookCustomStrategyName: 'careless',
  };
  await workspace.writeManifest('careless.json', {
    id: FLOW_ID,
    name: 'careless',
    version: '1',
    triggers: {
      careless: hook('careless', { webhookSignatureScheme: 'Careless' }),
      custom: hook('custom', custom),
      broken: hook('broken', {}),
    },
    steps: { only: { type: 'Careless' } },
  });
  service = await startService(workspace);
});

const post = (slug: string) =>
  fetch(`${service.url}/flows/api/webhook/${slug}`, {
    method: 'POST',
    headers: { 'x-signature': 'ab'.repeat(32) },
    body: '{}',
  });

it("errors of the operator's code that nothing catches are logged under its name, and the process goes on", async () => {
  expect((await post('careless')).status).toBe(200);
  expect((await post('custom')).status).toBe(401);
  service.child.kill('SIGUSR2');
  const expected = [
    ['handler \\"Careless\\"', 'handler rejected'],
    ['handler \\"Careless\\"', 'handler, frozen, rejected'],
    ['handler \\"Careless\\"', 'handler threw'],
    ['handler \\"Careless\\"', 'handler, immediately threw'],
    ['handler \\"Careless\\"', 'what was thrown cannot be read'],
    ['verifier \\"Careless\\"', 'verifier rejected'],
    ['payload strategy \\"careless\\"', 'strategy rejected'],
    ['gate \\"careless\\"', 'gate threw'],
    ['config module', 'module threw'],
  ] as const;
  for (const [owner, message] of expected) {
    const lines = await eventually(
      async () => service.output().split('\n'),
      (all) => all.some((line) => line.includes(message)),
    );
    expect(lines.filter((line) => line.includes(message))[0]).toContain(`"owner":"${owner}"`);
  }
  expect((await post('careless')).status).toBe(200);
});

it('one that comes while the service starts does not stop the start', async () => {
  const line = service
    .output()
    .split('\n')
    .find((each) => each.includes('import rejected'));
  expect(line).toContain('config module');
});

it('a gate that throws fails the delivery, which is recorded', async () => {
  const response = await post('broken');
  expect([response.status, await response.json()]).toMatchObject([401, { reason: 'verifier_error' }]);
  const [latest] = await getJson<object[]>(`${service.url}/flows/api/webhooks/recent?reason=verifier_error`);
  expect(latest).toMatchObject({ rejected: true, detail: 'gate "broken" failed: Error' });
});

it('an error of ours that nothing catches stops the process with 1, in order', async () => {
  await service.stop('SIGTERM');
  await writeFile(join(workspace.folder, 'fault.mjs'), "process.on('SIGUSR2', () => { throw new Error('a fault'); });");
  service = await startService(workspace, { NODE_OPTIONS: `--import ${join(workspace.folder, 'fault.mjs')}` });
  expect(await service.stop('SIGUSR2')).toEqual({ code: 1, signal: null });
  expect(service.output()).toMatch(/"level":60.*a fault/);
  expect(service.output()).toContain('"msg":"stopped"');
});
