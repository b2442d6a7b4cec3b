import { describe, expect, it } from 'vitest';
import { GateConfigurationError } from '../../../src/webhooks/gate.ts';
import { compileAddresses } from '../../../src/webhooks/networks/addresses.ts';
import { findPreset, PRESETS, presetConcern, UNPUBLISHED } from '../../../src/webhooks/networks/presets.ts';

const FIELD = 'webhookIpAllowListPreset';
const DAY_MS = 86_400_000;

const covers = (preset: string, address: string) =>
  compileAddresses(findPreset(preset, FIELD).entries, FIELD).match(address) !== undefined;

describe('presets', () => {
  it('are the ten publishers and the three names of the own network', () => {
    expect([...PRESETS, ...UNPUBLISHED].map(({ name }) => name).sort()).toEqual([
      'atlassian',
      'bitbucket',
      'github',
      'local',
      'localhost',
      'mailgun',
      'private',
      'shopify',
      'slack',
      'square',
      'stripe',
      'twilio',
      'zoom',
    ]);
  });

  it.each(PRESETS)('$name can be compiled, and has a source and a day', (preset) => {
    expect(() => compileAddresses(preset.entries, FIELD)).not.toThrow();
    expect(preset.source).toMatch(/^https:\/\//);
    if (preset.asOf !== null) expect(preset.asOf).toMatch(/^20\d\d-\d\d-\d\d$/);
  });

  it.each([
    ['stripe', '54.187.216.72'],
    ['stripe', '3.69.109.8'],
    ['square', '54.245.1.154'],
    ['square', '34.202.99.168'],
    ['github', '192.30.252.44'],
    ['github', '140.82.115.1'],
    ['github', '9.234.98.161'],
    ['github', '2606:50c0::153'],
    ['atlassian', '13.52.5.100'],
    ['atlassian', '43.202.69.100'],
    ['bitbucket', '104.192.142.241'],
    ['bitbucket', '2401:1d80:321c:5::9'],
    ['zoom', '170.114.10.1'],
    ['local', '127.0.0.1'],
    ['localhost', '::1'],
    ['private', '10.1.2.3'],
    ['private', '172.31.255.255'],
    ['private', '192.168.0.1'],
    ['private', '169.254.1.1'],
    ['private', 'fe80::1'],
    ['private', '::ffff:127.0.0.1'],
  ])('%s admits %s', (preset, address) => {
    expect(covers(preset, address)).toBe(true);
  });

  it.each([
    ['square', '23.21.0.1', 'a whole block of a cloud'],
    ['square', '54.243.0.1', 'a whole block of a cloud'],
    ['bitbucket', '34.199.54.113', 'build machines that run customers’ code'],
    ['atlassian', '104.192.138.241', 'a block that its list held once'],
    ['atlassian', '34.199.54.113', 'build machines that run customers’ code'],
    ['bitbucket', '43.202.69.100', 'other products than Bitbucket'],
    ['zoom', '52.84.151.1', 'a content network'],
    ['github', '20.20.20.20', 'runners that run customers’ code'],
    ['private', '172.32.0.0', 'past RFC 1918'],
    ['private', '8.8.8.8', 'the internet'],
    ['private', '2001:db8::1', 'the internet'],
  ])('%s does not admit %s, %s', (preset, address) => {
    expect(covers(preset, address)).toBe(false);
  });

  it.each(PRESETS.filter(({ asOf }) => asOf !== null))(
    '$name holds no block so wide that it must be a cloud provider’s',
    ({ entries }) => {
      for (const entry of entries) {
        const prefix = Number(entry.split('/')[1] ?? (entry.includes(':') ? 128 : 32));
        expect(prefix).toBeGreaterThanOrEqual(entry.includes(':') ? 29 : 16);
      }
    },
  );

  it('are never empty: a list without entries would shut everybody out, or be taken for no list', () => {
    expect(PRESETS.filter(({ entries }) => entries.length === 0)).toEqual([]);
  });

  it.each([
    ['slack', 'webhookSignatureScheme Slack'],
    ['shopify', 'webhookSignatureScheme Shopify'],
    ['twilio', 'webhookSignatureScheme Twilio'],
    ['mailgun', 'client certificate'],
    [' Slack ', 'webhookSignatureScheme Slack'],
  ])('refuse "%s", whose publisher publishes no addresses, and say what to use instead, and the day', (name, hint) => {
    const find = () => findPreset(name, FIELD);
    expect(find).toThrow(GateConfigurationError);
    expect(find).toThrow(/publishes no addresses.*checked on 20\d\d-\d\d-\d\d: https:/);
    expect(find).toThrow(hint);
  });

  it('are found in any case', () => {
    expect(findPreset(' GitHub ', FIELD).name).toBe('github');
  });

  it.each([
    ['githib', 'did you mean "github"?'],
    ['strype', 'did you mean "stripe"?'],
    ['acme', '"acme" is not an address preset. Known presets are stripe'],
    ['', 'Known presets are stripe'],
    ['__proto__', 'Known presets are stripe'],
  ])('refuse the unknown name "%s" and say: %s', (name, hint) => {
    const find = () => findPreset(name, FIELD);
    expect(find).toThrow(GateConfigurationError);
    expect(find).toThrow(hint);
  });

  it('raise a concern when they are older than 90 days, and not a day before', () => {
    const preset = { name: 'x', entries: ['192.0.2.1'], source: 'https://example.com', asOf: '2026-01-01' };
    const since = Date.parse('2026-01-01');
    expect(presetConcern(preset, since + 90 * DAY_MS)).toBeUndefined();
    expect(presetConcern(preset, since + 91 * DAY_MS)).toContain('91 days ago');
    expect(presetConcern(findPreset('private', FIELD), since + 9999 * DAY_MS)).toBeUndefined();
  });
});
