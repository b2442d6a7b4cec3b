import { describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { defineHandler, type HandlerResult, type StepContext } from '../../src/flows/handlers/handler.ts';
import type { Store } from '../../src/store/store.ts';
import { openHouse, openStore, START, stepOf, until } from './fixture.ts';
import { graphOf } from './graphs.ts';

const DONE: HandlerResult = { kind: 'succeeded', output: null };

/** A handler that never ends before `end` is called, and notes who it ran for. */
function stubborn() {
  const runs: StepContext[] = [];
  let end: (result: HandlerResult) => void = () => {};
  const handler = defineHandler({
    type: 'Stubborn',
    inputs: z.unknown(),
    run: (context) => {
      runs.push(context);
      return new Promise<HandlerResult>((resolve) => {
        end = resolve;
      });
    },
  });
  return { handler, runs, end: () => end(DONE) };
}

const TWO_STEPS = { a: stepOf('Stubborn'), ...graphOf({ b: ['a'] }) };

describe('a stop', () => {
  it('lets running steps finish, keeps their outcome and claims nothing more', async () => {
    const { handler, runs, end } = stubborn();
    const house = await openHouse({ own: [handler] });
    await house.deploy(TWO_STEPS);
    await house.runtime.start();
    const runId = await house.trigger();
    await until(() => runs.length === 1);
    const stopped = house.runtime.stop(60_000);
    end();
    await stopped;
    expect(await house.steps(runId)).toMatchObject({
      a: { status: 'Succeeded' },
      b: { status: 'Pending', attemptCount: 0 },
    });
  });

  it('aborts what does not finish in time and drops its outcome', async () => {
    const { handler, runs, end } = stubborn();
    const house = await openHouse({ own: [handler] });
    await house.deploy(TWO_STEPS);
    await house.runtime.start();
    const runId = await house.trigger();
    await until(() => runs.length === 1);
    await house.runtime.stop(0);
    expect(runs[0]?.signal.aborted).toBe(true);
    end();
    await house.store.ping();
    expect((await house.steps(runId)).a).toMatchObject({ status: 'Running', attemptCount: 1 });
  });

  it('runs what was claimed while it began', async () => {
    const store = await openStore();
    let answer: () => void = () => {};
    const asked = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const claimDue = vi.fn<Store['claimDue']>(async (request) => {
      const batch = await store.claimDue(request);
      if (batch.claims.length > 0) await asked;
      return batch;
    });
    const house = await openHouse({ store: { ...store, claimDue } });
    await house.deploy(graphOf({ a: [] }));
    await house.runtime.start();
    const runId = await house.trigger();
    const stopped = house.runtime.stop(60_000);
    answer();
    await stopped;
    expect(await store.findRun(runId)).toMatchObject({ status: 'Succeeded' });
  });

  it('is the same stop when it is asked for twice', async () => {
    const house = await openHouse();
    await house.runtime.start();
    await Promise.all([house.runtime.stop(0), house.runtime.stop(0)]);
    house.runtime.dispatcher.nudge();
    house.runtime.dispatcher.start();
    await house.deploy(graphOf({ a: [] }));
    const runId = await house.trigger();
    await house.store.ping();
    expect((await house.steps(runId)).a).toMatchObject({ status: 'Pending' });
  });
});

describe('a start', () => {
  it('runs the step of a dead process again, with the same idempotency key', async () => {
    const store = await openStore();
    const first = stubborn();
    const dying = await openHouse({ store, own: [first.handler] });
    await dying.deploy(TWO_STEPS);
    await dying.runtime.start();
    const runId = await dying.trigger();
    await until(() => first.runs.length === 1);
    await dying.runtime.stop(0);

    const second = stubborn();
    const house = await openHouse({ store, own: [second.handler] });
    await house.deploy(TWO_STEPS);
    await house.runtime.start();
    await until(() => second.runs.length === 1);
    second.end();
    expect(await house.ended(runId)).toMatchObject({ status: 'Succeeded', revision: 1 });
    expect(second.runs).toMatchObject([{ attempt: 2, idempotencyKey: first.runs[0]?.idempotencyKey }]);
    expect((await house.steps(runId)).a?.attempts).toMatchObject([
      { attempt: 1, status: 'Failed', error: { code: 'interrupted' } },
      { attempt: 2, status: 'Succeeded' },
    ]);
  });

  it('goes on with a run whose manifest is no longer loaded', async () => {
    const store = await openStore();
    const house = await openHouse({ store });
    await house.deploy(graphOf({ a: [], b: ['a'] }));
    const runId = await house.trigger();
    const other = await openHouse({ store });
    await other.runtime.start();
    expect(await other.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect(other.log.lines.some(({ steps }) => steps !== undefined)).toBe(false);
  });

  it('gives a step up that took its process down three times, with nothing else running', async () => {
    const house = await openHouse();
    await house.deploy(graphOf({ a: [], b: ['a'] }));
    const runId = await house.trigger();
    for (let deaths = 0; deaths < 3; deaths += 1) {
      const now = START + deaths * 1_000;
      expect((await house.store.claimDue({ now, leasedUntil: now + 1_000, limit: 1 })).claims).toHaveLength(1);
    }
    await house.runtime.start();
    expect(await house.ended(runId)).toMatchObject({ status: 'Failed' });
    expect((await house.steps(runId)).a).toMatchObject({ error: { code: 'interrupted_too_often' }, attemptCount: 4 });
  });
});
