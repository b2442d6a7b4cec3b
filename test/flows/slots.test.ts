import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { defineHandler, type HandlerResult } from '../../src/flows/handlers/handler.ts';
import { openHouse, stepOf, until } from './fixture.ts';

// The store's thread needs no timers, so these stand still while it works.
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** A handler whose steps run until they are let go, and how often it was called. */
function gate() {
  const ends: ((result?: HandlerResult) => void)[] = [];
  const handler = defineHandler({
    type: 'Gate',
    inputs: z.unknown(),
    run: () =>
      new Promise<HandlerResult>((resolve) => {
        ends.push((result = { kind: 'succeeded', output: null }) => resolve(result));
      }),
  });
  return { handler, ends };
}

describe('while every slot is taken', () => {
  it('a run is ended when its time is up, even one that started after the last slot was taken', async () => {
    const { handler, ends } = gate();
    const house = await openHouse({ own: [handler], concurrency: 1 });
    await house.deploy({ a: stepOf('Gate'), b: stepOf('Gate') }, { timeoutSeconds: 600 });
    await house.runtime.start();
    const holder = await house.trigger();
    await until(() => ends.length === 1);
    await house.deploy({ a: stepOf('Gate') }, { timeoutSeconds: 5 });
    const late = await house.trigger();
    house.clock.pass(5_000);
    vi.advanceTimersByTime(5_000);
    expect(await house.ended(late)).toMatchObject({ status: 'TimedOut' });
    expect(await house.store.findRun(holder)).toMatchObject({ status: 'Running' });
    expect(ends).toHaveLength(1);
    house.clock.pass(595_000);
    vi.advanceTimersByTime(595_000);
    expect(await house.ended(holder)).toMatchObject({ status: 'TimedOut' });
  });

  it('a waiting step is ended when its own time is up', async () => {
    const { handler, ends } = gate();
    const house = await openHouse({ own: [handler], concurrency: 1 });
    const wait = stepOf('WaitForSignal', { inputs: { signalName: 'go' }, timeoutSeconds: 5 });
    await house.deploy({ wait });
    await house.runtime.start();
    const waiting = await house.trigger();
    while (
      (await house.steps(waiting)).wait?.status !== 'Pending' ||
      (await house.steps(waiting)).wait?.input === null
    );
    await house.deploy({ a: stepOf('Gate') });
    await house.trigger();
    await until(() => ends.length === 1);
    house.clock.pass(5_000);
    vi.advanceTimersByTime(5_000);
    expect(await house.ended(waiting)).toMatchObject({ status: 'Failed' });
    expect((await house.steps(waiting)).wait).toMatchObject({ error: { code: 'timeout' } });
  });
});

describe('a concurrency in the manifest', () => {
  it('bounds the steps of the flow that run at once, and all of them run in the end', async () => {
    const { handler, ends } = gate();
    const house = await openHouse({ own: [handler] });
    await house.deploy({ a: stepOf('Gate'), b: stepOf('Gate'), c: stepOf('Gate') }, { concurrency: 2 });
    await house.runtime.start();
    const runId = await house.trigger();
    await until(() => ends.length === 2);
    await house.store.ping();
    expect(house.log.events('StepStarted')).toHaveLength(2);
    ends[0]?.();
    await until(() => ends.length === 3);
    for (const end of ends) end();
    expect(await house.ended(runId)).toMatchObject({ status: 'Succeeded' });
  });

  it('of a step bounds the steps of its type, and leaves the others alone', async () => {
    const { handler, ends } = gate();
    const house = await openHouse({ own: [handler] });
    await house.deploy({ a: stepOf('Gate', { concurrency: 1 }), b: stepOf('Gate'), free: stepOf('NoOp') });
    await house.runtime.start();
    const runId = await house.trigger();
    await until(() => ends.length === 1 && house.log.events('StepCompleted').length === 1);
    expect((await house.steps(runId)).free).toMatchObject({ status: 'Succeeded' });
    ends[0]?.();
    await until(() => ends.length === 2);
    ends[1]?.();
    expect(await house.ended(runId)).toMatchObject({ status: 'Succeeded' });
  });
});
