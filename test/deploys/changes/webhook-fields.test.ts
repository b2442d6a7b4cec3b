import { describe, expect, it } from 'vitest';
import { compareRevisions } from '../../../src/deploys/changes/index.ts';
import { WEBHOOK_FIELDS, type WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { flow, QUIET, SETTINGS, snapshot, verdicts } from './samples.ts';

type Value = string | number | boolean | object | undefined;
type Edit = readonly [from: Value, to: Value];

/** Values of one field; `undefined` where the trigger leaves it out. */
interface Field {
  /** What the trigger has as well. */
  readonly with?: WebhookInputs;
  /** From the strictest to the laxest: a step forth is weaker, a step back is stronger. */
  readonly ladders?: readonly (readonly Value[])[];
  /** Neither weaker nor stronger, in either direction. */
  readonly other?: readonly Edit[];
  /** Changes no more than an answer, in either direction. */
  readonly same?: readonly Edit[];
  /** In this direction alone. */
  readonly oneWay?: readonly (readonly [from: Value, to: Value, expected: string])[];
}

const weaker = 'gate-weakened caution';
const stronger = 'gate-strengthened safe';
const other = 'gate-changed caution';
const same = 'webhook-answer-changed safe';
const none = undefined;

const flag = (strict: boolean, rest: Field = {}): Field => ({
  ladders: [strict ? [true, false] : [false, true], strict ? [true, none] : [none, true]],
  same: [[none, false]],
  ...rest,
});
const readAnew = (one: Value, another: Value): Field => ({
  other: [
    [none, one],
    [one, another],
  ],
});
const demand = (one: Value, another: Value): Field => ({ ladders: [[one, none]], other: [[one, another]] });
const key: Field = {
  oneWay: [
    [none, 'env:GITHUB_KEY', 'secret-reference-changed safe'],
    ['env:GITHUB_KEY', 'env:GITHUB_KEY_OLD', 'secret-reference-changed safe'],
    ['env:GITHUB_KEY', none, weaker],
  ],
};
const previousKey: Field = {
  with: { webhookHmacKey: 'env:GITHUB_KEY' },
  oneWay: [
    [none, 'env:GITHUB_KEY_OLD', weaker],
    ['env:API_TOKEN', 'env:GITHUB_KEY_OLD', weaker],
    ['env:GITHUB_KEY_OLD', none, stronger],
  ],
};

const FIELDS: Readonly<Record<keyof WebhookInputs, Field>> = {
  webhookSlug: {
    oneWay: [
      [none, 'in', 'slug-changed safe'],
      ['in', 'IN', 'slug-changed safe'],
      ['in', 'out', 'slug-changed caution'],
      ['in', none, 'slug-changed caution'],
    ],
  },
  webhookHmacKey: key,
  webhookSecret: key,
  webhookHmacKeyPrevious: previousKey,
  webhookSecretPrevious: previousKey,
  webhookVerifyToken: {
    oneWay: [
      [none, 'env:API_TOKEN', 'secret-reference-changed safe'],
      ['env:API_TOKEN', 'env:GITHUB_KEY', 'secret-reference-changed safe'],
      ['env:API_TOKEN', none, 'secret-reference-changed safe'],
    ],
  },
  webhookLearnKey: {
    same: [[none, false]],
    oneWay: [
      [none, true, weaker],
      [false, true, weaker],
      [true, none, other],
      [true, false, other],
    ],
  },
  webhookSignatureScheme: {
    ladders: [['GitHub', none]],
    other: [['GitHub', 'Stripe']],
    same: [['GitHub', 'github']],
  },
  webhookAllowSha1: flag(false),
  webhookSandbox: flag(false),
  webhookSignatureHeader: readAnew('X-A', 'X-B'),
  webhookFurtherSignatureHeaders: {
    ladders: [[none, ['X-A'], ['X-A', 'X-B']]],
    same: [
      [
        ['X-A', 'X-B'],
        ['x-b', 'x-a'],
      ],
    ],
  },
  webhookSignatureForm: readAnew('v1={signature}', 'v2={signature}'),
  webhookKeyEncoding: readAnew('hex', 'base64'),
  webhookSignedPayload: readAnew('{body}', '{url}{body}'),
  webhookTimestampField: readAnew('at', 'sent.at'),
  webhookTimestampUnit: readAnew('seconds', 'milliseconds'),
  webhookDeliveryIdHeader: readAnew('X-A', 'X-B'),
  webhookSignatureAlgorithm: readAnew('sha256', 'sha512'),
  webhookSignatureEncoding: readAnew('hexLower', 'base64'),
  webhookSignaturePrefix: readAnew('v1=', 'v2='),
  webhookSignatureMultiValueDelimiter: readAnew(',', ';'),
  webhookSignatureKeyValueSeparator: readAnew('=', ':'),
  webhookSignatureValueKey: readAnew('v1', 'v2'),
  webhookHeaderValuePrefix: readAnew('Signature ', 'HMAC '),
  webhookAcceptMultipleSignatures: flag(false),
  webhookAcceptedVersions: {
    ladders: [[['v1'], ['v1', 'v2']]],
    other: [[none, ['v1']]],
    same: [
      [
        ['v1', 'v2'],
        ['v2', 'v1'],
      ],
    ],
  },
  webhookSignedPayloadStrategy: readAnew('RawBody', 'TimestampDotBody'),
  webhookSignedPayloadDelimiter: readAnew('.', ':'),
  webhookSignedPayloadVersion: readAnew('v0', 'v1'),
  webhookCustomStrategyName: readAnew('one', 'another'),
  webhookTimestampHeader: readAnew('X-A', 'X-B'),
  webhookTimestampValueKey: readAnew('t', 'ts'),
  webhookJwksUrl: readAnew('https://publisher.example/keys', 'https://other.example/keys'),
  webhookJwtIssuer: demand('publisher', 'another'),
  webhookJwtAudience: demand('hooks', 'others'),
  webhookJwtBodyHashClaim: demand('sha256', 'hash'),
  webhookSignatureKeyId: demand('k1', 'k2'),
  webhookRequiredComponents: {
    ladders: [[['@method', '@path', 'content-digest', 'x-id'], none, ['content-digest']]],
    other: [[['@method'], ['@path']]],
    same: [[['content-digest', '@path', '@method'], none]],
  },
  webhookRequireTimestamp: flag(true),
  webhookReplayToleranceSeconds: {
    ladders: [
      [60, 300, 0],
      [60, none],
    ],
    oneWay: [
      // It stays so if the service gets a tolerance.
      [none, 0, weaker],
      [0, none, same],
    ],
  },
  webhookNonceHeader: {
    ladders: [['X-Id', none]],
    same: [['X-Id', 'x-id']],
    oneWay: [['X-Id', 'X-Other', weaker]],
  },
  webhookRateLimitPermitsPerSecond: { ladders: [[2, 5, none]] },
  webhookRateLimitBurstSize: {
    with: { webhookRateLimitPermitsPerSecond: 5 },
    ladders: [[2, 4, none, 9, 20]],
    same: [[none, 5]],
  },
  webhookRateLimitPerIp: flag(false, { with: { webhookRateLimitPermitsPerSecond: 5 } }),
  webhookRateLimitUnverifiedPermitsPerSecond: { ladders: [[2, 5]], other: [[none, 5]] },
  webhookRateLimitUnverifiedBurstSize: {
    with: { webhookRateLimitUnverifiedPermitsPerSecond: 5 },
    ladders: [[2, 4, none, 9, 20]],
    same: [[none, 5]],
  },
  webhookIpAllowList: {
    ladders: [[['10.0.0.1'], ['10.0.0.1', '::1'], none]],
    oneWay: [
      [['10.0.0.1'], ['::1'], weaker],
      [['10.0.0.1', '::1'], '::1, 10.0.0.1', stronger],
    ],
  },
  webhookIpDenyList: {
    ladders: [[['10.0.0.1', '::1'], ['::1'], none]],
    oneWay: [[['10.0.0.1'], ['::1'], weaker]],
  },
  webhookIpAllowListPreset: { ladders: [['github', none]], oneWay: [['github', 'stripe', weaker]] },
  webhookIpAllowListPresets: { ladders: [['github', 'github, stripe', none]] },
  webhookBodySchema: { ladders: [[{ type: 'object' }, none]], other: [[{ type: 'object' }, { type: 'array' }]] },
  webhookEnforcementMode: {
    ladders: [
      ['Enforce', 'Audit', 'Off'],
      ['Enforce', 'Audit', none],
    ],
    oneWay: [
      // It stays so if the service becomes stricter.
      [none, 'Off', weaker],
      ['Off', none, same],
    ],
  },
  webhookPublicUrl: readAnew('https://example.com/in', 'https://example.com/out'),
  webhookDuplicateResponse: {
    same: [
      [none, 'acknowledge'],
      ['conflict', 'acknowledge'],
    ],
  },
  webhookWhen: {
    same: [
      [none, 'body.n > 1'],
      ['body.n > 1', 'body.n > 2'],
    ],
  },
  webhookEventId: {
    same: [
      [none, 'body.id'],
      ['body.id', 'off'],
    ],
  },
  webhookEventIdDays: { same: [[none, 7]] },
  webhookShared: {
    same: [
      [none, true],
      [true, false],
    ],
  },
  webhookExpectEvery: {
    same: [
      [none, 'PT2H'],
      ['PT2H', 'off'],
    ],
  },
  webhookHoldDeliveries: {
    same: [
      [none, true],
      [false, true],
    ],
  },
  webhookRespond: { same: [[none, { step: 'a' }]] },
  webhookResponse: { same: [[none, { contentType: 'text/xml', body: '<a/>' }]] },
};

interface Case {
  readonly field: string;
  readonly with: WebhookInputs;
  readonly from: Value;
  readonly to: Value;
  readonly expected: string;
}

function casesOf(
  field: string,
  { with: rest = {}, ladders = [], other: others = [], same: alike = [], oneWay = [] }: Field,
) {
  const both = ([from, to]: Edit, forth: string, back: string): (readonly [Value, Value, string])[] => [
    [from, to, forth],
    [to, from, back],
  ];
  const steps = ladders.flatMap((ladder) => ladder.slice(1).map((to, index): Edit => [ladder[index], to]));
  const edits = [
    ...steps.flatMap((edit) => both(edit, weaker, stronger)),
    ...others.flatMap((edit) => both(edit, other, other)),
    ...alike.flatMap((edit) => both(edit, same, same)),
    ...oneWay,
  ];
  return edits.map(([from, to, expected]): Case => ({ field, with: rest, from, to, expected }));
}

function judge(before: WebhookInputs, after: WebhookInputs, settings = SETTINGS): string[] {
  const [one, two] = [before, after].map((inputs) =>
    snapshot(flow({ a: { type: 'NoOp' } }, { triggers: { in: { type: 'webhook', inputs } } })),
  );
  return verdicts(compareRevisions({ before: one ?? null, after: two ?? null, live: QUIET, settings }));
}

const having = (field: string, value: Value) => (value === undefined ? {} : { [field]: value });

describe('an edit of a webhook field', () => {
  it('has its class said here for every field', () => {
    expect(Object.keys(FIELDS).sort()).toEqual([...WEBHOOK_FIELDS.all].sort());
  });

  it.each(Object.entries(FIELDS).flatMap(([field, values]) => casesOf(field, values)))(
    '$field from $from to $to is $expected',
    ({ field, with: rest, from, to, expected }) => {
      const found = judge({ ...rest, ...having(field, from) }, { ...rest, ...having(field, to) });
      expect(found).toEqual([`${expected} triggers.in.inputs.${field}`]);
    },
  );

  it('takes a header that replaces a hash as the identity of deliveries for weaker', () => {
    const before = { webhookReplayToleranceSeconds: 60 };
    expect(judge(before, { ...before, webhookNonceHeader: 'X-Id' })).toEqual([
      `${weaker} triggers.in.inputs.webhookNonceHeader`,
    ]);
  });

  it('takes a flag for a key to be learned for none while a key is configured', () => {
    const before = { webhookHmacKey: 'env:GITHUB_KEY' };
    expect(judge(before, { ...before, webhookLearnKey: true })).toEqual([`${same} triggers.in.inputs.webhookLearnKey`]);
  });

  it.each<[WebhookInputs, WebhookInputs, Partial<typeof SETTINGS>, string]>([
    [{}, { webhookReplayToleranceSeconds: 300 }, { replayToleranceSeconds: 60 }, weaker],
    [{ webhookReplayToleranceSeconds: 300 }, {}, { replayToleranceSeconds: 60 }, stronger],
    [{ webhookReplayToleranceSeconds: 0 }, {}, { replayToleranceSeconds: 60 }, stronger],
    [{}, { webhookNonceHeader: 'X-Id' }, { replayToleranceSeconds: 60 }, weaker],
    [{}, { webhookRateLimitPermitsPerSecond: 9 }, { rateLimitPermitsPerSecond: 5 }, weaker],
    [{ webhookRateLimitPermitsPerSecond: 9 }, {}, { rateLimitPermitsPerSecond: 5 }, stronger],
    [{}, { webhookRateLimitBurstSize: 9 }, { rateLimitPermitsPerSecond: 5 }, weaker],
    [{}, { webhookRateLimitBurstSize: 9 }, { rateLimitPermitsPerSecond: 5, rateLimitBurstSize: 20 }, stronger],
    [{}, { webhookRateLimitPerIp: false }, { rateLimitPermitsPerSecond: 5, rateLimitPerIp: true }, stronger],
    [{}, { webhookEnforcementMode: 'Audit' }, { enforcementMode: 'Enforce' }, weaker],
    [{ webhookEnforcementMode: 'Audit' }, {}, { enforcementMode: 'Enforce' }, stronger],
    [{ webhookEnforcementMode: 'Enforce' }, {}, { enforcementMode: 'Enforce' }, same],
  ])(
    'compares a field that is left out with what the service sets: %j to %j with %j',
    (before, after, set, expected) => {
      const [field] = Object.keys({ ...before, ...after });
      expect(judge(before, after, { ...SETTINGS, ...set })).toEqual([`${expected} triggers.in.inputs.${field}`]);
    },
  );
});
