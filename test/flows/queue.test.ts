import { describe, expect, it, vi } from 'vitest';
import type { HandlerResult } from '../../src/flows/handlers/handler.ts';
import type { Store } from '../../src/store/store.ts';
import {
  type FlowService,
  openStarted,
  openStore,
  ownHandler,
  START,
  standingTimers,
  stepOf,
  until,
} from './fixture.ts';

standingTimers();

const SPAN_MS = 250;

/** A runtime of two slots whose steps end at once, until `setQuick(false)`. */
async function openQuick() {
  const real = await openStore();
  const calls: string[] = [];
  const claimDue: Store['claimDue'] = (request) => {
    calls.push('claimDue');
    return real.claimDue(request);
  };
  const returnLeases: Store['returnLeases'] = (given) => {
    calls.push('returnLeases');
    return real.returnLeases(given);
  };
  const ends: (() => void)[] = [];
  const begun: string[] = [];
  let isQuick = true;
  let running = 0;
  const handler = ownHandler('Own', async ({ runId }): Promise<HandlerResult> => {
    begun.push(runId);
    running += 1;
    if (!isQuick) await new Promise<void>((resolve) => ends.push(resolve));
    running -= 1;
    return { kind: 'succeeded', output: null };
  });
  const store = { ...real, claimDue, returnLeases };
  const service = await openStarted({ store, own: [handler], concurrency: 2 }, { only: stepOf('Own') });
  await until(() => calls.length === 1);
  await real.ping();
  const setQuick = (is: boolean) => {
    isQuick = is;
  };
  return { ...service, calls, ends, begun, running: () => running, setQuick };
}

const triggerMany = (service: FlowService, count: number) =>
  Promise.all(Array.from({ length: count }, () => service.trigger()));

/** Runs four steps in sequence, so that in each of the next spans as many are expected to leave their slots. */
async function runFour(service: FlowService): Promise<void> {
  for (let n = 0; n < 4; n += 1) await service.ended(await service.trigger());
  service.clock.pass(SPAN_MS);
}

/** Two running steps, and one more in the queue than would leave their slots in a second. */
async function openFull() {
  const service = await openQuick();
  await runFour(service);
  service.calls.length = 0;
  service.setQuick(false);
  const runs = await triggerMany(service, 2 + 4 * 4 + 1);
  await until(() => service.ends.length === 2);
  return { ...service, runs };
}

/** Ends so many steps, each as soon as it runs. */
async function endMany({ ends }: { ends: (() => void)[] }, count: number): Promise<void> {
  for (let ended = 0; ended < count; ended += 1) {
    await until(() => ends.length > 0);
    ends.shift()?.();
  }
}

describe('while slots are left quickly', () => {
  it('more steps than there are slots need no claim, and begin in their turn', async () => {
    const service = await openQuick();
    await runFour(service);
    service.calls.length = 0;
    service.setQuick(false);
    const runs = await triggerMany(service, 6);
    for (let left = 6; left > 0; left -= 1) {
      await until(() => service.ends.length === Math.min(2, left));
      await service.store.ping();
      expect(service.running()).toBe(Math.min(2, left));
      service.ends.shift()?.();
    }
    for (const runId of runs) expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect(service.calls).toEqual([]);
  });

  it('no more are leased than slots would be left in a second', async () => {
    const { runs, ...service } = await openFull();
    const steps = await Promise.all(runs.map(async (runId) => (await service.steps(runId)).only));
    expect(steps.filter((step) => step?.status === 'Pending')).toHaveLength(1);
    service.setQuick(true);
    for (const end of service.ends) end();
    for (const runId of runs) expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect(service.calls).toContain('claimDue');
  });

  it('a quarter of a second in which no slot was left counts for nothing', async () => {
    const service = await openQuick();
    await runFour(service);
    service.clock.pass(SPAN_MS);
    service.calls.length = 0;
    for (const runId of await triggerMany(service, 3)) await service.ended(runId);
    expect(service.calls).toContain('claimDue');
  });
});

describe('while slots are left quickly and a claim is due', () => {
  /** Holds a claim until `answer`. If `leftMs` is given, an earlier one left due steps, the oldest this late. */
  async function openWithClaim({ leftMs }: { leftMs: number | undefined }) {
    const service = await openQuick();
    await runFour(service);
    const { claimDue, accept } = service.store;
    let answer: (() => void) | undefined;
    let isLeft = leftMs !== undefined;
    service.store.claimDue = async (request) => {
      const batch = await claimDue(request);
      if (isLeft) {
        isLeft = false;
        return { ...batch, nextDueAt: request.now - (leftMs ?? 0) };
      }
      if (answer === undefined) await new Promise<void>((resolve) => (answer = resolve));
      return batch;
    };
    // Not leased as it becomes due: its flow has a limit until the run is stored.
    await service.deploy({ only: stepOf('Own') }, { concurrency: 9 });
    service.store.accept = async (acceptance, lease) => {
      service.store.accept = accept;
      const result = await accept(acceptance, lease);
      await service.deploy({ only: stepOf('Own') });
      return result;
    };
    service.calls.length = 0;
    const claimed = await service.trigger();
    await until(() => answer !== undefined);
    return { ...service, claimed, answer: () => answer?.() };
  }

  it.each([undefined, 249])('a new run needs none', async (leftMs) => {
    const service = await openWithClaim({ leftMs });
    const leased = await service.trigger();
    expect(await service.steps(leased)).toMatchObject({ only: { status: 'Running' } });
    service.answer();
    for (const runId of [service.claimed, leased])
      expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
  });

  it('a new run goes before none that has been due for a quarter of a second', async () => {
    const service = await openWithClaim({ leftMs: 250 });
    const late = await service.trigger();
    expect(await service.steps(late)).toMatchObject({ only: { status: 'Pending' } });
    service.answer();
    expect(await service.ended(late)).toMatchObject({ status: 'Succeeded' });
  });

  it('the claim gets a slot, though more steps are queued than would run in a second', async () => {
    const { runs, ...service } = await openFull();
    expect(service.calls).toEqual([]);
    service.ends.shift()?.();
    await until(() => service.calls.includes('claimDue'));
    service.setQuick(true);
    for (const end of service.ends) end();
    for (const runId of runs) expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    // Steps of a claimed run come after steps leased before.
    expect(service.begun.slice(4).at(-1)).toBe(runs.at(-1));
  });
});

describe('a queued step', () => {
  async function openQueued() {
    const service = await openQuick();
    await runFour(service);
    service.calls.length = 0;
    service.setQuick(false);
    const runs = await triggerMany(service, 4);
    await until(() => service.ends.length === 2);
    await service.store.ping();
    const states = async () => (await Promise.all(runs.map((runId) => service.steps(runId)))).map(({ only }) => only);
    return { ...service, runs, states };
  }

  it('that no slot comes for is due again, without an attempt, and runs when one comes', async () => {
    const service = await openQueued();
    vi.advanceTimersByTime(SPAN_MS);
    await until(() => service.calls.includes('returnLeases'));
    await service.store.ping();
    expect((await service.states()).map((step) => step?.status).sort()).toEqual([
      'Pending',
      'Pending',
      'Running',
      'Running',
    ]);
    await endMany(service, 4);
    for (const runId of service.runs) expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    for (const step of await service.states())
      expect(step?.attempts).toMatchObject([{ attempt: 1, status: 'Succeeded' }]);
  });

  it('begins when it gets its slot, and not when it was leased, and tells how long it waited', async () => {
    const service = await openQueued();
    service.clock.pass(100);
    await endMany(service, 4);
    for (const runId of service.runs) await service.ended(runId);
    const steps = await service.states();
    const begun = steps.map((step) => (step?.startedAt ?? 0) - START - SPAN_MS);
    expect(begun.sort((one, other) => one - other)).toEqual([0, 0, 100, 100]);
    const waits = steps.map((step) => step?.attempts[0]?.slotWaitMs ?? 0);
    expect(waits.sort((one, other) => one - other)).toEqual([0, 0, 100, 100]);
  });

  it('does not begin when its lease has run out meanwhile, and is due again', async () => {
    const service = await openQueued();
    service.clock.pass(30_000);
    service.ends.shift()?.();
    await until(() => service.calls.includes('returnLeases'));
    expect(service.begun.slice(-2)).toEqual(service.runs.filter((runId) => service.begun.includes(runId)));
    await until(() => service.calls.includes('claimDue'));
    service.setQuick(true);
    for (let left = 3; left > 0; left -= 1) {
      for (const end of service.ends.splice(0)) end();
      await service.store.ping();
    }
    for (const runId of service.runs) expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
  });

  it('of a flow that a deploy limits meanwhile keeps to the limit', async () => {
    const service = await openQueued();
    await service.deploy({ only: stepOf('Own') }, { concurrency: 1 });
    service.ends.shift()?.();
    await until(() => service.calls.includes('claimDue'));
    await service.store.ping();
    expect(service.running()).toBe(1);
    await endMany(service, 3);
    for (const runId of service.runs) expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
  });

  it('does not begin when its run was cancelled meanwhile', async () => {
    const service = await openQueued();
    const runId = service.runs.find((id) => !service.begun.includes(id)) ?? '';
    expect(await service.runtime.control.cancel(runId, null)).toMatchObject({ kind: 'accepted' });
    await endMany(service, 3);
    expect(await service.ended(runId)).toMatchObject({ status: 'Cancelled' });
    expect(service.begun).not.toContain(runId);
  });

  it('is given back when the process stops, and does not begin any more', async () => {
    const service = await openQueued();
    const stopped = service.runtime.stop(60_000);
    await until(() => service.calls.includes('returnLeases'));
    for (const end of service.ends) end();
    await stopped;
    expect(service.running()).toBe(0);
    const steps = await service.states();
    expect(steps.map((step) => [step?.status, step?.attempts.length]).sort()).toEqual([
      ['Pending', 0],
      ['Pending', 0],
      ['Succeeded', 1],
      ['Succeeded', 1],
    ]);
  });

  it('that is given back has been due since it was leased', async () => {
    const service = await openQueued();
    service.clock.pass(200);
    vi.advanceTimersByTime(SPAN_MS);
    await until(() => service.calls.includes('returnLeases'));
    await service.store.ping();
    service.clock.pass(1000);
    await endMany(service, 4);
    for (const runId of service.runs) await service.ended(runId);
    const waits = (await service.states()).map((step) => step?.attempts[0]?.slotWaitMs ?? 0);
    expect(waits.sort((one, other) => one - other)).toEqual([0, 0, 1200, 1200]);
  });

  it('is given back as soon as the store takes it, and keeps no slot meanwhile', async () => {
    const service = await openQueued();
    const { returnLeases } = service.store;
    let tries = 0;
    service.store.returnLeases = () => {
      tries += 1;
      return Promise.reject(new Error('the disk is full'));
    };
    vi.advanceTimersByTime(SPAN_MS);
    await until(() => service.log.lines.some(({ msg }) => String(msg).includes('could not be released')));
    expect((await service.states()).map((step) => step?.status)).toEqual(Array(4).fill('Running'));
    for (const end of service.ends.splice(0)) end();
    const other = await service.trigger();
    await until(() => service.ends.length === 1);
    expect(service.begun.at(-1)).toBe(other);
    expect(tries).toBe(1);
    service.store.returnLeases = returnLeases;
    vi.advanceTimersByTime(1000);
    await endMany(service, 3);
    for (const runId of service.runs) expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
  });

  it('is given up where the store fails to take it back for as long as a lease lasts', async () => {
    const service = await openQueued();
    let tries = 0;
    service.store.returnLeases = () => {
      tries += 1;
      return Promise.reject(new Error('the disk is full'));
    };
    vi.advanceTimersByTime(SPAN_MS);
    const said = () => service.log.lines.filter(({ msg }) => String(msg).includes('could not be released')).length;
    await until(() => said() === 1);
    vi.advanceTimersByTime(1000);
    await until(() => said() === 2);
    service.clock.pass(30_000);
    vi.advanceTimersByTime(1000);
    await service.store.ping();
    vi.advanceTimersByTime(1000);
    await service.store.ping();
    expect(tries).toBe(2);
    for (const end of service.ends) end();
  });
});

describe('a claim under way', () => {
  it('keeps its slots from steps that are leased as they become due', async () => {
    const service = await openQuick();
    await runFour(service);
    await service.deploy({ only: stepOf('Own') }, { concurrency: 9 });
    service.setQuick(false);
    let answer = () => {};
    const { claimDue } = service.store;
    service.store.claimDue = async (request) => {
      const batch = await claimDue(request);
      if (batch.claims.length > 0) await new Promise<void>((resolve) => (answer = resolve));
      return batch;
    };
    service.calls.length = 0;
    const [limited] = await triggerMany(service, 1);
    await until(() => service.calls.includes('claimDue'));
    await service.store.ping();
    await service.deploy({ only: stepOf('Own') });
    const others = await triggerMany(service, 3);
    await until(() => service.ends.length > 0);
    await service.store.ping();
    answer();
    await until(() => service.begun.includes(limited ?? ''));
    await service.store.ping();
    expect(service.running()).toBe(2);
    await endMany(service, 4);
    for (const runId of [limited ?? '', ...others])
      expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
  });
});
