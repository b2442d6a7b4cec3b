import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { openFlowService, openStore, stepOf } from './fixture.ts';

// The store's thread needs no timers, so these stand still while it works.
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** A replica with a run of a minute and a tick at each, and what it does to the store. Its clock is that of the database. */
async function openReplica() {
  const store = await openStore();
  const database = { behindMs: 0 };
  const called: string[] = [];
  const noted =
    <Given, Answer>(name: string, call: (given: Given) => Answer) =>
    (given: Given) => {
      called.push(name);
      return call(given);
    };
  const service = await openFlowService({
    store: {
      ...store,
      replica: 'one',
      claimDue: noted('claimDue', store.claimDue),
      claimOverdue: noted('claimOverdue', store.claimOverdue),
      fireSchedule: noted('fireSchedule', store.fireSchedule),
      changeSchedule: noted('changeSchedule', store.changeSchedule),
      beat: async ({ now }) => ({ at: now - database.behindMs, replicas: 2, died: [] }),
    },
  });
  const triggers = {
    manual: { type: 'manual', inputs: {} },
    minutely: { type: 'cron', inputs: { cronExpression: '* * * * *', timeZone: 'UTC' } },
  } as const;
  await service.deploy({ a: stepOf('NoOp') }, { triggers, timeoutSeconds: 60 });
  await service.runtime.start();
  const pass = async (ms: number) => {
    service.clock.pass(ms);
    await vi.advanceTimersByTimeAsync(ms);
  };
  return { ...service, database, called, pass };
}

describe('a replica whose clock is more than 5 s off that of the database', () => {
  test.each([
    ['ahead', 5001],
    ['behind', -5001],
  ])('and %s takes no step, ends no run and fires no tick, until it is right again', async (_how, behindMs) => {
    const { trigger, steps, ended, database, called, pass } = await openReplica();
    expect((await ended(await trigger())).status).toBe('Succeeded');
    database.behindMs = behindMs;
    await pass(5000);
    called.length = 0;
    const runId = await trigger();
    for (let beats = 0; beats < 24; beats += 1) await pass(5000);
    expect(await steps(runId)).toMatchObject({ a: { status: 'Pending' } });
    expect(called).toEqual([]);

    database.behindMs = 0;
    await pass(5000);
    await pass(1000);
    // Its time was up long ago.
    expect((await ended(runId)).status).toBe('TimedOut');
    expect(called).toContain('fireSchedule');
  });

  test('takes no step from the moment that its clock is set', async () => {
    const { trigger, steps, clock, ended, pass } = await openReplica();
    expect((await ended(await trigger())).status).toBe('Succeeded');
    clock.set(-40_000);
    const runId = await trigger();
    await pass(1000);
    expect(await steps(runId)).toMatchObject({ a: { status: 'Pending' } });
  });
});
