import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { defineHandler, type HandlerResult } from '../../src/flows/handlers/handler.ts';
import { Slots } from '../../src/flows/slots.ts';
import { openFlowService, START, stepOf, until } from './fixture.ts';

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

const MOMENT_MS = 250;

describe('a slot that is left', () => {
  const clock = { now: () => START, monotonic: () => 0 };
  const open = (concurrency: number) => {
    const slots = new Slots({ concurrency, clock, owner: 'me' }, () => {});
    const begun: string[] = [];
    const join = (flowId: string, name: string) => {
      const place = slots.join(flowId);
      void place.turn?.then((isTurn) => begun.push(isTurn ? name : `${name} is sent away`));
      return place;
    };
    return { slots, begun, join, settled: () => new Promise(setImmediate) };
  };

  it('goes to the flow that runs the fewest steps, whoever came first', async () => {
    const { begun, join, settled } = open(2);
    const running = [join('busy', ''), join('busy', '')];
    for (const name of ['a', 'b', 'c']) join('busy', name);
    join('other', 'x');
    running[0]?.leave();
    await settled();
    expect(begun).toEqual(['x']);
    running[1]?.leave();
    await settled();
    expect(begun).toEqual(['x', 'a']);
  });

  it('goes among equals to the flow whose last slot is the longest ago, and in it to the step that came first', async () => {
    const { slots, begun, join, settled } = open(1);
    let running = slots.take('none');
    const places = new Map(['a1', 'a2', 'a3', 'b1', 'b2', 'c1'].map((name) => [name, join(name.charAt(0), name)]));
    for (let n = 0; n < places.size; n += 1) {
      running.leave();
      await settled();
      running = places.get(begun.at(-1) ?? '') ?? running;
    }
    expect(begun).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  });

  it('goes to a flow that stays in line before those that come and go', async () => {
    const { begun, join, settled } = open(1);
    const places = new Map([['start', join('a', 'start')]]);
    const come = (flowId: string, name: string) => places.set(name, join(flowId, name));
    come('stays', 's1');
    come('stays', 's2');
    come('b', 'b1');
    for (const [ended, flowId, next] of [
      ['start', 'a', 'a1'],
      ['s1', 'c', 'c1'],
      ['b1', 'b', 'b2'],
      ['a1', 'a', 'a2'],
    ] as const) {
      places.get(ended)?.leave();
      await settled();
      come(flowId, next);
    }
    expect(begun).toEqual(['s1', 'b1', 'a1', 's2']);
  });

  it('lets a claim take ahead what would leave in a moment, where each slot is left in it', async () => {
    let passed = 0;
    const slots = new Slots(
      { concurrency: 4, clock: { now: () => START, monotonic: () => passed }, owner: 'me' },
      () => {},
    );
    const leave = (count: number) => {
      for (let n = 0; n < count; n += 1) slots.join('a').leave();
      passed += MOMENT_MS;
    };
    expect(slots.claimableAhead).toBe(0);
    leave(3);
    expect(slots.claimableAhead).toBe(0);
    leave(50);
    expect(slots.claimableAhead).toBe(50);
    leave(1000);
    expect(slots.claimableAhead).toBe(112);
  });

  it('goes to nobody who was sent away or has left', async () => {
    const { slots, begun, join, settled } = open(1);
    const running = join('a', '');
    join('a', 'left').leave();
    join('a', 'sent');
    slots.clearLine();
    join('a', 'last');
    running.leave();
    await settled();
    expect(begun).toEqual(['left is sent away', 'sent is sent away', 'last']);
  });
});
