import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import { loadConfigModule } from '../../src/config/config-module.ts';
import { runFlow } from '../../src/features/rehearsal/testing.ts';
import { buildApp } from '../database.ts';
import { temporaryFolder } from '../temporary.ts';

const text = readFileSync(resolve(import.meta.dirname, '../../docs/extending.md'), 'utf8');
const MODULES = join(import.meta.dirname, 'extending');
const FLOW_ID = 'c9a4e6a0-5d0e-4a0c-8a43-3f3c8f1d2b60';
const KEY = 'a key that no one can guess';

const load = async (name: string) => (await loadConfigModule(join(MODULES, name), MODULES)).extensions;
const handlersOf = async (name: string) => {
  const { handlers = [] } = await load(name);
  return Object.fromEntries(handlers.map((handler) => [handler.type, handler]));
};

describe('docs/extending.md', () => {
  it.each(readdirSync(MODULES))('shows the module %s, which compiles', (name) => {
    expect(text).toContain(`\`\`\`ts\n${readFileSync(join(MODULES, name), 'utf8').trimEnd()}\n\`\`\`\n`);
  });

  it('shows no other config module', () => {
    expect(text.match(/^export default defineConfig/gm)).toHaveLength(readdirSync(MODULES).length);
  });
});

describe('the step types of the page', () => {
  it('call a service with the key that is the same for all attempts, and mask the token', async () => {
    const seen: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      seen.push(request.headers['idempotency-key']?.toString());
      response.statusCode = seen.length === 1 ? 503 : 200;
      response.setHeader('content-type', 'application/json').end('{"invoice":7}');
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/invoices`;
    const inputs = { url, order: `\${trigger.body.name}`, token: 'env:INVOICES' };
    const steps = { invoice: { type: 'CreateInvoice', inputs, retry: { maxAttempts: 2 } } };
    const run = await runFlow(
      { id: FLOW_ID, version: '1', steps },
      {
        body: { name: 'SO-1010' },
        handlers: await handlersOf('handler.ts'),
        secrets: { 'env:INVOICES': 'token-of-invoices' },
      },
    );
    server.close();
    expect(run).toMatchObject({ status: 'Succeeded', steps: { invoice: { output: 7, attemptCount: 2 } } });
    expect(new Set(seen).size).toBe(1);
    expect(JSON.stringify(run)).not.toContain('token-of-invoices');
  });

  it.each([
    [{ approved: { by: 'Ada' } }, 'Succeeded'],
    [{}, 'Failed'],
  ])('wait for the signal of %j or for the last hour', async (signals, status) => {
    const steps = { approval: { type: 'WaitForApproval', inputs: { hours: 3 } } };
    const handlers = await handlersOf('waiting.ts');
    const run = await runFlow({ id: FLOW_ID, version: '1', steps }, { handlers, signals });
    expect(run.status).toBe(status);
  });
});

describe('the schemes and gates of the page', () => {
  let folder: string;
  let app: SluiceApp;
  let url: string;
  let now = Date.UTC(2026, 10, 22, 12);

  beforeAll(async () => {
    folder = temporaryFolder('test');
    const custom = {
      webhookSignatureScheme: 'Custom',
      webhookSignatureHeader: 'X-Signature',
      webhookSignedPayloadStrategy: 'Custom',
      webhookCustomStrategyName: 'methodAndBody',
    };
    const inputs = {
      acme: {
        webhookSignatureScheme: 'Acme',
        webhookHmacKeyPrevious: 'the key before',
        webhookReplayToleranceSeconds: 300,
      },
      parcels: { webhookSignatureScheme: 'Parcels' },
      custom,
      orders: { webhookSignatureScheme: 'Parcels' },
    };
    const triggers = Object.entries(inputs).map(([slug, given]) => [
      slug,
      { type: 'webhook', inputs: { webhookSlug: slug, webhookHmacKey: KEY, ...given } },
    ]);
    const manifest = { id: FLOW_ID, version: '1', triggers: Object.fromEntries(triggers) };
    await writeFile(join(folder, 'extended.json'), JSON.stringify(manifest));
    const modules = await Promise.all(['verifier.ts', 'spec.ts', 'payload.ts', 'gate.ts'].map(load));
    app = await buildApp({
      folder,
      clock: { now: () => now, monotonic: () => now },
      settings: {
        port: 0,
        databaseUrl: 'sqlite::memory:',
        manifests: '.',
        enforcementMode: 'Enforce',
        logLevel: 'silent',
      },
      extensions: Object.assign({}, ...modules),
    });
    url = await app.listen();
  });
  async function deliver(slug: string, headers: Record<string, string>, body = '{"id":1}') {
    const response = await fetch(`${url}/flows/api/webhook/${slug}`, { method: 'POST', headers, body });
    return `${response.status} ${(JSON.parse(await response.text()) as { reason?: string }).reason ?? 'accepted'}`;
  }
  const acme = (key: string, seconds = now / 1000) => ({
    'x-acme-time': String(seconds),
    'x-acme-signature': createHmac('sha256', key)
      .update(`POST /flows/api/webhook/acme ${seconds} {"id":1}`)
      .digest('base64'),
  });
  const parcels = (body = '{"id":1}') => ({
    'x-parcels-signature': createHmac('sha512', KEY).update(body).digest('base64url'),
  });

  it('verify with either key, refuse another one, an old delivery and a replay', async () => {
    expect(await deliver('acme', acme(KEY))).toBe('200 accepted');
    expect(await deliver('acme', acme(KEY))).toBe('409 nonce_replayed');
    expect(await deliver('acme', acme('the key before', now / 1000 - 1))).toBe('200 accepted');
    expect(await deliver('acme', acme('another key'))).toBe('401 signature_mismatch');
    expect(await deliver('acme', acme(KEY, now / 1000 - 301))).toBe('401 timestamp_skew');
  });

  it('verify by a spec and by a payload strategy', async () => {
    expect(await deliver('parcels', parcels())).toBe('200 accepted');
    expect(await deliver('parcels', parcels('{}'))).toBe('401 signature_mismatch');
    const signature = createHmac('sha256', KEY).update('POST {"id":1}').digest('hex');
    expect(await deliver('custom', { 'x-signature': signature })).toBe('200 accepted');
  });

  it('refuse by a gate, for the triggers that it is for', async () => {
    expect(await deliver('orders', parcels())).toBe('200 accepted');
    now = Date.UTC(2026, 10, 22, 20);
    expect(await deliver('orders', parcels())).toBe('429 rate_limited');
    expect(await deliver('parcels', parcels())).toBe('200 accepted');
  });
});
