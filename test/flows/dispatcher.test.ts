import { describe, expect, it, vi } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { createServiceClock } from '../../src/model/clock.ts';
import type { Store } from '../../src/store/store.ts';
import { isOnPostgres } from '../database.ts';
import {
  DONE,
  gate,
  openFlowService,
  openStarted,
  openStore,
  ownHandler,
  START,
  standingTimers,
  stepOf,
  until,
} from './fixture.ts';
import { graphOf } from './graphs.ts';

standingTimers();

/** The store with some members replaced. */
function altered(store: Store, change: Partial<Store>): Store {
  return { ...store, ...change };
}

function wide(count: number) {
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [`s${index}`, stepOf('Gate')]));
}

describe('claiming', () => {
  it('runs no more steps at once than it may, and all in the end', async () => {
    const { handler, waiting } = gate();
    const store = await openStore();
    const limits: number[] = [];
    let calls = 0;
    const watched = altered(store, {
      claimDue: async (request) => {
        limits.push(request.limit);
        calls += 1;
        expect(calls).toBe(1);
        const batch = await store.claimDue(request);
        calls -= 1;
        return batch;
      },
    });
    const service = await openStarted({ store: watched, own: [handler], concurrency: 3 }, wide(8));
    const runId = await service.trigger();
    for (let ended = 0; ended < 8; ended += 1) {
      const running = Math.min(3, 8 - ended);
      await until(() => waiting.length === running);
      expect(service.log.events('StepStarted').length - ended).toBe(running);
      waiting.shift()?.end();
    }
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect(Math.max(...limits)).toBe(3);
  });

  it('asks nothing of the store while there is nothing to do', async () => {
    const store = await openStore();
    const claimDue = vi.fn(store.claimDue);
    const service = await openStarted({ store: altered(store, { claimDue }) }, graphOf({ a: [] }));
    await service.ended(await service.trigger());
    const calls = claimDue.mock.calls.length;
    await service.store.ping();
    expect(claimDue.mock.calls.length).toBe(calls);
    expect(vi.getTimerCount()).toBeGreaterThan(0);
  });

  it('looks at least once a minute for steps that it was not told of', async () => {
    const { handler, waiting } = gate();
    const service = await openStarted({ own: [handler] }, wide(1));
    await service.store.ping();
    const elsewhere = '0b7c9d10-0000-4000-8000-0000000000e1';
    const flow = service.catalog.list()[0];
    if (flow === undefined) throw new Error('the flow is not deployed');
    const run = service.runtime.engine.planRun({
      runId: elsewhere,
      flow,
      triggerType: 'manual',
      trigger: { key: 'manual', body: Buffer.alloc(0), contentType: null, headers: {} },
      deliveryId: null,
      sourceRunId: null,
      traceparent: null,
      at: service.clock.now(),
    });
    await service.store.accept({ run });
    service.clock.pass(60_000);
    vi.advanceTimersByTime(60_000);
    await until(() => waiting.length === 1);
    waiting[0]?.end();
    await service.ended(elsewhere);
  });

  it('tries a failed step again when it is due, and not before', async () => {
    let tries = 0;
    const handler = ownHandler('Flaky', () => {
      tries += 1;
      return tries < 3 ? { kind: 'failed', code: 'down', message: 'is down', retryable: true } : DONE;
    });
    const service = await openFlowService({ own: [handler] });
    const retry = { maxAttempts: 3, backoffSeconds: 30, factor: 2, maxBackoffSeconds: 300, jitter: false };
    await service.deploy({ a: stepOf('Flaky', { retry }) });
    await service.runtime.start();
    const runId = await service.trigger();
    for (const [failures, waitMs] of [
      [1, 30_000],
      [2, 60_000],
    ] as const) {
      await until(() => service.log.events('StepFailed').length === failures);
      service.clock.pass(waitMs - 1);
      service.runtime.dispatcher.nudge();
      await service.store.ping();
      expect(tries).toBe(failures);
      service.clock.pass(1);
      vi.advanceTimersByTime(waitMs);
    }
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect((await service.steps(runId)).a).toMatchObject({ attemptCount: 3, error: null });
    expect(service.log.events('StepFailed')[0]).toHaveProperty('nextAttemptAt');
  });

  it('starts no step of a run whose time is up, though both fell due at once', async () => {
    let tries = 0;
    const handler = ownHandler('Flaky', () => {
      tries += 1;
      return { kind: 'failed', code: 'down', message: 'is down', retryable: true };
    });
    const service = await openFlowService({ own: [handler] });
    const retry = { maxAttempts: 3, backoffSeconds: 30, factor: 1, maxBackoffSeconds: 30, jitter: false };
    await service.deploy({ a: stepOf('Flaky', { retry }) }, { timeoutSeconds: 30 });
    await service.runtime.start();
    const runId = await service.trigger();
    await until(() => service.log.events('StepFailed').length === 1);
    service.clock.pass(30_000);
    service.runtime.dispatcher.nudge();
    expect(await service.ended(runId)).toMatchObject({ status: 'TimedOut' });
    expect(tries).toBe(1);
  });

  it('goes on when the store is back, and does not press it until then', async () => {
    const store = await openStore();
    let isDown = true;
    const claimDue = vi.fn<Store['claimDue']>((request) =>
      isDown ? Promise.reject(new StoreUnavailableError('the disk is full')) : store.claimDue(request),
    );
    const service = await openStarted({ store: altered(store, { claimDue }) }, graphOf({ a: ['b'], b: [] }));
    await until(() => service.log.lines.length > 0);
    const runId = await service.trigger();
    service.runtime.dispatcher.nudge();
    await service.store.ping();
    expect(claimDue).toHaveBeenCalledTimes(1);
    for (let failures = 2; failures < 12; failures += 1) {
      service.clock.pass(10_000);
      vi.advanceTimersByTime(10_000);
      await until(() => claimDue.mock.calls.length === failures);
      await service.store.ping();
    }
    isDown = false;
    service.clock.pass(10_000);
    vi.advanceTimersByTime(10_000);
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
  });
});

describe('leases', () => {
  it('of all running steps are extended in one call every ten seconds', async () => {
    const { handler, waiting } = gate();
    const store = await openStore();
    const renewLeases = vi.fn(store.renewLeases);
    const service = await openStarted({ store: altered(store, { renewLeases }), own: [handler] }, wide(3));
    const runId = await service.trigger();
    await until(() => waiting.length === 3);
    for (let renewals = 1; renewals <= 5; renewals += 1) {
      service.clock.pass(10_000);
      vi.advanceTimersByTime(10_000);
      await until(
        () =>
          renewLeases.mock.settledResults.length === renewals &&
          renewLeases.mock.settledResults[renewals - 1]?.type === 'fulfilled',
      );
      expect(renewLeases.mock.calls[renewals - 1]?.[0]).toMatchObject({ leasedUntil: service.clock.now() + 30_000 });
      expect(renewLeases.mock.calls[renewals - 1]?.[0].tokens).toHaveLength(3);
    }
    expect(
      await store.claimDue({ owner: 'me', now: service.clock.now(), leasedUntil: service.clock.now() + 1, limit: 9 }),
    ).toMatchObject({ claims: [] });
    for (const { end } of waiting) end();
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect(await service.steps(runId)).toMatchObject({ s0: { attemptCount: 1 }, s1: { attemptCount: 1 } });
  });

  it('that were lost abort their step, and its outcome is dropped', async () => {
    const { handler, waiting } = gate();
    const service = await openStarted({ own: [handler] }, wide(1));
    const runId = await service.trigger();
    await until(() => waiting.length === 1);
    // If the step was leased without a claim, its attempt has been written by now.
    for (let turns = 0; turns < 2; turns += 1) vi.advanceTimersByTime(20);
    await service.store.ping();
    const later = service.clock.now() + 31_000;
    const { claims } = await service.store.claimDue({ owner: 'me', now: later, leasedUntil: later + 30_000, limit: 1 });
    expect(claims).toMatchObject([{ attempt: 2, interruptions: 1 }]);
    vi.advanceTimersByTime(10_000);
    await until(() => waiting[0]?.context.signal.aborted === true);
    await until(() => service.log.lines.some(({ level, runId: id }) => level === 50 && id === runId));
    waiting[0]?.end();
    await service.store.ping();
    expect((await service.steps(runId)).s0).toMatchObject({ status: 'Running', attemptCount: 2, output: null });
    expect(service.log.events('StepCompleted')).toEqual([]);
  });

  it('that lapsed while the process stood still are extended before anything is claimed', async () => {
    const { handler, waiting } = gate();
    const service = await openStarted({ own: [handler] }, wide(1));
    const runId = await service.trigger();
    await until(() => waiting.length === 1);
    service.clock.pass(100_000);
    service.runtime.dispatcher.nudge();
    await service.store.ping();
    await service.store.ping();
    expect(waiting).toHaveLength(1);
    waiting[0]?.end();
    await service.ended(runId);
    expect((await service.steps(runId)).s0).toMatchObject({ status: 'Succeeded', attemptCount: 1 });
  });
});

describe('a clock that is set', () => {
  const DAYS_MS = 3 * 86_400_000;

  // On PostgreSQL the service follows the database's clock, which no machine sets.
  it.skipIf(isOnPostgres())('back keeps nothing waiting for a suspect that runs alone', async () => {
    const { handler, waiting } = gate();
    const service = await openFlowService({ own: [handler], goesBy: createServiceClock });
    const untilRunning = async (count: number) => {
      while (waiting.length < count) {
        service.clock.pass(1000);
        await vi.advanceTimersByTimeAsync(1000);
        for (let turns = 0; turns < 3; turns += 1) await service.store.ping();
      }
    };
    await service.deploy(wide(2));
    await service.trigger();
    for (let deaths = 0; deaths < 2; deaths += 1) {
      await service.store.claimDue({ owner: 'me', now: START, leasedUntil: START + 30_000, limit: 1 });
      await service.store.recover({ owner: 'me', now: START });
    }
    service.clock.set(DAYS_MS);
    await service.runtime.start();
    await untilRunning(1);
    service.clock.set(-DAYS_MS);
    await service.store.ping();
    expect(waiting).toHaveLength(1);
    await untilRunning(2);
  });

  it('back does not keep a step whose outcome was given up until the false time', async () => {
    const store = await openStore();
    let runs = 0;
    const handler = ownHandler('Count', () => {
      runs += 1;
      return DONE;
    });
    const service = await openFlowService({
      own: [handler],
      store: altered(store, {
        advance: (outcome) =>
          runs === 1 ? Promise.reject(new StoreUnavailableError('no such revision')) : store.advance(outcome),
      }),
    });
    const pass = async () => {
      service.clock.pass(200);
      vi.advanceTimersByTime(200);
      await store.ping();
      await store.ping();
    };
    // With a limit the step is claimed, which writes its attempt before it runs.
    await service.deploy({ a: stepOf('Count') }, { concurrency: 1 });
    service.clock.set(DAYS_MS);
    await service.runtime.start();
    const runId = await service.trigger();
    while (!service.log.lines.some(({ msg }) => String(msg).includes('could not be stored; the step will run again')))
      await pass();
    service.clock.set(-DAYS_MS);
    // Two minutes: until the lease is checked, until it has expired, and until the step is found.
    for (let passed = 0; passed < 120_000; passed += 200) await pass();
    expect((await service.steps(runId)).a).toMatchObject({ status: 'Succeeded', attemptCount: 2 });
  });

  it('ahead while leases are extended does not have a step run twice', async () => {
    const { handler, waiting } = gate();
    const store = await openStore();
    let aheadMs = 100_000;
    const service = await openStarted(
      {
        own: [handler],
        store: altered(store, {
          renewLeases: async (renewal) => {
            const lost = await store.renewLeases(renewal);
            service.clock.set(aheadMs);
            aheadMs = 0;
            return lost;
          },
        }),
      },
      wide(1),
    );
    const runId = await service.trigger();
    await until(() => waiting.length === 1);
    service.clock.set(100_000);
    service.runtime.dispatcher.nudge();
    await service.store.ping();
    await service.store.ping();
    expect(waiting).toHaveLength(1);
    waiting[0]?.end();
    await service.ended(runId);
    expect((await service.steps(runId)).s0).toMatchObject({ status: 'Succeeded', attemptCount: 1 });
  });
});

describe('an outcome', () => {
  const counting = () => {
    let runs = 0;
    const handler = ownHandler('Count', () => ({ ...DONE, output: ++runs }));
    return { handler, runs: () => runs };
  };

  it('outlasts an outage of the store that is longer than its lease, and its step is not run twice', async () => {
    const store = await openStore();
    const { handler, runs } = counting();
    let isDown = true;
    const down = () => Promise.reject(new StoreUnavailableError('the disk is full'));
    const advance = vi.fn<Store['advance']>((outcome) => (isDown ? down() : store.advance(outcome)));
    const service = await openStarted(
      {
        own: [handler],
        store: altered(store, {
          advance,
          claimDue: (request) => (isDown && advance.mock.calls.length > 0 ? down() : store.claimDue(request)),
          renewLeases: (renewal) => (isDown ? down() : store.renewLeases(renewal)),
          ping: () => (isDown ? down() : store.ping()),
        }),
      },
      { a: stepOf('Count') },
    );
    const runId = await service.trigger();
    for (let tries = 1; tries < 20; tries += 1) {
      await until(() => advance.mock.calls.length === tries);
      await store.ping();
      service.clock.pass(5_000);
      vi.advanceTimersByTime(5_000);
    }
    isDown = false;
    while (service.log.events('RunCompleted').length === 0) {
      service.clock.pass(100);
      vi.advanceTimersByTime(100);
      await store.ping();
    }
    expect(runs()).toBe(1);
    expect((await service.steps(runId)).a).toMatchObject({ status: 'Succeeded', output: 1, attemptCount: 1 });
  });

  it('that a working store refuses is given up after a lease, said so, and its step is run again', async () => {
    const store = await openStore();
    const { handler, runs } = counting();
    const service = await openFlowService({
      own: [handler],
      store: altered(store, {
        advance: (outcome) =>
          runs() === 1 ? Promise.reject(new StoreUnavailableError('no such revision')) : store.advance(outcome),
      }),
    });
    // With a limit the step is claimed, which writes its attempt before it runs.
    await service.deploy({ a: stepOf('Count') }, { concurrency: 1 });
    await service.runtime.start();
    const runId = await service.trigger();
    while (service.log.events('RunCompleted').length === 0) {
      service.clock.pass(200);
      vi.advanceTimersByTime(200);
      // Time advances only as fast as the store answers, so that no lease expires because the test ran ahead.
      await store.ping();
      await store.ping();
    }
    expect((await service.steps(runId)).a).toMatchObject({ status: 'Succeeded', output: 2, attemptCount: 2 });
    expect(
      service.log.lines.some(({ msg }) => String(msg).includes('could not be stored; the step will run again')),
    ).toBe(true);
  });
});
