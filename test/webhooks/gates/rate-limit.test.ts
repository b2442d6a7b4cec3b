import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import {
  type Gate,
  GateConfigurationError,
  type GateSettings,
  type WebhookTrigger,
} from '../../../src/webhooks/gate.ts';
import { fullBucket, rateLimitGate, takePermit } from '../../../src/webhooks/gates/rate-limit.ts';
import { FakeClock, sampleDelivery, sampleSettings, sampleTrigger } from '../samples.ts';

const ONE_A_SECOND: WebhookInputs = { webhookRateLimitPermitsPerSecond: 1, webhookRateLimitBurstSize: 2 };

type Plugin = ReturnType<typeof rateLimitGate>;
/** The deployed triggers of each plugin: a later one replaces the earlier one of its key, as a deploy does. */
const deployed = new WeakMap<Plugin, Map<string, WebhookTrigger>>();

function prepare(
  inputs: WebhookInputs,
  given: { plugin?: Plugin; settings?: GateSettings; flowId?: string; triggerKey?: string } = {},
): Gate {
  const { plugin = rateLimitGate(), settings = sampleSettings(), ...names } = given;
  const trigger = sampleTrigger(inputs, names);
  const triggers = deployed.get(plugin) ?? new Map<string, WebhookTrigger>();
  deployed.set(plugin, triggers.set(`${trigger.flowId} ${trigger.triggerKey}`, trigger));
  const gate = plugin.prepare(trigger, settings);
  plugin.inForce([...triggers.values()], settings);
  if (gate === undefined) throw new Error('no gate');
  return gate;
}

async function passes(gate: Gate, clientIp = '203.0.113.9'): Promise<boolean> {
  return (await gate.check(sampleDelivery({ clientIp }), {})).passed;
}

async function countPasses(gate: Gate, tries: number, clientIp?: string): Promise<number> {
  let passed = 0;
  for (let i = 0; i < tries; i += 1) if (await passes(gate, clientIp)) passed += 1;
  return passed;
}

describe('rateLimitGate', () => {
  it('is absent if no rate is configured', () => {
    expect(rateLimitGate().prepare(sampleTrigger({}), sampleSettings())).toBeUndefined();
    expect(
      rateLimitGate().prepare(
        sampleTrigger({ webhookRateLimitPerIp: false }),
        sampleSettings({ rateLimitBurstSize: 9 }),
      ),
    ).toBeUndefined();
  });

  it('refuses when the bucket is empty, says when to come back, and passes then', async () => {
    const clock = new FakeClock();
    const gate = prepare(ONE_A_SECOND, { settings: sampleSettings({ clock }) });
    expect(await countPasses(gate, 2)).toBe(2);
    clock.advance(250);
    expect(await gate.check(sampleDelivery(), {})).toMatchObject({
      passed: false,
      reason: 'rate_limited',
      evidence: { retryAfterMs: 750 },
    });
    clock.advance(750);
    expect(await passes(gate)).toBe(true);
  });

  it('judges a dry run by what is left and takes nothing of it', async () => {
    const gate = prepare(ONE_A_SECOND);
    for (let i = 0; i < 5; i += 1) expect((await gate.dryRun?.(sampleDelivery(), {}))?.passed).toBe(true);
    expect(await countPasses(gate, 3)).toBe(2);
    expect(await gate.dryRun?.(sampleDelivery(), {})).toMatchObject({
      passed: false,
      reason: 'rate_limited',
      evidence: { facts: { rateLimit: { permitsLeft: 0, permitsPerSecond: 1, burstSize: 2 } } },
    });
  });

  it.each([
    { permits: 0.5, burst: 1 },
    { permits: 1, burst: 1 },
    { permits: 2.5, burst: 3 },
  ])('lets $burst pass at once by default at $permits a second', async ({ permits, burst }) => {
    expect(await countPasses(prepare({ webhookRateLimitPermitsPerSecond: permits }), 10)).toBe(burst);
  });

  it('lets each field of the flow override the global value by itself', async () => {
    const settings = sampleSettings({ rateLimitPermitsPerSecond: 1, rateLimitBurstSize: 5, rateLimitPerIp: true });
    expect(await countPasses(prepare({}, { settings }), 10)).toBe(5);
    expect(await countPasses(prepare({ webhookRateLimitBurstSize: 3 }, { settings }), 10)).toBe(3);
    const shared = prepare({ webhookRateLimitPerIp: false }, { settings });
    expect(await countPasses(shared, 5, '192.0.2.1')).toBe(5);
    expect(await passes(shared, '192.0.2.2')).toBe(false);
  });

  it('gives each client address its own bucket if asked to, so that a flood does not starve others', async () => {
    const gate = prepare({ ...ONE_A_SECOND, webhookRateLimitPerIp: true });
    expect(await countPasses(gate, 1000, '192.0.2.66')).toBe(2);
    expect(await countPasses(gate, 3, '203.0.113.9')).toBe(2);
  });

  it('remembers the latest hundred thousand addresses, so that a flood from new ones takes no more memory', async () => {
    const gate = prepare({ webhookRateLimitPermitsPerSecond: 0.001, webhookRateLimitPerIp: true });
    const address = (i: number) => `10.${(i >> 16) & 255}.${(i >> 8) & 255}.${i & 255}`;
    for (let i = 0; i <= 100_000; i += 1) await gate.check(sampleDelivery({ clientIp: address(i) }), {});
    expect(await passes(gate, address(0))).toBe(true);
    expect(await passes(gate, address(100_000))).toBe(false);
  });

  it.each([1, 2, 3, 7])(
    'of %i replicas lets together pass what one does, within a permit for each',
    async (replicas) => {
      const clock = new FakeClock();
      const inputs = { webhookRateLimitPermitsPerSecond: 7, webhookRateLimitBurstSize: 21 };
      const alone = prepare(inputs, { settings: sampleSettings({ clock }) });
      const settings = sampleSettings({ clock, cluster: { replicas } });
      const all = Array.from({ length: replicas }, () => prepare(inputs, { settings }));
      const passed = { alone: 0, all: 0 };
      for (let round = 0; round < 10; round += 1) {
        passed.alone += await countPasses(alone, 50);
        for (const gate of all) passed.all += await countPasses(gate, 50);
        clock.advance(370);
      }
      expect(passed.alone).toBe(21 + Math.floor(9 * 0.37 * 7));
      expect(Math.abs(passed.alone - passed.all)).toBeLessThan(replicas);
    },
  );

  it('of several replicas lets at least one pass, and takes the share from the next delivery on', async () => {
    const clock = new FakeClock();
    const cluster = { replicas: 4 };
    const gate = prepare(ONE_A_SECOND, { settings: sampleSettings({ clock, cluster }) });
    expect(await countPasses(gate, 3)).toBe(1);
    expect(await gate.check(sampleDelivery(), {})).toMatchObject({
      detail: 'more than 1 a second with bursts of 2; each of 4 replicas accepts its share of that',
      evidence: { retryAfterMs: 4000, facts: { rateLimit: { permitsPerSecond: 0.25, burstSize: 1 } } },
    });
    cluster.replicas = 1;
    clock.advance(2000);
    expect(await countPasses(gate, 3)).toBe(2);
  });

  it('of several replicas lets each address send to each of them', async () => {
    const settings = sampleSettings({ cluster: { replicas: 2 } });
    const gate = prepare({ ...ONE_A_SECOND, webhookRateLimitPerIp: true }, { settings });
    expect(await countPasses(gate, 3)).toBe(2);
  });

  it('counts the /64 of an IPv6 client as one address, and each IPv4 address by itself', async () => {
    const gate = prepare({ ...ONE_A_SECOND, webhookRateLimitPerIp: true });
    expect(await passes(gate, '2001:db8:1:2::1')).toBe(true);
    expect(await passes(gate, '2001:db8:1:2:ffff:ffff:ffff:ffff')).toBe(true);
    expect(await passes(gate, '2001:db8:1:2:9::')).toBe(false);
    expect(await passes(gate, '2001:db8:1:3::1')).toBe(true);
    expect(await countPasses(gate, 3, '192.0.2.1')).toBe(2);
    expect(await countPasses(gate, 3, '192.0.2.2')).toBe(2);
  });

  it('shares a bucket between the triggers of a flow, not between flows', async () => {
    const plugin = rateLimitGate();
    const settings = sampleSettings();
    expect(await countPasses(prepare(ONE_A_SECOND, { plugin, settings, triggerKey: 'one' }), 2)).toBe(2);
    expect(await passes(prepare(ONE_A_SECOND, { plugin, settings, triggerKey: 'two' }))).toBe(false);
    expect(await passes(prepare(ONE_A_SECOND, { plugin, settings, flowId: 'another' }))).toBe(true);
  });

  it('counts what passes one trigger for all of its flow, each under its own limit, from the first delivery on', async () => {
    const plugin = rateLimitGate();
    const clock = new FakeClock();
    const settings = sampleSettings({ clock });
    const inputs = (permits: number, burst: number, isPerIp: boolean): WebhookInputs => ({
      webhookRateLimitPermitsPerSecond: permits,
      webhookRateLimitBurstSize: burst,
      webhookRateLimitPerIp: isPerIp,
    });
    for (const isPerIp of [false, true]) {
      const small = prepare(inputs(1, 2, isPerIp), { plugin, settings, triggerKey: 'small' });
      const large = prepare(inputs(10, 3, isPerIp), { plugin, settings, triggerKey: 'large' });
      expect(await countPasses(small, 5)).toBe(2);
      expect(await countPasses(large, 5)).toBe(1);
      clock.advance(1000);
      expect(await countPasses(large, 5)).toBe(3);
      expect(await countPasses(small, 5)).toBe(0);
      clock.advance(1000);
      expect(await countPasses(small, 5)).toBe(1);
      expect(await countPasses(large, 5)).toBe(2);
    }
  });

  it('lets no trigger pass more than its limit, however its siblings are set and used', async () => {
    const limit = fc.record({ permits: fc.integer({ min: 1, max: 20 }), burst: fc.integer({ min: 1, max: 10 }) });
    const uses = fc.array(fc.record({ at: fc.nat({ max: 400 }), isFirst: fc.boolean() }), { maxLength: 200 });
    await fc.assert(
      fc.asyncProperty(limit, limit, uses, async (first, second, sent) => {
        const plugin = rateLimitGate();
        const clock = new FakeClock();
        const settings = sampleSettings({ clock });
        const gates = [first, second].map(({ permits, burst }, index) =>
          prepare(
            { webhookRateLimitPermitsPerSecond: permits, webhookRateLimitBurstSize: burst },
            { plugin, settings, triggerKey: `trigger ${index}` },
          ),
        );
        const passed = [0, 0];
        for (const { at, isFirst } of sent) {
          clock.advance(at);
          const index = isFirst ? 0 : 1;
          const gate = gates[index];
          if (gate !== undefined && (await passes(gate))) passed[index] = (passed[index] ?? 0) + 1;
        }
        const seconds = sent.reduce((sum, { at }) => sum + at, 0) / 1000;
        expect(passed[0]).toBeLessThanOrEqual(first.burst + seconds * first.permits + 1e-6);
        expect(passed[1]).toBeLessThanOrEqual(second.burst + seconds * second.permits + 1e-6);
      }),
    );
  });

  it('does not refill a bucket at a deploy', async () => {
    const plugin = rateLimitGate();
    const settings = sampleSettings();
    expect(await countPasses(prepare(ONE_A_SECOND, { plugin, settings }), 5)).toBe(2);
    const redeployed = plugin.prepare(sampleTrigger(ONE_A_SECOND), settings);
    expect((await redeployed?.check(sampleDelivery(), {}))?.passed).toBe(false);
  });

  const limitOf = (permits: number, burst: number, more: WebhookInputs = {}): WebhookInputs => ({
    webhookRateLimitPermitsPerSecond: permits,
    webhookRateLimitBurstSize: burst,
    ...more,
  });

  it.each<[string, number, WebhookInputs, number]>([
    ['a smaller burst', 10, limitOf(0.001, 2), 0],
    ['a slower rate', 10, limitOf(0.0001, 10), 0],
    ['a smaller burst of which some is left', 3, limitOf(0.001, 5), 2],
    ['a larger burst', 10, limitOf(0.001, 12), 2],
    ['the same limit', 4, limitOf(0.001, 10), 6],
  ])('a deploy with %s leaves what was spent spent', async (_, spent, after, left) => {
    const plugin = rateLimitGate();
    const settings = sampleSettings();
    for (const isPerIp of [false, true]) {
      const more = { webhookRateLimitPerIp: isPerIp };
      const flowId = `flow ${isPerIp}`;
      const before = prepare({ ...limitOf(0.001, 10), ...more }, { plugin, settings, flowId });
      expect(await countPasses(before, spent)).toBe(spent);
      expect(await countPasses(prepare({ ...after, ...more }, { plugin, settings, flowId }), 20)).toBe(left);
    }
  });

  it('lets no more pass after a narrower limit is deployed than without it', async () => {
    const limit = fc.record({ permits: fc.integer({ min: 1, max: 20 }), burst: fc.integer({ min: 1, max: 10 }) });
    const gaps = fc.array(fc.nat({ max: 400 }), { maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(limit, limit, gaps, gaps, async (one, other, earlier, later) => {
        const clock = new FakeClock();
        const settings = sampleSettings({ clock });
        const [kept, changed] = [rateLimitGate(), rateLimitGate()];
        const narrower = limitOf(Math.min(one.permits, other.permits), Math.min(one.burst, other.burst));
        const gates = [kept, changed].map((plugin) => prepare(limitOf(one.permits, one.burst), { plugin, settings }));
        const use = async (used: readonly Gate[], gap: number) => {
          clock.advance(gap);
          return Promise.all(used.map((gate) => passes(gate)));
        };
        for (const gap of earlier) await use(gates, gap);
        const [same] = gates;
        const after = [...(same === undefined ? [] : [same]), prepare(narrower, { plugin: changed, settings })];
        const passed = [0, 0];
        for (const gap of later) {
          for (const [at, hasPassed] of (await use(after, gap)).entries())
            passed[at] = (passed[at] ?? 0) + Number(hasPassed);
          expect(passed[1]).toBeLessThanOrEqual(passed[0] ?? 0);
        }
      }),
    );
  });

  describe('a slug that another flow has from now on', () => {
    const settings = sampleSettings();
    const slug = (name: string, more: WebhookInputs = {}) => limitOf(0.001, 4, { webhookSlug: name, ...more });
    const deploy = (plugin: Plugin, triggers: readonly WebhookTrigger[]) => {
      plugin.inForce(triggers, settings);
      return triggers.map((trigger) => plugin.prepare(trigger, settings) as Gate);
    };
    const [a, b] = [{ flowId: 'a' }, { flowId: 'b' }];

    it.each([false, true])('brings what was spent there along, per address: %s', async (webhookRateLimitPerIp) => {
      const plugin = rateLimitGate();
      const inputs = slug('Push', { webhookRateLimitPerIp });
      const [first] = deploy(plugin, [sampleTrigger(inputs, a)]);
      expect(first && (await countPasses(first, 3))).toBe(3);
      deploy(plugin, []);
      const [second] = deploy(plugin, [sampleTrigger({ ...inputs, webhookSlug: 'push' }, b)]);
      expect(second && (await countPasses(second, 5))).toBe(1);
      const [back] = deploy(plugin, [sampleTrigger(inputs, a)]);
      expect(back && (await countPasses(back, 5))).toBe(0);
    });

    it('leaves another slug of another flow alone', async () => {
      const plugin = rateLimitGate();
      const [first] = deploy(plugin, [sampleTrigger(slug('push'), a), sampleTrigger(slug('pull'), b)]);
      expect(first && (await countPasses(first, 5))).toBe(4);
      const [, other] = deploy(plugin, [sampleTrigger(slug('push'), a), sampleTrigger(slug('poll'), b)]);
      expect(other && (await countPasses(other, 5))).toBe(4);
    });
  });

  it('counts what each address has spent where all share one limit from now on', async () => {
    const plugin = rateLimitGate();
    const settings = sampleSettings();
    const each = prepare(limitOf(0.001, 4, { webhookRateLimitPerIp: true }), { plugin, settings });
    for (const address of ['192.0.2.1', '192.0.2.2']) expect(await countPasses(each, 1, address)).toBe(1);
    const all = prepare(limitOf(0.001, 4), { plugin, settings });
    expect(await countPasses(all, 5, '192.0.2.3')).toBe(2);
  });

  it.each([
    ['webhookRateLimitBurstSize', { webhookRateLimitBurstSize: 5 }],
    ['webhookRateLimitPerIp', { webhookRateLimitPerIp: true }],
    ['webhookRateLimitPermitsPerSecond', { webhookRateLimitPermitsPerSecond: 0 }],
    ['webhookRateLimitPermitsPerSecond', { webhookRateLimitPermitsPerSecond: Number.NaN }],
    ['webhookRateLimitBurstSize', { webhookRateLimitPermitsPerSecond: 1, webhookRateLimitBurstSize: 0.5 }],
  ])('refuses a %s that would limit nothing, or let nothing pass: %o', (field, inputs) => {
    const prepareIt = () => rateLimitGate().prepare(sampleTrigger(inputs), sampleSettings());
    expect(prepareIt).toThrow(GateConfigurationError);
    expect(prepareIt).toThrow(expect.objectContaining({ field }));
  });
});

const limits = fc.record({
  permitsPerSecond: fc.double({ min: 0.01, max: 1000, noNaN: true }),
  burstSize: fc.double({ min: 1, max: 50, noNaN: true }),
});
const gapsMs = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 5000 })), { maxLength: 200 });

describe('token bucket', () => {
  it('never grants more than the burst and what time has refilled, in no window', () => {
    fc.assert(
      fc.property(limits, gapsMs, (limit, gaps) => {
        let now = 0;
        let bucket = fullBucket(limit, now);
        const grants: number[] = [];
        for (const gap of gaps) {
          now += gap;
          const taken = takePermit(bucket, limit, now);
          bucket = taken.bucket;
          if (taken.retryAfterMs === 0) grants.push(now);
        }
        grants.forEach((from, first) => {
          const to = grants.at(-1) ?? from;
          const allowed = limit.burstSize + ((to - from) / 1000) * limit.permitsPerSecond;
          expect(grants.length - first).toBeLessThanOrEqual(allowed + 1e-6);
        });
      }),
    );
  });

  it('grants after the time it asked to wait', () => {
    fc.assert(
      fc.property(limits, gapsMs, (limit, gaps) => {
        let now = 0;
        let bucket = fullBucket(limit, now);
        for (const gap of gaps) {
          now += gap;
          const taken = takePermit(bucket, limit, now);
          bucket = taken.bucket;
          if (taken.retryAfterMs === 0) continue;
          expect(takePermit(bucket, limit, now + taken.retryAfterMs).retryAfterMs).toBe(0);
        }
      }),
    );
  });

  it('grants a permit whose fractions do not quite make a whole', () => {
    // 0.1 + 0.3 * 3 is a little less than 1.
    const limit = { permitsPerSecond: 3, burstSize: 1 };
    const bucket = { permits: 0.1, at: 0 };
    expect(takePermit(bucket, limit, 0).retryAfterMs).toBe(300);
    expect(takePermit(bucket, limit, 300).retryAfterMs).toBe(0);
  });

  it('starts full, refills without steps and never above the burst', () => {
    const limit = { permitsPerSecond: 2, burstSize: 3 };
    const grants = [0, 0, 0, 0, 250, 500, 60_000, 60_000, 60_000, 60_000];
    let bucket = fullBucket(limit, 0);
    const waits = grants.map((now) => {
      const taken = takePermit(bucket, limit, now);
      bucket = taken.bucket;
      return taken.retryAfterMs;
    });
    expect(waits).toEqual([0, 0, 0, 500, 250, 0, 0, 0, 0, 500]);
  });

  it('gains nothing from a clock that goes back', () => {
    const limit = { permitsPerSecond: 1, burstSize: 1 };
    const { bucket } = takePermit(fullBucket(limit, 10_000), limit, 10_000);
    const back = takePermit(bucket, limit, 0);
    expect(back.retryAfterMs).toBe(1000);
    expect(takePermit(back.bucket, limit, 10_500).retryAfterMs).toBe(500);
  });
});
