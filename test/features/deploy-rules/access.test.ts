import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { accessOf, type Entrance, entranceOf } from '../../../src/features/deploy-rules/entrance.ts';
import { compileBodySchema } from '../../../src/manifest/body-schema.ts';
import { WEBHOOK_ROWS, type WebhookField } from '../../../src/manifest/webhook-fields.ts';
import type { WebhookInputs, WebhookTrigger } from '../../../src/manifest/webhook-inputs.ts';
import type { EnforcementMode } from '../../../src/model/manifest.ts';
import { gateChain, gatePreparer } from '../../../src/webhooks/gates/index.ts';
import type { SignatureSettings } from '../../../src/webhooks/gates/signature.ts';
import { runGates } from '../../../src/webhooks/pipeline.ts';
import { resolveScheme } from '../../../src/webhooks/schemes/resolve.ts';
import { signDelivery } from '../../../src/webhooks/schemes/sign.ts';
import { asRead, editsOf, FIELDS } from '../../manifest/field-edits.ts';
import { FakeClock, sampleDelivery, sampleSettings, sampleTrigger } from '../../webhooks/samples.ts';

const KEYS = ['key 1 of a test, long enough', 'key 2 of a test, long enough'] as const;
const STRIPE: WebhookInputs = { webhookSignatureScheme: 'Stripe', webhookHmacKey: 'whsec_a key of enough bytes' };
const GENERIC = {
  webhookSignatureScheme: 'Generic',
  webhookHmacKey: KEYS[0],
  webhookEnforcementMode: 'Enforce',
} as const;

const PAYPAL = { ...GENERIC, webhookSignatureScheme: 'PayPal', webhookHmacKey: '8PT597110X687430LKGECATA' } as const;

const CUSTOM = {
  ...GENERIC,
  webhookSignatureScheme: 'Custom',
  webhookSignatureHeader: 'X-Sig',
  webhookTimestampHeader: 'X-Time',
  webhookSignedPayloadStrategy: 'TimestampDotBody',
  webhookHeaderValuePrefix: 'HMAC ',
} as const;

const SEGMENTS = {
  ...GENERIC,
  webhookSignatureScheme: 'Custom',
  webhookSignatureHeader: 'X-Sig',
  webhookSignatureMultiValueDelimiter: ',',
  webhookAcceptedVersions: ['v1'],
} as const;

const MONDAY = {
  ...GENERIC,
  webhookSignatureScheme: 'Monday',
  webhookRequireTimestamp: true,
  webhookJwtAudience: 'hooks',
} as const;
const TOKENS = {
  ...GENERIC,
  webhookSignatureScheme: 'Jwt',
  webhookSignatureHeader: 'Authorization',
  webhookRequireTimestamp: true,
  webhookJwtAudience: 'hooks',
} as const;
const MESSAGES = { ...GENERIC, webhookSignatureScheme: 'HttpMessageSignatures' } as const;
const KINDE: WebhookInputs = {
  webhookSignatureScheme: 'Kinde',
  webhookJwksUrl: 'https://example.kinde.com/.well-known/jwks',
  webhookEnforcementMode: 'Enforce',
};

/** Limits count by flow, so one chain serves every test. */
const CHAIN = gateChain();

interface Chain {
  readonly inputs: WebhookInputs;
  readonly trigger?: Partial<WebhookTrigger>;
}

function triggerOf({ inputs, trigger = {} }: Chain): WebhookTrigger {
  const schema = inputs.webhookBodySchema;
  const bodySchema = typeof schema === 'object' ? compileBodySchema(schema as Record<string, never>) : undefined;
  return sampleTrigger(inputs, { ...(bodySchema && { bodySchema }), ...trigger });
}

/** The entrance of a trigger with this chain, as a service with these settings prepares it. */
function entrance(chain: Chain, settings: Partial<SignatureSettings> = {}, defaultMode: EnforcementMode = 'Enforce') {
  return entranceOf(triggerOf(chain), { preparer: gatePreparer(CHAIN, sampleSettings(settings)), defaultMode });
}

const compare = (before: WebhookInputs, after: WebhookInputs, settings: Partial<SignatureSettings> = {}) =>
  accessOf(entrance({ inputs: before }, settings), entrance({ inputs: after }, settings)).access;

describe('access', () => {
  const LIMITED = { ...GENERIC, webhookRateLimitPermitsPerSecond: 1 };
  const GATED = { ...GENERIC, webhookReplayToleranceSeconds: 300 };
  const AGED = { replayToleranceSeconds: 300 };
  const SLOW = { rateLimitPermitsPerSecond: 5, rateLimitBurstSize: 5 };

  it.each<[string, 'same' | 'narrower' | 'wider', WebhookInputs, WebhookInputs, Partial<SignatureSettings>?]>([
    ['the same fields', 'same', GENERIC, { ...GENERIC }],
    ['a further key', 'wider', GENERIC, { ...GENERIC, webhookHmacKey: [...KEYS] }],
    ['a key less', 'narrower', { ...GENERIC, webhookHmacKey: [...KEYS] }, GENERIC],
    [
      'the keys in another order',
      'same',
      { ...GENERIC, webhookHmacKey: [...KEYS] },
      { ...GENERIC, webhookHmacKey: [...KEYS].reverse() },
    ],
    [
      'a previous key that stays',
      'same',
      { ...GENERIC, webhookHmacKeyPrevious: KEYS[1] },
      { ...GENERIC, webhookHmacKey: [...KEYS] },
    ],
    ['a publisher’s claims asked for', 'narrower', TOKENS, MONDAY],
    ['a publisher’s claims not asked for', 'wider', MONDAY, TOKENS],
    ['tokens for another URL', 'wider', MONDAY, { ...MONDAY, webhookJwtAudience: 'others' }],
    ['a body that is a token', 'wider', { ...KINDE, webhookSignatureScheme: 'Jwt' }, KINDE],
    ['a token beside a body', 'wider', KINDE, { ...KINDE, webhookSignatureScheme: 'Jwt' }],
    ['the keys of another tenant', 'wider', KINDE, { ...KINDE, webhookJwksUrl: 'https://other.kinde.com/jwks' }],
    ['one item for each of a list', 'wider', GENERIC, { ...GENERIC, webhookSignatureScheme: 'MicrosoftGraph' }],
    ['a burst beside a limit', 'wider', LIMITED, { ...LIMITED, webhookRateLimitBurstSize: 1000 }],
    ['the burst that holds anyway', 'same', LIMITED, { ...LIMITED, webhookRateLimitBurstSize: 1 }],
    ['a tolerance above the service’s', 'wider', GENERIC, { ...GENERIC, webhookReplayToleranceSeconds: 600 }, AGED],
    ['the tolerance of the service', 'same', GENERIC, { ...GENERIC, webhookReplayToleranceSeconds: 300 }, AGED],
    ['a tolerance below the service’s', 'narrower', GENERIC, { ...GENERIC, webhookReplayToleranceSeconds: 60 }, AGED],
    ['a limit above the service’s', 'wider', GENERIC, { ...GENERIC, webhookRateLimitPermitsPerSecond: 6 }, SLOW],
    [
      'a limit whose burst is above the service’s',
      'wider',
      GENERIC,
      { ...LIMITED, webhookRateLimitBurstSize: 6 },
      SLOW,
    ],
    ['an unsigned nonce header for the hash', 'wider', GATED, { ...GATED, webhookNonceHeader: 'X-Id' }],
    ['a scheme that is not known', 'wider', GENERIC, { ...GENERIC, webhookSignatureScheme: 'Genric' }],
    ['a scheme in another spelling', 'same', GENERIC, { ...GENERIC, webhookSignatureScheme: ' generic' }],
    ['another scheme', 'wider', GENERIC, { ...GENERIC, webhookSignatureScheme: 'GitHub' }],
    ['no scheme', 'wider', GENERIC, { ...GENERIC, webhookSignatureScheme: undefined }],
    ['a scheme where there was none', 'narrower', { webhookEnforcementMode: 'Enforce' }, GENERIC],
    ['the mode Off', 'wider', GENERIC, { ...GENERIC, webhookEnforcementMode: 'Off' }],
    ['the mode Audit', 'wider', GENERIC, { ...GENERIC, webhookEnforcementMode: 'Audit' }],
    ['Enforce after Audit', 'narrower', { ...GENERIC, webhookEnforcementMode: 'Audit' }, GENERIC],
    ['Enforce without a gate', 'same', { webhookEnforcementMode: 'Audit' }, { webhookEnforcementMode: 'Enforce' }],
    ['the default mode', 'same', GENERIC, { ...GENERIC, webhookEnforcementMode: undefined }],
    ['a foreign key', 'wider', GENERIC, { ...GENERIC, webhookHmacKey: KEYS[1] }],
    [
      'a foreign key, the old one as previous',
      'wider',
      GENERIC,
      { ...GENERIC, webhookHmacKey: KEYS[1], webhookHmacKeyPrevious: KEYS[0] },
    ],
    [
      'the key under its legacy name',
      'same',
      GENERIC,
      { ...GENERIC, webhookHmacKey: undefined, webhookSecret: KEYS[0] },
    ],
    ['a previous key less', 'narrower', { ...GENERIC, webhookHmacKeyPrevious: KEYS[1] }, GENERIC],
    [
      'the previous key as the only one',
      'narrower',
      { ...GENERIC, webhookHmacKeyPrevious: KEYS[1] },
      { ...GENERIC, webhookHmacKey: KEYS[1] },
    ],
    ['no key', 'narrower', GENERIC, { ...GENERIC, webhookHmacKey: undefined }],
    ['a key where there was none', 'wider', { ...GENERIC, webhookHmacKey: undefined }, GENERIC],
    ['an allow list', 'narrower', GENERIC, { ...GENERIC, webhookIpAllowList: ['10.0.0.0/8'] }],
    [
      'halves of the same network',
      'same',
      { ...GENERIC, webhookIpAllowList: ['10.0.0.0/8'] },
      { ...GENERIC, webhookIpAllowList: ['10.0.0.0/9', '10.128.0.0/9'] },
    ],
    [
      'a range inside another',
      'narrower',
      { ...GENERIC, webhookIpAllowList: ['10.0.0.0/8'] },
      { ...GENERIC, webhookIpAllowList: ['10.1.0.0/16'] },
    ],
    [
      'an address more',
      'wider',
      { ...GENERIC, webhookIpAllowList: ['10.0.0.0/8'] },
      { ...GENERIC, webhookIpAllowList: ['10.0.0.0/8', '192.0.2.1'] },
    ],
    [
      'an address denied less',
      'wider',
      { ...GENERIC, webhookIpDenyList: ['192.0.2.0/24'] },
      { ...GENERIC, webhookIpDenyList: ['192.0.2.0/25'] },
    ],
    ['a limit for each address', 'wider', LIMITED, { ...LIMITED, webhookRateLimitPerIp: true }],
    ['a limit for all of them', 'narrower', { ...LIMITED, webhookRateLimitPerIp: true }, LIMITED],
    [
      'another schema',
      'wider',
      { ...GENERIC, webhookBodySchema: { required: ['n'] } },
      { ...GENERIC, webhookBodySchema: {} },
    ],
    [
      'the same schema in another order, with a title and a description',
      'same',
      { ...GENERIC, webhookBodySchema: { type: 'object', properties: { n: { type: 'number' }, title: {} } } },
      {
        ...GENERIC,
        webhookBodySchema: {
          title: 'A number',
          properties: { title: { $comment: 'any' }, n: { description: 'of it', type: 'number' } },
          type: 'object',
        },
      },
    ],
    [
      'a property named title that is judged no more',
      'wider',
      { ...GENERIC, webhookBodySchema: { properties: { title: { type: 'string' } } } },
      { ...GENERIC, webhookBodySchema: { properties: {} } },
    ],
    [
      'another allowed value that looks like an annotation',
      'wider',
      { ...GENERIC, webhookBodySchema: { const: { title: 'a' } } },
      { ...GENERIC, webhookBodySchema: { const: { title: 'b' } } },
    ],
    [
      'headers in another case, and an empty prefix',
      'same',
      CUSTOM,
      {
        ...CUSTOM,
        webhookSignatureHeader: 'x-sig',
        webhookTimestampHeader: 'X-TIME',
        webhookSignaturePrefix: '',
        webhookHeaderValuePrefix: 'hmac ',
      },
    ],
    ['an empty line prefix', 'same', { ...SEGMENTS, webhookHeaderValuePrefix: '' }, SEGMENTS],
    [
      'versions in another order',
      'same',
      { ...SEGMENTS, webhookAcceptedVersions: ['v1', 'v2'] },
      { ...SEGMENTS, webhookAcceptedVersions: ['v2', 'v1'] },
    ],
    ['another header', 'wider', CUSTOM, { ...CUSTOM, webhookSignatureHeader: 'X-Sign' }],
    ['a prefix in another case', 'wider', SEGMENTS, { ...SEGMENTS, webhookSignaturePrefix: 'V1' }],
    ['a schema', 'narrower', GENERIC, { ...GENERIC, webhookBodySchema: { required: ['n'] } }],
    [
      'another answer',
      'same',
      GENERIC,
      { ...GENERIC, webhookDuplicateResponse: 'acknowledge', webhookHoldDeliveries: true },
    ],
    ['a filter', 'same', GENERIC, { ...GENERIC, webhookWhen: 'body.n > 1' }],
    ['a slug that others may have too', 'wider', GENERIC, { ...GENERIC, webhookShared: true }],
    ['a slug of its own again', 'narrower', { ...GENERIC, webhookShared: true }, { ...GENERIC, webhookShared: false }],
    ['an id of events', 'narrower', GENERIC, { ...GENERIC, webhookEventId: 'body.id' }],
    ['no id of events', 'wider', { ...GENERIC, webhookEventId: 'body.id' }, { ...GENERIC, webhookEventId: 'off' }],
    ['the id of its scheme by another name', 'wider', STRIPE, { ...STRIPE, webhookEventId: 'body.request.id' }],
    ['no id of its scheme', 'wider', STRIPE, { ...STRIPE, webhookEventId: 'off' }],
    ['events known for less long', 'wider', STRIPE, { ...STRIPE, webhookEventIdDays: 29 }],
    ['events known for longer', 'narrower', STRIPE, { ...STRIPE, webhookEventIdDays: 31 }],
    ['a field that the scheme does not read', 'same', GENERIC, { ...GENERIC, webhookAllowSha1: true }],
    [
      'SHA-1',
      'wider',
      { ...GENERIC, webhookSignatureScheme: 'GitHubLegacy' },
      { ...GENERIC, webhookSignatureScheme: 'GitHubLegacy', webhookAllowSha1: true },
    ],
    ['the certificates of a test system', 'wider', { ...PAYPAL }, { ...PAYPAL, webhookSandbox: true }],
    ['no such certificates', 'narrower', { ...PAYPAL, webhookSandbox: true }, { ...PAYPAL }],
  ])('with %s is %s', (_, access, before, after, settings) => {
    expect(compare(before, after, settings)).toBe(access);
  });

  it('is the same where a key changed behind its reference, and wider with another reference', () => {
    const keyed = (webhookHmacKey: string, current: string) =>
      entrance({ inputs: { ...GENERIC, webhookHmacKey }, trigger: { keys: { current, previous: undefined } } });
    expect(accessOf(keyed('env:A', KEYS[0]), keyed('env:A', KEYS[1])).access).toBe('same');
    expect(accessOf(keyed('env:A', KEYS[0]), keyed('env:B', KEYS[0])).access).toBe('same');
    expect(accessOf(keyed('env:A', KEYS[0]), keyed('env:B', KEYS[1])).access).toBe('wider');
  });

  it('is wider where a trigger learns a key instead of having one', () => {
    const asana = { webhookSignatureScheme: 'Asana', webhookEnforcementMode: 'Enforce' } as const;
    const learning = { ...asana, webhookLearnKey: true };
    expect(compare({ ...asana, webhookHmacKey: KEYS[0] }, learning)).toBe('wider');
    expect(compare(learning, learning)).toBe('same');
    expect(compare(learning, { ...asana, webhookHmacKey: KEYS[0] })).toBe('wider');
  });

  it('is wider where a trigger is served that was not', () => {
    const open = entrance({ inputs: GENERIC });
    const closed: Entrance = { mode: 'Enforce', gates: undefined };
    expect(accessOf(closed, open).access).toBe('wider');
    expect(accessOf(open, closed).access).toBe('narrower');
  });

  it('says why without a key', () => {
    const { reasons } = accessOf(
      entrance({ inputs: GENERIC }),
      entrance({ inputs: { ...GENERIC, webhookHmacKey: KEYS[1] } }),
    );
    expect(reasons).toEqual([{ aspect: 'signature', access: 'wider', text: expect.any(String) }]);
    expect(JSON.stringify(reasons)).not.toContain('of a test');
  });
});

/** Values of each field that decides about access, including omitted ones. */
const FIELD_VALUES: { readonly [Field in keyof WebhookInputs]?: readonly WebhookInputs[Field][] } = {
  webhookEnforcementMode: [undefined, 'Enforce', 'Enforce', 'Audit', 'Off'],
  webhookSignatureScheme: [
    undefined,
    'Generic',
    'GitHub',
    'GitHubLegacy',
    'Stripe',
    'StandardWebhooks',
    'Custom',
    'Genric',
  ],
  webhookHmacKey: [undefined, ...KEYS, [...KEYS], [...KEYS].reverse()],
  webhookHmacKeyPrevious: [undefined, ...KEYS],
  webhookAllowSha1: [undefined, true],
  webhookSignatureHeader: ['X-Signature', 'X-Other-Signature', ['X-Signature', 'X-Other-Signature']],
  webhookSignatureForm: [undefined, 'v1={signature}', 'v1={signature},...', 't={timestamp},v1={signature}'],
  webhookSignedPayload: [undefined, '{body}', '{timestamp}.{body}', '{header:x-id}.{body}'],
  webhookKeyEncoding: [undefined, 'utf8', 'hex'],
  webhookSignatureMultiValueDelimiter: [undefined, ','],
  webhookSignatureValueKey: [undefined, 'v1'],
  webhookAcceptedVersions: [undefined, ['v1'], ['v1', 'v0']],
  webhookAcceptMultipleSignatures: [undefined, true],
  webhookTimestampHeader: [undefined, 'X-Time'],
  webhookRequireTimestamp: [undefined, true],
  webhookReplayToleranceSeconds: [undefined, 0, 60, 600],
  webhookNonceHeader: [undefined, 'X-Id', 'webhook-id'],
  webhookRateLimitPermitsPerSecond: [undefined, 1, 3],
  webhookRateLimitBurstSize: [undefined, 1, 3, 1000],
  webhookRateLimitPerIp: [undefined, false, true],
  webhookRateLimitUnverifiedPermitsPerSecond: [undefined, 1, 3],
  webhookIpAllowList: [undefined, ['10.0.0.0/8'], ['10.0.0.0/9', '10.128.0.0/9'], ['*.*.*.*']],
  webhookIpDenyList: [undefined, ['10.0.0.1'], ['10.0.0.0/8']],
  webhookBodySchema: [undefined, {}, { required: ['n'] }],
};

const anyField = fc
  .constantFrom(...Object.entries(FIELD_VALUES))
  .chain(([field, values]) => fc.constantFrom(...values).map((value): WebhookInputs => ({ [field]: value })));
const anyInputs = fc
  .array(anyField, { maxLength: 7 })
  .map((fields): WebhookInputs => Object.assign({ ...GENERIC }, { webhookSignatureHeader: 'X-Signature' }, ...fields));
const anySettings = fc.record({
  replayToleranceSeconds: fc.constantFrom(0, 300),
  rateLimitPermitsPerSecond: fc.constantFrom(undefined, 2),
  rateLimitBurstSize: fc.constantFrom(undefined, 2),
  rateLimitPerIp: fc.constantFrom(undefined, true),
  allowLegacySha1: fc.boolean(),
});

/** Deliveries of one sender in sequence; each is answered before the next. */
interface Probe {
  readonly scheme: string | undefined;
  readonly key: string;
  readonly ageMs: number;
  readonly clientIp: string;
  readonly body: string;
  readonly isRepeated: boolean;
  readonly gapMs: number;
}

const anyProbe: fc.Arbitrary<Probe> = fc.record({
  scheme: fc.constantFrom(undefined, 'Generic', 'GitHub', 'GitHubLegacy', 'Stripe', 'StandardWebhooks'),
  key: fc.constantFrom(...KEYS),
  ageMs: fc.constantFrom(0, 0, 100_000, 400_000, 1_000_000),
  clientIp: fc.constantFrom('10.0.0.1', '10.200.0.1', '203.0.113.9', ''),
  body: fc.constantFrom('"n"', '"x"'),
  isRepeated: fc.boolean(),
  gapMs: fc.constantFrom(0, 0, 400),
});

const COPIES = 5;

/** Which deliveries of the probe the service's gates accept, with a store that knows no nonce yet. */
async function accepted(probe: Probe, inputs: WebhookInputs, given: Partial<SignatureSettings>): Promise<boolean[]> {
  const clock = new FakeClock();
  const settings = sampleSettings({ ...given, clock });
  const trigger = triggerOf({ inputs, trigger: { flowId: randomUUID() } });
  const { gates } = gatePreparer(CHAIN, settings).prepare(trigger);
  const mode = inputs.webhookEnforcementMode ?? 'Enforce';
  const nonces = new Set<string>();
  const results: boolean[] = [];
  for (let at = 0; at < COPIES; at += 1) {
    const receivedAt = clock.now();
    const id = probe.isRepeated ? 0 : at;
    const delivery = signed(probe, { id, receivedAt, settings });
    const { refusal, evidence } = await runGates(gates, delivery, mode);
    const isReplay = evidence.nonce !== undefined && nonces.has(evidence.nonce.value);
    const isAccepted = refusal === null && !(mode === 'Enforce' && isReplay);
    if (isAccepted && evidence.nonce !== undefined) nonces.add(evidence.nonce.value);
    results.push(isAccepted);
    if (!probe.isRepeated) clock.advance(probe.gapMs);
  }
  return results;
}

function signed(
  probe: Probe,
  { id, receivedAt, settings }: { id: number; receivedAt: number; settings: SignatureSettings },
) {
  const body = Buffer.from(`{${probe.body}:${id}}`);
  const timestampMs = receivedAt - probe.ageMs;
  const headers = {
    'x-id': `${id}`,
    'x-time': `${Math.floor(timestampMs / 1000)}`,
    'content-type': 'application/json',
  };
  const about = { body, receivedAt, clientIp: probe.clientIp };
  const scheme = resolveScheme(settings.schemes, { webhookSignatureScheme: probe.scheme });
  if (scheme?.kind !== 'spec') return sampleDelivery({ ...about, headers });
  const key = probe.scheme === 'StandardWebhooks' ? Buffer.from(probe.key).toString('base64') : probe.key;
  const request = { spec: scheme.spec, key, body, url: 'https://a.example/x', timestampMs, deliveryId: `d${id}` };
  const sent = Object.entries(signDelivery(request).headers).map(([name, value]) => [name.toLowerCase(), value]);
  return sampleDelivery({ ...about, headers: { ...headers, ...Object.fromEntries(sent) } });
}

/** How many of the first deliveries were accepted: a slower limit accepts different ones, but never more. */
const countTo = (at: number, results: readonly boolean[]) => results.slice(0, at + 1).filter(Boolean).length;

/** A manifest that does not load is never deployed. */
const isFit = (inputs: WebhookInputs, settings: Partial<SignatureSettings>) =>
  gatePreparer(CHAIN, sampleSettings(settings)).prepare(triggerOf({ inputs })).mistakes.length === 0;

describe('any two chains', () => {
  it('let no probe pass after a change that is not wider which was refused before', async () => {
    const seen = { same: 0, narrower: 0, wider: 0, opened: 0 };
    await fc.assert(
      fc.asyncProperty(
        anyInputs,
        fc.array(anyField, { maxLength: 3 }),
        anySettings,
        fc.array(anyProbe, { minLength: 8, maxLength: 8 }),
        async (before, edits, settings, probes) => {
          const after: WebhookInputs = Object.assign({ ...before }, ...edits);
          if (!isFit(before, settings) || !isFit(after, settings)) return;
          const access = compare(before, after, settings);
          seen[access] += 1;
          for (const probe of probes) {
            const [one, other] = [await accepted(probe, before, settings), await accepted(probe, after, settings)];
            const opened = other.some((_, at) => countTo(at, other) > countTo(at, one));
            if (opened) seen.opened += 1;
            if (access !== 'wider') expect({ probe, one, other, opened }).toMatchObject({ opened: false });
          }
        },
      ),
      { numRuns: 250 },
    );
    // The probes do distinguish chains, and the chains do differ.
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(10);
  });

  const decidedBy = (field: WebhookField): readonly string[] => {
    const { decides } = WEBHOOK_ROWS[field];
    return typeof decides === 'string' ? [] : decides;
  };

  it('differ only in the parts that say that they are decided by the field that differs', () => {
    fc.assert(
      fc.property(anyInputs, anyField, anySettings, (before, edit, settings) => {
        const after = { ...before, ...edit };
        if (!isFit(before, settings) || !isFit(after, settings)) return;
        const { reasons } = accessOf(entrance({ inputs: before }, settings), entrance({ inputs: after }, settings));
        const [field] = Object.keys(edit) as WebhookField[];
        for (const { aspect } of reasons) expect(field && decidedBy(field)).toContain(aspect);
      }),
      { numRuns: 1000 },
    );
  });

  describe.each(FIELDS)('that differ in %s', (field) => {
    const edits = editsOf(field).flatMap(({ with: rest, from, to }) =>
      [GENERIC, CUSTOM, SEGMENTS, TOKENS, MESSAGES, PAYPAL].flatMap((base) => {
        const [before, after] = [from, to].map(
          (value): WebhookInputs => ({ ...base, ...rest, [field]: asRead(field, value) }),
        );
        if (before === undefined || after === undefined || !isFit(before, {}) || !isFit(after, {})) return [];
        return [accessOf(entrance({ inputs: before }), entrance({ inputs: after }))];
      }),
    );

    it('are compared', () => {
      expect(edits.length).toBeGreaterThan(0);
    });

    it('differ in no part that its row does not name', () => {
      const aspects = new Set(edits.flatMap(({ reasons }) => reasons.map(({ aspect }) => aspect)));
      expect(decidedBy(field)).toEqual(expect.arrayContaining([...aspects]));
    });
  });
});
