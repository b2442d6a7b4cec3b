import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Gate, GateConfigurationError, type GatePlugin, type Verdict } from '../../../src/webhooks/gate.ts';
import { gateChain, gatePreparer } from '../../../src/webhooks/gates/index.ts';
import type { SignatureSettings } from '../../../src/webhooks/gates/signature.ts';
import { dryRunGates, runGates } from '../../../src/webhooks/pipeline.ts';
import { createSchemeRegistry } from '../../../src/webhooks/schemes/resolve.ts';
import type { SignatureVerifier } from '../../../src/webhooks/schemes/spec.ts';
import { sampleDelivery, sampleSettings, sampleTrigger } from '../samples.ts';
import { deliveryOf, judge, settingsOf } from '../schemes/fixtures.ts';

function settings(verifierTimeLimitMs?: number): SignatureSettings {
  return { ...sampleSettings(), schemes: createSchemeRegistry(), verifierTimeLimitMs };
}

function prepare(plugin: GatePlugin<unknown>, limitMs?: number): readonly Gate[] {
  const { gates, mistakes } = gatePreparer(gateChain([plugin]), settings(limitMs)).prepare(sampleTrigger({}));
  if (mistakes[0] !== undefined) throw mistakes[0];
  return gates;
}

const plugin = (gate: unknown): GatePlugin<unknown> => ({ name: 'tenant', prepare: () => gate as Gate });

it('keeps a sentence of what a gate says, without the keys that it was given', async () => {
  const check = () =>
    ({ passed: false, reason: 'rate_limited', detail: `key-of-the-trigger ${'x'.repeat(300)}` }) as const;
  const trigger = { ...sampleTrigger({}), keys: { current: 'key', previous: 'key-of-the-trigger' } };
  const { gates } = gatePreparer(gateChain([plugin({ name: 'tenant', check })]), settings()).prepare(trigger);
  const { detail } = await runGates(gates, sampleDelivery(), 'Enforce');
  expect(detail).toMatch(/^\*\*\* x{196}$/);
});

describe("an operator's gate that never answers", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each([
    ['judging', runGates],
    ['a dry run', dryRunGates],
  ] as const)('fails the delivery after five seconds when %s', async (_what, run) => {
    const never = () => new Promise<never>(() => {});
    const gates = prepare(plugin({ name: 'tenant', check: never, dryRun: never }));
    const judging = run(gates, sampleDelivery(), 'Enforce');
    let isOver = false;
    void judging.then(() => {
      isOver = true;
    });
    await vi.advanceTimersByTimeAsync(4999);
    expect(isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(await judging).toMatchObject({
      refusal: 'verifier_error',
      detail: 'gate "tenant" gave no answer within 5 s',
    });
  });

  it('ignores a rejection after the time limit', async () => {
    const late = () => new Promise<never>((_, reject) => setTimeout(() => reject(new Error('late')), 20));
    const judging = runGates(prepare(plugin({ name: 'tenant', check: late }), 10), sampleDelivery(), 'Enforce');
    await vi.advanceTimersByTimeAsync(30);
    expect(await judging).toMatchObject({ detail: 'gate "tenant" gave no answer within 0.01 s' });
  });

  it('leaves no timer behind where it answers, or throws', async () => {
    const throws = () => {
      throw new Error('no');
    };
    for (const check of [() => ({ passed: true }), async () => ({ passed: true }), throws]) {
      await runGates(prepare(plugin({ name: 'tenant', check })), sampleDelivery(), 'Enforce');
    }
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("an operator's gate", () => {
  it('keeps its own state, whatever kind of object it is', async () => {
    class Counting implements Gate {
      readonly name = 'tenant';
      #asked = 0;
      check() {
        this.#asked += 1;
        return this.#asked > 1 ? ({ passed: true } as const) : ({ passed: false, reason: 'ip_denied' } as const);
      }
      dryRun() {
        return { passed: this.#asked > 1 } as { passed: true };
      }
    }
    const gates = prepare(plugin(new Counting()));
    expect((await runGates(gates, sampleDelivery(), 'Enforce')).refusal).toBe('ip_denied');
    expect((await runGates(gates, sampleDelivery(), 'Enforce')).refusal).toBeNull();
    expect((await dryRunGates(gates, sampleDelivery(), 'Enforce')).refusal).toBeNull();
  });

  it('is told of by the name of its plugin', async () => {
    const gates = prepare(plugin({ name: 'signature', check: () => ({ passed: true }) }));
    expect((await runGates(gates, sampleDelivery(), 'Enforce')).gateResults).toMatchObject([{ gate: 'tenant' }]);
  });

  it.each([undefined, null])('that prepares to %s is not configured', (nothing) => {
    expect(prepare(plugin(nothing))).toEqual([]);
  });

  it.each([
    ['true', true],
    ['a text', 'gate'],
    ['an object without check', { name: 'tenant' }],
    ['a promise of a gate', Promise.resolve({ name: 'tenant', check: () => ({ passed: true }) })],
  ])('that prepares to %s is a mistake of the configuration that names it', (_what, gate) => {
    const message =
      'the gate "tenant" is not usable: prepare must return { name, check } or nothing, and not a promise';
    expect(() => prepare(plugin(gate))).toThrow(new GateConfigurationError(undefined, message));
  });

  it('that throws while it is prepared is a mistake of the configuration, told without its words', () => {
    const broken: GatePlugin<unknown> = {
      name: 'tenant',
      prepare() {
        throw new RangeError('the key is canary');
      },
    };
    expect(() => prepare(broken)).toThrow(GateConfigurationError);
    expect(() => prepare(broken)).toThrow(
      /^the gate "tenant" failed: RangeError in prepare, at .*operator-gate\.test\.ts:\d+/,
    );
    expect(() => prepare(broken)).not.toThrow(/canary/);
  });

  it('may itself say which field is to blame', () => {
    const picky: GatePlugin<unknown> = {
      name: 'tenant',
      prepare() {
        throw new GateConfigurationError('webhookSlug', 'is not of this tenant');
      },
    };
    expect(() => prepare(picky)).toThrow(expect.objectContaining({ field: 'webhookSlug' }));
  });
});

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function judgeWith(verify: SignatureVerifier['verify'], verifierTimeLimitMs?: number): Promise<Verdict> {
  const settings = settingsOf({ verifiers: [{ name: 'Remote', verify }] }, { verifierTimeLimitMs });
  return judge({ inputs: { webhookSignatureScheme: 'Remote' }, settings }, deliveryOf());
}

it('refuses what a verifier does not answer within five seconds, and tells it to stop', async () => {
  let signal: AbortSignal | undefined;
  const verdicts: Verdict[] = [];
  const judging = judgeWith((request) => {
    signal = request.signal;
    return new Promise(() => {});
  }).then((verdict) => verdicts.push(verdict));
  await vi.advanceTimersByTimeAsync(4999);
  expect(verdicts).toEqual([]);
  expect(signal?.aborted).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  await judging;
  expect(signal?.aborted).toBe(true);
  expect(verdicts).toMatchObject([
    {
      passed: false,
      reason: 'verifier_error',
      detail: 'verifier "Remote" gave no answer within 5 s',
      evidence: { isVerified: false },
    },
  ]);
});

it('hears nothing of what a verifier says too late, whether it passes or throws', async () => {
  const late = (request: { signal: AbortSignal }, answer: () => { outcome: 'verified' }) =>
    new Promise<{ outcome: 'verified' }>((resolve, reject) => {
      request.signal.addEventListener('abort', () => {
        try {
          resolve(answer());
        } catch (error) {
          reject(error);
        }
      });
    });
  const fails = () => {
    throw new Error('the connection was closed');
  };
  const judging = [
    judgeWith((request) => late(request, () => ({ outcome: 'verified' })), 10),
    judgeWith((request) => late(request, fails), 10),
  ];
  await vi.advanceTimersByTimeAsync(10);
  for (const verdict of await Promise.all(judging)) {
    expect(verdict).toMatchObject({ passed: false, detail: 'verifier "Remote" gave no answer within 0.01 s' });
  }
});

it('leaves no timer behind a verifier that answers, or throws', async () => {
  expect(await judgeWith(() => ({ outcome: 'verified' }))).toMatchObject({ passed: true });
  expect(await judgeWith(async () => ({ outcome: 'verified' }))).toMatchObject({ passed: true });
  expect(
    await judgeWith(() => {
      throw new Error('no');
    }),
  ).toMatchObject({ passed: false, reason: 'verifier_error' });
  expect(vi.getTimerCount()).toBe(0);
});
