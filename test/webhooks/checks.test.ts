import { describe, expect, it } from 'vitest';
import type { LoadedFlow } from '../../src/manifest/load.ts';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import type { EnforcementMode } from '../../src/model/manifest.ts';
import { webhookChecks } from '../../src/webhooks/checks.ts';
import type { GatePlugin } from '../../src/webhooks/gate.ts';
import { gateChain, gatePreparer } from '../../src/webhooks/gates/index.ts';
import type { SignatureSettings } from '../../src/webhooks/gates/signature.ts';
import { createSchemeRegistry } from '../../src/webhooks/schemes/resolve.ts';
import { deployedFlow, sampleSettings, sampleTrigger } from './samples.ts';

const PATH = 'triggers.webhook.inputs.';

function loaded(inputs: WebhookInputs): LoadedFlow {
  return deployedFlow({ webhooks: [sampleTrigger(inputs)] }).loaded;
}

function check(inputs: WebhookInputs, given: Partial<SignatureSettings> = {}, defaultMode: EnforcementMode = 'Off') {
  const settings = sampleSettings({ publicUrl: 'https://hooks.example.com', ...given });
  return webhookChecks(gatePreparer(gateChain(), settings), defaultMode)(loaded(inputs));
}

const KEY = { webhookHmacKey: '7d5e0c9f41a86b23' };
const CUSTOM: WebhookInputs = { ...KEY, webhookSignatureScheme: 'Custom', webhookSignatureHeader: 'X-Sig' };
const LIST: WebhookInputs = { webhookSignatureMultiValueDelimiter: ',', webhookSignatureValueKey: 'v1' };

describe('webhookChecks', () => {
  it.each([
    { ...KEY, webhookSignatureScheme: 'github' },
    { ...KEY, webhookSignatureScheme: 'GitHub', webhookNonceHeader: 'X-GitHub-Delivery' },
    { ...KEY, webhookSignatureScheme: 'Telegram' },
    { ...KEY, webhookSignatureScheme: 'Stripe', webhookReplayToleranceSeconds: 300 },
    { ...KEY, webhookSignatureScheme: 'Slack', webhookTimestampHeader: 'x-slack-request-timestamp' },
    {
      webhookHmacKey: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
      webhookSignatureScheme: 'StandardWebhooks',
      webhookNonceHeader: 'Webhook-Id',
    },
    { ...KEY, webhookSignatureScheme: 'mailgun', webhookReplayToleranceSeconds: 600 },
    { ...KEY, webhookSignatureScheme: 'Twitch', webhookNonceHeader: 'Twitch-Eventsub-Message-Id' },
    { ...KEY, webhookSignatureScheme: 'meta', webhookVerifyToken: 'a token of our own' },
    { ...KEY, webhookSignatureScheme: 'github', webhookIpAllowListPreset: 'private' },
    { ...KEY, webhookSignatureScheme: 'github', webhookRateLimitPermitsPerSecond: 5, webhookRateLimitPerIp: true },
  ] as WebhookInputs[])('find nothing wrong with %o', (inputs) => {
    expect(check(inputs)).toEqual([]);
  });

  it.each([
    ['webhookIpAllowList', { webhookIpAllowList: ['10.0.0.0/40'] }, '"10.0.0.0/40" is not a CIDR'],
    ['webhookIpDenyList', { webhookIpDenyList: ['10.0.0.9-10.0.0.1'] }, 'ends before it starts'],
    ['webhookIpAllowListPreset', { webhookIpAllowListPreset: 'githib' }, 'did you mean "github"?'],
    ['webhookIpAllowListPreset', { webhookIpAllowListPreset: 'slack' }, 'Slack publishes no addresses'],
    ['webhookIpAllowListPresets', { webhookIpAllowListPresets: ['private', 'slack'] }, 'Slack publishes no addresses'],
    [
      'webhookIpAllowListPreset',
      { webhookIpAllowList: ['10.0.0.1'], webhookIpAllowListPreset: 'twilio' },
      'Twilio publishes no addresses',
    ],
    ['webhookRateLimitBurstSize', { webhookRateLimitBurstSize: 5 }, 'limits nothing'],
    ['webhookSignatureHeader', { ...KEY, webhookSignatureScheme: 'Custom' }, 'is required'],
    [
      'webhookHmacKey',
      { ...CUSTOM, webhookHmacKey: 'no hex', webhookKeyEncoding: 'hex', webhookSignatureAlgorithm: 'sha1' },
      'is not a key of Custom',
    ],
    ['webhookLearnKey', { webhookLearnKey: true }, 'webhookSignatureScheme is missing'],
    [
      'webhookCustomStrategyName',
      {
        ...KEY,
        webhookSignatureScheme: 'Custom',
        webhookSignatureHeader: 'X-Sig',
        webhookSignedPayloadStrategy: 'Custom',
        webhookCustomStrategyName: 'mine',
      },
      'is not registered',
    ],
  ] as [string, WebhookInputs, string][])('refuse a %s that no gate can work with: %o', (field, inputs, message) => {
    const errors = check(inputs).filter(({ severity }) => severity === 'error');
    expect(errors).toEqual([{ severity: 'error', path: PATH + field, message: expect.stringContaining(message) }]);
  });

  it('report the mistakes of all gates at once', () => {
    const inputs = { webhookIpDenyList: ['x'], webhookRateLimitBurstSize: 5 };
    expect(check(inputs).map(({ path }) => path)).toEqual([
      `${PATH}webhookIpDenyList`,
      `${PATH}webhookRateLimitBurstSize`,
    ]);
  });

  it('warn that a gate is not there where its scheme is unknown', () => {
    expect(check({ ...KEY, webhookSignatureScheme: 'Stirpe' })).toEqual([
      {
        severity: 'warning',
        path: `${PATH}webhookSignatureScheme`,
        weakensGate: true,
        skipsGate: true,
        message: expect.stringContaining('the signature gate will be skipped; did you mean "Stripe"?'),
      },
    ]);
  });

  it.each([
    [
      'webhookTimestampHeader',
      { ...KEY, webhookSignatureScheme: 'GitHub', webhookTimestampHeader: 'X-Timestamp' },
      'is not signed by GitHub',
    ],
    [
      'webhookTimestampHeader',
      {
        ...KEY,
        webhookSignatureScheme: 'Custom',
        webhookSignatureHeader: 'X-Sig',
        webhookTimestampHeader: 'X-Timestamp',
      },
      'is not signed by Custom',
    ],
    [
      'webhookSignatureScheme',
      { ...KEY, webhookSignatureScheme: 'Mailgun' },
      'one captured signature passes with any body',
    ],
    [
      'webhookNonceHeader',
      { ...KEY, webhookSignatureScheme: 'Mailgun', webhookNonceHeader: 'X-Id' },
      'is not signed by Mailgun',
    ],
  ] as [string, WebhookInputs, string][])('warn that a gate is weak at %s of %o', (field, inputs, message) => {
    expect(check(inputs)).toEqual([
      { severity: 'warning', path: PATH + field, message: expect.stringContaining(message), weakensGate: true },
    ]);
  });

  it.each([
    [
      'webhookNonceHeader',
      { ...KEY, webhookSignatureScheme: 'GitHub', webhookNonceHeader: 'X-Request-Id' },
      'a captured delivery passes again with another value',
    ],
    [
      'webhookTimestampHeader',
      { ...KEY, webhookSignatureScheme: 'Stripe', webhookTimestampHeader: 'X-Timestamp' },
      'signs its own timestamp',
    ],
    ['webhookLearnKey', { webhookSignatureScheme: 'Asana', webhookLearnKey: true }, 'SLUICE_STORE_KEY seals it'],
    ['webhookHmacKey', { webhookSignatureScheme: 'Asana' }, 'no delivery or handshake can be verified'],
    ['webhookHmacKey', { webhookSignatureScheme: 'GitHub' }, 'no delivery can be verified'],
    [
      'webhookHmacKey',
      { webhookSignatureScheme: 'Stripe', webhookHmacKeyPrevious: 'a former key' },
      'no delivery can be',
    ],
    ['webhookHmacKey', { webhookSignatureScheme: 'Asana', webhookLearnKey: false }, 'no delivery or handshake'],
    [
      'webhookLearnKey',
      { ...KEY, webhookSignatureScheme: 'Asana', webhookLearnKey: true },
      'is also set and takes precedence',
    ],
    [
      'webhookLearnKey',
      { webhookSecret: '', webhookSignatureScheme: 'Asana', webhookLearnKey: true },
      'webhookSecret is set but empty',
    ],
    ['webhookAllowSha1', { ...CUSTOM, webhookAllowSha1: true }, 'is ignored: Custom does not use SHA-1'],
    ['webhookTimestampValueKey', { ...CUSTOM, webhookTimestampValueKey: 't' }, 'strategy RawBody does not sign'],
    [
      'webhookTimestampValueKey',
      { ...CUSTOM, ...LIST, webhookTimestampValueKey: 't' },
      'strategy RawBody does not sign',
    ],
    [
      'webhookTimestampValueKey',
      { ...CUSTOM, ...LIST, webhookTimestampValueKey: 't', webhookSignedPayloadStrategy: 'UrlPlusBody' },
      'strategy UrlPlusBody does not sign',
    ],
    ['webhookVerifyToken', { ...KEY, webhookSignatureScheme: 'Meta' }, 'which is refused without it'],
    ['webhookSignatureScheme', { ...KEY, webhookSignatureScheme: 'Twilio' }, 'SHA-1, which is turned off'],
    [
      'webhookSignatureScheme',
      {
        ...KEY,
        webhookSignatureScheme: 'Custom',
        webhookSignatureHeader: 'X-Sig',
        webhookSignatureAlgorithm: 'sha1',
      },
      'SHA-1, which is turned off',
    ],
  ] as [string, WebhookInputs, string][])(
    'warn of a %s that does not do what it seems to: %o',
    (field, inputs, message) => {
      expect(check(inputs)).toEqual([
        { severity: 'warning', path: PATH + field, message: expect.stringContaining(message) },
      ]);
    },
  );

  it.each<[WebhookInputs, EnforcementMode, boolean]>([
    [{ webhookExpectEvery: 'PT2H' }, 'Off', true],
    [{ webhookExpectEvery: 'PT2H', webhookEnforcementMode: 'Off' }, 'Enforce', true],
    [{ webhookExpectEvery: 'PT2H' }, 'Audit', false],
    [{ webhookExpectEvery: 'PT2H', webhookEnforcementMode: 'Audit' }, 'Off', false],
    [{ webhookExpectEvery: 'OFF' }, 'Off', false],
    [{}, 'Off', false],
  ])('warn that no silence of %o is told where the mode is %s unless set: %s', (inputs, mode, isWarned) => {
    const told = check(inputs, {}, mode).filter(({ path }) => path === `${PATH}webhookExpectEvery`);
    expect(told).toEqual(
      isWarned
        ? [
            expect.objectContaining({
              severity: 'warning',
              message: expect.stringContaining('no effect in the mode Off'),
            }),
          ]
        : [],
    );
  });

  it('say nothing of SHA-1 where it is switched on, for all or for the trigger', () => {
    const old = { ...KEY, webhookSignatureScheme: 'GitHubLegacy' };
    expect(check(old, { allowLegacySha1: true })).toEqual([]);
    expect(check({ ...old, webhookAllowSha1: true })).toEqual([]);
  });

  it('say of an operator’s own verifier too that its key is missing', () => {
    const handshake = {
      name: 'hello',
      method: 'POST' as const,
      needsVerification: false,
      recognises: () => false,
      offeredKey: () => undefined,
      answer: () => undefined,
    };
    const verifier = { name: 'Acme', handshakes: [handshake], verify: () => ({ outcome: 'verified' as const }) };
    const schemes = createSchemeRegistry({ verifiers: [verifier] });
    const paths = check({ webhookSignatureScheme: 'Acme' }, { schemes }).map(({ path }) => path);
    expect(paths).toEqual([`${PATH}webhookHmacKey`]);
  });

  describe('of replay', () => {
    const said = (inputs: WebhookInputs, given?: Partial<SignatureSettings>, mode: EnforcementMode = 'Enforce') =>
      check({ ...KEY, ...inputs }, given, mode).filter(({ path }) => /Replay|Nonce/.test(path));
    const scheme = (name: string, inputs: WebhookInputs = {}) => ({ webhookSignatureScheme: name, ...inputs });
    const tolerant = { webhookReplayToleranceSeconds: 300 };

    it.each([
      [scheme('GitHub', tolerant), {}, 'name X-GitHub-Delivery'],
      [scheme('Twilio', tolerant), {}, 'name I-Twilio-Idempotency-Token'],
      [scheme('Dropbox', tolerant), {}, 'or set webhookReplayToleranceSeconds to 0'],
      [scheme('Dropbox'), { replayToleranceSeconds: 300 }, 'counts as a replay for 86400 s'],
      [{}, { replayToleranceSeconds: 300 }, 'no timestamp'],
      [scheme('GitHub', { ...tolerant, webhookTimestampHeader: 'X-Time' }), {}, 'no signed timestamp'],
    ] as [WebhookInputs, Partial<SignatureSettings>, string][])(
      'say that equal deliveries are lost with %o under %o, and what to set',
      (inputs, given, message) => {
        expect(said(inputs, given)).toEqual([
          { severity: 'warning', path: `${PATH}webhookNonceHeader`, message: expect.stringContaining(message) },
        ]);
      },
    );

    it.each([
      [scheme('GitHub'), 'webhookNonceHeader to X-GitHub-Delivery'],
      [scheme('StandardWebhooks'), 'webhookNonceHeader to webhook-id'],
      [scheme('Stripe'), 'for example to 300'],
      [scheme('Own'), 'a captured delivery of Own starts a run each time'],
    ] as [WebhookInputs, string][])('say that nothing tells a replay of %o under Enforce', (inputs, message) => {
      const verifier = { name: 'Own', verify: () => ({ outcome: 'verified' as const }) };
      const given = { schemes: createSchemeRegistry({ verifiers: [verifier] }) };
      expect(said({ ...inputs, webhookHmacKey: undefined }, given)).toEqual([
        {
          severity: 'warning',
          path: `${PATH}webhookReplayToleranceSeconds`,
          message: expect.stringContaining(message),
        },
      ]);
      expect(said({ ...inputs, webhookHmacKey: undefined }, given, 'Audit')).toEqual([]);
      expect(said({ ...inputs, webhookEnforcementMode: 'Off' }, given)).toEqual([]);
    });

    it.each([
      [scheme('Stripe', tolerant), {}],
      [scheme('Linear', tolerant), {}],
      [scheme('StandardWebhooks', { webhookNonceHeader: 'svix-id' }), {}],
      [
        scheme('Dropbox', { webhookReplayToleranceSeconds: 0, webhookEnforcementMode: 'Audit' }),
        { replayToleranceSeconds: 300 },
      ],
      [{ webhookTimestampHeader: 'X-Time' }, { replayToleranceSeconds: 300 }],
      [{}, {}],
    ] as [WebhookInputs, Partial<SignatureSettings>][])('say nothing of %o under %o', (inputs, given) => {
      expect(said({ ...inputs, webhookHmacKey: undefined }, given)).toEqual([]);
    });
  });

  it.each(['Square', 'Trello', 'Twilio'])('warn of %s, which signs the URL, without a public URL', (name) => {
    const ofUrl = (inputs: WebhookInputs, publicUrl?: string) =>
      check({ ...KEY, webhookSignatureScheme: name, ...inputs }, { publicUrl, allowLegacySha1: true });
    expect(ofUrl({})).toEqual([
      {
        severity: 'warning',
        path: `${PATH}webhookPublicUrl`,
        message: expect.stringContaining('is missing, and so is SLUICE_PUBLIC_URL'),
        weakensGate: true,
      },
    ]);
    expect(ofUrl({ webhookPublicUrl: 'https://hooks.example.com/in' })).toEqual([]);
    expect(ofUrl({}, 'https://hooks.example.com')).toEqual([]);
  });

  it('tell what a delimiter that ends no timestamp costs', () => {
    const withDelimiter = (webhookSignedPayloadDelimiter: string) =>
      check({
        ...KEY,
        webhookSignatureScheme: 'Custom',
        webhookSignatureHeader: 'X-Sig',
        webhookTimestampHeader: 'X-Time',
        webhookSignedPayloadStrategy: 'TimestampDotBody',
        webhookSignedPayloadDelimiter,
      });
    for (const delimiter of ['', '0']) {
      expect(withDelimiter(delimiter)).toMatchObject([
        {
          severity: 'warning',
          path: `${PATH}webhookSignedPayloadDelimiter`,
          message: expect.stringContaining('begins with a digit'),
        },
      ]);
    }
    expect(withDelimiter('|')).toEqual([]);
  });

  const NO_GATE = 'has no gate: anyone who reaches the URL starts runs';
  it.each([
    [{}, undefined, NO_GATE],
    [{ webhookRateLimitPermitsPerSecond: 5 }, undefined, 'has no gate that asks who sends (rateLimit): anyone'],
    [{ webhookIpDenyList: ['10.0.0.1'] }, undefined, 'has no gate that asks who sends (ip): anyone'],
    [{ webhookNonceHeader: 'X-Id' }, undefined, 'has no gate that asks who sends (replay): anyone'],
    [{ webhookIpAllowList: ['10.0.0.0/8'] }, 'webhookIpAllowList', 'is the only gate that asks who sends'],
    [
      { webhookIpAllowListPreset: 'github', webhookRateLimitPermitsPerSecond: 5 },
      'webhookIpAllowListPreset',
      'is the only gate that asks who sends',
    ],
  ] as [WebhookInputs, string | undefined, string][])('judge the set of gates of %o', (inputs, field, message) => {
    const path = field === undefined ? 'triggers.webhook' : PATH + field;
    const issue = { severity: 'warning', path, message: expect.stringContaining(message), weakensGate: true };
    expect(check(inputs)).toEqual([issue]);
  });

  it('count the operator’s own gate among those that ask who sends', () => {
    const own: GatePlugin<SignatureSettings> = {
      name: 'own',
      prepare: () => ({ name: 'own', check: () => ({ passed: true }) }),
    };
    const checks = webhookChecks(gatePreparer(gateChain([own]), sampleSettings()));
    expect(checks(loaded({}))).toEqual([]);
  });

  it('warn of a preset older than 90 days', () => {
    const at = (now: number) =>
      check(
        { ...KEY, webhookSignatureScheme: 'GitHub', webhookIpAllowListPreset: 'github' },
        { clock: { now: () => now, monotonic: () => 0 } },
      );
    expect(at(Date.parse('2026-11-01'))).toEqual([]);
    expect(at(Date.parse('2027-11-01'))).toEqual([
      {
        severity: 'warning',
        path: `${PATH}webhookIpAllowListPreset`,
        message: expect.stringContaining('368 days ago'),
      },
    ]);
  });

  it('know the operator’s own schemes', () => {
    const verifier = { name: 'Acme', verify: () => ({ outcome: 'verified' as const }) };
    const schemes = createSchemeRegistry({ verifiers: [verifier] });
    expect(
      check({ webhookSignatureScheme: 'acme', webhookTimestampHeader: 'X-T', webhookNonceHeader: 'X-N' }, { schemes }),
    ).toEqual([]);
  });

  it('name the operator’s gate that throws while it is prepared: the manifest does not load', () => {
    const own: GatePlugin<SignatureSettings> = {
      name: 'own',
      prepare() {
        throw new TypeError('broken');
      },
    };
    const problems = webhookChecks(gatePreparer(gateChain([own]), sampleSettings()))(loaded({}));
    expect(problems).toMatchObject([
      { severity: 'error', message: expect.stringMatching(/^the gate "own" failed: TypeError in prepare, at /) },
    ]);
  });

  it('never quote a key', () => {
    const inputs = {
      webhookHmacKey: 'hunter2hunter2',
      webhookSignatureScheme: 'MicrosoftTeams',
      webhookNonceHeader: 'X',
    };
    const problems = check(inputs);
    expect(problems.length).toBeGreaterThan(0);
    expect(JSON.stringify(problems)).not.toContain('hunter2');
  });
});
