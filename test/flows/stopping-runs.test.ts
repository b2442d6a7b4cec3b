import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineHandler, type StepContext } from '../../src/flows/handlers/handler.ts';
import { openFlowService, openStarted, ownHandler, START, stepOf, until } from './fixture.ts';

const behind = (key: string) => ({ runAfter: { [key]: { statuses: ['Succeeded'] as const } } });

/** A handler that only its signal ends. */
function stubborn() {
  const contexts: StepContext[] = [];
  const handler = ownHandler('Stubborn', (context) => {
    contexts.push(context);
    return new Promise<never>(() => {});
  });
  return { handler, contexts };
}

describe('a run that is cancelled', () => {
  it('aborts the step that runs, and starts nothing more', async () => {
    const { handler, contexts } = stubborn();
    const service = await openStarted(
      { own: [handler] },
      {
        a: stepOf('Stubborn'),
        b: stepOf('NoOp', behind('a')),
        c: stepOf('Delay', { inputs: { seconds: 9 } }),
      },
    );
    const runId = await service.trigger();
    await until(() => contexts.length === 1);
    const result = await service.runtime.control.cancel(runId, 'no longer wanted');
    expect(result).toMatchObject({ kind: 'accepted', run: { completedAt: null } });
    expect(await service.ended(runId)).toMatchObject({ status: 'Cancelled', cancelReason: 'no longer wanted' });
    expect(contexts[0]?.signal.aborted).toBe(true);
    const { a, b, c } = await service.steps(runId);
    expect(a).toMatchObject({ status: 'Failed', error: { code: 'cancelled' }, attempts: [{ status: 'Failed' }] });
    expect(b).toBeUndefined();
    expect(c).toMatchObject({ dueAt: null, error: { code: 'cancelled' } });
    expect(service.log.events('RunCompleted')).toMatchObject([{ runId, status: 'Cancelled' }]);
  });

  it('ends though the process that ran its step is dead, and without running it again', async () => {
    const { handler, contexts } = stubborn();
    const service = await openFlowService({ own: [handler] });
    await service.deploy({ a: stepOf('Stubborn') });
    const runId = await service.trigger();
    await service.store.claimDue({ owner: service.store.replica, now: START, leasedUntil: START + 1000, limit: 1 });
    await service.store.cancelRun({ runId, reason: null, at: START });
    expect((await service.store.findRun(runId))?.status).toBe('Running');
    await service.runtime.start();
    expect(await service.ended(runId)).toMatchObject({ status: 'Cancelled' });
    expect(contexts).toEqual([]);
  });
});

describe('a run whose time is up', () => {
  it('is ended as TimedOut, its running step aborted', async () => {
    const { handler, contexts } = stubborn();
    const service = await openStarted({ own: [handler] }, { a: stepOf('Stubborn') }, { timeoutSeconds: 60 });
    const runId = await service.trigger();
    await until(() => contexts.length === 1);
    service.clock.pass(60_000);
    service.runtime.dispatcher.nudge();
    expect(await service.ended(runId)).toMatchObject({
      status: 'TimedOut',
      timeoutAt: START + 60_000,
      timedOutAt: START + 60_000,
    });
    expect((await service.steps(runId)).a?.error?.code).toBe('run_timed_out');
  });

  it('is ended at once where it only waits', async () => {
    const service = await openStarted(
      {},
      { a: stepOf('WaitForSignal', { inputs: { signalName: 'go' } }) },
      { timeoutSeconds: 60 },
    );
    const runId = await service.trigger();
    service.clock.pass(60_000);
    service.runtime.dispatcher.nudge();
    expect(await service.ended(runId)).toMatchObject({ status: 'TimedOut' });
    expect(service.log.events('RunCompleted')).toMatchObject([{ status: 'TimedOut' }]);
  });
});

describe('a step that is tried again by hand', () => {
  it('starts its retry policy again, in a loop too, and the loop continues with the items that were left', async () => {
    let isDown = true;
    const flaky = defineHandler({
      type: 'Flaky',
      inputs: z.object({ item: z.number() }),
      run: ({ inputs: { item } }) =>
        isDown && item === 2
          ? { kind: 'failed', code: 'down', message: 'down', retryable: true }
          : { kind: 'succeeded', output: item },
    });
    const service = await openFlowService({ own: [flaky] });
    const retry = { maxAttempts: 2, backoffSeconds: 0, factor: 1, maxBackoffSeconds: 0, jitter: false };
    const child = stepOf('Flaky', { inputs: { item: '$' + '{loop.item}' }, retry });
    await service.deploy({
      each: stepOf('ForEach', { forEach: [1, 2, 3], steps: { child } }),
      after: stepOf('NoOp', behind('each')),
    });
    await service.runtime.start();
    const runId = await service.trigger();
    expect(await service.ended(runId)).toMatchObject({ status: 'Failed' });
    expect(await service.runtime.control.retryStep(runId, 'each')).toEqual({
      kind: 'accepted',
      steps: ['each.1.child'],
    });
    expect(await service.ended(runId)).toMatchObject({ status: 'Failed' });
    expect((await service.steps(runId))['each.1.child']?.attemptCount).toBe(4);
    isDown = false;
    expect(await service.runtime.control.retryStep(runId, 'each.1.child')).toMatchObject({ kind: 'accepted' });
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect(await service.steps(runId)).toMatchObject({
      each: { output: [1, 2, 3], error: null },
      after: { status: 'Succeeded' },
    });
  });
});

describe('runs that ended long ago', () => {
  it('are deleted with their rows, and no run in flight with them', async () => {
    const service = await openFlowService();
    await service.deploy({ a: stepOf('NoOp') });
    const waiting = await service.trigger();
    await service.runtime.start();
    await service.ended(waiting);
    await service.deploy({ a: stepOf('WaitForSignal', { inputs: { signalName: 'go' } }) });
    const inFlight = await service.trigger();
    expect(await service.store.purgeRuns({ before: START + 1, maxRows: 100 })).toMatchObject({ runs: 1 });
    expect(await service.store.findRun(waiting)).toBeUndefined();
    expect(await service.store.listSteps(waiting)).toBeUndefined();
    expect(await service.store.findRun(inFlight)).toMatchObject({ status: 'Running' });
  });
});
