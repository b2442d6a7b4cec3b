import { describe, expect, it, test } from 'vitest';
import { parseManifest } from '../../src/manifest/load.ts';
import type { Json } from '../../src/model/json.ts';
import { FLOW_ID, goodManifest, issuesAfter, rules, strictRules } from './rules.ts';

const PATH = 'flow.json triggers.github.inputs';

/** The issues of the good manifest with other inputs of its webhook trigger; undefined removes one. */
function issuesWith(changes: Record<string, Json | undefined>, given = rules): string[] {
  return issuesAfter((manifest) => {
    const inputs = { ...(manifest.triggers.github?.inputs as object), ...changes };
    Object.assign(manifest.triggers.github ?? {}, { inputs });
  }, given);
}

describe('refuses', () => {
  test.each<[string, string, Json, string]>([
    ['a slug with a blank', 'webhookSlug', 'my orders', 'is not a slug'],
    ['a slug that begins with a dot', 'webhookSlug', '.orders', 'is not a slug'],
    ['a slug of 129 characters', 'webhookSlug', 'a'.repeat(129), 'is not a slug'],
    ['a slug that is a GUID', 'webhookSlug', FLOW_ID.toUpperCase(), 'looks like a GUID'],
    ['a slug that is a number', 'webhookSlug', 7, 'is a number; a string is accepted'],
    ['an interval in years', 'webhookExpectEvery', 'P1Y', 'is not an ISO 8601 duration from PT1M to P31D'],
    ['an interval of less than a minute', 'webhookExpectEvery', 'PT59S', 'is not an ISO 8601 duration'],
    ['an interval of more than 31 days', 'webhookExpectEvery', 'P32D', 'is not an ISO 8601 duration'],
    ['a field in the wrong case', 'webhookslug', 'x', 'is not known; did you mean "webhookSlug"?'],
    ['a misspelt field', 'webhookHmackKey', 'x', 'is not known; did you mean "webhookHmacKey"?'],
    ['a name that begins like a field in any case', 'WebHookIp', 'x', 'is not known'],
    ['a key that is a number', 'webhookHmacKey', 12345678, 'is a number; a string or an array is accepted'],
    ['a tolerance in a string', 'webhookReplayToleranceSeconds', '300', 'is a string; a number is accepted'],
    ['half a second of tolerance', 'webhookReplayToleranceSeconds', 0.5, 'is not a whole number'],
    ['a negative tolerance', 'webhookReplayToleranceSeconds', -1, 'is out of range; at least 0 is accepted'],
    ['a rate of nothing', 'webhookRateLimitPermitsPerSecond', 0, 'is out of range; more than 0 is accepted'],
    ['a burst below one', 'webhookRateLimitBurstSize', 0.5, 'is out of range; at least 1 is accepted'],
    ['a switch that is text', 'webhookRequireTimestamp', 'true', 'is a string; true or false is accepted'],
    [
      'an unknown mode',
      'webhookEnforcementMode',
      'Enforced',
      'is not one of Off, Audit, Enforce; did you mean "Enforce"?',
    ],
    ['a mode that is a switch', 'webhookEnforcementMode', true, 'is a boolean; one of Off, Audit, Enforce is accepted'],
    ['an unknown algorithm', 'webhookSignatureAlgorithm', 'md5', 'is not one of sha1, sha256, sha384, sha512'],
    ['an unknown encoding', 'webhookSignatureEncoding', 'hex', 'is not one of hexLower, hexUpper, base64, base64Url'],
    ['an unknown strategy', 'webhookSignedPayloadStrategy', 'Body', 'is not one of RawBody, TimestampDotBody'],
    ['an unknown answer to duplicates', 'webhookDuplicateResponse', 'ignore', 'is not one of conflict, acknowledge'],
    ['a header name with a colon', 'webhookNonceHeader', 'X-Id:', 'is not a header name'],
    ['an empty scheme', 'webhookSignatureScheme', '', 'is empty'],
    ['an empty delimiter', 'webhookSignatureMultiValueDelimiter', '', 'is empty'],
    ['no version at all', 'webhookAcceptedVersions', [], 'is empty'],
    ['versions that are text', 'webhookAcceptedVersions', 'v1', 'is a string; an array is accepted'],
    ['an empty list of addresses', 'webhookIpAllowList', [], 'is empty'],
    ['a list that is a number', 'webhookIpAllowList', 10, 'is a number; an array or a string is accepted'],
    ['a relative public URL', 'webhookPublicUrl', '/flows', 'is not an absolute http or https URL'],
    ['a masked public URL', 'webhookPublicUrl', 'https://***@a.example/in', 'contains the mask'],
    ['a reference to no URL', 'webhookPublicUrl', 'env:GITHUB_KEY', 'refers to a value that is not an absolute http'],
    ['a public URL that is not set', 'webhookPublicUrl', 'env:NO_KEY', 'variable NO_KEY is not set'],
    ['a public URL of another scheme', 'webhookPublicUrl', 'ftp://example.com', 'is not an absolute http or https URL'],
    ['a response that is text', 'webhookResponse', 'ok', 'is a string; an object is accepted'],
    ['a variable that is not set', 'webhookHmacKey', 'env:NO_KEY', 'the environment variable NO_KEY is not set'],
    ['a variable that is empty', 'webhookHmacKeyPrevious', 'env:EMPTY', 'the environment variable EMPTY is empty'],
    ['a variable of the prototype', 'webhookHmacKey', 'env:constructor', 'variable constructor is not set'],
    ['a reference in capitals', 'webhookHmacKey', 'ENV:NO_KEY', 'the environment variable NO_KEY is not set'],
    ['a file that is not there', 'webhookHmacKey', 'file:a/key', 'the file a/key cannot be read: ENOENT'],
    ['a reference to nothing', 'webhookHmacKey', 'file:', 'does not name a secret'],
  ])('%s', (_rule, field, value, message) => {
    expect(issuesWith({ [field]: value })).toEqual([expect.stringContaining(`error ${PATH}.${field}: `)]);
    expect(issuesWith({ [field]: value })).toEqual([expect.stringContaining(message)]);
  });

  test.each(['On', 'Offf', 'Audits', 'Log'])('the mode %s without a hint that would weaken the gate', (mode) => {
    const [issue] = issuesWith({ webhookEnforcementMode: mode });
    expect(issue).toMatch(/is not one of Off, Audit, Enforce$/);
  });

  test.each<[string, string, Json, string]>([
    ['an empty entry', 'webhookIpAllowList', ['10.0.0.1', ' '], 'webhookIpAllowList[1]: is an empty entry'],
    ['an empty entry between commas', 'webhookIpDenyList', 'a,,b', 'webhookIpDenyList[1]: is an empty entry'],
    ['an empty string', 'webhookIpAllowListPresets', '', 'webhookIpAllowListPresets[0]: is an empty entry'],
    ['an address that is a number', 'webhookIpAllowList', ['a', 1], 'webhookIpAllowList[1]: is a number'],
    ['no body', 'webhookResponse', { contentType: 'text/plain' }, 'webhookResponse.body: is missing'],
    [
      'more than that',
      'webhookResponse',
      { contentType: 'text/plain', body: '', status: 201 },
      'webhookResponse.status: is not',
    ],
    ['a line break', 'webhookResponse', { contentType: 'a/b\r\nx: y', body: '' }, 'webhookResponse.contentType: is no'],
    ['no name', 'webhookSignedPayloadStrategy', 'custom', 'webhookCustomStrategyName: is missing; strategy Custom'],
  ])('%s in %s', (_rule, field, value, issue) => {
    expect(issuesWith({ [field]: value })).toEqual([expect.stringContaining(`error ${PATH}.${issue}`)]);
  });
});

test.each([
  'text/html',
  'Text/HTML; charset=utf-8',
  'application/xhtml+xml',
  'image/svg+xml',
  'application/pdf',
  'a/b',
])('a webhookResponse of the type %s is refused', (contentType) => {
  expect(issuesWith({ webhookResponse: { contentType, body: '' } })).toEqual([
    expect.stringContaining(
      `error ${PATH}.webhookResponse.contentType: is a type that browsers may run, on the origin of the dashboard; ` +
        'accepted are JSON, text/plain and text/csv',
    ),
  ]);
});

it('never tells the value of a secret field', () => {
  const secret = 'sw0rdfish-sw0rdfish';
  for (const value of [secret, [secret], { value: secret }]) {
    for (const field of ['webhookHmacKey', 'webhookHmacKeyPrevious', 'webhookSecret', 'webhookHmacKeyy', 'hmacKey']) {
      expect(issuesWith({ [field]: value }, strictRules).join('\n')).not.toContain(secret);
    }
  }
});

describe('warns of', () => {
  test.each<[string, Record<string, Json>, string]>([
    ['a key in plain text', { webhookHmacKey: 'plain' }, 'webhookHmacKey: contains a secret in plain text'],
    ['a key that is empty', { webhookHmacKey: '' }, 'webhookHmacKey: is empty, which counts as no key'],
    [
      'two names of a key',
      { webhookSecret: 'env:GITHUB_KEY_OLD' },
      'webhookSecret: is ignored: "webhookHmacKey" is also set',
    ],
  ])('%s', (_rule, changes, issue) => {
    for (const given of [rules, strictRules]) {
      expect(issuesWith(changes, given)).toEqual([expect.stringContaining(`warning ${PATH}.${issue}`)]);
    }
  });
});

describe('warns of what weakens a gate, and refuses it where manifests are read strictly:', () => {
  test.each<[string, Record<string, Json | undefined>, string]>([
    ['an input that is not read', { hmacKey: 'x' }, 'hmacKey: is ignored; did you mean "webhookHmacKey"?'],
    ['an own input', { note: 'x' }, 'note: is ignored'],
    [
      'a key without a scheme',
      { webhookSignatureScheme: undefined },
      'webhookHmacKey: does not check signatures, because webhookSignatureScheme is not set',
    ],
  ])('%s', (_rule, changes, issue) => {
    expect(issuesWith(changes)).toEqual([expect.stringContaining(`warning ${PATH}.${issue}`)]);
    expect(issuesWith(changes, strictRules)).toEqual([expect.stringContaining(`error ${PATH}.${issue}`)]);
  });
});

describe('reads', () => {
  test.each<[string, string, Json, Json]>([
    ['a list', 'webhookIpAllowList', [' 10.0.0.1 ', '::1'], ['10.0.0.1', '::1']],
    ['a comma-delimited list', 'webhookIpDenyList', '10.0.0.1, 10.0.*.*', ['10.0.0.1', '10.0.*.*']],
    ['one preset as a list', 'webhookIpAllowListPresets', 'github', ['github']],
    ['a mode in any case', 'webhookEnforcementMode', 'ENFORCE', 'Enforce'],
    ['an algorithm in any case', 'webhookSignatureAlgorithm', 'SHA512', 'sha512'],
    ['an encoding in any case', 'webhookSignatureEncoding', 'BASE64URL', 'base64Url'],
    ['a strategy in any case', 'webhookSignedPayloadStrategy', 'timestampdotbody', 'TimestampDotBody'],
    ['an answer to duplicates in any case', 'webhookDuplicateResponse', 'Acknowledge', 'acknowledge'],
    ['a fraction of a permit', 'webhookRateLimitPermitsPerSecond', 0.2, 0.2],
    ['an empty prefix', 'webhookSignaturePrefix', '', ''],
    ['a public URL', 'webhookPublicUrl', 'https://hooks.example.com/a', 'https://hooks.example.com/a'],
  ])('%s', (_rule, field, given, expected) => {
    const manifest = goodManifest();
    Object.assign(manifest.triggers.github?.inputs ?? {}, { [field]: given });
    const { flow, issues } = parseManifest(JSON.stringify(manifest), 'flow.json', rules);
    expect(issues).toEqual([]);
    expect(flow?.webhooks[0]?.inputs).toHaveProperty(field, expected);
    expect(flow?.snapshot).toHaveProperty(['triggers', 'github', 'inputs', field], expected);
  });

  it.each<[string, Record<string, string>, object]>([
    ['the present names', { webhookHmacKey: 'env:GITHUB_KEY' }, { current: 'a key of the environment' }],
    ['the legacy names', { webhookSecret: 'one', webhookSecretPrevious: 'two' }, { current: 'one', previous: 'two' }],
    ['the present name first', { webhookHmacKey: 'one', webhookSecret: 'two' }, { current: 'one' }],
    ['an empty present name first', { webhookHmacKey: '', webhookSecret: 'two' }, {}],
    [
      'each pair of its own',
      { webhookHmacKeyPrevious: 'one', webhookSecret: 'two' },
      { current: 'two', previous: 'one' },
    ],
  ])('keys by %s', (_rule, inputs, keys) => {
    const manifest = goodManifest();
    manifest.triggers = { hook: { type: 'webhook', inputs } };
    const { flow } = parseManifest(JSON.stringify(manifest), 'flow.json', rules);
    const isConflict = 'webhookHmacKey' in inputs && 'webhookSecret' in inputs;
    expect(flow?.webhooks).toEqual([
      {
        flowId: FLOW_ID,
        flowName: 'Orders',
        triggerKey: 'hook',
        inputs,
        keys: { current: undefined, previous: undefined, ...keys },
        hasConflictingKeys: isConflict,
      },
    ]);
  });

  it.each([
    ['by reference', 'env:GITHUB_KEY', 'a key of the environment'],
    ['in plain text', 'a token', 'a token'],
    ['empty as none', '', undefined],
  ])('a verify token %s', (_rule, webhookVerifyToken, expected) => {
    const manifest = goodManifest();
    manifest.triggers = { hook: { type: 'webhook', inputs: { webhookVerifyToken } } };
    const { flow } = parseManifest(JSON.stringify(manifest), 'flow.json', rules);
    expect(flow?.webhooks[0]?.verifyToken).toBe(expected);
    expect(flow?.webhooks[0]?.keys).toEqual({ current: undefined, previous: undefined });
  });

  it('a verify token as missing if its reference cannot be read', () => {
    const [issue] = issuesWith({ webhookVerifyToken: 'env:EMPTY' });
    expect(issue).toContain('webhookVerifyToken: the environment variable EMPTY is empty');
  });
});
