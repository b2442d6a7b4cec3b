import { createHmac, randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import type { SignatureVerifier } from '../../src/webhooks/schemes/spec.ts';
import { temporaryFolder } from '../temporary.ts';
import { type Answered, type Gateway, type GatewayOptions, startGateway } from './gateway.ts';

const MODES = ['Off', 'Audit', 'Enforce'] as const;
const FIRST = 'b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81';
const SECOND = 'dafa8a9c1e0b4f7d8c6b5a493827160fdafa8a9c1e0b4f7d8c6b5a493827160f';
const EVENTS = '{"events":[{"action":"changed","resource":{"gid":"1337"}}]}';
const ASANA: WebhookInputs = { webhookSignatureScheme: 'asana', webhookLearnKey: true };

async function open(triggers: Record<string, WebhookInputs>, options: Partial<GatewayOptions> = {}): Promise<Gateway> {
  return startGateway({ triggers, ...options });
}

const shake = (gateway: Gateway, slug: string, secret: string) =>
  gateway.deliver(slug, { headers: { 'x-hook-secret': secret } });

function deliver(gateway: Gateway, slug: string, { key, body = EVENTS }: { key: string; body?: string }) {
  const headers = { 'x-hook-signature': createHmac('sha256', key).update(body).digest('hex') };
  return gateway.deliver(slug, { headers: { ...headers, 'content-type': 'application/json' }, body });
}

const outcome = ({ status, text }: Answered) => (status === 200 ? '200' : `${status} ${JSON.parse(text).reason}`);

describe.each(MODES)('under %s', (mode) => {
  it('echoes the first secret each time, starts no run, and believes it from then on', async () => {
    const gateway = await open({ asana: { ...ASANA, webhookEnforcementMode: mode } });
    for (const _ of ['first', 'again']) {
      const answer = await shake(gateway, 'asana', FIRST);
      expect(answer).toMatchObject({ status: 200, text: '', headers: { 'x-hook-secret': FIRST } });
      expect(await gateway.latestDelivery()).toMatchObject({ reason: null, detail: 'handshake X-Hook-Secret' });
    }
    expect(await gateway.countRuns()).toBe(0);
    expect(outcome(await deliver(gateway, 'asana', { key: FIRST }))).toBe('200');
    expect(await gateway.latestDelivery()).toMatchObject({ reason: null, scheme: 'Asana' });
    expect(await gateway.countRuns()).toBe(1);
    await deliver(gateway, 'asana', { key: SECOND });
    expect((await gateway.latestDelivery()).reason).toBe('signature_mismatch');
  });

  it('never replaces it by another one, and starts no run for trying', async () => {
    const gateway = await open({ asana: { ...ASANA, webhookEnforcementMode: mode } });
    await shake(gateway, 'asana', FIRST);
    const answer = await shake(gateway, 'asana', SECOND);
    expect(outcome(answer)).toBe('401 signature_mismatch');
    expect(answer.headers).not.toHaveProperty('x-hook-secret');
    expect(await gateway.latestDelivery()).toMatchObject({ rejected: true, violations: ['signature_mismatch'] });
    expect(await gateway.countRuns()).toBe(0);
    await deliver(gateway, 'asana', { key: FIRST });
    expect((await gateway.latestDelivery()).reason).toBeNull();
  });

  it('learns from no request that another gate does not let pass', async () => {
    const walled = { ...ASANA, webhookEnforcementMode: mode, webhookIpDenyList: ['127.0.0.1'] };
    const gateway = await open({
      walled,
      undated: { ...ASANA, webhookEnforcementMode: mode, webhookRequireTimestamp: true },
    });
    expect(outcome(await shake(gateway, 'walled', FIRST))).toBe('403 ip_denied');
    expect(outcome(await shake(gateway, 'undated', FIRST))).toBe('401 timestamp_missing');
    expect(await gateway.get('/flows/api/flows')).toContain('"learnedKey":"none"');
    expect(await gateway.get('/flows/api/flows')).not.toContain('"learnedKey":"learned"');
  });

  it('learns and echoes nothing that is not in the form of a key', async () => {
    const gateway = await open({ asana: { ...ASANA, webhookEnforcementMode: mode } });
    for (const secret of [
      '',
      'short',
      'blanks in it, and more',
      'a'.repeat(257),
      `${FIRST}, ${SECOND}`,
      '<b>bold text</b>',
    ]) {
      const answer = await shake(gateway, 'asana', secret);
      expect(outcome(answer)).toBe('401 signature_malformed');
      expect(answer.headers).not.toHaveProperty('x-hook-secret');
    }
    expect(await gateway.countRuns()).toBe(0);
    expect(outcome(await shake(gateway, 'asana', FIRST))).toBe('200');
  });
});

describe.each(MODES)('without webhookLearnKey, under %s', (mode) => {
  const shut = { webhookSignatureScheme: 'Asana', webhookEnforcementMode: mode };

  it.each([undefined, false])('hands nothing over and learns nothing (%s)', async (webhookLearnKey) => {
    const gateway = await open({ asana: { ...shut, webhookLearnKey } });
    const answer = await shake(gateway, 'asana', FIRST);
    expect(outcome(answer)).toBe('401 key_not_configured');
    expect(answer.headers).not.toHaveProperty('x-hook-secret');
    await deliver(gateway, 'asana', { key: FIRST });
    expect((await gateway.latestDelivery()).reason).toBe('key_not_configured');
    expect(await gateway.get('/flows/api/flows')).not.toContain('learnedKey');
  });

  it('believes no key that was learnt before', async () => {
    const flowId = randomUUID();
    const folder = temporaryFolder('asana');
    const settings = { databaseUrl: 'sqlite:sluice.db', refusedDeploys: 'fail' as const };
    const before = await startGateway({ folder, flowId, triggers: { asana: ASANA }, settings });
    await shake(before, 'asana', FIRST);
    await before.close();

    const gateway = await open({ asana: shut }, { folder, flowId, settings });
    expect(gateway.summary.join()).toContain('no key: a learned key is used only with "webhookLearnKey": true');
    await deliver(gateway, 'asana', { key: FIRST });
    // Both have the same time, so either record may be the newest.
    const recent: { reason: string | null }[] = JSON.parse(await gateway.get('/flows/api/webhooks/recent'));
    expect(recent.map(({ reason }) => reason).sort()).toEqual(['key_not_configured', null]);
    expect(outcome(await shake(gateway, 'asana', FIRST))).toBe('401 key_not_configured');
  });
});

it('opens to no stranger where the configured key is removed, and says what removing it does', async () => {
  const flowId = randomUUID();
  const gateway = await open({ asana: { webhookSignatureScheme: 'Asana', webhookHmacKey: FIRST } }, { flowId });
  const inputs = { webhookSlug: 'asana', webhookSignatureScheme: 'Asana' };
  const manifest = { id: flowId, name: 'publishers', version: '2', triggers: { asana: { type: 'webhook', inputs } } };
  const put = async (body: object) => {
    const sent = { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
    return (await fetch(`${gateway.url}/flows/api/flows/${flowId}`, sent)).json();
  };
  const steps = { only: { type: 'NoOp' } };
  const outcomeOf = (await put({ ...manifest, steps })) as { findings: { path: string; consequence: string }[] };
  expect(outcomeOf.findings).toContainEqual(
    expect.objectContaining({
      path: 'triggers.asana.inputs.webhookHmacKey',
      class: 'caution',
      consequence: expect.stringContaining('Nothing can be verified, and no key is learned'),
    }),
  );
  expect(outcome(await shake(gateway, 'asana', SECOND))).toBe('401 key_not_configured');
  expect(outcome(await deliver(gateway, 'asana', { key: SECOND }))).toBe('401 key_not_configured');
});

it('refuses events for want of a key until the handshake has come', async () => {
  const gateway = await open({ asana: ASANA });
  expect(outcome(await deliver(gateway, 'asana', { key: FIRST }))).toBe('401 key_not_configured');
  expect(gateway.summary.join()).toContain('publishers/asana: no key learned yet');
});

it('believes one of many secrets that are offered at once, and tells that one alone', async () => {
  const gateway = await open({ asana: ASANA });
  const secrets = Array.from({ length: 12 }, () => randomUUID());
  const answers = await Promise.all(secrets.map((secret) => shake(gateway, 'asana', secret)));
  const echoed = answers.flatMap(({ headers }) => headers['x-hook-secret'] ?? []);
  expect(echoed).toHaveLength(1);
  const believed = await Promise.all(secrets.map((key) => deliver(gateway, 'asana', { key, body: `{"by":"${key}"}` })));
  expect(secrets.filter((_, at) => believed[at]?.status === 200)).toEqual(echoed);
});

describe('a configured key', () => {
  it('goes before any that a handshake brings, and is not replaced by it', async () => {
    const gateway = await open({ asana: { ...ASANA, webhookHmacKey: FIRST } });
    expect(outcome(await shake(gateway, 'asana', SECOND))).toBe('401 signature_mismatch');
    expect(outcome(await deliver(gateway, 'asana', { key: SECOND }))).toBe('401 signature_mismatch');
    expect(outcome(await shake(gateway, 'asana', FIRST))).toBe('200');
    expect(outcome(await deliver(gateway, 'asana', { key: FIRST }))).toBe('200');
  });

  it('is what counts where the trigger learns its key too, and a warning says so', async () => {
    const gateway = await open({ asana: { ...ASANA, webhookHmacKey: FIRST, webhookLearnKey: true } });
    expect(gateway.warnings.join()).toContain(
      'webhookLearnKey: is ignored: webhookHmacKey is also set and takes precedence',
    );
    expect(outcome(await shake(gateway, 'asana', SECOND))).toBe('401 signature_mismatch');
    expect(outcome(await deliver(gateway, 'asana', { key: FIRST }))).toBe('200');
  });

  it.each(['webhookHmacKey', 'webhookSecret'])('that is empty in %s lets none be learnt', async (field) => {
    const gateway = await open({ asana: { ...ASANA, [field]: '' } });
    expect(outcome(await shake(gateway, 'asana', FIRST))).toBe('401 key_not_configured');
    expect(outcome(await deliver(gateway, 'asana', { key: FIRST }))).toBe('401 key_not_configured');
  });

  it('accepts a previous key in addition to the learnt one', async () => {
    const gateway = await open({ asana: { ...ASANA, webhookHmacKeyPrevious: SECOND } });
    await shake(gateway, 'asana', FIRST);
    expect(outcome(await deliver(gateway, 'asana', { key: SECOND }))).toBe('200');
    expect(await gateway.latestDelivery()).toMatchObject({ usedPreviousKey: true });
    expect(outcome(await deliver(gateway, 'asana', { key: FIRST }))).toBe('200');
  });
});

it('means nothing to triggers of other schemes, nor to another trigger of the flow', async () => {
  const gateway = await open({ github: { webhookSignatureScheme: 'GitHub' }, one: ASANA, two: ASANA });
  expect(outcome(await shake(gateway, 'github', FIRST))).toBe('401 key_not_configured');
  await shake(gateway, 'one', FIRST);
  expect(outcome(await deliver(gateway, 'two', { key: FIRST }))).toBe('401 key_not_configured');
  expect(outcome(await shake(gateway, 'two', SECOND))).toBe('200');
});

it('is for verifiers of the operator’s too', async () => {
  const verifier: SignatureVerifier = {
    name: 'Acme',
    handshakes: [
      {
        name: 'hello',
        method: 'POST',
        needsVerification: false,
        recognises: ({ headers }) => 'x-hello' in headers,
        offeredKey: ({ headers }) => headers['x-hello'],
        answer: () => ({ statusCode: 200, contentType: 'text/plain', body: '' }),
      },
    ],
    verify: ({ delivery, keys }) =>
      keys.current !== undefined && delivery.headers['x-key'] === keys.current
        ? { outcome: 'verified' }
        : { outcome: 'refused', reason: 'no' },
  };
  const acme = { webhookSignatureScheme: 'Acme', webhookLearnKey: true };
  const gateway = await open({ acme }, { extensions: { verifiers: [verifier] } });
  const present = (headers: Record<string, string>) => gateway.deliver('acme', { headers });
  expect(outcome(await present({ 'x-key': 'k' }))).toBe('401 signature_mismatch');
  expect(outcome(await present({ 'x-hello': 'k' }))).toBe('200');
  expect(outcome(await present({ 'x-key': 'k' }))).toBe('200');
  expect(outcome(await present({ 'x-hello': 'l' }))).toBe('401 signature_mismatch');
});

describe('forgetting', () => {
  const forget = async ({ url, get }: Gateway, triggerKey: string) => {
    const [flow]: { id: string }[] = JSON.parse(await get('/flows/api/flows'));
    const response = await fetch(`${url}/flows/api/flows/${flow?.id}/triggers/${triggerKey}/learned-key`, {
      method: 'DELETE',
    });
    return { status: response.status, ...((await response.json()) as object) };
  };

  it('lets the next handshake decide, and no delivery pass until then', async () => {
    const gateway = await open({ asana: ASANA });
    await shake(gateway, 'asana', FIRST);
    expect(await forget(gateway, 'asana')).toEqual({ status: 200, success: true, message: 'The key is forgotten' });
    expect(outcome(await deliver(gateway, 'asana', { key: FIRST }))).toBe('401 key_not_configured');
    expect(outcome(await shake(gateway, 'asana', SECOND))).toBe('200');
    expect(outcome(await deliver(gateway, 'asana', { key: SECOND }))).toBe('200');
    expect(outcome(await deliver(gateway, 'asana', { key: FIRST }))).toBe('401 signature_mismatch');
  });

  it('says where there is nothing to forget', async () => {
    const gateway = await open({ asana: ASANA, github: { webhookSignatureScheme: 'GitHub', webhookHmacKey: 'k' } });
    for (const triggerKey of ['asana', 'github']) {
      expect(await forget(gateway, triggerKey)).toMatchObject({ status: 200, success: false });
    }
    expect(await forget(gateway, 'nobody')).toMatchObject({ status: 404, reason: 'unknown_trigger' });
  });
});

it('never redelivers a refused handshake as a delivery', async () => {
  const gateway = await open({ asana: ASANA });
  await shake(gateway, 'asana', FIRST);
  await shake(gateway, 'asana', SECOND);
  const { id } = await gateway.latestDelivery();
  const headers = { 'content-type': 'application/json' };
  const path = `/flows/api/webhooks/${id}/redeliver`;
  const response = await fetch(`${gateway.url}${path}`, { method: 'POST', headers, body: '{"force":true}' });
  expect(await response.json()).toMatchObject({ outcome: 'not possible', runId: null });
  expect(await gateway.countRuns()).toBe(0);
});

describe('over a restart', () => {
  const flowId = randomUUID();
  const settings = { databaseUrl: 'sqlite:sluice.db', storeKey: 'the key of the store' };

  it('the key stays, is named in the start lines, and is told nowhere', async () => {
    const folder = temporaryFolder('asana');
    const before = await startGateway({ folder, flowId, triggers: { asana: ASANA }, settings });
    await shake(before, 'asana', FIRST);
    await before.close();

    const gateway = await startGateway({ folder, flowId, triggers: { asana: ASANA }, settings });
    expect(gateway.summary).toEqual([
      'All webhook triggers are enforced (1)',
      'Keys learned in a handshake: publishers/asana (Asana)',
    ]);
    expect(outcome(await deliver(gateway, 'asana', { key: FIRST }))).toBe('200');
    expect(outcome(await shake(gateway, 'asana', SECOND))).toBe('401 signature_mismatch');
    expect(outcome(await deliver(gateway, 'asana', { key: SECOND }))).toBe('401 signature_mismatch');
    const seen = await everythingSaid(gateway);
    await gateway.close();
    for (const file of (await readdir(folder)).filter((name) => name.startsWith('sluice.db'))) {
      seen.push(await readFile(join(folder, file), 'latin1'));
    }
    const right = createHmac('sha256', FIRST).update('{"forged":true}').digest('hex');
    const secrets = [FIRST, Buffer.from(FIRST, 'hex').toString('latin1'), SECOND, right];
    expect(seen.filter((text) => secrets.some((secret) => text.includes(secret)))).toEqual([]);
    expect(seen.join()).toContain('"learnedKey":"learned"');
  });

  /** Forges a delivery first, so that the service computes the right signature. */
  async function everythingSaid(gateway: Gateway): Promise<string[]> {
    const headers = { 'x-hook-signature': '0'.repeat(64), 'content-type': 'application/json' };
    const forged = await gateway.deliver('asana', { headers, body: '{"forged":true}' });
    const recent = await gateway.get('/flows/api/webhooks/recent?take=500');
    const ids = (JSON.parse(recent) as { id: string }[]).map(({ id }) => `webhooks/${id}`);
    const paths = [...ids, 'flows', `flows/${flowId}`, 'schemes', 'webhooks/readiness?hours=1'];
    const details = await Promise.all(paths.map((path) => gateway.get(`/flows/api/${path}`)));
    return [forged.text, recent, ...details, ...gateway.logged, ...gateway.summary, ...gateway.warnings];
  }

  it('with another store key nothing passes, nor is another key learnt in its place', async () => {
    const folder = temporaryFolder('asana');
    const before = await startGateway({ folder, flowId, triggers: { asana: ASANA }, settings });
    await shake(before, 'asana', FIRST);
    await before.close();

    const other = { ...settings, storeKey: 'another key of the store' };
    const gateway = await open({ asana: ASANA }, { folder, flowId, settings: other });
    expect(gateway.summary.join()).toContain('a learned key that another SLUICE_STORE_KEY sealed');
    // Nothing is lost: the publisher sends again, and the key may be back then.
    expect(outcome(await deliver(gateway, 'asana', { key: FIRST }))).toBe('503 verification_unavailable');
    for (const secret of [FIRST, SECOND]) {
      expect(outcome(await shake(gateway, 'asana', secret))).toBe('401 signature_mismatch');
    }
  });
});
