import { describe, expect, it, vi } from 'vitest';
import type { HandlerResult } from '../../src/flows/handlers/handler.ts';
import { Slots } from '../../src/flows/slots.ts';
import {
  type FlowService,
  openFlowService,
  openStarted,
  openStore,
  ownHandler,
  standingTimers,
  stepOf,
  until,
} from './fixture.ts';
import { graphOf } from './graphs.ts';

standingTimers();

/** A handler whose steps run until the test ends them, and the number of its calls. */
function gate() {
  const ends: ((result?: HandlerResult) => void)[] = [];
  const handler = ownHandler(
    'Gate',
    () =>
      new Promise<HandlerResult>((resolve) => {
        ends.push((result = { kind: 'succeeded', output: null }) => resolve(result));
      }),
  );
  return { handler, ends };
}

describe('while every slot is taken', () => {
  it('a run is ended when its time is up, even one that started after the last slot was taken', async () => {
    const { handler, ends } = gate();
    const service = await openStarted(
      { own: [handler], concurrency: 1 },
      { a: stepOf('Gate'), b: stepOf('Gate') },
      { timeoutSeconds: 600 },
    );
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
    await until(
      () => service.steps(waiting),
      ({ wait: step }) => step?.status === 'Pending' && step.input !== null,
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

describe('flows whose steps hang', () => {
  const ids = Array.from({ length: 5 }, (_, n) => `00000000-0000-4000-8000-00000000000${n}`);

  async function trigger({ runtime }: FlowService, flowId = ''): Promise<void> {
    const start = { triggerKey: 'manual', triggerType: 'manual', body: Buffer.from('{}'), headers: {} } as const;
    await runtime.engine.triggerFlow({ ...start, flowId, contentType: 'application/json' });
  }

  it.each([1, 3])('leave an eighth of the slots to flows that run nothing, though they are %i', async (hanging) => {
    const { handler, ends } = gate();
    const service = await openFlowService({ own: [handler], concurrency: 16 });
    for (const id of ids) await service.deploy({ a: stepOf('Gate'), b: stepOf('Gate') }, { id });
    await service.runtime.start();
    for (let n = 0; n < 10; n += 1) for (const id of ids.slice(0, hanging)) await trigger(service, id);
    await until(() => ends.length === 14);
    await trigger(service, ids[3]);
    await until(() => ends.length === 15);
    await trigger(service, ids[4]);
    await until(() => ends.length === 16);
    for (let ended = 0; ended < 20 * hanging + 4; ended += 1) {
      await until(() => ends.length > 0);
      ends.shift()?.();
    }
    await until(() => service.log.events('RunCompleted').length === 10 * hanging + 2);
  });

  it('leave no slot unused that they kept for a step which must wait for others', async () => {
    const steps = Array.from({ length: 40 }, (_, n) => `s${n}`);
    const wiring = { ...Object.fromEntries(steps.map((key) => [key, []])), join: steps };
    const service = await openStarted({ concurrency: 8 }, graphOf(wiring));
    expect(await service.ended(await service.trigger())).toMatchObject({ status: 'Succeeded' });
  });

  it('stop no quick flow for ever, though it was so quick that a claim waited for slots that are left', async () => {
    const { handler, ends } = gate();
    // In each span of 250 ms more slots are left than there are.
    const quick = ownHandler('Quick', async (): Promise<HandlerResult> => {
      service.clock.pass(5);
      return { kind: 'succeeded', output: null };
    });
    const service = await openFlowService({ own: [handler, quick], concurrency: 16 });
    const many = (type: string, count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, n) => [`s${n}`, stepOf(type)]));
    await service.deploy(many('Gate', 20), { id: ids[0] ?? '' });
    await service.deploy(many('Quick', 200), { id: ids[1] ?? '' });
    await service.runtime.start();
    await trigger(service, ids[0]);
    await until(() => ends.length === 14);
    await trigger(service, ids[1]);
    const ended = () => service.log.events('StepCompleted').length;
    // Fewer spans in which nothing happens than until a claim comes in any case.
    for (let idle = 0, before = -1; ended() < 200 && idle < 100; before = ended()) {
      for (let n = 0; n < 10; n += 1) await service.store.ping();
      if (ended() > before) continue;
      idle += 1;
      // What rings while steps still count as quick finds no slot.
      vi.advanceTimersByTime(1000);
      await service.store.ping();
      service.clock.pass(250);
      vi.advanceTimersByTime(250);
    }
    expect(ended()).toBe(200);
  });

  it('leave no step of theirs forgotten that fell due while a claim was under way', async () => {
    const { handler, ends } = gate();
    const store = await openStore();
    let isHeld = false;
    const answers: (() => void)[] = [];
    const claimDue: FlowService['store']['claimDue'] = async (request) => {
      const batch = await store.claimDue(request);
      if (!isHeld) return batch;
      isHeld = false;
      await new Promise<void>((resolve) => answers.push(resolve));
      return batch;
    };
    const service = await openFlowService({ store: { ...store, claimDue }, own: [handler], concurrency: 8 });
    const id = ids[0] ?? '';
    await service.deploy(Object.fromEntries(Array.from({ length: 8 }, (_, n) => [`s${n}`, stepOf('Gate')])), { id });
    await service.runtime.start();
    await trigger(service, id);
    await until(() => ends.length === 7);
    await service.runtime.dispatcher.wake();
    await service.deploy({ late: stepOf('Gate') }, { id });
    isHeld = true;
    ends[0]?.();
    // The claim has taken the eighth step, and all slots but the one that is kept from this flow.
    await until(() => answers.length === 1);
    await trigger(service, id);
    answers[0]?.();
    await until(() => ends.length === 8);
    ends[1]?.();
    await until(() => ends.length === 9);
  });

  it('take no more than their part when they were quick before', async () => {
    const { handler, ends } = gate();
    const service = await openFlowService({ own: [handler], concurrency: 8 });
    for (const id of ids) await service.deploy({ a: stepOf('Gate') }, { id });
    await service.runtime.start();
    for (let n = 0; n < 8; n += 1) {
      await trigger(service, ids[0]);
      await until(() => ends.length > 0);
      ends.shift()?.();
      await until(() => service.log.events('RunCompleted').length === n + 1);
    }
    service.clock.pass(250);
    for (let n = 0; n < 20; n += 1) await trigger(service, ids[0]);
    await until(() => ends.length === 7);
    await trigger(service, ids[1]);
    await until(() => ends.length === 8);
    await service.store.ping();
    expect(service.log.events('StepStarted')).toHaveLength(8 + 8);
  });
});

describe('a concurrency in the manifest', () => {
  it('bounds the steps of the flow that run at once, and all of them run in the end', async () => {
    const { handler, ends } = gate();
    const service = await openStarted(
      { own: [handler] },
      { a: stepOf('Gate'), b: stepOf('Gate'), c: stepOf('Gate') },
      { concurrency: 2 },
    );
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
    const service = await openStarted(
      { own: [handler] },
      { a: stepOf('Gate', { concurrency: 1 }), b: stepOf('Gate'), free: stepOf('NoOp') },
    );
    const runId = await service.trigger();
    await until(() => ends.length === 1 && service.log.events('StepCompleted').length === 1);
    expect((await service.steps(runId)).free).toMatchObject({ status: 'Succeeded' });
    ends[0]?.();
    await until(() => ends.length === 2);
    ends[1]?.();
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
  });
});

describe('a slot that is left', () => {
  const openSlots = (concurrency: number) => {
    const clock = { monotonic: () => 0 };
    const slots = new Slots({ concurrency, clock }, () => {});
    const begun: string[] = [];
    const queue = (flowId: string, name: string) => {
      const slot = slots.queue(flowId);
      void slot.isReady?.then((isReady) => begun.push(isReady ? name : `${name} is sent away`));
      return slot;
    };
    return { slots, begun, queue, settled: () => new Promise(setImmediate) };
  };

  it('goes to the flow that runs the fewest steps, whoever came first and whoever had the last slot', async () => {
    const { begun, queue, settled } = openSlots(4);
    const running = [queue('busy', ''), queue('busy', ''), queue('busy', ''), queue('other', '')];
    for (const name of ['a', 'b', 'c']) queue('busy', name);
    queue('other', 'x');
    running[0]?.leave();
    await settled();
    expect(begun).toEqual(['x']);
    running[1]?.leave();
    await settled();
    expect(begun).toEqual(['x', 'a']);
  });

  it('goes among equals to the flow whose last slot is the longest ago, and in it to the step that came first', async () => {
    const { slots, begun, queue, settled } = openSlots(1);
    let running = slots.take('none');
    const queued = new Map(['a1', 'a2', 'a3', 'b1', 'b2', 'c1'].map((name) => [name, queue(name.charAt(0), name)]));
    for (let n = 0; n < queued.size; n += 1) {
      running.leave();
      await settled();
      running = queued.get(begun.at(-1) ?? '') ?? running;
    }
    expect(begun).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  });

  it('goes to a flow that stays queued before those that come and go', async () => {
    const { begun, queue, settled } = openSlots(1);
    const queued = new Map([['start', queue('a', 'start')]]);
    const come = (flowId: string, name: string) => queued.set(name, queue(flowId, name));
    come('stays', 's1');
    come('stays', 's2');
    come('b', 'b1');
    for (const [ended, flowId, next] of [
      ['start', 'a', 'a1'],
      ['s1', 'c', 'c1'],
      ['b1', 'b', 'b2'],
      ['a1', 'a', 'a2'],
    ] as const) {
      queued.get(ended)?.leave();
      await settled();
      come(flowId, next);
    }
    expect(begun).toEqual(['s1', 'b1', 'a1', 's2']);
  });

  it('goes to nobody who was sent away or has left', async () => {
    const { slots, begun, queue, settled } = openSlots(1);
    queue('a', '');
    queue('a', 'left').leave();
    queue('a', 'sent');
    const alone = slots.takeAll('b', 1000);
    await settled();
    expect(begun).toEqual(['left is sent away', 'sent is sent away']);
    queue('a', 'too early');
    await settled();
    alone.leave();
    queue('a', 'queued');
    slots.close();
    queue('a', 'too late');
    await settled();
    expect(begun.slice(2)).toEqual(['too early is sent away', 'queued is sent away', 'too late is sent away']);
  });

  it('goes to a claim before the queue, as far as it was reserved for the claim', async () => {
    const { slots, begun, queue, settled } = openSlots(2);
    const running = [queue('a', ''), queue('a', '')];
    running[0]?.leave();
    const claim = slots.reserveForClaim(1);
    expect(claim?.count).toBe(1);
    queue('b', 'queued');
    await settled();
    expect(begun).toEqual([]);
    claim?.release();
    await settled();
    expect(begun).toEqual(['queued']);
  });
});

describe('a step that runs alone', () => {
  it('has all slots until it has left, or until its time is over', () => {
    let free = 0;
    const slots = new Slots({ concurrency: 4, clock: { monotonic: () => 0 } }, () => (free += 1));
    for (const end of [(slot: { leave(): void }) => slot.leave(), () => vi.advanceTimersByTime(10_000)]) {
      const alone = slots.takeAll('a', 10_000);
      expect([slots.free, slots.leasable('b'), slots.reserveForClaim(1)]).toEqual([0, 0, undefined]);
      free = 0;
      vi.advanceTimersByTime(9_999);
      expect(slots.free).toBe(0);
      end(alone);
      expect(slots.free).toBeGreaterThanOrEqual(3);
      expect(free).toBe(1);
    }
  });

  it('keeps the next step alone when the one before says a second time that it has left', () => {
    const slots = new Slots({ concurrency: 4, clock: { monotonic: () => 0 } }, () => {});
    const first = slots.takeAll('a', 10_000);
    first.leave();
    slots.takeAll('b', 10_000);
    // The dispatcher does so: when the step has run, and again when its outcome is stored.
    first.leave();
    expect([slots.isAlone, slots.free, slots.reserveForClaim(1)]).toEqual([true, 0, undefined]);
  });
});

describe('while each slot is left four times a second', () => {
  const SPAN_MS = 250;

  function openQuick(count: number, concurrency = 4) {
    let passed = 0;
    const slots = new Slots({ concurrency, clock: { monotonic: () => passed } }, () => {});
    for (let n = 0; n < count; n += 1) slots.take('a').leave();
    passed += SPAN_MS;
    return slots;
  }

  it.each([
    [3, 4],
    [4, 4 + 16],
    [50, 4 + 200],
    [1000, 4 + 1000],
  ])('%i that were left let %i steps be leased: what would run in a second, and a thousand at most', (left, most) => {
    expect(openQuick(left).leasable('a')).toBe(most);
  });

  it('a quarter of the slots is kept for a claim that finds none, as they are left', () => {
    const slots = openQuick(50);
    const running = Array.from({ length: 4 }, () => slots.take('a'));
    slots.queue('a');
    expect(slots.reserveForClaim(1)).toBeUndefined();
    running[0]?.leave();
    expect(slots.reserveForClaim(1)?.count).toBe(1);
  });

  it('a claim takes none that is kept for idle flows, and no step of a busy flow begins in one', () => {
    const slots = openQuick(50, 8);
    const running = Array.from({ length: 7 }, () => slots.take('a'));
    expect(slots.reserveForClaim(1)).toBeUndefined();
    expect(slots.queue('a').isReady).toBeInstanceOf(Promise);
    running[0]?.leave();
    expect(slots.reserveForClaim(1)).toMatchObject({ count: 1, kept: 0 });
    expect(slots.queue('b').isReady).toBeUndefined();
  });

  function openHanging() {
    let passed = 0;
    let rung = 0;
    const slots = new Slots({ concurrency: 16, clock: { monotonic: () => passed } }, () => (rung += 1));
    for (let n = 0; n < 14; n += 1) slots.take('hangs');
    const pass = (ms: number) => {
      passed += ms;
      vi.advanceTimersByTime(ms);
    };
    const leaveMany = () => {
      for (let n = 0; n < 20; n += 1) slots.take('quick').leave();
    };
    return { slots, rung: () => rung, pass, leaveMany };
  }

  it('a claim takes slots that are kept for idle flows where all others hang', () => {
    const { slots, pass, leaveMany } = openHanging();
    leaveMany();
    pass(SPAN_MS);
    expect(slots.isQuick).toBe(true);
    expect(slots.reserveForClaim(1)).toMatchObject({ count: 2, kept: 2 });
  });

  it('a claim that found no slot is told when that time has passed', () => {
    const { slots, rung, pass } = openHanging();
    const last = Array.from({ length: 2 }, () => slots.take('quick'));
    for (let n = 0; n < 20; n += 1) slots.take('quick').leave();
    pass(SPAN_MS);
    expect(slots.isQuick).toBe(true);
    expect(slots.reserveForClaim(1)).toBeUndefined();
    for (const slot of last) slot.leave();
    const before = rung();
    pass(SPAN_MS);
    expect(rung()).toBe(before + 1);
    expect(slots.reserveForClaim(1)).toMatchObject({ count: 2, kept: 2 });
  });

  it('a claim that waits keeps no slot from idle flows which it would not get', async () => {
    const { slots, pass } = openHanging();
    const last = Array.from({ length: 2 }, (_, n) => slots.take(`quick ${n}`));
    for (let n = 0; n < 20; n += 1) slots.take('quick').leave();
    pass(SPAN_MS);
    expect(slots.reserveForClaim(1)).toBeUndefined();
    const queued = slots.queue('quick 0');
    last[0]?.leave();
    expect(await queued.isReady).toBe(true);
  });

  it('but no slot is kept for a claim from steps that are slow', () => {
    const slots = openQuick(3);
    const running = Array.from({ length: 4 }, () => slots.take('a'));
    const queued = slots.queue('a');
    expect(slots.reserveForClaim(1)).toBeUndefined();
    running[0]?.leave();
    expect(slots.reserveForClaim(1)).toBeUndefined();
    queued.leave();
    expect(slots.reserveForClaim(1)?.count).toBe(1);
  });
});
