import { describe, expect, test, vi } from 'vitest';
import { schedulesStore } from '../../src/features/schedules/store.ts';
import type { HandlerResult } from '../../src/flows/handlers/handler.ts';
import { createServiceClock } from '../../src/model/clock.ts';
import type { Graph } from '../../src/model/manifest.ts';
import { withScheduler } from '../features/schedules/scheduled.ts';
import { withVerbs } from '../store/with-verbs.ts';
import { type FlowService, openFlowService, openStore, ownHandler, standingTimers, stepOf, until } from './fixture.ts';

standingTimers();

/**
 * A replica with a run that lasts a minute, a tick every minute, and its calls to the store. Its clock agrees with the
 * database's, and its release is the newest, unless the test changes that.
 */
async function openReplica(steps: Graph = { a: stepOf('NoOp') }) {
  const store = await openStore();
  const database: { behindMs: number; misfit?: string | undefined } = { behindMs: 0 };
  const ends: ((result: HandlerResult) => void)[] = [];
  const gate = ownHandler('Gate', () => new Promise<HandlerResult>((resolve) => ends.push(resolve)));
  const called: string[] = [];
  const noted =
    <Given, Answer>(name: string, call: (given: Given) => Answer) =>
    (given: Given) => {
      called.push(name);
      return call(given);
    };
  const { fireSchedule, changeSchedule } = store.of(schedulesStore);
  const opened: FlowService = await openFlowService({
    own: [gate],
    goesBy: createServiceClock,
    store: {
      ...withVerbs(store, schedulesStore, {
        fireSchedule: noted('fireSchedule', fireSchedule),
        changeSchedule: noted('changeSchedule', changeSchedule),
      }),
      replica: 'one',
      claimDue: noted('claimDue', store.claimDue),
      claimOverdue: noted('claimOverdue', store.claimOverdue),
      beat: async ({ ledgerAt }) => ({
        at: opened.clock.now() - database.behindMs,
        ledgerAt,
        replicas: 2,
        died: [],
        misfit: database.misfit,
      }),
    },
  });
  const service = withScheduler(opened);
  const triggers = {
    manual: { type: 'manual', inputs: {} },
    minutely: { type: 'cron', inputs: { cronExpression: '* * * * *', timeZone: 'UTC' } },
  } as const;
  await service.deploy(steps, { triggers, timeoutSeconds: 60 });
  await service.runtime.start();
  const pass = async (ms: number) => {
    service.clock.pass(ms);
    await vi.advanceTimersByTimeAsync(ms);
  };
  return { ...service, database, called, pass, ends };
}

describe('a replica whose clock is more than 5 s off that of the database', () => {
  test.each([
    ['ahead', 5001],
    ['behind', -5001],
  ])('and %s takes no step, ends no run and fires no tick, until it is right again', async (_how, behindMs) => {
    const { trigger, steps, ended, log, database, called, pass } = await openReplica();
    expect((await ended(await trigger())).status).toBe('Succeeded');
    database.behindMs = behindMs;
    await pass(5000);
    await until(() => log.lines.some(({ msg }) => String(msg).includes('the clock of this machine is wrong')));
    called.length = 0;
    const runId = await trigger();
    for (let beats = 0; beats < 24; beats += 1) await pass(5000);
    expect(await steps(runId)).toMatchObject({ a: { status: 'Pending' } });
    expect(called).toEqual([]);

    database.behindMs = 0;
    await pass(5000);
    await pass(1000);
    // Its time limit passed long ago.
    expect((await ended(runId)).status).toBe('TimedOut');
    await until(() => called.includes('fireSchedule'));
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

describe('a replica whose database a newer release has changed', () => {
  test('takes no step, ends no run and fires no tick, but stores what it runs, and says so', async () => {
    const graph = { a: stepOf('Gate'), b: stepOf('NoOp', { runAfter: { a: { statuses: ['Succeeded'] } } }) };
    const { trigger, steps, ended, log, database, called, pass, ends } = await openReplica(graph);
    const running = await trigger();
    await until(() => ends.length === 1);
    database.misfit = 'it has schema version 9';
    await pass(5000);
    await until(() => log.lines.some(({ msg }) => String(msg).includes('takes no steps')));
    called.length = 0;
    const waiting = await trigger();
    await pass(5000);
    ends[0]?.({ kind: 'succeeded', output: null });
    await until(() => log.events('StepCompleted').length === 1);
    for (let beats = 0; beats < 24; beats += 1) await pass(5000);
    expect(await steps(running)).toMatchObject({ a: { status: 'Succeeded' }, b: { status: 'Pending' } });
    expect(await steps(waiting)).toMatchObject({ a: { status: 'Pending', attemptCount: 0 } });
    expect(called).toEqual([]);
    expect(log.lines.filter(({ msg }) => String(msg).includes('takes no steps'))).toMatchObject([{ level: 50 }]);

    // The database was restored.
    database.misfit = undefined;
    await pass(5000);
    for (const runId of [running, waiting]) expect((await ended(runId)).status).toBe('TimedOut');
    expect(log.lines.some(({ msg }) => String(msg).includes('works with its database again'))).toBe(true);
    await pass(1000);
    await until(() => called.includes('fireSchedule'));
  });
});
