import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineHandler } from '../../src/flows/handlers/handler.ts';
import type { Json } from '../../src/model/json.ts';
import { cel, type House, openHouse, START, stepOf, until } from './fixture.ts';

const behind = (key: string) => ({ runAfter: { [key]: { statuses: ['Succeeded'] as const } } });

/** Waits until the step waits: it is due later, or for a signal. */
async function waiting(house: House, runId: string, stepKey: string) {
  for (;;) {
    const step = (await house.steps(runId))[stepKey];
    if (step?.status === 'Pending' && step.attemptCount > 0) return step;
  }
}

/** Moves the clock on and lets what fell due start. */
function pass(house: House, ms: number): void {
  house.clock.pass(ms);
  house.runtime.dispatcher.nudge();
}

async function started(house: House, steps: Parameters<House['deploy']>[0], body: Json = {}): Promise<string> {
  await house.deploy(steps);
  await house.runtime.start();
  return house.trigger(body);
}

describe('a Delay', () => {
  it('waits as a row that is due when it ends, in one attempt', async () => {
    const house = await openHouse();
    const runId = await started(house, {
      wait: stepOf('Delay', { inputs: { seconds: 60 } }),
      next: stepOf('NoOp', behind('wait')),
    });
    expect(await waiting(house, runId, 'wait')).toMatchObject({ dueAt: START + 60_000, attemptCount: 1 });
    pass(house, 59_999);
    await house.store.ping();
    expect((await house.steps(runId)).wait?.status).toBe('Pending');
    pass(house, 1);
    expect(await house.ended(runId)).toMatchObject({ status: 'Succeeded', completedAt: START + 60_000 });
    const { wait } = await house.steps(runId);
    expect(wait).toMatchObject({ output: null, attempts: [{ attempt: 1, status: 'Succeeded', startedAt: START }] });
    expect(house.log.events('StepStarted').map(({ stepKey }) => stepKey)).toEqual(['wait', 'next']);
  });

  it.each([
    ['until a time', { until: '2026-03-01T13:00:01+01:00' }, 1000],
    ['until a time that an expression gives', { until: cel('trigger.body.at') }, 5000],
  ])('waits %s', async (_what, inputs, ms) => {
    const house = await openHouse();
    const runId = await started(house, { wait: stepOf('Delay', { inputs }) }, { at: '2026-03-01T12:00:05Z' });
    expect(await waiting(house, runId, 'wait')).toMatchObject({ dueAt: START + ms });
    pass(house, ms);
    await house.ended(runId);
  });

  it.each([
    ['neither', {}],
    ['both', { seconds: 1, until: '2026-03-01T13:00:01Z' }],
    ['a time without an offset', { until: '2026-03-01T13:00:01' }],
    ['a negative number', { seconds: -1 }],
  ])('with %s fails', async (_what, inputs) => {
    const house = await openHouse();
    const runId = await started(house, { wait: stepOf('Delay', { inputs }) });
    expect(await house.ended(runId)).toMatchObject({ status: 'Failed' });
    expect((await house.steps(runId)).wait?.error?.code).toBe('invalid_input');
  });

  it('stands still while the clock is set back, and ends at the time that it named', async () => {
    const house = await openHouse();
    const runId = await started(house, { wait: stepOf('Delay', { inputs: { seconds: 60 } }) });
    await waiting(house, runId, 'wait');
    house.clock.set(-3_600_000);
    pass(house, 60_000);
    await house.store.ping();
    expect((await house.steps(runId)).wait).toMatchObject({ status: 'Pending', dueAt: START + 60_000 });
    pass(house, 3_600_000);
    expect(await house.ended(runId)).toMatchObject({ status: 'Succeeded', completedAt: START + 60_000 });
  });

  it('goes on in another process', async () => {
    const house = await openHouse();
    const runId = await started(house, { wait: stepOf('Delay', { inputs: { seconds: 60 } }) });
    await waiting(house, runId, 'wait');
    await house.runtime.stop(0);
    const next = await openHouse({ store: house.store });
    next.clock.pass(60_000);
    await next.deploy({ wait: stepOf('Delay', { inputs: { seconds: 60 } }) });
    await next.runtime.start();
    expect(await next.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect((await next.steps(runId)).wait?.attemptCount).toBe(1);
  });
});

describe('a step that waits for a signal', () => {
  const approval = { approve: stepOf('WaitForSignal', { inputs: { signalName: 'approved', timeoutSeconds: 60 } }) };
  const send = (house: House, runId: string, body: Json) =>
    house.store.deliverSignal({ runId, name: 'approved', body, at: house.clock.now() });

  it('goes on when it comes, with its body', async () => {
    const house = await openHouse();
    const runId = await started(house, approval);
    expect(await waiting(house, runId, 'approve')).toMatchObject({ dueAt: START + 60_000 });
    expect(await send(house, runId, { by: 'Ada' })).toEqual({ kind: 'accepted', stepKey: 'approve' });
    expect(await send(house, runId, {})).toEqual({ kind: 'duplicate' });
    pass(house, 0);
    await house.ended(runId);
    expect((await house.steps(runId)).approve).toMatchObject({ status: 'Succeeded', output: { by: 'Ada' } });
    expect(await send(house, runId, {})).toEqual({ kind: 'ended', status: 'Succeeded' });
  });

  it('takes one that came before it waited', async () => {
    const house = await openHouse();
    const runId = await started(house, {
      first: stepOf('Delay', { inputs: { seconds: 5 } }),
      approve: { ...approval.approve, ...behind('first') },
    });
    expect(await send(house, runId, 1)).toEqual({ kind: 'accepted', stepKey: null });
    expect(await send(house, runId, 2)).toEqual({ kind: 'duplicate' });
    await waiting(house, runId, 'first');
    pass(house, 5000);
    await house.ended(runId);
    expect((await house.steps(runId)).approve?.output).toBe(1);
  });

  it('fails when its time is up', async () => {
    const house = await openHouse();
    const runId = await started(house, approval);
    await waiting(house, runId, 'approve');
    pass(house, 60_000);
    expect(await house.ended(runId)).toMatchObject({ status: 'Failed' });
    expect((await house.steps(runId)).approve?.error).toMatchObject({ code: 'signal_timeout', retryable: false });
  });

  it('goes on with one that came in time, although its turn comes after its time limit', async () => {
    const house = await openHouse();
    const runId = await started(house, {
      approve: stepOf('WaitForSignal', { inputs: { signalName: 'approved' }, timeoutSeconds: 60 }),
    });
    await waiting(house, runId, 'approve');
    house.clock.pass(59_999);
    expect(await send(house, runId, 'yes')).toEqual({ kind: 'accepted', stepKey: 'approve' });
    pass(house, 10_000);
    expect(await house.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect((await house.steps(runId)).approve?.output).toBe('yes');
  });

  it('waits for a signal of its own where another step took the first', async () => {
    const house = await openHouse();
    const runId = await started(house, { one: approval.approve, two: { ...approval.approve, ...behind('one') } });
    await waiting(house, runId, 'one');
    await send(house, runId, 1);
    pass(house, 0);
    await waiting(house, runId, 'two');
    expect(await send(house, runId, 2)).toEqual({ kind: 'accepted', stepKey: 'two' });
    pass(house, 0);
    await house.ended(runId);
    const { one, two } = await house.steps(runId);
    expect([one?.output, two?.output]).toEqual([1, 2]);
  });
});

describe('a handler that waits', () => {
  it('is handed a signal once, and not again when the time of its next wait comes', async () => {
    const seen: Json[] = [];
    const own = defineHandler({
      type: 'Own',
      inputs: z.unknown(),
      run: ({ resumed, now }) => {
        seen.push(resumed?.signal?.body ?? null);
        if (seen.length === 3) return { kind: 'succeeded', output: null };
        return { kind: 'waiting', signalName: 'go', until: now() + 1000 };
      },
    });
    const house = await openHouse({ own: [own] });
    const runId = await started(house, { own: stepOf('Own') });
    await waiting(house, runId, 'own');
    await house.store.deliverSignal({ runId, name: 'go', body: 'first', at: house.clock.now() });
    pass(house, 0);
    await until(() => seen.length === 2);
    await waiting(house, runId, 'own');
    pass(house, 1000);
    await house.ended(runId);
    expect(seen).toEqual([null, 'first', null]);
  });

  it('is handed the signal again by the next attempt where it failed with it', async () => {
    const seen: Json[] = [];
    const own = defineHandler({
      type: 'Own',
      inputs: z.unknown(),
      run: ({ resumed, attempt }) => {
        if (resumed?.signal == null) return { kind: 'waiting', signalName: 'go' };
        seen.push([attempt, resumed.signal.body]);
        if (attempt < 3) return { kind: 'failed', code: 'down', message: 'is down', retryable: attempt < 2 };
        return { kind: 'succeeded', output: resumed.signal.body };
      },
    });
    const house = await openHouse({ own: [own] });
    const retry = { maxAttempts: 5, backoffSeconds: 0, factor: 1, maxBackoffSeconds: 0, jitter: false };
    const runId = await started(house, { own: stepOf('Own', { retry }) });
    await waiting(house, runId, 'own');
    await house.runtime.control.signal({ runId, name: 'go', body: 'yes' });
    expect(await house.ended(runId)).toMatchObject({ status: 'Failed' });
    await house.runtime.control.retryStep(runId, 'own');
    await until(() => seen.length === 3);
    expect(await house.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect(seen).toEqual([
      [1, 'yes'],
      [2, 'yes'],
      [3, 'yes'],
    ]);
  });

  it('is called again with what it kept, in the same attempt, and its time limit counts the wait', async () => {
    const seen: unknown[] = [];
    const own = defineHandler({
      type: 'Own',
      inputs: z.unknown(),
      run: ({ resumed, attempt, now }) => {
        seen.push([attempt, resumed?.state ?? null]);
        return { kind: 'waiting', until: now() + 40_000, state: { looks: seen.length } };
      },
    });
    const house = await openHouse({ own: [own] });
    const runId = await started(house, { own: stepOf('Own', { timeoutSeconds: 100 }) });
    for (const dueAt of [40_000, 80_000, 100_000]) {
      for (let step = await waiting(house, runId, 'own'); step.dueAt !== START + dueAt; ) {
        step = await waiting(house, runId, 'own');
      }
      pass(house, START + dueAt - house.clock.now());
    }
    await house.ended(runId);
    expect(seen).toEqual([
      [1, null],
      [1, { looks: 1 }],
      [1, { looks: 2 }],
    ]);
    expect((await house.steps(runId)).own).toMatchObject({
      status: 'Failed',
      error: { code: 'timeout' },
      attemptCount: 1,
    });
  });

  it.each([
    [{ kind: 'waiting' }],
    [{ kind: 'waiting', until: Number.NaN }],
    [{ kind: 'waiting', until: 1, state: () => {} }],
  ])('for nothing that can come fails: %o', async (result) => {
    const own = defineHandler({ type: 'Own', inputs: z.unknown(), run: () => result as never });
    const house = await openHouse({ own: [own] });
    const runId = await started(house, { own: stepOf('Own') });
    await house.ended(runId);
    expect((await house.steps(runId)).own?.error?.code).toBe('handler_error');
  });
});
