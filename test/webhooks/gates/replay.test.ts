import { createHash, createHmac } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { type Evidence, GateConfigurationError, type GateSettings } from '../../../src/webhooks/gate.ts';
import { replayGate } from '../../../src/webhooks/gates/replay.ts';
import { signatureGate } from '../../../src/webhooks/gates/signature.ts';
import { createSchemeRegistry } from '../../../src/webhooks/schemes/resolve.ts';
import type { SignatureVerifier } from '../../../src/webhooks/schemes/spec.ts';
import { NOW, sampleDelivery, sampleSettings, sampleTrigger } from '../samples.ts';

const SECONDS = NOW / 1000;
const TOLERANT: WebhookInputs = { webhookReplayToleranceSeconds: 300 };
const VERIFIED: Evidence = { isVerified: true };
const BODY = Buffer.from('{"id":1}');

const sha256 = (...parts: (string | Buffer)[]) =>
  parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest('hex');

function prepare(inputs: WebhookInputs, settings?: Partial<GateSettings>) {
  const gate = replayGate.prepare(sampleTrigger(inputs), sampleSettings(settings));
  if (gate === undefined) throw new Error('no gate');
  return gate;
}

interface Given {
  readonly inputs?: WebhookInputs;
  readonly headers?: Record<string, string>;
  readonly evidence?: Evidence;
  readonly body?: Buffer;
  readonly receivedAt?: number;
  readonly settings?: Partial<GateSettings>;
}

async function check({
  inputs = TOLERANT,
  headers = {},
  evidence = {},
  body = BODY,
  receivedAt = NOW,
  settings,
}: Given) {
  return prepare(inputs, settings).check(sampleDelivery({ headers, body, receivedAt }), evidence);
}

async function outcome(given: Given): Promise<string> {
  const verdict = await check(given);
  return verdict.passed ? 'passed' : verdict.reason;
}

async function nonce(given: Given): Promise<string> {
  return (await check(given)).evidence?.nonce?.value ?? 'none';
}

async function lifetimeMs(given: Given): Promise<number> {
  return (await check(given)).evidence?.nonce?.lifeMs ?? Number.NaN;
}

const signedAt = (ms: number): Evidence => ({ ...VERIFIED, signedTimestamp: { text: String(ms / 1000), ms } });

describe('replayGate', () => {
  it.each([
    [{}, {}, false],
    [{ webhookTimestampHeader: 'X-Timestamp' }, {}, false],
    [{ webhookReplayToleranceSeconds: 0 }, { replayToleranceSeconds: 300 }, false],
    [{}, { replayToleranceSeconds: 300 }, true],
    [TOLERANT, {}, true],
    [{ webhookNonceHeader: 'X-Id' }, {}, true],
    [{ webhookRequireTimestamp: true }, {}, true],
  ] as [WebhookInputs, Partial<GateSettings>, boolean][])(
    'with %o and the global %o is configured: %s',
    (inputs, settings, isConfigured) => {
      expect(replayGate.prepare(sampleTrigger(inputs), sampleSettings(settings)) !== undefined).toBe(isConfigured);
    },
  );

  it.each([
    ['webhookReplayToleranceSeconds', { webhookReplayToleranceSeconds: -1 }],
    ['webhookReplayToleranceSeconds', { webhookReplayToleranceSeconds: Number.NaN }],
    ['webhookNonceHeader', { webhookNonceHeader: ' ' }],
    ['webhookTimestampHeader', { ...TOLERANT, webhookTimestampHeader: '' }],
  ] as [string, WebhookInputs][])('refuses a %s that means nothing: %o', (field, inputs) => {
    expect(() => prepare(inputs)).toThrow(GateConfigurationError);
    expect(() => prepare(inputs)).toThrow(expect.objectContaining({ field }));
  });
});

describe('the timestamp', () => {
  it.each([
    [0, 'passed'],
    [300_000, 'passed'],
    [-300_000, 'passed'],
    [300_001, 'timestamp_skew'],
    [-300_001, 'timestamp_skew'],
  ])('%i ms behind this clock, with a tolerance of 300 s: %s', async (skewMs, expected) => {
    const evidence = signedAt(NOW - skewMs);
    expect(await outcome({ evidence })).toBe(expected);
    expect((await check({ evidence })).evidence?.replaySkewMs).toBe(skewMs);
  });

  it('that is refused tells how far it is off, and in which direction', async () => {
    const detail = async (ms: number) => JSON.stringify(await check({ evidence: signedAt(ms) }));
    expect(await detail(NOW - 400_000)).toContain('400 s behind this clock; the tolerance is 300 s');
    expect(await detail(NOW + 400_000)).toContain('400 s ahead of this clock');
  });

  it('prefers the value that the signature covers over the header, which anyone can write', async () => {
    const inputs = { ...TOLERANT, webhookTimestampHeader: 'X-Timestamp' };
    const headers = { 'x-timestamp': String(SECONDS) };
    expect(await outcome({ inputs, headers, evidence: signedAt(NOW - 301_000) })).toBe('timestamp_skew');
  });

  it('is read from no header but the one that the trigger names', async () => {
    const headers = { 'x-webhook-timestamp': String(SECONDS - 9999), 'x-timestamp': String(SECONDS - 9999) };
    expect(await outcome({ headers, evidence: VERIFIED })).toBe('passed');
    const inputs = { ...TOLERANT, webhookTimestampHeader: 'X-Timestamp' };
    expect(await outcome({ inputs, headers, evidence: VERIFIED })).toBe('timestamp_skew');
  });

  it.each([
    [String(SECONDS), 'passed'],
    [String(NOW), 'passed'],
    [` ${SECONDS} `, 'passed'],
    [String(SECONDS - 301), 'timestamp_skew'],
    [String(NOW - 301_000), 'timestamp_skew'],
    ['0', 'timestamp_skew'],
    ['99999999999', 'timestamp_skew'],
    ['2026-11-21T12:00:00Z', 'timestamp_malformed'],
    [`${SECONDS}.5`, 'timestamp_malformed'],
    [`+${SECONDS}`, 'timestamp_malformed'],
    ['1.8e9', 'timestamp_malformed'],
    ['0x6920', 'timestamp_malformed'],
    [`${SECONDS}, ${SECONDS}`, 'timestamp_malformed'],
    ['9'.repeat(400), 'timestamp_malformed'],
    ['Infinity', 'timestamp_malformed'],
    ['', 'passed'],
  ])('"%s" in the named header: %s', async (text, expected) => {
    const inputs = { ...TOLERANT, webhookTimestampHeader: 'X-Timestamp' };
    expect(await outcome({ inputs, headers: { 'x-timestamp': text } })).toBe(expected);
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY])('that is signed and is %d is malformed', async (ms) => {
    expect(await outcome({ evidence: { ...VERIFIED, signedTimestamp: { text: 'x', ms } } })).toBe(
      'timestamp_malformed',
    );
  });

  it('that is absent fails only where one is required', async () => {
    expect(await outcome({ evidence: VERIFIED })).toBe('passed');
    expect(await outcome({ inputs: { ...TOLERANT, webhookRequireTimestamp: true } })).toBe('timestamp_missing');
    expect(await outcome({ inputs: { webhookRequireTimestamp: true } })).toBe('timestamp_missing');
  });

  it('may be of any age at tolerance 0', async () => {
    const inputs = { webhookNonceHeader: 'X-Id' };
    expect(await outcome({ inputs, evidence: signedAt(1000) })).toBe('passed');
  });
});

describe('the nonce', () => {
  it('is the named header’s value, trimmed, and a digest where it is very long', async () => {
    const inputs = { webhookNonceHeader: 'X-Delivery' };
    const named = (value: string) => nonce({ inputs, headers: { 'x-delivery': value } });
    expect(await named(' abc-1 ')).toBe('abc-1');
    expect(await named('a'.repeat(512))).toBe('a'.repeat(512));
    expect(await named('a'.repeat(513))).toBe(sha256('a'.repeat(513)));
  });

  it('is a digest of its own where no store takes the value as text', async () => {
    const values = ['a\0', 'a\ud800', 'a\ud801'];
    const nonces = await Promise.all(
      values.map((value) => nonce({ inputs: { webhookNonceHeader: 'X-Delivery' }, headers: { 'x-delivery': value } })),
    );
    expect(new Set(nonces).size).toBe(3);
    for (const each of nonces) expect(each).toMatch(/^[0-9a-f]{64}$/);
  });

  it.each([undefined, '', '  '])('is the digest of the body where the named header is %o', async (value) => {
    const headers: Record<string, string> = value === undefined ? {} : { 'x-delivery': value };
    expect(await nonce({ inputs: { webhookNonceHeader: 'X-Delivery' }, headers })).toBe(sha256(BODY));
  });

  it('is the SHA-256 of signed timestamp and body', async () => {
    const evidence = signedAt(NOW);
    expect(await nonce({ evidence })).toBe(sha256(String(SECONDS), BODY));
  });

  it('stays the same when a replay brings a new timestamp in a header that the verified signature does not cover', async () => {
    const inputs = { ...TOLERANT, webhookTimestampHeader: 'X-Webhook-Timestamp' };
    const at = (seconds: number) =>
      nonce({ inputs, headers: { 'x-webhook-timestamp': String(seconds) }, evidence: VERIFIED });
    expect(await at(SECONDS)).toBe(sha256(BODY));
    expect(await at(SECONDS + 1)).toBe(await at(SECONDS));
  });

  it('of an honest retry is the same where the publisher signs no timestamp', async () => {
    const first = await nonce({ evidence: VERIFIED, receivedAt: NOW });
    expect(await nonce({ evidence: VERIFIED, receivedAt: NOW + 60_000 })).toBe(first);
  });

  it('holds the header’s timestamp where no signature was verified, because then nothing can be forged that was not open', async () => {
    const inputs = { ...TOLERANT, webhookTimestampHeader: 'X-Timestamp' };
    const headers = { 'x-timestamp': String(SECONDS) };
    expect(await nonce({ inputs, headers })).toBe(sha256(String(SECONDS), BODY));
  });

  it('is what the signature covers where that is not the body: one captured triple passes with one body only', async () => {
    const evidence = { ...signedAt(NOW), signedBytesSha256: 'ab'.repeat(32) };
    expect(await nonce({ evidence, body: Buffer.from('{"event":"delivered"}') })).toBe('ab'.repeat(32));
    expect(await nonce({ evidence, body: Buffer.from('{"event":"forged"}') })).toBe('ab'.repeat(32));
  });

  it('is read from the header family that verified, whichever of its names the trigger gives', async () => {
    const evidence: Evidence = {
      ...VERIFIED,
      verifiedHeaders: new Map([
        ['a-id', ' 1 '],
        ['b-id', ' 1 '],
      ]),
    };
    const named = (webhookNonceHeader: string, headers: Record<string, string>) =>
      nonce({ inputs: { webhookNonceHeader }, headers, evidence });
    expect(await named('A-Id', { 'a-id': 'free', 'b-id': '1' })).toBe('1');
    expect(await named('B-Id', { 'a-id': '1', 'b-id': 'free' })).toBe('1');
    expect(await named('C-Id', { 'c-id': 'own' })).toBe('own');
  });

  it('is not taken from another header family if the one that verified is empty', async () => {
    const evidence: Evidence = { ...VERIFIED, verifiedHeaders: new Map([['a-id', '']]) };
    expect(await nonce({ inputs: { webhookNonceHeader: 'A-Id' }, headers: { 'a-id': 'free' }, evidence })).toBe(
      sha256(BODY),
    );
  });

  it('of Shopify is the id of either header family', async () => {
    const key = 'client secret';
    const signature = createHmac('sha256', key).update(BODY).digest('base64');
    const inputs = { webhookSignatureScheme: 'Shopify', webhookNonceHeader: 'X-Shopify-Webhook-Id' };
    const gate = signatureGate.prepare(sampleTrigger({ ...inputs, webhookHmacKey: key }), sampleSettings());
    const nonceUnder = async (prefix: string) => {
      const headers = { [`${prefix}hmac-sha256`]: signature, [`${prefix}webhook-id`]: 'w-1' };
      const verdict = await gate?.check(sampleDelivery({ headers, body: BODY }), {});
      return nonce({ inputs, headers, evidence: verdict?.evidence ?? {} });
    };
    expect(await nonceUnder('x-shopify-')).toBe('w-1');
    expect(await nonceUnder('shopify-')).toBe('w-1');
  });

  it('is told even where the timestamp fails, for Off and Audit', async () => {
    expect(await outcome({ evidence: signedAt(0) })).toBe('timestamp_skew');
    expect(await nonce({ evidence: signedAt(0) })).toBe(sha256('0', BODY));
  });

  it('is not named where a timestamp is all that the trigger asks for', async () => {
    expect(await nonce({ inputs: { webhookRequireTimestamp: true }, evidence: signedAt(NOW) })).toBe('none');
  });
});

describe('the nonce is kept', () => {
  const TTL_MS = 86_400_000;
  const header = { ...TOLERANT, webhookTimestampHeader: 'X-Timestamp' };
  const sent = (seconds: number) => ({ 'x-timestamp': String(seconds) });

  it.each([
    ['a signed timestamp of now', { evidence: signedAt(NOW) }, TTL_MS + 6000],
    ['a signed timestamp of the past', { evidence: signedAt(NOW - 200_000) }, TTL_MS + 6000],
    ['a signed timestamp of the future', { evidence: signedAt(NOW + 200_000) }, TTL_MS + 206_000],
    ['a signed timestamp far ahead', { evidence: signedAt(NOW + 9e12) }, 2 * TTL_MS + 6000],
    [
      'a signed timestamp and a nonce header',
      { inputs: { ...TOLERANT, webhookNonceHeader: 'X-Id' }, headers: { 'x-id': '1' }, evidence: signedAt(NOW) },
      TTL_MS + 6000,
    ],
    [
      'a signed timestamp without a tolerance',
      { inputs: { webhookNonceHeader: 'X-Id' }, evidence: signedAt(NOW) },
      TTL_MS + 6000,
    ],
    ['no timestamp', { evidence: VERIFIED }, TTL_MS + 6000],
    ['an unsigned timestamp', { inputs: header, headers: sent(SECONDS), evidence: VERIFIED }, TTL_MS + 6000],
    ['a malformed timestamp', { inputs: header, headers: { 'x-timestamp': 'soon' } }, TTL_MS + 6000],
  ] as [string, Given, number][])('with %s', async (_case, given, expected) => {
    expect(await lifetimeMs(given)).toBe(expected);
  });

  it('until a replay can pass no tolerance that the trigger may ever be given, whatever it had before', async () => {
    const ttl = 1000;
    const settings = { nonceTtlSeconds: ttl };
    const seconds = fc.integer({ min: 0, max: ttl });
    const skews = fc.integer({ min: -2 * ttl, max: 2 * ttl });
    const facts = fc.record({ before: seconds, later: fc.integer({ min: 1, max: ttl }), skew: skews });
    await fc.assert(
      fc.asyncProperty(facts, async ({ before, later, skew }) => {
        const evidence = signedAt(NOW - skew * 1000);
        const withTolerance = (webhookReplayToleranceSeconds: number) => ({
          evidence,
          settings,
          inputs: { webhookReplayToleranceSeconds, webhookNonceHeader: 'X-Id' },
        });
        const accepted = await check(withTolerance(before));
        // A delivery dated further ahead than nonces are kept is refused with any tolerance.
        if (!accepted.passed || -skew > ttl) return;
        const receivedAt = NOW + (accepted.evidence?.nonce?.lifeMs ?? 0);
        expect(await outcome({ ...withTolerance(later), receivedAt })).toBe('timestamp_skew');
      }),
    );
  });

  it('for no tolerance that is longer: the load refuses it and names the field', () => {
    const refusal = () => prepare({ webhookReplayToleranceSeconds: 61 }, { nonceTtlSeconds: 60 });
    expect(refusal).toThrow(GateConfigurationError);
    expect(refusal).toThrow(expect.objectContaining({ field: 'webhookReplayToleranceSeconds' }));
    expect(refusal).toThrow('SLUICE_NONCE_TTL_SECONDS=60');
    expect(() => prepare({ webhookReplayToleranceSeconds: 60 }, { nonceTtlSeconds: 60 })).not.toThrow();
  });
});

describe('the name of what digests cover', () => {
  const acme: SignatureVerifier = { name: 'Acme', verify: () => ({ outcome: 'verified' }) };
  const parcels = (webhookSignedPayloadStrategy: 'RawBody' | 'TimestampDotBody') => ({
    name: 'Parcels',
    headerName: 'X-Parcels',
    algorithm: 'sha256' as const,
    encoding: 'base64' as const,
    signedPayloadStrategy: webhookSignedPayloadStrategy,
  });
  const named = async (inputs: WebhookInputs, evidence: Evidence = VERIFIED, spec = parcels('RawBody')) => {
    const settings = sampleSettings({ schemes: createSchemeRegistry({ verifiers: [acme], specs: [spec] }) });
    const gate = replayGate.prepare(sampleTrigger({ ...TOLERANT, webhookHmacKey: 'a key', ...inputs }), settings);
    return (await gate?.check(sampleDelivery({ body: BODY, headers: {} }), evidence))?.evidence?.nonce?.covers?.rule;
  };

  it.each<[string, WebhookInputs, WebhookInputs]>([
    ['the spelling of a scheme', { webhookSignatureScheme: 'stripe' }, { webhookSignatureScheme: 'Stripe' }],
    ['its alias', { webhookSignatureScheme: 'Jira' }, { webhookSignatureScheme: 'Atlassian' }],
    [
      'a field that the scheme does not read',
      { webhookSignatureScheme: 'Stripe' },
      { webhookSignatureScheme: 'Stripe', webhookTimestampHeader: 'X-Time' },
    ],
    [
      'a key of the same form',
      { webhookSignatureScheme: 'GitLab', webhookHmacKey: 'one token' },
      { webhookSignatureScheme: 'GitLab', webhookHmacKey: 'another', webhookHmacKeyPrevious: 'one token' },
    ],
    [
      'a field that the standard does not read',
      { webhookSignatureScheme: 'Jwt' },
      { webhookSignatureScheme: 'Jwt', webhookTimestampHeader: 'X-Time' },
    ],
    [
      'the default header of a token, written out',
      { webhookSignatureScheme: 'Jwt' },
      { webhookSignatureScheme: 'Jwt', webhookSignatureHeader: 'authorization', webhookHeaderValuePrefix: 'Bearer ' },
    ],
    [
      'the default components, written out in another order',
      { webhookSignatureScheme: 'HttpMessageSignatures' },
      {
        webhookSignatureScheme: 'HttpMessageSignatures',
        webhookRequiredComponents: ['content-digest', '@path', '@method', '@path'],
      },
    ],
    ['an unknown scheme, which is none', {}, { webhookSignatureScheme: 'Nonsense' }],
  ])('stays with %s', async (_change, one, other) => {
    expect(await named(one)).toBe(await named(other));
  });

  it('is another one for a key of another form, alone or beside the former', async () => {
    const gitlab = (keys: WebhookInputs) => named({ webhookSignatureScheme: 'GitLab', ...keys });
    const whsec = `whsec_${Buffer.from('k'.repeat(24)).toString('base64')}`;
    const names = [
      await gitlab({ webhookHmacKey: 'a token' }),
      await gitlab({ webhookHmacKey: whsec, webhookHmacKeyPrevious: 'a token' }),
      await gitlab({ webhookHmacKey: whsec }),
    ];
    expect(new Set(names).size).toBe(3);
    expect(await gitlab({ webhookHmacKey: 'a token', webhookHmacKeyPrevious: whsec })).toBe(names[1]);
  });

  it('is another one if the time comes from another header of the signature', async () => {
    const form = { webhookSignatureScheme: 'Custom', webhookSignatureForm: 't={timestamp},v1={signature}' };
    const custom = (webhookSignatureHeader: string) =>
      named({ ...form, webhookSignedPayload: '{timestamp}.{body}', webhookSignatureHeader });
    const names = [await custom('X-A'), await custom('X-B'), await named({ webhookSignatureScheme: 'Stripe' })];
    expect(new Set(names).size).toBe(3);
    expect(await named({ webhookSignatureScheme: 'Calendly' })).not.toBe(names[2]);
  });

  it('is another one if another token or signature may verify, whose time differs', async () => {
    const jwt = { webhookSignatureScheme: 'Jwt' };
    const messages = { webhookSignatureScheme: 'HttpMessageSignatures' };
    const names = [
      await named(jwt),
      await named({ ...jwt, webhookSignatureHeader: 'X-Token' }),
      await named(messages),
      await named({ ...messages, webhookSignatureKeyId: 'other' }),
      await named({ ...messages, webhookRequiredComponents: ['@method', 'content-digest'] }),
    ];
    expect(new Set(names).size).toBe(names.length);
  });

  it('is another one if the registered scheme signs something else', async () => {
    const inputs = { webhookSignatureScheme: 'Parcels' };
    expect(await named(inputs)).not.toBe(await named(inputs, VERIFIED, parcels('TimestampDotBody')));
  });

  it("follows what an operator's verifier covers, and is unknown for what it did not verify", async () => {
    const inputs = { webhookSignatureScheme: 'Acme' };
    const covered = [VERIFIED, signedAt(NOW), { ...signedAt(NOW), signedBytesSha256: 'ab'.repeat(32) }];
    const names = await Promise.all(covered.map((evidence) => named(inputs, evidence)));
    expect(new Set(names).size).toBe(3);
    expect(names).not.toContain(undefined);
    expect(await named(inputs, {})).toBeUndefined();
  });
});
