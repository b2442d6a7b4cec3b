import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import type { Graph } from '../../src/model/manifest.ts';
import type { Store } from '../../src/store/store.ts';
import { cel, openStarted, openStore, ownHandler, stepOf } from './fixture.ts';

const WRITES = ['claimDue', 'advance'] as const;
const retry = { maxAttempts: 2, backoffSeconds: 1, factor: 1, maxBackoffSeconds: 1, jitter: false };

const steps: Graph = {
  a: stepOf('NoOp'),
  each: stepOf('ForEach', {
    forEach: [1, 2],
    concurrencyLimit: 2,
    steps: { child: stepOf('Transform', { inputs: { value: cel('loop.item') } }) },
    runAfter: { a: { statuses: ['Succeeded'] } },
  }),
  flaky: stepOf('Flaky', { retry, runAfter: { a: { statuses: ['Succeeded'], when: 'true' } } }),
  pause: stepOf('Delay', { inputs: { seconds: 5 }, runAfter: { each: { statuses: ['Succeeded'] } } }),
  no: stepOf('NoOp', { runAfter: { flaky: { statuses: ['Succeeded'], when: 'false' } } }),
};

/** Fails the n-th write: before it is done, or after it, so that only its answer is lost. */
function failing(store: Store, n: number, isDone: boolean): { store: Store; hasFailed: () => boolean } {
  let calls = 0;
  const fail =
    (write: (...args: never[]) => Promise<unknown>) =>
    async (...args: never[]) => {
      calls += 1;
      if (calls !== n) return write(...args);
      if (isDone) await write(...args);
      throw new StoreUnavailableError('the disk is full');
    };
  const members = Object.fromEntries(WRITES.map((name) => [name, fail(store[name])]));
  return { store: { ...store, ...members }, hasFailed: () => calls >= n };
}

async function run(n: number, isDone: boolean) {
  const flaky = ownHandler('Flaky', ({ attempt }) =>
    attempt === 1
      ? { kind: 'failed', code: 'down', message: 'down', retryable: true }
      : { kind: 'succeeded', output: null },
  );
  const real = await openStore();
  const { store, hasFailed } = failing(real, n, isDone);
  const service = await openStarted({ store, own: [flaky], random: () => 0 }, steps);
  const runId = await service.trigger();
  for (;;) {
    const found = await real.findRun(runId);
    if (found?.status !== 'Running') break;
    // A lease that an outage left expires in time.
    service.clock.pass(500);
    service.runtime.dispatcher.nudge();
    await setImmediate();
  }
  await service.runtime.stop(0);
  return { status: (await real.findRun(runId))?.status, steps: await service.steps(runId), hasFailed: hasFailed() };
}

describe('a run ends as it would, whichever write of the store fails', () => {
  it.each([
    ['before it is done', false],
    ['after it is done', true],
  ])('%s', async (_when, isDone) => {
    let n = 1;
    for (let isReached = true; isReached; n += 1) {
      const { status, steps: ended, hasFailed } = await run(n, isDone);
      isReached = hasFailed && n < 60;
      expect(status, `write ${n}`).toBe('Succeeded');
      expect(Object.fromEntries(Object.values(ended).map((step) => [step.stepKey, step.status])), `write ${n}`).toEqual(
        {
          a: 'Succeeded',
          each: 'Succeeded',
          'each.0.child': 'Succeeded',
          'each.1.child': 'Succeeded',
          flaky: 'Succeeded',
          pause: 'Succeeded',
          no: 'Skipped',
        },
      );
      expect(ended.each?.output).toEqual([1, 2]);
      for (const { attempts, attemptCount, status: end } of Object.values(ended)) {
        expect(attempts).toHaveLength(attemptCount);
        expect(attempts.filter((attempt) => attempt.status === 'Succeeded')).toHaveLength(end === 'Skipped' ? 0 : 1);
        for (const { completedAt } of attempts) expect(completedAt).not.toBeNull();
      }
    }
    expect(n).toBeGreaterThan(12);
  });
});
