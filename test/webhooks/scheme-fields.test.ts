import { describe, expect, it } from 'vitest';
import type { LoadedFlow } from '../../src/manifest/load.ts';
import { WEBHOOK_FIELDS, type WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import { webhookChecks } from '../../src/webhooks/checks.ts';
import { gateChain, gatePreparer } from '../../src/webhooks/gates/index.ts';
import { PUBLISHERS } from '../../src/webhooks/schemes/publishers/index.ts';
import { createSchemeRegistry, listSchemes, resolveScheme } from '../../src/webhooks/schemes/resolve.ts';
import { sampleSettings, sampleTrigger } from './samples.ts';
import { builtIn, KEYS } from './schemes/fixtures.ts';

const verify = () => ({ outcome: 'verified' as const });
const answer = () => ({ statusCode: 200, contentType: 'text/plain', body: '' });
const handshake = { name: 'hello', method: 'GET', needsVerification: false, recognises: () => true, answer } as const;

const schemes = createSchemeRegistry({
  verifiers: [
    { name: 'Acme', verify },
    { name: 'Greeter', verify, handshakes: [{ ...handshake, needsVerifyToken: true }] },
  ],
  specs: [
    { ...builtIn('GitHub'), name: 'Forge' },
    { name: 'Short', headerName: 'X-Short', algorithm: 'sha1', encoding: 'hexLower', signedPayloadStrategy: 'RawBody' },
  ],
});
const SCHEMES = listSchemes(schemes).map(({ name }) => name);

const VALUES: { readonly [Field in keyof WebhookInputs]-?: NonNullable<WebhookInputs[Field]> } = {
  webhookSlug: 'orders',
  webhookHmacKey: 'a key of more than sixteen bytes',
  webhookHmacKeyPrevious: 'another key of more than sixteen bytes',
  webhookSecret: 'a key of more than sixteen bytes',
  webhookSecretPrevious: 'another key of more than sixteen bytes',
  webhookLearnKey: true,
  webhookSignatureScheme: 'GitHub',
  webhookAllowSha1: true,
  webhookSandbox: true,
  webhookVerifyToken: 'a token of more than sixteen bytes',
  webhookSignatureHeader: 'X-Signature',
  webhookFurtherSignatureHeaders: ['X-Signature-2'],
  webhookSignatureForm: '{signature}',
  webhookKeyEncoding: 'utf8',
  webhookSignedPayload: '{timestamp}.{body}',
  webhookTimestampField: 'sent.at',
  webhookTimestampUnit: 'seconds',
  webhookDeliveryIdHeader: 'X-Id',
  webhookSignatureAlgorithm: 'sha512',
  webhookSignatureEncoding: 'base64',
  webhookSignaturePrefix: 'v1=',
  webhookSignatureMultiValueDelimiter: ',',
  webhookSignatureKeyValueSeparator: ':',
  webhookSignatureValueKey: 'v1',
  webhookHeaderValuePrefix: 'HMAC ',
  webhookAcceptMultipleSignatures: true,
  webhookAcceptedVersions: ['v1'],
  webhookSignedPayloadStrategy: 'TimestampDotBody',
  webhookSignedPayloadDelimiter: ':',
  webhookSignedPayloadVersion: 'v0',
  webhookCustomStrategyName: 'own',
  webhookTimestampHeader: 'X-Timestamp',
  webhookTimestampValueKey: 't',
  webhookJwksUrl: 'https://publisher.example/keys',
  webhookJwtIssuer: 'publisher',
  webhookJwtAudience: 'hooks',
  webhookJwtBodyHashClaim: 'hash',
  webhookRequiredComponents: ['content-digest'],
  webhookSignatureKeyId: 'k1',
  webhookRequireTimestamp: true,
  webhookReplayToleranceSeconds: 300,
  webhookNonceHeader: 'X-Id',
  webhookRateLimitPermitsPerSecond: 5,
  webhookRateLimitBurstSize: 5,
  webhookRateLimitPerIp: true,
  webhookRateLimitUnverifiedPermitsPerSecond: 5,
  webhookRateLimitUnverifiedBurstSize: 5,
  webhookIpAllowList: ['192.0.2.0/24'],
  webhookIpDenyList: ['192.0.2.0/24'],
  webhookIpAllowListPreset: 'private',
  webhookIpAllowListPresets: ['private'],
  webhookBodySchema: {},
  webhookEnforcementMode: 'Enforce',
  webhookPublicUrl: 'https://hooks.example.com/in',
  webhookDuplicateResponse: 'acknowledge',
  webhookWhen: 'true',
  webhookEventId: 'body.id',
  webhookEventIdDays: 7,
  webhookShared: true,
  webhookExpectEvery: 'PT2H',
  webhookHoldDeliveries: true,
  webhookRespond: { step: 'reply' },
  webhookResponse: { contentType: 'text/plain', body: 'ok' },
};

const CUSTOM = ['Custom'];
const BY_SHA1 = PUBLISHERS.filter((row) => JSON.stringify(row).match(/"(sha1|rsaSha1)"/)).map(({ name }) => name);
const DESCRIBED = ['Short', 'Custom'];

/** Schemes that read a field, in the order of the list; every scheme goes with a field that is not here. */
const READERS: Partial<Record<keyof WebhookInputs, readonly string[]>> = {
  webhookLearnKey: ['Asana'],
  webhookAllowSha1: ['Short', ...BY_SHA1, 'Custom'],
  webhookSandbox: ['PayPal'],
  webhookVerifyToken: ['Greeter', 'Meta'],
  webhookSignatureHeader: ['Token', 'Jwt', 'Custom'],
  webhookSignatureAlgorithm: CUSTOM,
  webhookSignatureEncoding: CUSTOM,
  webhookSignaturePrefix: CUSTOM,
  webhookSignedPayloadStrategy: CUSTOM,
  webhookSignatureForm: CUSTOM,
  webhookSignedPayload: CUSTOM,
  webhookFurtherSignatureHeaders: DESCRIBED,
  webhookKeyEncoding: ['Short', 'Jwt', 'HttpMessageSignatures', 'Custom'],
  webhookTimestampField: DESCRIBED,
  webhookTimestampUnit: DESCRIBED,
  webhookDeliveryIdHeader: DESCRIBED,
  webhookSignatureMultiValueDelimiter: DESCRIBED,
  webhookSignatureKeyValueSeparator: DESCRIBED,
  webhookSignatureValueKey: DESCRIBED,
  webhookHeaderValuePrefix: ['Short', 'Token', 'Jwt', 'Custom'],
  webhookAcceptMultipleSignatures: DESCRIBED,
  webhookAcceptedVersions: DESCRIBED,
  webhookSignedPayloadDelimiter: DESCRIBED,
  webhookSignedPayloadVersion: DESCRIBED,
  webhookCustomStrategyName: DESCRIBED,
  webhookTimestampValueKey: DESCRIBED,
  webhookJwksUrl: ['Kinde', 'Jwt', 'HttpMessageSignatures'],
  webhookJwtIssuer: ['JiraConnect', 'Jwt'],
  webhookJwtAudience: ['Monday', 'Jwt'],
  webhookJwtBodyHashClaim: ['Jwt'],
  webhookRequiredComponents: ['HttpMessageSignatures'],
  webhookSignatureKeyId: ['HttpMessageSignatures'],
};

const check = webhookChecks(gatePreparer(gateChain(), sampleSettings({ schemes })));
/** The errors about fields that are not read. */
function unread(inputs: WebhookInputs): unknown[] {
  const flow = { webhooks: [sampleTrigger(inputs)] } as unknown as LoadedFlow;
  return check(flow)
    .filter(({ severity, message }) => severity === 'error' && message.startsWith('is not read'))
    .map(({ path, message }) => `${path}: ${message}`);
}

/** What a publisher that signs by a standard asks for. */
const ASKED: Readonly<Record<string, WebhookInputs>> = {
  JiraConnect: { webhookJwtIssuer: 'publisher' },
  Kinde: { webhookHmacKey: undefined, webhookJwksUrl: 'https://publisher.example/keys' },
  ConstantContact: { webhookHmacKey: undefined },
  Monday: { webhookJwtAudience: 'hooks' },
};

const named = (scheme: string): WebhookInputs => ({
  webhookSignatureScheme: scheme,
  webhookHmacKey: KEYS[scheme] ?? (scheme === 'Basic' ? 'sender:a password of sixteen' : VALUES.webhookHmacKey),
  ...(scheme === 'Custom' ? { webhookSignatureHeader: 'X-Signature' } : {}),
  ...ASKED[scheme],
});

it('knows a value of every field', () => {
  expect(Object.keys(VALUES).sort()).toEqual([...WEBHOOK_FIELDS.all].sort());
  expect(SCHEMES.length).toBeGreaterThan(40);
});

describe.each(Object.keys(VALUES) as (keyof WebhookInputs)[])('%s', (field) => {
  const readers = READERS[field] ?? SCHEMES;
  const at = `triggers.webhook.inputs.${field}`;

  it('is an error that names the scheme that does not read it, and those that do', () => {
    for (const scheme of SCHEMES) {
      const inputs: WebhookInputs = { [field]: VALUES[field], ...named(scheme) };
      const isRead = readers.includes(scheme);
      const problem = `${at}: is not read by ${scheme}; schemes that read it: ${readers.join(', ')}`;
      expect(unread(inputs), scheme).toEqual(isRead ? [] : [problem]);
    }
  });

  it('changes nothing of a scheme that does not read it', () => {
    for (const scheme of SCHEMES.filter((name) => !readers.includes(name))) {
      const [before, after] = [named(scheme), { ...named(scheme), [field]: VALUES[field] }];
      expect(resolveScheme(schemes, after), scheme).toEqual(resolveScheme(schemes, before));
    }
  });

  it('is an error without any scheme if only schemes read it', () => {
    const problem = `${at}: is not read: webhookSignatureScheme is missing; schemes that read it: ${readers.join(', ')}`;
    expect(unread({ [field]: VALUES[field] })).toEqual(field in READERS ? [problem] : []);
  });
});

it.each(['webhookLearnKey', 'webhookAllowSha1', 'webhookSandbox', 'webhookAcceptMultipleSignatures'])(
  'asks for nothing with %s false',
  (field) => expect(unread({ ...named('GitLab'), [field]: false })).toEqual([]),
);

it('says nothing of the fields of a scheme that is unknown: that is told instead', () => {
  expect(unread({ ...named('Nobody'), webhookSignatureHeader: 'X-Signature' })).toEqual([]);
});
