import { describe, expect, it, vi } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import type { HandlerResult } from '../../src/flows/handlers/handler.ts';
import type { Store } from '../../src/store/store.ts';
import {
  cel,
  DONE,
  FLOW_ID,
  type FlowService,
  type FlowServiceOptions,
  gate,
  openStarted,
  openStore,
  ownHandler,
  standingTimers,
  stepOf,
  until,
} from './fixture.ts';
import { graphOf } from './graphs.ts';

standingTimers();

const gates = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`s${n}`, stepOf('Gate')]));

/** A started runtime whose first claim found nothing, and its calls to the store since then. */
async function openIdle(steps: Parameters<FlowService['deploy']>, options: FlowServiceOptions = {}) {
  const real = options.store ?? (await openStore());
  const calls: string[] = [];
  const counted = <Name extends 'accept' | 'advance' | 'claimDue' | 'beginAttempts'>(name: Name) => ({
    [name]: (...args: never[]) => {
      calls.push(name);
      return (real[name] as (...given: never[]) => unknown)(...args);
    },
  });
  const members = ['accept', 'advance', 'claimDue', 'beginAttempts'] as const;
  const store = Object.assign({}, real, ...members.map(counted)) as Store;
  const service = await openStarted({ ...options, store }, ...steps);
  await until(() => calls.length === 1);
  await store.ping();
  calls.length = 0;
  return { ...service, calls };
}

async function beginOf(service: FlowService): Promise<void> {
  vi.advanceTimersByTime(20);
  vi.advanceTimersByTime(20);
  await service.store.ping();
}

describe('an outcome waits for others to share its commit', () => {
  const broken = ownHandler('Break', () => {
    throw new Error('broken');
  });
  const note = stepOf('LogMessage', { inputs: { message: 'noted' } });
  const each = stepOf('ForEach', { forEach: cel('trigger.body'), steps: { note } });

  it.each([
    ['if its step is the last', graphOf({ a: [], b: ['a'] }), {}, ['b']],
    ['also if that one fails', { broken: stepOf('Break') }, {}, ['broken']],
    ['not if its failure starts a flow', { broken: stepOf('Break') }, { onFailure: FLOW_ID }, []],
    ['not if its flow limits the steps that run at once', graphOf({ a: [] }), { concurrency: 2 }, []],
    ['not if it may end a loop', { each }, {}, []],
  ] as const)('%s', async (_, steps, change, expected) => {
    const real = await openStore();
    const waiting: string[] = [];
    const advance: Store['advance'] = (outcome, lease) => {
      if (outcome.mayShareCommit === true) waiting.push(outcome.stepKey);
      return real.advance(outcome, lease);
    };
    const service = await openStarted({ own: [broken], store: { ...real, advance } }, steps, change);
    await service.ended(await service.trigger(['x']));
    expect(waiting).toEqual(expected);
  });
});

describe('while no due step waits', () => {
  it('a run costs one transaction, and each of its steps one', async () => {
    const service = await openIdle([graphOf({ a: [], b: ['a'], c: ['b'] })]);
    const runId = await service.trigger();
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect(service.calls).toEqual(['accept', 'advance', 'advance', 'advance']);
    const steps = await service.steps(runId);
    for (const key of ['a', 'b', 'c'])
      expect(steps[key]).toMatchObject({ attemptCount: 1, attempts: [{ attempt: 1 }] });
  });

  it('the children of a loop get their items', async () => {
    const note = stepOf('LogMessage', { inputs: { message: cel('loop.item') } });
    const each = stepOf('ForEach', { forEach: cel('trigger.body'), concurrencyLimit: 2, steps: { note } });
    const service = await openIdle([{ each }]);
    const runId = await service.trigger(['x', 'y', 'z']);
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect(service.calls).not.toContain('claimDue');
    expect((await service.steps(runId)).each).toMatchObject({ output: ['x', 'y', 'z'] });
  });

  it('no more steps run at once than may, and the rest are claimed', async () => {
    const { handler, waiting } = gate();
    const service = await openIdle([gates(5)], { own: [handler], concurrency: 3 });
    const runs = [await service.trigger(), await service.trigger()];
    for (let ended = 0; ended < 10; ended += 1) {
      const running = Math.min(3, 10 - ended);
      await until(() => waiting.length === running);
      await service.store.ping();
      expect(waiting).toHaveLength(running);
      waiting.shift()?.end();
    }
    for (const runId of runs) expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
  });

  it('a run that is not stored keeps no slot', async () => {
    const real = await openStore();
    let isDown = true;
    const accept: Store['accept'] = (...given) =>
      isDown ? Promise.reject(new StoreUnavailableError('the disk is full')) : real.accept(...given);
    const service = await openIdle([graphOf({ a: [] })], { store: { ...real, accept }, concurrency: 1 });
    await expect(service.trigger()).rejects.toThrow(StoreUnavailableError);
    isDown = false;
    expect(await service.ended(await service.trigger())).toMatchObject({ status: 'Succeeded' });
    expect(service.calls).not.toContain('claimDue');
  });

  it('a slot that was kept for a run that is not stored goes to a step that waits', async () => {
    const { handler, waiting } = gate();
    const real = await openStore();
    let refuse = () => {};
    const accept: Store['accept'] = (...given) =>
      given[1] === undefined
        ? real.accept(...given)
        : new Promise((_, reject) => {
            refuse = () => reject(new StoreUnavailableError('the disk is full'));
          });
    const service = await openIdle([gates(1)], { store: { ...real, accept }, own: [handler], concurrency: 1 });
    const first = service.trigger();
    const second = await service.trigger();
    await real.ping();
    expect(waiting).toEqual([]);
    refuse();
    await expect(first).rejects.toThrow(StoreUnavailableError);
    await until(() => waiting.length === 1);
    expect(waiting[0]?.context.runId).toBe(second);
    waiting[0]?.end();
    await service.ended(second);
  });

  it('the lease of a step that follows an outage counts from the end of the outage', async () => {
    const real = await openStore();
    const leasedUntil: (number | undefined)[] = [];
    const advance: Store['advance'] = (outcome, lease) => {
      leasedUntil.push(lease?.leasedUntil);
      if (leasedUntil.length > 1) return real.advance(outcome, lease);
      return Promise.reject(new StoreUnavailableError('the disk is full'));
    };
    const service = await openIdle([graphOf({ a: [], b: ['a'] })], { store: { ...real, advance } });
    const begunAt = service.clock.now();
    const runId = await service.trigger();
    await until(() => leasedUntil.length === 1 && vi.getTimerCount() > 0);
    await until(() => service.log.lines.some(({ msg }) => String(msg).includes('trying again')));
    service.clock.pass(29_000);
    vi.advanceTimersByTime(1_000);
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect(leasedUntil.slice(0, 2)).toEqual([begunAt + 30_000, begunAt + 59_000]);
  });

  it('steps of a flow with a limit are claimed', async () => {
    const service = await openIdle([graphOf({ a: [] }), { concurrency: 1 }]);
    expect(await service.ended(await service.trigger())).toMatchObject({ status: 'Succeeded' });
    expect(service.calls).toContain('claimDue');
  });
});

describe('a step that needed no claim', () => {
  it('starts after the answer to what started its run has left', async () => {
    const order: string[] = [];
    const handler = ownHandler('Note', () => {
      order.push('step');
      return DONE;
    });
    const service = await openIdle([{ a: stepOf('Note') }], { own: [handler] });
    // An answer passes a few promises between the store and the socket.
    const answered = service.trigger().then(async (runId) => {
      for (let left = 20; left > 0; left -= 1) await Promise.resolve();
      order.push('answer');
      return runId;
    });
    await service.ended(await answered);
    expect(order).toEqual(['answer', 'step']);
    expect(service.calls).not.toContain('claimDue');
  });

  it('is shown with its attempt once it has run for a moment', async () => {
    const { handler, waiting } = gate();
    const service = await openIdle([gates(2)], { own: [handler] });
    const runId = await service.trigger();
    await until(() => waiting.length === 2);
    expect(await service.steps(runId)).toMatchObject({ s0: { status: 'Running', attempts: [] } });
    await beginOf(service);
    expect(service.calls).toEqual(['accept', 'beginAttempts']);
    expect(await service.steps(runId)).toMatchObject({
      s0: { attemptCount: 1, attempts: [{ status: 'Running' }] },
      s1: { attemptCount: 1, attempts: [{ status: 'Running' }] },
    });
    for (const { end } of waiting) end();
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect(await service.steps(runId)).toMatchObject({ s0: { attempts: [{ status: 'Succeeded' }] } });
  });

  it('is shown with its inputs once it has run for a while, secrets masked', async () => {
    const { handler, waiting } = gate();
    const inputs = { url: 'https://api.example.com/orders', key: 'canary-of-a-gate-5512' };
    const own = [{ ...handler, secretInputs: ['key'] }];
    const service = await openIdle([{ s0: stepOf('Gate', { inputs }) }], { own });
    const runId = await service.trigger();
    await until(() => waiting.length === 1);
    expect(await service.steps(runId)).toMatchObject({ s0: { status: 'Running', input: null } });
    vi.advanceTimersByTime(250);
    await service.store.ping();
    const input = { url: inputs.url, key: '***' };
    expect(await service.steps(runId)).toMatchObject({ s0: { status: 'Running', input } });
    waiting[0]?.end();
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect(await service.steps(runId)).toMatchObject({ s0: { input } });
  });

  it('is marked as begun when the store is back', async () => {
    const { handler, waiting } = gate();
    const real = await openStore();
    let isDown = true;
    const beginAttempts: Store['beginAttempts'] = (begun) =>
      isDown ? Promise.reject(new StoreUnavailableError('the disk is full')) : real.beginAttempts(begun);
    const service = await openIdle([gates(1)], { own: [handler], store: { ...real, beginAttempts } });
    const runId = await service.trigger();
    await until(() => waiting.length === 1);
    await beginOf(service);
    await until(() => service.log.lines.some(({ msg }) => String(msg).includes('marked as begun')));
    isDown = false;
    vi.advanceTimersByTime(1_000);
    await service.store.ping();
    expect((await service.steps(runId)).s0?.attempts).toMatchObject([{ status: 'Running' }]);
    waiting[0]?.end();
    await service.ended(runId);
  });

  it('is tried again when it failed', async () => {
    let tries = 0;
    const handler = ownHandler('Flaky', () =>
      ++tries === 1 ? { kind: 'failed', code: 'down', message: 'is down', retryable: true } : DONE,
    );
    const retry = { maxAttempts: 2, backoffSeconds: 30, factor: 1, maxBackoffSeconds: 30, jitter: false };
    const service = await openIdle([{ a: stepOf('Flaky', { retry }) }], { own: [handler] });
    const runId = await service.trigger();
    await until(() => service.log.events('StepFailed').length === 1);
    service.clock.pass(30_000);
    vi.advanceTimersByTime(30_000);
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect((await service.steps(runId)).a?.attempts).toMatchObject([{ status: 'Failed' }, { status: 'Succeeded' }]);
  });

  it('is aborted when its run is cancelled', async () => {
    const { handler, waiting } = gate();
    const service = await openIdle([gates(1)], { own: [handler] });
    const runId = await service.trigger();
    await until(() => waiting.length === 1);
    await service.runtime.control.cancel(runId, null);
    expect(waiting[0]?.context.signal.aborted).toBe(true);
    expect(await service.ended(runId)).toMatchObject({ status: 'Cancelled' });
  });

  it('is ended, not tried, when its run was cancelled while the outcome before it was stored', async () => {
    const { handler, waiting } = gate();
    const real = await openStore();
    const after: (() => Promise<unknown>)[] = [];
    const advance: Store['advance'] = async (...given) => {
      const result = await real.advance(...given);
      await after.shift()?.();
      return result;
    };
    const steps = { a: stepOf('NoOp'), b: stepOf('Gate', { runAfter: { a: { statuses: ['Succeeded'] } } }) };
    const service = await openIdle([steps], { own: [handler], store: { ...real, advance } });
    after.push(async () => {
      const [run] = (await real.listRuns({ skip: 0, take: 1 })).items;
      await service.runtime.control.cancel(run?.id ?? '', null);
    });
    const runId = await service.trigger();
    expect(await service.ended(runId)).toMatchObject({ status: 'Cancelled' });
    expect(waiting).toEqual([]);
  });

  it('is given back by a stop, which counts neither as an interruption nor as a try', async () => {
    const { handler, waiting } = gate();
    const service = await openIdle([gates(1)], { own: [handler] });
    await service.trigger();
    await until(() => waiting.length === 1);
    const stopped = service.runtime.stop(0);
    vi.advanceTimersByTime(1);
    await stopped;
    const now = service.clock.now();
    expect((await service.store.claimDue({ owner: 'me', now, leasedUntil: now + 1, limit: 1 })).claims).toMatchObject([
      { attempt: 2, attemptBase: 1, interruptions: 0 },
    ]);
  });
});

describe('while due steps wait', () => {
  const following = (key: string) => ({ runAfter: { [key]: { statuses: ['Succeeded'] as const } } });
  const chain = { a: stepOf('Gate'), b: stepOf('Gate', following('a')), c: stepOf('Gate', following('b')) };

  async function openChain() {
    const { handler, waiting } = gate();
    const service = await openIdle([chain], { own: [handler], concurrency: 1 });
    const next = async () => {
      await until(() => waiting.length === 1);
      const { context, end } = waiting.shift() ?? {};
      return { runId: context?.runId, stepKey: context?.stepKey, end: (result?: HandlerResult) => end?.(result) };
    };
    return { ...service, next };
  }

  it('a slot passes from one step of a run to the next until its turn is over', async () => {
    const { next, ...service } = await openChain();
    const first = await service.trigger();
    const second = await service.trigger();
    const a = await next();
    expect(a).toMatchObject({ runId: first, stepKey: 'a' });
    a.end();
    const b = await next();
    expect(b).toMatchObject({ runId: first, stepKey: 'b' });
    service.clock.pass(100);
    b.end();
    const other = await next();
    expect(other).toMatchObject({ runId: second, stepKey: 'a' });
    other.end();
    for (let left = 3; left > 0; left -= 1) (await next()).end();
    expect(await service.ended(first)).toMatchObject({ status: 'Succeeded' });
    expect(await service.ended(second)).toMatchObject({ status: 'Succeeded' });
  });

  it('one of them has its turn next, though it fell due while no claim could be sent', async () => {
    const { next, ...service } = await openChain();
    const waiting = await service.trigger();
    (await next()).end({ kind: 'waiting', until: service.clock.now() + 5_000, state: null });
    await until(() => service.calls.includes('advance'));
    await service.store.ping();
    const running = await service.trigger();
    const a = await next();
    expect(a).toMatchObject({ runId: running, stepKey: 'a' });
    service.clock.pass(5_000);
    vi.advanceTimersByTime(5_000);
    a.end();
    const other = await next();
    expect(other).toMatchObject({ runId: waiting, stepKey: 'a' });
    other.end();
    for (let left = 4; left > 0; left -= 1) (await next()).end();
    for (const runId of [waiting, running]) expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
  });

  it('a new run waits for its turn', async () => {
    const { handler, waiting } = gate();
    const service = await openIdle([gates(1)], { own: [handler], concurrency: 1 });
    const runs = [await service.trigger(), await service.trigger(), await service.trigger()];
    for (const runId of runs) {
      await until(() => waiting.length === 1);
      expect(waiting[0]?.context.runId).toBe(runId);
      waiting.shift()?.end();
      expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    }
  });

  it('steps are leased as they become due again once none waits', async () => {
    const { handler, waiting } = gate();
    const service = await openIdle([gates(1)], { own: [handler], concurrency: 1 });
    const runs = [await service.trigger(), await service.trigger()];
    for (const runId of runs) {
      await until(() => waiting.length === 1);
      waiting.shift()?.end();
      await service.ended(runId);
    }
    await service.store.ping();
    service.calls.length = 0;
    const runId = await service.trigger();
    await until(() => waiting.length === 1);
    waiting[0]?.end();
    await service.ended(runId);
    expect(service.calls).toEqual(['accept', 'advance']);
  });
});

it('an attempt without a row whose outcome was given up is counted before the step is tried again', async () => {
  const real = await openStore();
  let runs = 0;
  const run = () => {
    runs += 1;
    return DONE;
  };
  const handler = ownHandler('Count', run);
  const advance: Store['advance'] = (...given) =>
    runs === 1 ? Promise.reject(new StoreUnavailableError('no such revision')) : real.advance(...given);
  const service = await openIdle([{ a: stepOf('Count') }], { own: [handler], store: { ...real, advance } });
  const runId = await service.trigger();
  // The timer that would have the row written has not fired yet.
  await until(() => service.log.lines.some(({ msg }) => String(msg).includes('the store failed while a step runs')));
  while (service.log.events('RunCompleted').length === 0) {
    service.clock.pass(200);
    vi.advanceTimersByTime(200);
    await real.ping();
    await real.ping();
  }
  const { attempts } = (await service.steps(runId)).a ?? {};
  expect(attempts?.map(({ attempt, status }) => [attempt, status])).toEqual([
    [1, 'Failed'],
    [2, 'Succeeded'],
  ]);
});
