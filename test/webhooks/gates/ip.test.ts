import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { GateConfigurationError } from '../../../src/webhooks/gate.ts';
import { ipGate } from '../../../src/webhooks/gates/ip.ts';
import { PRESETS } from '../../../src/webhooks/networks/presets.ts';
import { sampleDelivery, sampleSettings, sampleTrigger } from '../samples.ts';

const prepare = (inputs: WebhookInputs) => ipGate.prepare(sampleTrigger(inputs), sampleSettings());

async function outcome(inputs: WebhookInputs, clientIp: string): Promise<string> {
  const verdict = await prepare(inputs)?.check(sampleDelivery({ clientIp }), {});
  if (verdict === undefined) return 'no gate';
  return verdict.passed ? 'passed' : verdict.reason;
}

const ALLOW: WebhookInputs = { webhookIpAllowList: ['192.0.2.0/24'] };
const DENY: WebhookInputs = { webhookIpDenyList: ['192.0.2.66', '203.0.113.0/24'] };

describe('ipGate', () => {
  it.each([
    [ALLOW, '192.0.2.1', 'passed'],
    [ALLOW, '198.51.100.1', 'ip_not_allowed'],
    [DENY, '192.0.2.66', 'ip_denied'],
    [DENY, '198.51.100.1', 'passed'],
    [{ ...ALLOW, ...DENY }, '192.0.2.1', 'passed'],
    [{ ...ALLOW, ...DENY }, '192.0.2.66', 'ip_denied'],
    [{ ...ALLOW, ...DENY }, '198.51.100.1', 'ip_not_allowed'],
    [{ webhookIpAllowListPreset: 'github' }, '140.82.115.7', 'passed'],
    [{ webhookIpAllowListPresets: ['github', 'private'] }, '10.0.0.1', 'passed'],
    [{ ...ALLOW, webhookIpAllowListPreset: 'github', webhookIpAllowListPresets: ['private'] }, '192.0.2.1', 'passed'],
    [
      { ...ALLOW, webhookIpAllowListPreset: 'github', webhookIpAllowListPresets: ['private'] },
      '140.82.115.7',
      'passed',
    ],
    [{ ...ALLOW, webhookIpAllowListPreset: 'github', webhookIpAllowListPresets: ['private'] }, '127.0.0.1', 'passed'],
    [
      { ...ALLOW, webhookIpAllowListPreset: 'github', webhookIpAllowListPresets: ['private'] },
      '8.8.8.8',
      'ip_not_allowed',
    ],
    [{ webhookIpDenyList: [] }, '192.0.2.1', 'no gate'],
    [{}, '192.0.2.1', 'no gate'],
  ] as [WebhookInputs, string, string][])('with %o a delivery from %s is: %s', async (inputs, clientIp, expected) => {
    expect(await outcome(inputs, clientIp)).toBe(expected);
  });

  it('takes an IPv4-mapped client for the IPv4 address that it is, in both lists', async () => {
    expect(await outcome(ALLOW, '::ffff:192.0.2.1')).toBe('passed');
    expect(await outcome(DENY, '::ffff:192.0.2.66')).toBe('ip_denied');
  });

  it('lets a client without an address pass neither list', async () => {
    expect(await outcome(ALLOW, '')).toBe('ip_not_allowed');
    expect(await outcome(DENY, '')).toBe('ip_not_allowed');
  });

  it('says which entry matched', async () => {
    const gate = prepare({ ...ALLOW, ...DENY });
    expect(await gate?.check(sampleDelivery({ clientIp: '192.0.2.1' }), {})).toEqual({
      passed: true,
      evidence: { facts: { ip: { matchedEntry: '192.0.2.0/24' } } },
    });
    expect(await gate?.check(sampleDelivery({ clientIp: '192.0.2.66' }), {})).toMatchObject({
      detail: '192.0.2.66 is in the deny list, under 192.0.2.66',
      evidence: { facts: { ip: { matchedEntry: '192.0.2.66' } } },
    });
  });

  it.each([
    ['webhookIpAllowList', { webhookIpAllowList: [] }],
    ['webhookIpAllowList', { webhookIpAllowList: [], webhookIpAllowListPreset: 'github' }],
    ['webhookIpAllowListPresets', { webhookIpAllowListPresets: [] }],
    ['webhookIpAllowList', { webhookIpAllowList: ['192.0.2.300'] }],
    ['webhookIpDenyList', { webhookIpDenyList: ['192.0.2.0/33'] }],
    ['webhookIpAllowListPreset', { webhookIpAllowListPreset: 'githbu' }],
    ['webhookIpAllowListPresets', { webhookIpAllowListPresets: ['github', 'githbu'] }],
    ['webhookIpAllowListPreset', { webhookIpAllowListPreset: 'slack' }],
    ['webhookIpAllowListPresets', { webhookIpAllowListPresets: ['shopify', 'twilio'] }],
    ['webhookIpAllowListPresets', { webhookIpAllowListPresets: ['github', 'slack'] }],
    ['webhookIpAllowListPreset', { ...ALLOW, webhookIpAllowListPreset: 'mailgun' }],
  ] as [string, WebhookInputs][])(
    'never opens for a list that came out empty: %s of %o is refused',
    (field, inputs) => {
      expect(() => prepare(inputs)).toThrow(GateConfigurationError);
      expect(() => prepare(inputs)).toThrow(expect.objectContaining({ field }));
    },
  );

  it('says of a publisher without fixed addresses what to rely on instead', () => {
    expect(() => prepare({ webhookIpAllowListPreset: 'slack' })).toThrow('verify the signature');
  });

  it.each(PRESETS)('opens to no stranger by the preset $name, however old it is', async ({ name, asOf }) => {
    const years = 20 * 365 * 86_400_000;
    const then = { now: () => Date.parse(asOf ?? '2026-01-01') + years, monotonic: () => 0 };
    const gate = ipGate.prepare(sampleTrigger({ webhookIpAllowListPreset: name }), sampleSettings({ clock: then }));
    for (const clientIp of ['203.0.113.9', '2001:db8::9', '8.8.8.8', '']) {
      expect(await gate?.check(sampleDelivery({ clientIp }), {})).toMatchObject({ reason: 'ip_not_allowed' });
    }
  });
});
