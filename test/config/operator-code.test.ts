import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Extensions } from '../../src/config/api.ts';
import { prepareExtensions } from '../../src/config/extensions.ts';
import { readSettings } from '../../src/config/settings.ts';
import type { StepHandler } from '../../src/flows/handlers/handler.ts';
import type { Delivery } from '../../src/model/delivery.ts';
import { dryRunGates, type Judgement, runGates } from '../../src/webhooks/pipeline.ts';
import { handlerOf, retry, tryStep, useStore } from '../flows/try-step.ts';
import { FakeClock, sampleDelivery, sampleTrigger } from '../webhooks/samples.ts';

useStore();

const CANARY = 'canary';

function thrower(): never {
  throw new Error(CANARY);
}

/** Throws at every access, even a check of its type. */
const hostile = (target: object = {}): object =>
  new Proxy(target, {
    get: thrower,
    has: thrower,
    ownKeys: thrower,
    getPrototypeOf: thrower,
    getOwnPropertyDescriptor: thrower,
  });

/** An error whose message and name throw when read. */
function unreadableError(): Error {
  return Object.defineProperties(new Error(CANARY), {
    message: { get: thrower },
    name: { get: thrower },
    stack: { get: thrower },
    code: { get: thrower },
  });
}

/** Sets up the operator's code as a service does. */
function prepare(extensions: Extensions) {
  const settings = readSettings({ ALLOW_LEGACY_SHA1: 'true' });
  return prepareExtensions({ settings, extensions, environment: {}, clock: new FakeClock(), folder: '.' });
}

const MANY = () => ({ kind: 'succeeded', output: { ok: true } });

describe("a handler's result", () => {
  const own = (run: () => unknown, change: Partial<StepHandler> = {}): StepHandler => {
    const prepared = prepare({ handlers: [{ ...handlerOf(run), ...change }] }).handlers.get('Own');
    if (prepared === undefined) throw new Error('the handler is not registered');
    return prepared;
  };
  const getter = (name: string, rest: object = {}) =>
    Object.defineProperty(rest, name, { get: thrower, enumerable: true });

  it.each<[string, () => unknown]>([
    ['has a kind that throws', () => getter('kind')],
    ['has an output that throws', () => getter('output', { kind: 'succeeded' })],
    ['has an output with a member that throws', () => ({ kind: 'succeeded', output: getter('a', {}) })],
    ['has an output that is a hostile proxy', () => ({ kind: 'succeeded', output: hostile() })],
    ['has an output that is a hostile list', () => ({ kind: 'succeeded', output: hostile([]) })],
    ['has a state that throws', () => ({ kind: 'waiting', until: 1, state: hostile() })],
    ['has a time that throws', () => getter('until', { kind: 'waiting' })],
    ['has a time that is an object', () => ({ kind: 'waiting', until: hostile() })],
    ['has a time that no store can keep', () => ({ kind: 'waiting', until: -1e20 })],
    ['has a time that is no date', () => ({ kind: 'waiting', until: Number.MAX_SAFE_INTEGER, signalName: 'a' })],
    ['has a message that cannot be a text', () => ({ kind: 'failed', code: 'a', message: hostile(), retryable: true })],
    ['has the code of a fault', () => ({ kind: 'failed', code: 'internal_error', message: 'a', retryable: false })],
    ['has a code that throws', () => getter('code', { kind: 'failed', message: 'a', retryable: true })],
    ['is a hostile proxy', () => hostile()],
    ['comes late and throws', async () => getter('kind')],
    ['has a then that throws', () => getter('then')],
    ['is thrown as an error that cannot be read', () => Promise.reject(unreadableError())],
    ['is thrown as a hostile proxy', () => Promise.reject(hostile())],
    [
      'is thrown at once as an error that cannot be read',
      () => {
        throw unreadableError();
      },
    ],
    [
      'changes between two reads',
      () => {
        let reads = 0;
        const output = new Proxy(
          {},
          { ownKeys: () => (reads++ < 1 ? [] : thrower()), getOwnPropertyDescriptor: thrower, get: thrower },
        );
        return { kind: 'succeeded', output };
      },
    ],
  ])('that %s fails the step and is no fault of Sluice', async (_what, run) => {
    const { ran } = await tryStep({ handler: own(run), step: {} });
    expect(ran?.result).toMatchObject({ kind: 'failed', error: { code: 'handler_error' } });
    expect(() => JSON.stringify(ran)).not.toThrow();
  });

  it('that cannot be read is not asked for again: the handler has done its work', async () => {
    for (const run of [() => getter('kind'), async () => ({ kind: 'succeeded', output: getter('a', {}) })])
      expect((await tryStep({ handler: own(run), step: { retry } })).ran?.result).toMatchObject({
        kind: 'failed',
        error: { code: 'handler_error', retryable: false },
      });
  });

  it.each<[string, Partial<StepHandler>]>([
    ['throws', { inputs: { safeParse: thrower } as unknown as StepHandler['inputs'] }],
    ['yields what cannot be read', { inputs: { safeParse: hostile } as unknown as StepHandler['inputs'] }],
    ['yields a failure without issues', { inputs: { safeParse: () => ({}) } as unknown as StepHandler['inputs'] }],
  ])('is a failure of the step where the schema of its inputs %s', async (_what, change) => {
    const { ran } = await tryStep({ handler: own(MANY, change) });
    expect(ran?.result).toMatchObject({ kind: 'failed', error: { code: 'handler_error' } });
  });

  it('keeps the failure of the step where what it called cannot be said', async () => {
    const run = () => ({ kind: 'failed', code: 'down', message: 'is down', retryable: false });
    const { ran } = await tryStep({ handler: own(run, { calls: thrower }) });
    expect(ran?.result).toMatchObject({ kind: 'failed', error: { code: 'down', message: 'is down' } });
  });

  it('may be any promise, not only one of this realm', async () => {
    // biome-ignore lint/suspicious/noThenProperty: a promise of a library, which is a thenable.
    const thenable = () => ({ then: (resolve: (value: unknown) => void) => resolve(MANY()) });
    expect((await tryStep({ handler: own(thenable) })).ran?.result).toMatchObject({ kind: 'succeeded' });
  });

  it('is what the handler yielded, whatever it does to it afterwards', async () => {
    const output = { list: [1], at: { a: 'b' } };
    const state: Record<string, unknown> = { n: 1 };
    const results = [
      await tryStep({ handler: own(() => ({ kind: 'succeeded', output })) }),
      await tryStep({ handler: own(() => ({ kind: 'waiting', until: 5, state })) }),
      await tryStep({ handler: own(() => ({ kind: 'failed', code: 'a', message: 'b', retryable: false, output })) }),
    ];
    output.list.push(2);
    state.itself = state;
    expect(results.map(({ ran }) => ran?.result)).toMatchObject([
      { output: { list: [1], at: { a: 'b' } } },
      { state: { n: 1 } },
      { output: { list: [1], at: { a: 'b' } } },
    ]);
    expect(results[1]?.ran?.result).toMatchObject({ state: { n: 1 } });
    expect(JSON.stringify(results[1]?.ran)).not.toContain('itself');
  });

  it.each<[string, () => unknown]>([
    ['throws', thrower],
    ['yields no list', () => 'approved'],
    ['yields what cannot be read', () => hostile([])],
  ])('may wait for any signal where waitsFor %s', (_what, waitsFor) => {
    expect(own(MANY, { waitsFor: waitsFor as StepHandler['waitsFor'] & object }).waitsFor?.({}, 'own')).toBeUndefined();
  });
});

async function judged(extensions: Extensions, inputs: object = {}, delivery: Delivery = sampleDelivery()) {
  const { gates, mistakes } = prepare(extensions).gates.prepare(
    sampleTrigger(inputs, { keys: { current: 'a key that is long enough', previous: undefined } }),
  );
  if (mistakes[0] !== undefined) throw mistakes[0];
  const judgements: Judgement[] = [];
  for (const run of [runGates, dryRunGates]) judgements.push(await run(gates, delivery, 'Enforce'));
  return judgements;
}

const MINE = { webhookSignatureScheme: 'Mine' };
/** Returns a copy of the refusal that becomes an acceptance in a later turn of the same tick. */
const settling = (refusal: object) => async () => {
  const answer = { ...refusal };
  queueMicrotask(() => queueMicrotask(() => Object.assign(answer, { passed: true, outcome: 'verified' })));
  return answer;
};

const gateThat = (check: (delivery: Delivery) => unknown): Extensions => ({
  gates: [{ name: 'tenant', prepare: () => ({ name: 'tenant', check, dryRun: check }) as never }],
});

describe("a gate's verdict", () => {
  it.each<[string, () => unknown]>([
    ['is a hostile proxy', hostile],
    ['comes late and is one', async () => Object.defineProperty({}, 'passed', { get: thrower })],
    ['has evidence that throws', () => ({ passed: true, evidence: hostile() })],
    ['has facts that throw', () => ({ passed: true, evidence: { facts: { tenant: hostile() } } })],
    ['has facts that JSON cannot hold', () => ({ passed: true, evidence: { facts: { tenant: { n: 1n } } } })],
    ['has facts that are no object', () => ({ passed: true, evidence: { facts: { tenant: 'a' } } })],
    ['has a nonce that is none', () => ({ passed: true, evidence: { nonce: 'a' } })],
    ['has a time that is none', () => ({ passed: true, evidence: { signedTimestamp: 5 } })],
    ['has a skew that is none', () => ({ passed: true, evidence: { replaySkewMs: 5n } })],
    ['has a detail that throws', () => Object.defineProperty({ passed: true }, 'detail', { get: thrower })],
    [
      'is thrown as an error that cannot be read',
      () => {
        throw unreadableError();
      },
    ],
    ['is rejected as a hostile proxy', () => Promise.reject(hostile())],
    ['is true', () => true],
    ['is nothing', () => null],
  ])('that %s is a verifier_error, which can be recorded', async (_what, check) => {
    for (const judgement of await judged(gateThat(check))) {
      expect(judgement).toMatchObject({ refusal: 'verifier_error', evidence: {} });
      expect(JSON.stringify(judgement)).not.toContain(CANARY);
    }
  });

  it('is what the gate gave, whatever it does to it afterwards', async () => {
    const facts: Record<string, unknown> = { tenant: { of: 'a' } };
    const given: Record<string, unknown> = { passed: true, evidence: { facts, retryAfterMs: 5 } };
    const [judgement] = await judged(gateThat(() => given));
    facts.tenant = 1n;
    given.passed = false;
    expect(judgement).toMatchObject({ refusal: null, evidence: { facts: { tenant: { of: 'a' } }, retryAfterMs: 5 } });
  });

  it.each<[string, () => unknown]>([
    ['is a hostile proxy', hostile],
    ['has a check that throws', () => Object.defineProperty({ name: 'tenant' }, 'check', { get: thrower })],
    ['has a dryRun that is no function', () => ({ name: 'tenant', check: () => ({ passed: true }), dryRun: 5 })],
    [
      'is thrown as an error that cannot be read',
      () => {
        throw unreadableError();
      },
    ],
  ])('needs a gate: one that %s is a mistake of the configuration', (_what, make) => {
    const { mistakes } = prepare({ gates: [{ name: 'tenant', prepare: make as never }] }).gates.prepare(
      sampleTrigger({}),
    );
    expect(mistakes.map(({ name }) => name)).toEqual(['GateConfigurationError']);
  });
});

const verifierThat = (verify: (request: { delivery: Delivery }) => unknown): Extensions => ({
  verifiers: [{ name: 'Acme', verify: verify as never }],
});
const strategyThat = (build: (request: { delivery: Delivery }) => unknown): Extensions => ({
  payloadStrategies: { own: build as never },
});
const BY_VERIFIER = { webhookSignatureScheme: 'Acme' };
const BY_STRATEGY = {
  webhookSignatureScheme: 'Custom',
  webhookSignatureHeader: 'X-Signature',
  webhookSignedPayloadStrategy: 'Custom',
  webhookCustomStrategyName: 'own',
};

describe('what a verifier or a payload strategy yields', () => {
  it.each<[string, () => unknown]>([
    ['is a hostile proxy', hostile],
    ['comes late and throws', async () => Object.defineProperty({}, 'outcome', { get: thrower })],
    ['has bytes that throw', () => ({ outcome: 'verified', signedBytes: hostile() })],
    ['has a time that throws', () => ({ outcome: 'verified', signedTimestampMs: hostile() })],
    ['has a reason that throws', () => ({ outcome: 'refused', reason: hostile() })],
    ['is thrown as an error that cannot be read', () => Promise.reject(unreadableError())],
    ['is thrown as a hostile proxy', () => Promise.reject(hostile())],
  ])('that %s is a verifier_error', async (what, verify) => {
    const signed = sampleDelivery({ headers: { 'x-signature': 'ab'.repeat(32) } });
    // Strategies are not awaited: a rejection is logged under the strategy's name.
    const build = () => (what.startsWith('is thrown') ? thrower() : verify());
    for (const [extensions, inputs] of [
      [verifierThat(verify), BY_VERIFIER],
      [strategyThat(build), BY_STRATEGY],
    ] as const) {
      for (const judgement of await judged(extensions, inputs, signed)) {
        expect(judgement.refusal).toBe('verifier_error');
        expect(JSON.stringify(judgement)).not.toContain(CANARY);
      }
    }
  });
});

describe('a delivery that is shown to', () => {
  const spoil = ({ body, headers }: Delivery) => {
    body.fill(0);
    Object.assign(headers, { spoilt: 'yes' });
  };
  it.each<[string, Extensions, object]>([
    [
      'a gate',
      gateThat((delivery) => {
        spoil(delivery);
        return { passed: true };
      }),
      {},
    ],
    [
      'a verifier',
      verifierThat(({ delivery }) => {
        spoil(delivery);
        return { outcome: 'verified' };
      }),
      BY_VERIFIER,
    ],
    [
      'a payload strategy',
      strategyThat(({ delivery }) => {
        spoil(delivery);
        return Buffer.from('a');
      }),
      BY_STRATEGY,
    ],
  ])('%s is not changed by it', async (_who, extensions, inputs) => {
    const delivery = sampleDelivery({ headers: { 'x-signature': 'ab'.repeat(32) }, body: Buffer.from('{"a":1}') });
    await judged(extensions, inputs, delivery);
    expect(delivery.body.toString()).toBe('{"a":1}');
    expect(delivery.headers).not.toHaveProperty('spoilt');
  });
});

describe('fetchFromPublisher', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each<[string, () => unknown]>([
    ['yields no text', async () => 5],
    ['yields a text that is no promise of one', () => '{"keys":[]}'],
    ['yields what cannot be read', hostile],
    ['throws', thrower],
    ['rejects with what cannot be read', () => Promise.reject(hostile())],
    ['yields more than a set of keys has', async () => 'a'.repeat(2 ** 21)],
  ])('that %s leaves the keys unavailable', async (_what, fetch) => {
    const { keySets } = prepare({ fetchFromPublisher: fetch as never });
    await expect(keySets.keysFor('https://keys.example/set', undefined)).rejects.toMatchObject({
      name: 'KeySetUnavailableError',
      code: expect.stringMatching(/^[\w ]{1,40}$/),
    });
  });

  it('that never settles is given up, and asked again later', async () => {
    let asks = 0;
    const never = () => {
      asks += 1;
      return new Promise<string>(() => {});
    };
    const clock = new FakeClock();
    const { keySets } = prepareExtensions({
      settings: readSettings({}),
      extensions: { fetchFromPublisher: never },
      environment: {},
      clock,
      folder: '.',
    });
    for (const expected of [1, 2]) {
      const waiting = expect(keySets.keysFor('https://keys.example/set', undefined)).rejects.toThrow();
      await vi.advanceTimersByTimeAsync(5000);
      await waiting;
      expect(asks).toBe(expected);
      clock.advance(60_000);
    }
  });
});

it.each<[string, (answer: object) => Extensions, object]>([
  ['verdict of a gate', (answer) => gateThat(settling(answer)), {}],
  ['answer of a verifier', (answer) => ({ verifiers: [{ name: 'Mine', verify: settling(answer) as never }] }), MINE],
])('the %s is read as it settles, whatever is done to it then', async (_what, extensions, inputs) => {
  const refusal = { passed: false, reason: 'signature_mismatch', outcome: 'refused' };
  const answers = await judged(extensions(refusal), inputs);
  for (const { refusal: told } of answers) expect(told).toBe('signature_mismatch');
});
