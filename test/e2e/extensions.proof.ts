import { createHmac, generateKeyPairSync, sign } from 'node:crypto';
import { copyFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runCli } from './cli.ts';
import { createWorkspace, eventually, getJson } from './service.ts';
import { useService } from './used-service.ts';

const HMAC_KEY = 'a key of Acme';
const SAMPLE = resolve(import.meta.dirname, 'sample.config.ts');
const [ed25519, rotatedOut, unknown] = ['current', 'previous', 'unknown'].map(() => generateKeyPairSync('ed25519'));
const publicText = (pair: typeof ed25519) =>
  pair?.publicKey.export({ format: 'der', type: 'spki' }).toString('base64') ?? '';
const digest = (algorithm: string, text: string) => createHmac(algorithm, HMAC_KEY).update(text);

const TRIGGERS = {
  ed25519: {
    webhookSignatureScheme: 'acme ed25519',
    webhookHmacKey: publicText(ed25519),
    webhookHmacKeyPrevious: publicText(rotatedOut),
  },
  token: { webhookSignatureScheme: 'InQuery' },
  broken: { webhookSignatureScheme: 'Broken', webhookHmacKey: HMAC_KEY },
  github: { webhookSignatureScheme: 'GitHub', webhookHmacKey: HMAC_KEY },
  acme: { webhookSignatureScheme: 'ACME', webhookHmacKey: HMAC_KEY },
  strategy: {
    webhookSignatureScheme: 'Custom',
    webhookHmacKey: HMAC_KEY,
    webhookSignatureHeader: 'X-Signature',
    webhookSignedPayloadStrategy: 'Custom',
    webhookCustomStrategyName: 'methodAndBody',
  },
  tenant: {},
};

const { workspace, service } = useService(async ({ folder, writeManifest }) => {
  await copyFile(SAMPLE, join(folder, 'sluice.config.ts'));
  const triggers = Object.entries(TRIGGERS).map(([slug, inputs]) => [
    slug,
    { type: 'webhook', inputs: { webhookSlug: slug, ...inputs } },
  ]);
  await writeManifest('extended.json', {
    id: '8d0bdf1e-7c5f-4d1a-9f0e-6a3a1c7f2b10',
    name: 'extended',
    version: '1',
    triggers: Object.fromEntries(triggers),
    steps: { greet: { type: 'Greet', inputs: { name: `\${trigger.body.name}` } } },
  });
});

const BODY = '{"name":"Zoë"}';

async function post(path: string, headers: Record<string, string> = {}, body = BODY) {
  const response = await fetch(`${service.url}/flows/api/webhook/${path}`, { method: 'POST', headers, body });
  return { status: response.status, answer: (await response.json()) as { reason?: string; runId?: string } };
}

const latest = async () =>
  (await getJson<Record<string, unknown>[]>(`${service.url}/flows/api/webhooks/recent?take=1`))[0];

describe('a config module outside the checkout', () => {
  it('verifies with an asynchronous, asymmetric verifier, and knows a rotated key', async () => {
    const signedBy = (pair: typeof ed25519) =>
      pair === undefined ? '' : sign(null, Buffer.from(BODY), pair.privateKey).toString('base64');
    for (const [pair, status, usedPreviousKey] of [
      [ed25519, 200, false],
      [rotatedOut, 200, true],
      [unknown, 401, false],
    ] as const) {
      expect((await post('ed25519', { 'x-acme-signature': signedBy(pair) })).status).toBe(status);
      expect(await latest()).toMatchObject({ scheme: 'Acme Ed25519', usedPreviousKey });
    }
    expect(await latest()).toMatchObject({ reason: 'signature_mismatch', detail: 'not signed by Acme' });
  });

  it('verifies with a verifier that reads the query string and needs no key', async () => {
    expect((await post('token?token=let-me-in')).status).toBe(200);
    expect((await post('token?token=wrong')).answer.reason).toBe('signature_mismatch');
    expect(service.output()).not.toMatch(/extended\/token/);
  });

  it('refuses what a verifier that throws was asked about, without its words', async () => {
    expect(await post('broken')).toMatchObject({ status: 401, answer: { reason: 'verifier_error' } });
    expect(await latest()).toMatchObject({ detail: 'verifier "Broken" failed: TypeError' });
    expect(service.output()).not.toContain('secret-of-the-key-service');
  });

  it('reads a named spec before the built-in scheme of that name', async () => {
    const signature = `sha256=${digest('sha256', BODY).digest('hex')}`;
    expect((await post('github', { 'x-forwarded-signature': signature })).status).toBe(200);
    expect((await post('github', { 'x-hub-signature-256': signature })).answer.reason).toBe('signature_missing');
    const other = digest('sha512', BODY).digest('base64url');
    expect((await post('acme', { 'x-acme': other })).status).toBe(200);
    expect((await post('acme', { 'x-acme': digest('sha512', 'x').digest('base64url') })).status).toBe(401);
  });

  it('builds the signed bytes of a Custom scheme', async () => {
    const headers = (text: string) => ({ 'x-signature': digest('sha256', text).digest('hex') });
    expect((await post('strategy', headers(`POST ${BODY}`))).status).toBe(200);
    expect((await post('strategy', headers(BODY))).answer.reason).toBe('signature_mismatch');
  });

  it('judges with a gate of its own, after the built-in ones', async () => {
    expect((await post('tenant', { 'x-tenant': 'ours' })).status).toBe(200);
    expect(await post('tenant')).toMatchObject({ status: 403, answer: { reason: 'ip_not_allowed' } });
    expect(await latest()).toMatchObject({ detail: 'another tenant' });
  });

  it('runs steps of its own types', async () => {
    const { answer } = await post('tenant', { 'x-tenant': 'ours', 'content-type': 'application/json' });
    const run = await eventually(
      () => getJson<{ status: string; steps: object[] }>(`${service.url}/flows/api/runs/${answer.runId}`),
      ({ status }) => status !== 'Running',
    );
    expect(run).toMatchObject({ status: 'Succeeded', steps: [{ output: 'hello Zoë, attempt 1' }] });
  });

  it('is what sluice schemes, the service and sluice send work with', async () => {
    const { stdout } = await runCli(workspace, ['schemes', '--json']);
    const listed: { name: string; kind: string; headers: string[] }[] = JSON.parse(stdout);
    expect(listed).toEqual(await getJson(`${service.url}/flows/api/schemes`));
    expect(listed.filter(({ kind }) => kind === 'verifier').map(({ name }) => name)).toEqual([
      'Acme Ed25519',
      'InQuery',
      'Broken',
    ]);
    const gitHub = listed.filter(({ name }) => name === 'GitHub');
    expect(gitHub).toMatchObject([{ kind: 'spec', headers: ['X-Forwarded-Signature'] }]);
    const sent = await runCli(workspace, ['send', 'github', '--to', service.url]);
    expect(sent.stdout).toMatch(/^200 /);
    const refused = await runCli(workspace, ['send', 'ed25519', '--to', service.url]);
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('only its publisher can sign') });
  });
});

describe('a start with extensions that cannot work ends with one line each', () => {
  it.each([
    ["verifiers: [{ name: 'stripe', verify() {} }]", 'signature verifier "stripe" has the name of a built-in scheme'],
    [
      `signatureSpecs: [{ name: 'A', headerName: 'no header', algorithm: 'sha256', encoding: 'base64', signedPayloadStrategy: 'RawBody' }]`,
      'signature spec "A": headerName: "no header" is not a header name',
    ],
    [
      "gates: [1, { name: 'x' }], handlers: [{ type: 'NoOp', run() {} }], verifiers: {}",
      'gates[0] is not an object',
      'gates[1].prepare is not a function',
      'handlers[0].inputs is not a zod schema',
      'verifiers is not an array',
    ],
    [
      "handlers: [defineHandler({ type: 'NoOp', inputs: z.unknown(), run: () => {} })]",
      'Two handlers have the step type "NoOp"',
    ],
    ["gates: [{ name: 'signature', prepare() {} }]", 'two gates have the name "signature"'],
  ])('%s', async (config, ...messages) => {
    const folder = await createWorkspace();
    const text = `import { defineHandler, z } from '@sluicehq/sluice';\nexport default { ${config} };\n`;
    await writeFile(join(folder.folder, 'sluice.config.mjs'), text);
    const { code, stderr } = await runCli(folder, ['check']);
    expect(code).toBe(2);
    for (const message of messages) expect(stderr).toContain(message);
    expect(stderr).not.toContain('    at ');
  });
});
