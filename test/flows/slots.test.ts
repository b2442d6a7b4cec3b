import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { defineHandler, type HandlerResult } from '../../src/flows/handlers/handler.ts';
import { openFlowService, stepOf, until } from './fixture.ts';

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
    const service = await openFlowService({ own: [handler], concurrency: 1 });
    await service.deploy({ a: stepOf('Gate'), b: stepOf('Gate') }, { timeoutSeconds: 600 });
    await service.runtime.start();
    const holder = await service.trigger();
    await until(() => ends.length === 1);
    await service.deploy({ a: stepOf('Gate') }, { timeoutSeconds: 5 });
    const late = await service.trigger();
    service.clock.pass(5_000);
    vi.advanceTimersByTime(5_000);
    expect(await service.ended(late)).toMatchObject({ status: 'TimedOut' });
    expect(await service.store.findRun(holder)).toMatchObject({ status: 'Running' });
    expect(ends).toHaveLength(1);
    service.clock.pass(595_000);
    vi.advanceTimersByTime(595_000);
    expect(await service.ended(holder)).toMatchObject({ status: 'TimedOut' });
  });

  it('a waiting step is ended when its own time is up', async () => {
    const { handler, ends } = gate();
    const service = await openFlowService({ own: [handler], concurrency: 1 });
    const wait = stepOf('WaitForSignal', { inputs: { signalName: 'go' }, timeoutSeconds: 5 });
    await service.deploy({ wait });
    await service.runtime.start();
    const waiting = await service.trigger();
    while (
      (await service.steps(waiting)).wait?.status !== 'Pending' ||
      (await service.steps(waiting)).wait?.input === null
    );
    await service.deploy({ a: stepOf('Gate') });
    await service.trigger();
    await until(() => ends.length === 1);
    service.clock.pass(5_000);
    vi.advanceTimersByTime(5_000);
    expect(await service.ended(waiting)).toMatchObject({ status: 'Failed' });
    expect((await service.steps(waiting)).wait).toMatchObject({ error: { code: 'timeout' } });
  });
});

describe('a concurrency in the manifest', () => {
  it('bounds the steps of the flow that run at once, and all of them run in the end', async () => {
    const { handler, ends } = gate();
    const service = await openFlowService({ own: [handler] });
    await service.deploy({ a: stepOf('Gate'), b: stepOf('Gate'), c: stepOf('Gate') }, { concurrency: 2 });
    await service.runtime.start();
    const runId = await service.trigger();
    await until(() => ends.length === 2);
    await service.store.ping();
    expect(service.log.events('StepStarted')).toHaveLength(2);
    ends[0]?.();
    await until(() => ends.length === 3);
    for (const end of ends) end();
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
  });

  it('of a step bounds the steps of its type, and leaves the others alone', async () => {
    const { handler, ends } = gate();
    const service = await openFlowService({ own: [handler] });
    await service.deploy({ a: stepOf('Gate', { concurrency: 1 }), b: stepOf('Gate'), free: stepOf('NoOp') });
    await service.runtime.start();
    const runId = await service.trigger();
    await until(() => ends.length === 1 && service.log.events('StepCompleted').length === 1);
    expect((await service.steps(runId)).free).toMatchObject({ status: 'Succeeded' });
    ends[0]?.();
    await until(() => ends.length === 2);
    ends[1]?.();
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
  });
});
