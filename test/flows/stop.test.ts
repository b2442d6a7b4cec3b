import { describe, expect, it, vi } from 'vitest';
import type { HandlerResult, StepContext } from '../../src/flows/handlers/handler.ts';
import type { Store } from '../../src/store/store.ts';
import { openFlowService, openStarted, openStore, ownHandler, START, stepOf, until } from './fixture.ts';
import { graphOf } from './graphs.ts';

const DONE: HandlerResult = { kind: 'succeeded', output: null };

/** A handler that never ends before `end` is called; records its contexts. */
function stubborn() {
  const runs: StepContext[] = [];
  let end: (result: HandlerResult) => void = () => {};
  const handler = ownHandler('Stubborn', (context) => {
    runs.push(context);
    return new Promise<HandlerResult>((resolve) => {
      end = resolve;
    });
  });
  return { handler, runs, end: () => end(DONE) };
}

const TWO_STEPS = { a: stepOf('Stubborn'), ...graphOf({ b: ['a'] }) };

describe('a stop', () => {
  it('lets running steps finish, keeps their outcome and claims nothing more', async () => {
    const { handler, runs, end } = stubborn();
    const service = await openStarted({ own: [handler] }, TWO_STEPS);
    const runId = await service.trigger();
    await until(() => runs.length === 1);
    const stopped = service.runtime.stop(60_000);
    end();
    await stopped;
    expect(await service.steps(runId)).toMatchObject({
      a: { status: 'Succeeded' },
      b: { status: 'Pending', attemptCount: 0 },
    });
  });

  it('aborts what does not finish in time and drops its outcome', async () => {
    const { handler, runs, end } = stubborn();
    const service = await openStarted({ own: [handler] }, TWO_STEPS);
    const runId = await service.trigger();
    await until(() => runs.length === 1);
    await service.runtime.stop(0);
    expect(runs[0]?.signal.aborted).toBe(true);
    end();
    await service.store.ping();
    expect((await service.steps(runId)).a).toMatchObject({ status: 'Running', attemptCount: 1 });
  });

  it('runs what was claimed while it began', async () => {
    const store = await openStore();
    let answer: () => void = () => {};
    const asked = new Promise<void>((resolve) => {
      answer = resolve;
    });
    let isClaiming = false;
    const claimDue = vi.fn<Store['claimDue']>(async (request) => {
      const batch = await store.claimDue(request);
      if (batch.claims.length === 0) return batch;
      isClaiming = true;
      await asked;
      return batch;
    });
    const service = await openStarted({ store: { ...store, claimDue } }, graphOf({ a: [] }));
    const runId = await service.trigger();
    await until(() => isClaiming);
    const stopped = service.runtime.stop(60_000);
    answer();
    await stopped;
    expect(await store.findRun(runId)).toMatchObject({ status: 'Succeeded' });
  });

  it('is the same stop when it is asked for twice', async () => {
    const service = await openFlowService();
    await service.runtime.start();
    await Promise.all([service.runtime.stop(0), service.runtime.stop(0)]);
    service.runtime.dispatcher.nudge();
    service.runtime.dispatcher.start();
    await service.deploy(graphOf({ a: [] }));
    const runId = await service.trigger();
    await service.store.ping();
    expect((await service.steps(runId)).a).toMatchObject({ status: 'Pending' });
  });
});

describe('a start', () => {
  it('runs the step of a dead process again, with the same idempotency key', async () => {
    const store = await openStore();
    const first = stubborn();
    const dying = await openFlowService({ store, own: [first.handler] });
    await dying.deploy(TWO_STEPS);
    await dying.runtime.start();
    const runId = await dying.trigger();
    await until(() => first.runs.length === 1);
    await dying.runtime.stop(0);

    const second = stubborn();
    const service = await openStarted({ store, own: [second.handler] }, TWO_STEPS);
    await until(() => second.runs.length === 1);
    second.end();
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded', revision: 1 });
    expect(second.runs).toMatchObject([{ attempt: 2, idempotencyKey: first.runs[0]?.idempotencyKey }]);
    expect((await service.steps(runId)).a?.attempts).toMatchObject([
      { attempt: 1, status: 'Failed', error: { code: 'interrupted' } },
      { attempt: 2, status: 'Succeeded' },
    ]);
  });

  it('goes on with a run whose manifest is no longer loaded', async () => {
    const store = await openStore();
    const service = await openFlowService({ store });
    await service.deploy(graphOf({ a: [], b: ['a'] }));
    const runId = await service.trigger();
    const other = await openFlowService({ store });
    await other.runtime.start();
    expect(await other.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect(other.log.lines.some(({ steps }) => steps !== undefined)).toBe(false);
  });

  it('gives a step up that took its process down three times, with nothing else running', async () => {
    const service = await openFlowService();
    await service.deploy(graphOf({ a: [], b: ['a'] }));
    const runId = await service.trigger();
    for (let deaths = 0; deaths < 3; deaths += 1) {
      const now = START + deaths * 1_000;
      expect(
        (await service.store.claimDue({ owner: service.store.replica, now, leasedUntil: now + 1_000, limit: 1 }))
          .claims,
      ).toHaveLength(1);
    }
    await service.runtime.start();
    expect(await service.ended(runId)).toMatchObject({ status: 'Failed' });
    expect((await service.steps(runId)).a).toMatchObject({ error: { code: 'interrupted_too_often' }, attemptCount: 4 });
  });
});
