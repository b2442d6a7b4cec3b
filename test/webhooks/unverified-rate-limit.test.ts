import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import type { EnforcementMode } from '../../src/model/manifest.ts';
import { GateConfigurationError } from '../../src/webhooks/gate.ts';
import { gateChain, gatePreparer } from '../../src/webhooks/gates/index.ts';
import { dryRunGates, runGates } from '../../src/webhooks/pipeline.ts';
import { createTriggerTable } from '../../src/webhooks/triggers.ts';
import { deployedFlow, FakeClock, sampleDelivery, sampleSettings, sampleTrigger } from './samples.ts';

const KEY = 'a key that only the publisher has';
const SIGNED: WebhookInputs = { webhookSignatureScheme: 'GitHub', webhookHmacKey: KEY };
const TWO_STAGES: WebhookInputs = {
  ...SIGNED,
  webhookRateLimitUnverifiedPermitsPerSecond: 2,
  webhookRateLimitUnverifiedBurstSize: 3,
  webhookRateLimitPermitsPerSecond: 10,
};

function webhook(inputs: WebhookInputs, mode: EnforcementMode = 'Enforce') {
  const clock = new FakeClock();
  const preparer = gatePreparer(gateChain(), sampleSettings({ clock }));
  const flows = [deployedFlow({ webhooks: [sampleTrigger({ ...inputs, webhookEnforcementMode: mode })] })];
  const [prepared] = createTriggerTable({ flows, defaultMode: 'Off', preparer }).list();
  if (prepared === undefined) throw new Error('no trigger');
  const { gates, chain } = prepared;
  const delivery = (clientIp: string, isGenuine: boolean) => {
    const body = Buffer.from(`{"from":"${clientIp}"}`);
    const key = isGenuine ? KEY : 'another key';
    const signature = `sha256=${createHmac('sha256', key).update(body).digest('hex')}`;
    return sampleDelivery({ clientIp, body, headers: { 'x-hub-signature-256': signature } });
  };
  return {
    clock,
    chain,
    judge: (clientIp: string, isGenuine: boolean) => runGates(gates, delivery(clientIp, isGenuine), mode),
    dryRun: (clientIp: string) => dryRunGates(gates, delivery(clientIp, true), mode),
  };
}

describe('two rate limits', () => {
  it('accepts every genuine delivery in a flood of forgeries from many addresses', async () => {
    const { clock, judge } = webhook(TWO_STAGES);
    const reasons = new Map<string | null, number>();
    for (let second = 0; second < 2; second += 1) {
      for (let n = 0; n < 10_000; n += 1) {
        const { reason } = await judge(`203.0.${n % 8}.${n % 250}`, false);
        reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
        if (n % 5_000 === 0) expect(await judge('198.51.100.1', true)).toMatchObject({ refusal: null });
      }
      clock.advance(1000);
    }
    const checked = reasons.get('signature_mismatch') ?? 0;
    expect(checked).toBe(1000 * (3 + 2));
    expect(reasons.get('unverified_rate_limited')).toBe(20_000 - checked);
  });

  it('without the first, forgeries spend the permits of the publisher', async () => {
    const { judge } = webhook({ ...SIGNED, webhookRateLimitPermitsPerSecond: 10 });
    for (let n = 0; n < 10; n += 1) await judge(`203.0.113.${n}`, false);
    expect(await judge('198.51.100.1', true)).toMatchObject({ refusal: 'rate_limited' });
  });

  it('limits verified deliveries by the trigger’s own limit, from wherever they come', async () => {
    const { judge } = webhook(TWO_STAGES);
    for (let n = 0; n < 10; n += 1) expect(await judge(`198.51.100.${n}`, true)).toMatchObject({ refusal: null });
    expect(await judge('198.51.100.99', true)).toMatchObject({ refusal: 'rate_limited' });
  });

  it('counts no unverified delivery for the trigger’s own limit in Audit, where it goes on', async () => {
    const { judge } = webhook(TWO_STAGES, 'Audit');
    for (let n = 0; n < 20; n += 1) {
      expect((await judge(`203.0.113.${n}`, false)).violations).toEqual(['signature_mismatch']);
    }
    expect((await judge('198.51.100.1', true)).violations).toEqual([]);
  });

  it('counts the addresses of an IPv6 network as one', async () => {
    const { judge } = webhook(TWO_STAGES);
    for (const host of ['1', '2', '3']) await judge(`2001:db8:0:1::${host}`, false);
    expect(await judge('2001:db8:0:1::4', true)).toMatchObject({ refusal: 'unverified_rate_limited' });
    expect(await judge('2001:db8:0:2::4', true)).toMatchObject({ refusal: null });
  });

  it('takes no permit to judge a stored delivery again', async () => {
    const { dryRun, judge } = webhook(TWO_STAGES);
    for (let n = 0; n < 50; n += 1) expect(await dryRun('198.51.100.1')).toMatchObject({ refusal: null });
    expect(await judge('198.51.100.1', true)).toMatchObject({ refusal: null });
  });

  it('judges in the order ip, address, signature, limit, replay; without the first as ever', () => {
    expect(webhook(TWO_STAGES).chain).toEqual(['ip', 'unverifiedRateLimit', 'signature', 'rateLimit', 'replay']);
    expect(webhook(SIGNED).chain).toEqual(['ip', 'rateLimit', 'signature', 'replay']);
  });

  it.each([
    [{ webhookRateLimitUnverifiedPermitsPerSecond: 2 }, 'needs a known webhookSignatureScheme'],
    [
      { webhookRateLimitUnverifiedPermitsPerSecond: 2, webhookSignatureScheme: 'Nobody', webhookHmacKey: KEY },
      'needs a known webhookSignatureScheme',
    ],
    [{ ...SIGNED, webhookRateLimitUnverifiedBurstSize: 2 }, 'limits nothing without'],
    [{ ...SIGNED, webhookRateLimitUnverifiedPermitsPerSecond: Number.POSITIVE_INFINITY }, 'must be a number above 0'],
  ])('refuses %o at load: it %s', (inputs, message) => {
    expect(() => webhook(inputs)).toThrow(GateConfigurationError);
    expect(() => webhook(inputs)).toThrow(message);
  });
});
