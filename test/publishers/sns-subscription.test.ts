import { beforeAll, beforeEach, expect, it } from 'vitest';
import type { EnforcementMode } from '../../src/model/manifest.ts';
import { certificateAt } from './certificates.ts';
import { type Gateway, startGateway } from './gateway.ts';
import { VECTORS, type Vector } from './vectors.ts';

const called: string[] = [];
let isDown = false;
async function fetchFromPublisher(url: string): Promise<string> {
  if (!url.includes('?')) return certificateAt(url);
  called.push(url);
  if (isDown) throw Object.assign(new Error('hidden'), { code: 'ECONNREFUSED' });
  return '';
}

const MODES = ['Off', 'Audit', 'Enforce'] as const;

function vectorOf(name: string): Vector {
  const vector = VECTORS.find((it) => it.scheme === 'AmazonSns' && it.name === name);
  if (vector === undefined) throw new Error(`no vector ${name}`);
  return vector;
}

const confirmation = vectorOf('subscription-confirmation');
const message: { SubscribeURL: string } = JSON.parse(confirmation.bodyUtf8 ?? '');

let gateway: Gateway;
beforeAll(async () => {
  const inputsOf = (webhookEnforcementMode: EnforcementMode) => ({
    webhookSignatureScheme: 'AmazonSns',
    webhookHmacKey: confirmation.key,
    webhookEnforcementMode,
  });
  const triggers = Object.fromEntries(MODES.map((mode) => [mode, inputsOf(mode)]));
  gateway = await startGateway({ keepsAll: true, triggers, extensions: { fetchFromPublisher } });
});
beforeEach(() => {
  called.length = 0;
  isDown = false;
  gateway.setNow((confirmation.now ?? 0) * 1000);
});

const deliver = (mode: EnforcementMode, { headers, bodyUtf8 = '' }: Vector, body = bodyUtf8) =>
  gateway.deliver(mode, { headers, body });

it.each(MODES)('is confirmed under %s by the call of its URL, and starts no run', async (mode) => {
  const runsBefore = await gateway.countRuns();
  const answered = await deliver(mode, confirmation);
  expect(answered.status, JSON.stringify(await gateway.latestDelivery())).toBe(200);
  expect(called).toEqual([message.SubscribeURL]);
  expect(await gateway.countRuns()).toBe(runsBefore);
  expect((await gateway.latestDelivery()).detail).toBe('handshake SubscriptionConfirmation');
});

it.each(MODES)('is not confirmed under %s for another topic, nor after any change', async (mode) => {
  const runsBefore = await gateway.countRuns();
  const other = vectorOf('subscription-to-another-topic');
  const evil = JSON.stringify({ ...message, SubscribeURL: message.SubscribeURL.replace('eu-west-1', 'us-east-1') });
  for (const [vector, body] of [
    [other, undefined],
    [confirmation, evil],
  ] as const) {
    expect((await deliver(mode, vector, body)).status).toBe(401);
  }
  expect(called).toEqual([]);
  expect(await gateway.countRuns()).toBe(runsBefore);
});

it('is answered 503 where its URL cannot be called, so that it may come again', async () => {
  isDown = true;
  const answer = await deliver('Enforce', confirmation);
  expect(answer.status).toBe(503);
  expect(answer.text).not.toContain('hidden');
  expect(await gateway.latestDelivery()).toMatchObject({ reason: 'verifier_error', runId: null });
});

it.each([
  ['Off', 200, 'run'],
  ['Audit', 200, 'run'],
  ['Enforce', 503, null],
] as const)(
  'a message whose certificate cannot be fetched could not be judged: under %s it gets %i',
  async (mode, status, run) => {
    const vector = vectorOf('certificate-that-is-not-there');
    expect((await deliver(mode, vector)).status).toBe(status);
    expect(await gateway.latestDelivery()).toMatchObject({
      reason: 'verification_unavailable',
      violations: ['verification_unavailable'],
      rejected: true,
      enforced: false,
      runId: run === null ? null : expect.any(String),
    });
  },
);

it('is not confirmed by the UnsubscribeConfirmation that has the same URL', async () => {
  expect((await deliver('Enforce', vectorOf('unsubscribe-confirmation'))).status).toBe(200);
  expect(called).toEqual([]);
});
