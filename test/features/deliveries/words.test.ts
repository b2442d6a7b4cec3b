import { describe, expect, it } from 'vitest';
import { REASONS, words } from '../../../src/features/deliveries/page/words.ts';
import { gateChain } from '../../../src/webhooks/gates/index.ts';
import { runGates } from '../../../src/webhooks/pipeline.ts';
import { sampleDelivery, sampleSettings, sampleTrigger } from '../../webhooks/samples.ts';

const rows = (list: ReturnType<typeof words.factsOf>) =>
  list.map(({ label, text }) => `${label}: ${text}`.replaceAll('\u00a0', ' '));

describe('a reason', () => {
  it('has a label and one sentence, without a code', () => {
    for (const { label, meaning } of Object.values(REASONS)) {
      expect(label).toMatch(/^[A-Z][^._]*$/);
      expect(meaning).toMatch(/^[A-Z][^._]*\.$/);
    }
  });

  it.each([
    ['ip_not_allowed', 'Address not on the allow list'],
    ['of_a_later_release', 'Of a later release'],
    ['constructor', 'Constructor'],
  ])('%s reads as %s', (reason, label) => {
    expect(words.reason(reason)).toBe(label);
  });
});

describe('the name of a gate', () => {
  it.each([
    ['ip', 'IP lists'],
    ['rateLimit', 'Rate limit'],
    ['own-gate', 'own-gate'],
    ['constructor', 'constructor'],
    ['toString', 'toString'],
    ['', ''],
  ])('%j is shown as %j', (gate, name) => {
    expect(words.gate(gate)).toBe(name);
  });
});

describe('what a gate found', () => {
  it.each<[string, Record<string, unknown>, string[]]>([
    ['a size', { bodyBytes: 2048 }, ['Size: 2.0 KiB']],
    ['an entry of a list', { matchedEntry: '10.0.0.0/8' }, ['Matching entry: 10.0.0.0/8']],
    ['no list to be on', { matchedEntry: null }, ['Matching entry: none, and there is no allow list']],
    [
      'a limit',
      { permitsLeft: 4.99, permitsPerSecond: 2, burstSize: 5 },
      ['Deliveries left: 4', 'Limit: 2 per second', 'At once: at most 5'],
    ],
    ['a valid signature', { isVerified: true, usedPreviousKey: false }, ['Signature: valid']],
    ['the previous key', { usedPreviousKey: true }, ['Key: the previous one']],
    ['a late timestamp', { replaySkewMs: 400_000 }, ['Difference from this clock: 6 min 40 s behind']],
    ['an early timestamp', { replaySkewMs: -1500 }, ['Difference from this clock: 1.5 s ahead']],
    ['facts of an operator’s gate', { riskScore: 7, tenant_id: null }, ['Risk score: 7', 'Tenant id: none']],
    ['a name of every object', { constructor: true }, ['Constructor: yes']],
  ])('%s reads in words', (_, facts, expected) => {
    expect(rows(words.factsOf(facts))).toEqual(expected);
  });

  it('has words for every fact of the built-in gates', async () => {
    const trigger = sampleTrigger({
      webhookIpAllowList: ['0.0.0.0/0'],
      webhookRateLimitPermitsPerSecond: 5,
      webhookSignatureScheme: 'Stripe',
      webhookHmacKey: 'a key',
      webhookReplayToleranceSeconds: 300,
    });
    const settings = sampleSettings();
    const gates = gateChain().flatMap((plugin) => plugin.prepare(trigger, settings) ?? []);
    const { gateResults } = await runGates(gates, sampleDelivery(), 'Audit');
    expect(gateResults).toHaveLength(4);
    for (const { facts } of gateResults) {
      for (const { name, label } of words.factsOf(facts)) expect(label.replaceAll(' ', '')).not.toBe(name);
    }
  });
});

describe('what a trigger sets', () => {
  it.each<[Record<string, unknown>, string[]]>([
    [
      { webhookIpAllowList: ['10.0.0.1', '10.0.0.2'], webhookRequireTimestamp: true },
      ['Allow list: 10.0.0.1, 10.0.0.2', 'Timestamp required: yes'],
    ],
    [{ webhookReplayToleranceSeconds: 300 }, ['Tolerance: 5 min']],
    [{ webhookReplayToleranceSeconds: 0 }, ['Tolerance: none: the age is not checked']],
    [{ webhookSignedPayloadStrategy: 'UrlPlusBody' }, ['What is signed: the URL and the body']],
    [{ webhookSignatureEncoding: 'hexLower' }, ['Encoding: hex']],
  ])('%j reads in words', (configured, expected) => {
    expect(rows(words.settingsOf(configured))).toEqual(expected);
  });
});

it('says what a signature is made over and which keys it is compared with', () => {
  const signature = {
    scheme: 'GitHub',
    layout: 'RawBody',
    encoding: 'hexLower',
    headers: ['x-hub-signature-256'],
    candidates: 1,
    signedBytes: { length: 11, sha256: 'ab' },
    keys: { current: '0a1b2c3d', previous: null },
  };
  expect(rows(words.signatureOf(signature))).toEqual([
    'Scheme: GitHub',
    'What is signed: the body',
    'Encoding: hex',
    'Header: x-hub-signature-256',
    'Signatures found: 1',
    'Length: 11 B',
    'SHA-256 of the signed bytes: ab',
    'Current key: 0a1b2c3d',
    'Previous key: none',
  ]);
});
