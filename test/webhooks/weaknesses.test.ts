import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { WebhookInputs, WebhookTrigger } from '../../src/manifest/webhook-inputs.ts';
import { webhookChecks } from '../../src/webhooks/checks.ts';
import { gateChain, gatePreparer } from '../../src/webhooks/gates/index.ts';
import { familiesCovered } from '../../src/webhooks/networks/addresses.ts';
import { isPlaceholder } from '../../src/webhooks/weaknesses.ts';
import { deployedFlow, sampleSettings, sampleTrigger } from './samples.ts';

const GOOD = '7d5e0c9f41a86b23';
const GITHUB = { webhookSignatureScheme: 'GitHub' };

function told(inputs: WebhookInputs, given: Partial<WebhookTrigger> = {}) {
  const { loaded } = deployedFlow({ webhooks: [sampleTrigger(inputs, given)] });
  // No tolerance may be longer than nonces are kept.
  const settings = sampleSettings({ nonceTtlSeconds: 1_000_000 });
  const problems = webhookChecks(gatePreparer(gateChain(), settings))(loaded);
  return problems.map(({ path, severity, weakensGate, message }) => ({
    field: path.replace('triggers.webhook.inputs.', ''),
    level: severity === 'error' ? 'error' : weakensGate === true ? 'weak' : 'warning',
    message,
  }));
}

const levels = (inputs: WebhookInputs) => told(inputs).map(({ field, level }) => `${level} ${field}`);

describe('a key that protects nothing', () => {
  it.each<[string, WebhookInputs, string[]]>([
    ['of 15 bytes', { ...GITHUB, webhookHmacKey: '7d5e0c9f41a86b2' }, ['weak webhookHmacKey']],
    ['of 16 bytes', { ...GITHUB, webhookHmacKey: GOOD }, []],
    ['of 15 bytes under its legacy name', { ...GITHUB, webhookSecret: '7d5e0c9f41a86b2' }, ['weak webhookSecret']],
    [
      'that is short and was rotated out',
      { ...GITHUB, webhookHmacKey: GOOD, webhookHmacKeyPrevious: 'short' },
      ['weak webhookHmacKeyPrevious'],
    ],
    [
      'whose text is long and whose bytes are few',
      { webhookSignatureScheme: 'MicrosoftTeams', webhookHmacKey: Buffer.from('fifteen bytes 1').toString('base64') },
      ['weak webhookHmacKey'],
    ],
    [
      'whose text has a prefix and whose bytes are few',
      {
        webhookSignatureScheme: 'StandardWebhooks',
        webhookHmacKey: `whsec_${Buffer.from('short').toString('base64')}`,
      },
      ['weak webhookHmacKey'],
    ],
    ['that is one letter', { ...GITHUB, webhookHmacKey: 'x'.repeat(40) }, ['weak webhookHmacKey']],
    [
      'that decodes to zeros',
      { webhookSignatureScheme: 'MicrosoftTeams', webhookHmacKey: Buffer.alloc(32).toString('base64') },
      ['weak webhookHmacKey'],
    ],
    [
      'that stands in documentation',
      { ...GITHUB, webhookHmacKey: 'your-webhook-secret-here' },
      ['weak webhookHmacKey'],
    ],
    [
      'that names where the key is, and is not it',
      { ...GITHUB, webhookHmacKey: 'file:/run/secrets/github' },
      ['weak webhookHmacKey'],
    ],
    [
      'of a handshake that stands in documentation',
      { webhookSignatureScheme: 'Meta', webhookHmacKey: GOOD, webhookVerifyToken: 'changeme' },
      ['weak webhookVerifyToken'],
    ],
    [
      'that is the previous one and the current one',
      { ...GITHUB, webhookHmacKey: GOOD, webhookHmacKeyPrevious: GOOD },
      ['warning webhookHmacKeyPrevious'],
    ],
    ['with a line feed at its end', { ...GITHUB, webhookHmacKey: `${GOOD}\n` }, ['warning webhookHmacKey']],
    ['with a blank in front', { ...GITHUB, webhookHmacKey: ` ${GOOD}` }, ['warning webhookHmacKey']],
  ])('%s is told', (_, inputs, expected) => {
    expect(levels(inputs)).toEqual(expected);
  });

  it('is never quoted', () => {
    const inputs = { ...GITHUB, webhookHmacKey: 'changeme-hunter2', webhookHmacKeyPrevious: 'hunter2 ' };
    expect(told(inputs)).toHaveLength(2);
    expect(JSON.stringify(told(inputs))).not.toContain('hunter2');
  });

  it.each([
    'changeme',
    'Change-Me',
    'CHANGE_ME',
    'secret',
    'my-secret',
    'whsec_secret',
    '<your key>',
    ['$', '{WEBHOOK_KEY}'].join(''),
    '{{ key }}',
    'replace me with a key',
    'demo-key-replace-with-env-GITHUB_WEBHOOK_KEY',
    'env:GITHUB_KEY',
  ])('is found in "%s"', (text) => {
    expect(isPlaceholder(text)).toBe(true);
  });

  it('is never seen in random bytes', () => {
    const random = fc.uint8Array({ minLength: 16, maxLength: 64 }).map((bytes) => Buffer.from(bytes));
    fc.assert(
      fc.property(random, (bytes) => !isPlaceholder(bytes.toString('hex')) && !isPlaceholder(bytes.toString('base64'))),
    );
  });
});

describe('an address list that tells nobody apart', () => {
  const only = { ...GITHUB, webhookHmacKey: GOOD };

  it.each<[string, WebhookInputs]>([
    ['IPv4', { webhookIpAllowList: ['0.0.0.0/0'] }],
    ['IPv6', { webhookIpAllowList: ['::/0'] }],
    ['IPv4 and IPv6', { webhookIpAllowList: ['*.*.*.*'] }],
    ['IPv4', { webhookIpAllowList: ['10.0.0.1', '0.0.0.0-255.255.255.255'] }],
    ['IPv4', { webhookIpAllowList: ['128.0.0.0/1', '0.0.0.0/1'] }],
    ['IPv4', { webhookIpAllowList: ['1.0.0.0-223.255.255.255'] }],
    ['IPv4', { webhookIpAllowList: ['::ffff:0.0.0.0/96'] }],
    ['IPv6', { webhookIpAllowList: ['2000::/3'] }],
    ['IPv6', { webhookIpAllowList: ['2000::/4', '3000::/4'] }],
    ['IPv4', { webhookIpAllowList: ['0.0.0.0/0'], webhookIpAllowListPreset: 'private' }],
  ])('is told: every %s address is in %o', (families, inputs) => {
    const found = told({ ...only, ...inputs });
    expect(found).toMatchObject([{ field: 'webhookIpAllowList', level: 'weak' }]);
    expect(found[0]?.message).toContain(`every public ${families} address`);
  });

  it('is told of a deny list too, which lets nobody in', () => {
    expect(levels({ ...only, webhookIpDenyList: ['0.0.0.0/0'] })).toEqual(['warning webhookIpDenyList']);
  });

  it.each<WebhookInputs>([
    { webhookIpAllowList: ['0.0.0.0/1'] },
    { webhookIpAllowList: ['0.0.0.0/1', '129.0.0.0-255.255.255.255'] },
    { webhookIpAllowListPreset: 'private' },
    { webhookIpAllowListPresets: ['github', 'stripe'] },
    { webhookIpDenyList: ['10.0.0.0/8'] },
  ])('is not %o', (inputs) => {
    expect(told({ ...only, ...inputs })).toEqual([]);
  });

  it('is found however the whole is cut into pieces, and not where one address is missing', () => {
    const LAST = 2 ** 32 - 1;
    const dotted = (value: number) => [24, 16, 8, 0].map((bits) => (value / 2 ** bits) & 255).join('.');
    const range = (from: number, to: number) => `${dotted(from)}-${dotted(to)}`;
    const cuts = fc.uniqueArray(fc.integer({ min: 1, max: LAST }), { maxLength: 8 });
    const hole = fc.integer({ min: 2 ** 24, max: 224 * 2 ** 24 - 1 });
    fc.assert(
      fc.property(cuts, hole, (at, missing) => {
        const starts = [0, ...at.sort((one, other) => one - other)];
        const pieces = starts.map((from, index) => ({ from, to: (starts[index + 1] ?? LAST + 1) - 1 }));
        expect(familiesCovered(pieces.map(({ from, to }) => range(from, to)))).toEqual([4]);
        const holed = pieces.flatMap(({ from, to }) =>
          missing < from || missing > to
            ? [range(from, to)]
            : [
                ...(from < missing ? [range(from, missing - 1)] : []),
                ...(missing < to ? [range(missing + 1, to)] : []),
              ],
        );
        expect(familiesCovered(holed)).toEqual([]);
      }),
    );
  });
});

describe('a limit that limits nothing', () => {
  it.each<[WebhookInputs, string[]]>([
    [{ webhookReplayToleranceSeconds: 86_400 }, []],
    [{ webhookReplayToleranceSeconds: 86_401 }, ['weak webhookReplayToleranceSeconds']],
    [{ webhookReplayToleranceSeconds: 300_000 }, ['weak webhookReplayToleranceSeconds']],
    [{ webhookRateLimitPermitsPerSecond: 1e9 }, ['weak webhookRateLimitPermitsPerSecond']],
    [{ webhookRateLimitBurstSize: 5 }, ['error webhookRateLimitBurstSize']],
    [{ webhookRateLimitPerIp: true }, ['error webhookRateLimitPerIp']],
  ])('%o: %j', (inputs, expected) => {
    const slack = { webhookSignatureScheme: 'Slack', webhookHmacKey: GOOD };
    expect(levels({ ...slack, ...inputs })).toEqual(expected);
  });
});
