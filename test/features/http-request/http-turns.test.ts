import type { RequestListener } from 'node:http';
import { describe, expect, it } from 'vitest';
import { Hosts } from '../../../src/features/http-request/hosts.ts';
import { createHttpRequestHandler } from '../../../src/features/http-request/http-request.ts';
import type { HandlerResult, StepContext } from '../../../src/flows/handlers/handler.ts';
import { TimeUpError } from '../../../src/flows/handlers/handler.ts';
import type { Json } from '../../../src/model/json.ts';
import { call } from '../../flows/handlers/call.ts';
import { serve } from '../../flows/handlers/loopback-server.ts';

const T0 = Date.UTC(2026, 10, 22);
const DAY_MS = 86_400_000;

const LOOPBACK = ['127.0.0.0/8', 'localhost'];

function setUp({ limits = [] as string[], failures = 2, egressAllow = LOOPBACK } = {}) {
  const time = { now: T0 };
  const clock = { now: () => time.now, monotonic: () => time.now };
  const settings = { outgoingHosts: limits, circuitFailures: failures };
  const wait = async (ms: number) => {
    time.now += ms;
  };
  const hosts = new Hosts({ settings, clock, random: () => 0.5, wait });
  const handler = createHttpRequestHandler({ egressAllow, now: clock.now, hosts });
  const send = (url: string, inputs: object = {}, context: Partial<StepContext> = {}) =>
    call(handler, { url, ...inputs }, { now: clock.now, ...context });
  const stateOf = async (origin: string) => (await hosts.list()).find((host) => host.origin === origin);
  return { time, send, stateOf };
}

const resumedFrom = (result: HandlerResult) => {
  if (result.kind !== 'waiting') throw new Error(`it does not wait: ${JSON.stringify(result)}`);
  return { resumed: { state: result.state as Json, signal: null } };
};
const untilOf = (result: HandlerResult) => (result.kind === 'waiting' ? (result.until ?? 0) : 0);
const answering =
  (status: number, headers: Record<string, string> = {}): RequestListener =>
  (_request, response) =>
    void response.writeHead(status, headers).end();

describe('a step whose host is not well', () => {
  it('waits once the host has failed so often, without a request', async () => {
    const { origin, received } = await serve(answering(503));
    const { send, stateOf } = setUp();
    expect(await send(origin)).toMatchObject({ kind: 'failed', code: 'unexpected_status' });
    expect(await send(origin)).toMatchObject({ kind: 'failed' });
    const waits = await send(origin);
    const state = { hostTurn: expect.stringContaining(origin), since: T0, barredSince: T0 };
    expect(waits).toMatchObject({ kind: 'waiting', state, until: T0 + DAY_MS });
    expect(received).toHaveLength(2);
    const circuits = [{ state: 'open', caller: 'step step of flow flow' }];
    expect(await stateOf(origin)).toMatchObject({ circuits, lastError: { error: 'answered 503' } });
  });

  it('loses no attempt by a probe that fails, and goes on where one is answered', async () => {
    let status = 500;
    const { origin, received } = await serve((_request, response) => void response.writeHead(status).end());
    const { send, time } = setUp();
    for (let count = 0; count < 2; count += 1) await send(origin);
    const first = await send(origin);
    time.now += 5000;
    const probed = await send(origin, {}, resumedFrom(first));
    expect(probed).toMatchObject({ kind: 'waiting', state: { why: expect.stringContaining('500') } });
    expect(received).toHaveLength(3);
    status = 200;
    time.now += 10_000;
    expect(await send(origin, {}, resumedFrom(probed))).toMatchObject({ kind: 'succeeded' });
  });

  it('probes until its call is taken where the host refuses the first calls of each step', async () => {
    const calls = new Map<string, number>();
    const { origin } = await serve((request, response) => {
      const key = String(request.headers['idempotency-key']);
      calls.set(key, (calls.get(key) ?? 0) + 1);
      response.writeHead((calls.get(key) ?? 0) > 2 ? 200 : 500).end();
    });
    const { send, time } = setUp();
    for (let count = 0; count < 2; count += 1) await send(origin, {}, { idempotencyKey: `opens ${count}` });
    const steps = ['a', 'b', 'c'].map((idempotencyKey) => ({ idempotencyKey }));
    let waiting = await Promise.all(steps.map(async (step) => ({ ...step, result: await send(origin, {}, step) })));
    let done: string | undefined;
    for (let probes = 0; probes < 3 && done === undefined; probes += 1) {
      time.now += 70_000;
      // By due time: the step with the shortest wait is released first.
      waiting = waiting.sort((a, b) => untilOf(a.result) - untilOf(b.result));
      for (const step of waiting) {
        const { idempotencyKey } = step;
        step.result = await send(origin, {}, { idempotencyKey, ...resumedFrom(step.result) });
        if (step.result.kind === 'succeeded') done = idempotencyKey;
        if (step.result.kind !== 'waiting') break;
      }
    }
    expect(done).toBe('a');
    expect(Object.fromEntries(calls)).toMatchObject({ a: 3 });
  });

  it('lets others probe after three of its own in vain', async () => {
    const { origin } = await serve((request, response) => {
      response.writeHead(request.headers['idempotency-key'] === 'good' ? 200 : 500).end();
    });
    const { send, time } = setUp();
    for (let count = 0; count < 2; count += 1) await send(origin);
    let bad = await send(origin);
    const good = await send(origin, {}, { idempotencyKey: 'good' });
    for (let probes = 0; probes < 3; probes += 1) {
      time.now += 70_000;
      bad = await send(origin, {}, resumedFrom(bad));
    }
    expect(untilOf(bad)).toBeGreaterThan(untilOf(good));
    time.now += 70_000;
    expect(await send(origin, {}, { idempotencyKey: 'good', ...resumedFrom(good) })).toMatchObject({
      kind: 'succeeded',
    });
  });

  it('fails after a day, so that a host that is gone for good keeps no run in flight', async () => {
    const { origin } = await serve(answering(500));
    const { send, time } = setUp();
    for (let count = 0; count < 2; count += 1) await send(origin);
    const waits = await send(origin);
    time.now += 5000;
    const probed = await send(origin, {}, resumedFrom(waits));
    time.now += DAY_MS;
    expect(await send(origin, {}, resumedFrom(probed))).toMatchObject({ kind: 'failed', retryable: true });
    expect(await send(origin, {}, resumedFrom(probed))).toMatchObject({ kind: 'failed', code: 'circuit_open' });
  });

  it.each([
    ['it says so', { whenCircuitOpen: 'fail' }, {}],
    ['another step runs after it has failed', {}, { isFailureHandled: true }],
  ])('fails at once where %s, and names the circuit', async (_what, inputs, context) => {
    const { origin } = await serve(answering(500));
    const { send } = setUp();
    for (let count = 0; count < 2; count += 1) await send(origin);
    expect(await send(origin, inputs, context)).toMatchObject({
      kind: 'failed',
      code: 'circuit_open',
      retryable: true,
      message: expect.stringContaining(`${new URL(origin).host} fails for step step of flow flow since`),
    });
    expect(await send(origin, { whenCircuitOpen: 'wait' }, context)).toMatchObject({ kind: 'waiting' });
  });
});

describe('what counts as a failure of the host', () => {
  const closed = { circuits: [], failures: 0 };
  const failed = { circuits: [], failures: 1 };

  it.each([
    [200, {}, closed],
    [404, {}, closed],
    [429, {}, closed],
    [500, {}, failed],
    [502, {}, failed],
    [503, { expectedStatuses: 503 }, closed],
  ])('%i with %j', async (status, inputs, host) => {
    const { origin } = await serve(answering(status));
    const { send, stateOf } = setUp();
    await send(origin, inputs);
    expect(await stateOf(origin)).toMatchObject(host);
  });

  it.each([
    ['an answer that hangs', (() => {}) as RequestListener, 'no complete answer within 0.05 s'],
    [
      'a body that hangs',
      ((_request, response) => void response.writeHead(200).write('x')) as RequestListener,
      'no complete answer within 0.05 s',
    ],
    [
      'a connection that is cut',
      ((request) => void request.socket.resetAndDestroy()) as RequestListener,
      expect.stringMatching(/ECONNRESET|UND_ERR_SOCKET/),
      30,
    ],
  ])('%s', async (_what, answer, error, timeoutSeconds = 0.05) => {
    const { origin } = await serve(answer);
    const { send, stateOf } = setUp();
    await send(origin, { timeoutSeconds });
    expect(await stateOf(origin)).toMatchObject({ ...failed, inFlight: 0, lastError: { error } });
  });

  it.each([
    ['the time limit of the step', new TimeUpError(), failed],
    ['a stop of the process', new Error('the process stops'), closed],
  ])('of %s', async (_what, reason, host) => {
    const controller = new AbortController();
    const { origin } = await serve(() => controller.abort(reason));
    const { send, stateOf } = setUp();
    await send(origin, {}, { signal: controller.signal });
    expect(await stateOf(origin)).toMatchObject({ ...host, inFlight: 0 });
  });

  it('neither a name that is unknown, nor an address that steps may not call; but the host is seen to fail', async () => {
    const { send, stateOf } = setUp({ egressAllow: [] });
    const unharmed = { ...closed, inFlight: 0, isFailing: true };
    expect(await send('http://no-such-host.invalid/')).toMatchObject({ kind: 'failed' });
    const unknown = { at: T0, error: expect.stringMatching(/ENOTFOUND|EAI_AGAIN/) };
    expect(await stateOf('http://no-such-host.invalid')).toMatchObject({ ...unharmed, lastError: unknown });
    expect(await send('http://localhost:1/')).toMatchObject({ kind: 'failed', code: 'egress_refused' });
    const refused = { at: T0, error: 'egress_refused' };
    expect(await stateOf('http://localhost:1')).toMatchObject({ ...unharmed, lastError: refused });
    expect(await send('http://10.0.0.1/')).toMatchObject({ kind: 'failed', code: 'egress_refused' });
    expect(await stateOf('http://10.0.0.1')).toBeUndefined();
  });

  it('is seen until the host answers again', async () => {
    let status = 500;
    const { origin } = await serve((_request, response) => void response.writeHead(status).end());
    const { send, stateOf } = setUp();
    await send(origin);
    expect(await stateOf(origin)).toMatchObject({ isFailing: true, lastError: { error: 'answered 500' } });
    status = 404;
    await send(origin);
    expect(await stateOf(origin)).toMatchObject({ isFailing: false, lastError: { error: 'answered 500' } });
  });

  it('nor a key that cannot sign, which gives its turn back', async () => {
    const { origin } = await serve(answering(200));
    const { send, stateOf } = setUp();
    const tls = { cert: 'no certificate', key: 'no key' };
    expect(await send(origin, { tls })).toMatchObject({ kind: 'failed', code: 'invalid_input' });
    expect(await stateOf(origin)).toMatchObject({ ...closed, inFlight: 0 });
  });
});

describe('a host that asks for time', () => {
  it.each([
    [429, '120', 120_000],
    [503, '120', 120_000],
    [429, new Date(T0 + 60_000).toUTCString(), 60_000],
    [429, '315360000', 3_600_000],
  ])('with %i and Retry-After %s is called by no step before', async (status, value, ms) => {
    const { origin, received } = await serve(answering(status, { 'retry-after': value }));
    const { send, stateOf } = setUp();
    await send(origin);
    expect(await send(origin)).toMatchObject({ kind: 'waiting' });
    expect(received).toHaveLength(1);
    const host = await stateOf(origin);
    expect(host?.circuits).toMatchObject([{ state: 'open', why: 'asked', until: T0 + ms }]);
  });

  it('keeps only the same step with the same secrets waiting: no other flow, no other step, no other secret', async () => {
    let status = 429;
    const { origin } = await serve(
      (_request, response) => void response.writeHead(status, { 'retry-after': '3600' }).end(),
    );
    const { send } = setUp();
    const own = { secretReferences: ['env:B', 'env:A', 'env:B'] };
    await send(`${origin}/orders`, {}, own);
    status = 200;
    const again = await send(`${origin}/orders`, {}, { secretReferences: ['env:A', 'env:B'] });
    expect(again).toMatchObject({ kind: 'waiting', state: { why: expect.stringContaining('with env:A, env:B') } });
    for (const other of [
      { ...own, flowId: 'other' },
      { ...own, stepKey: 'other' },
      { secretReferences: ['env:A'] },
      {},
    ]) {
      expect(await send(`${origin}/orders`, {}, other)).toMatchObject({ kind: 'succeeded' });
    }
  });

  it.each(['-5', 'soon', '1e9', '', new Date(T0 - 60_000).toUTCString()])('for %j asks for nothing', async (value) => {
    const { origin } = await serve(answering(429, { 'retry-after': value }));
    const { send } = setUp();
    await send(origin);
    expect(await send(origin)).toMatchObject({ kind: 'failed' });
  });
});

describe('a request that is redirected', () => {
  it('takes its turn at each host', async () => {
    const target = await serve(answering(200));
    const { origin } = await serve(answering(302, { location: `${target.origin}/x` }));
    const { send, time } = setUp({ limits: [`${new URL(target.origin).host}=1/s`] });
    expect(await send(origin)).toMatchObject({ kind: 'succeeded' });
    expect(await send(origin)).toMatchObject({ kind: 'succeeded' });
    expect(time.now - T0).toBeGreaterThan(900);
    expect(target.received).toHaveLength(2);
  });

  it('to a host that is not called fails, and may be tried again', async () => {
    const target = await serve(answering(500));
    const { origin } = await serve(answering(307, { location: target.origin }));
    const { send, stateOf } = setUp();
    for (let count = 0; count < 2; count += 1) await send(target.origin);
    expect(await send(origin)).toMatchObject({ kind: 'failed', code: 'circuit_open', retryable: true });
    expect(await stateOf(origin)).toMatchObject({ circuits: [], inFlight: 0 });
    expect(target.received).toHaveLength(2);
  });
});

describe('a step with limits of its own', () => {
  it('waits for its turn, however the URL spells the host', async () => {
    const { origin } = await serve(answering(200));
    const { port } = new URL(origin);
    const { send, time } = setUp();
    expect(await send(`http://127.0.0.1:${port}/`, { maxPerSecond: 1 })).toMatchObject({ kind: 'succeeded' });
    const waits = await send(`http://2130706433:${port}/a`, { maxPerSecond: 1 });
    const state = { hostTurn: expect.stringContaining(origin), since: T0, barredSince: null };
    expect(waits).toMatchObject({ kind: 'waiting', state });
    expect(await send(origin)).toMatchObject({ kind: 'succeeded' });
    time.now += 965;
    expect(await send(origin, { maxPerSecond: 1 }, resumedFrom(waits))).toMatchObject({ kind: 'succeeded' });
  });

  it('is one step in all iterations of a loop, and another in another flow', async () => {
    const { origin } = await serve(answering(200));
    const { send } = setUp();
    const of = (stepKey: string, flowId = 'flow') => send(origin, { maxPerSecond: 1 }, { stepKey, flowId });
    expect(await of('lines.0.push')).toMatchObject({ kind: 'succeeded' });
    expect(await of('lines.1.push')).toMatchObject({ kind: 'waiting' });
    expect(await of('lines.0.pull')).toMatchObject({ kind: 'succeeded' });
    expect(await of('lines.0.push', 'other')).toMatchObject({ kind: 'succeeded' });
  });

  it.each([
    { maxPerSecond: 0 },
    { maxPerSecond: 1e-6 },
    { maxPerSecond: '5' },
    { maxConcurrent: 0 },
    { whenCircuitOpen: 'later' },
  ])('refuses %j', async (inputs) => {
    const { send } = setUp();
    await expect(send('http://127.0.0.1:1', inputs)).rejects.toThrow();
  });
});

describe('a poll whose host is not called', () => {
  it('keeps how far it has come, and ends when its time is up, with why it waited', async () => {
    const { origin } = await serve(answering(500));
    const { send, time } = setUp();
    const inputs = { pollEnabled: true, pollIntervalSeconds: 1, pollTimeoutSeconds: 60 };
    const first = await send(origin, inputs);
    expect(first).toMatchObject({ state: { polls: 1 } });
    time.now += 1000;
    const second = await send(origin, inputs, resumedFrom(first));
    expect(second).toMatchObject({ state: { polls: 2 } });
    time.now += 1000;
    const waits = await send(origin, inputs, resumedFrom(second));
    const state = { polls: 2, startedAt: T0, hostTurn: expect.stringContaining(origin) };
    expect(waits).toMatchObject({ until: T0 + 60_000, state });
    time.now = T0 + 60_000;
    const probe = await send(origin, inputs, resumedFrom(waits));
    expect(probe).toMatchObject({
      kind: 'failed',
      code: 'poll_timeout',
      message: expect.stringMatching(/in 60 s and 2 requests; .*500/),
    });
  });
});
