import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { StoreUnavailableError } from '../../src/errors.ts';
import { defineHandler } from '../../src/flows/handlers/handler.ts';
import type { Store } from '../../src/store/store.ts';
import { eventually } from '../eventually.ts';
import { FLOW_ID, type FlowServiceOptions, openFlowService, START, stepOf, until } from '../flows/fixture.ts';
import { openReplicas, runSql } from './schemas.ts';

const beat = {
  version: '1.0',
  startedAt: START,
  clockOffsetMs: 0,
  fingerprint: null,
  judgesOthers: true,
  ledgerAt: START,
  now: START,
};

/** A database that follows the test's clock. */
function inTestTime(store: Store): Store {
  return { ...store, beat: async (given) => ({ ...(await store.beat(given)), at: given.now }) };
}

/** Two runtimes on one schema. */
async function twoRuntimes(options: FlowServiceOptions = {}) {
  const { schema, stores } = await openReplicas(['one', 'two']);
  const [first, second] = stores.map(inTestTime) as [Store, Store];
  const one = await openFlowService({ ...options, store: first });
  const two = await openFlowService({ ...options, store: second });
  return { schema, one, two };
}

const steps = {
  a: stepOf('NoOp'),
  b: stepOf('Count', { runAfter: { a: { statuses: ['Succeeded'] } } }),
  c: stepOf('Count', { runAfter: { b: { statuses: ['Succeeded'] } } }),
};

describe('two replicas that run steps', () => {
  test.each([[{}], [{ concurrency: 2 }]])('run each step of each run once, with limits %o', async (limits) => {
    const ran: string[] = [];
    const count = defineHandler({
      type: 'Count',
      inputs: z.unknown(),
      run: ({ runId, stepKey }) => {
        ran.push(`${runId} ${stepKey}`);
        return { kind: 'succeeded', output: null };
      },
    });
    const { one, two } = await twoRuntimes({ own: [count], concurrency: 4 });
    for (const each of [one, two]) await each.deploy(steps, limits);
    await Promise.all([one.runtime.start(), two.runtime.start()]);
    const runIds = await Promise.all(Array.from({ length: 40 }, (_, n) => (n % 2 === 0 ? one : two).trigger()));
    for (const runId of runIds) expect((await one.ended(runId)).status).toBe('Succeeded');
    expect(ran.toSorted()).toEqual(runIds.flatMap((runId) => [`${runId} b`, `${runId} c`]).toSorted());
  });

  test('leave slots to flows that run nothing, on each replica, and take up what the other has no slots for', async () => {
    const ends: (() => void)[] = [];
    const hang = defineHandler({
      type: 'Hang',
      inputs: z.unknown(),
      run: async () => {
        await new Promise<void>((resolve) => ends.push(resolve));
        return { kind: 'succeeded', output: null };
      },
    });
    const { one, two } = await twoRuntimes({ own: [hang], concurrency: 8 });
    const other = '00000000-0000-4000-8000-000000000009';
    for (const each of [one, two]) {
      await each.deploy({ a: stepOf('Hang') });
      await each.deploy({ b: stepOf('Hang') }, { id: other });
    }
    await Promise.all([one.runtime.start(), two.runtime.start()]);
    const runIds: string[] = [];
    for (let n = 0; n < 20; n += 1) runIds.push(await one.trigger());
    await until(() => ends.length === 14);
    const started = await one.runtime.engine.triggerFlow({
      flowId: other,
      triggerKey: 'manual',
      triggerType: 'manual',
      body: Buffer.from('{}'),
      contentType: 'application/json',
      headers: {},
    });
    await until(() => ends.length === 15);
    expect((await one.store.listSteps(started.kind === 'started' ? started.runId : ''))?.[0]).toMatchObject({
      status: 'Running',
    });
    for (let ended = 0; ended < 21; ended += 1) {
      await until(() => ends.length > 0);
      ends.shift()?.();
    }
    for (const runId of runIds) expect((await one.ended(runId)).status).toBe('Succeeded');
  });

  test('a step that was leased to a replica that never heard of it runs soon after the database is back', async () => {
    const { stores } = await openReplicas(['one']);
    const [store] = stores.map(inTestTime) as [Store];
    let runId = '';
    const one = await openFlowService({
      store: {
        ...store,
        async accept(acceptance, lease) {
          await store.accept(acceptance, lease);
          expect(lease).toBeDefined();
          runId = acceptance.run.id;
          throw new StoreUnavailableError('the answer is lost', { isAway: true });
        },
      },
    });
    await one.deploy({ a: stepOf('NoOp') });
    await one.runtime.start();
    // Its claim found nothing waiting, so from here on steps are leased as they become due.
    await eventually(
      () =>
        one.trigger().then(
          () => 'leased to nobody',
          (error: Error) => error,
        ),
      (lost) => lost instanceof StoreUnavailableError,
    );
    expect((await one.steps(runId)).a).toMatchObject({ status: 'Running', attemptCount: 0 });
    one.clock.pass(5000);
    expect((await one.ended(runId)).status).toBe('Succeeded');
  });

  test('a step of a type that another replica alone has is left to that one, and is no try of this one', async () => {
    const { stores } = await openReplicas(['one', 'two']);
    const [first, second] = stores.map(inTestTime) as [Store, Store];
    const type = defineHandler({
      type: 'New',
      inputs: z.unknown(),
      run: () => ({ kind: 'succeeded', output: 'new' }),
    });
    // Says whether others have the type only once steps that began at the same time are marked as begun.
    let onMarked = () => {};
    const marked = new Promise<void>((resolve) => {
      onMarked = resolve;
    });
    const beginAttempts: Store['beginAttempts'] = async (given) => {
      await first.beginAttempts(given);
      onMarked();
    };
    const isServedElsewhere = async (stepType: string) => {
      await marked;
      return stepType === 'New';
    };
    const slow = defineHandler({
      type: 'Slow',
      inputs: z.unknown(),
      run: async () => {
        await marked;
        return { kind: 'succeeded', output: null };
      },
    });
    const one = await openFlowService({ store: { ...first, beginAttempts }, isServedElsewhere, own: [slow] });
    const two = await openFlowService({ store: second, own: [type, slow] });
    const { runAfter } = steps.b;
    const graph = { a: stepOf('NoOp'), b: stepOf('New', { runAfter }), c: stepOf('Slow', { runAfter }) };
    for (const each of [one, two]) await each.deploy(graph);
    await one.runtime.start();
    const runIds = await Promise.all([one.trigger(), one.trigger()]);
    const dueAt = async (now: number) => (await first.measureBacklog({ now, most: 9 })).dueSteps;
    // No step is due earlier: all have been left by then, and each for the full 5 s.
    await eventually(
      async () => [await dueAt(START + 4999), await dueAt(START + 5000)],
      ([before, then = 0]) => before === 0 && then >= runIds.length,
    );
    two.clock.pass(5000);
    await two.runtime.start();
    for (const runId of runIds) {
      expect((await two.ended(runId)).status).toBe('Succeeded');
      expect((await two.steps(runId)).b).toMatchObject({ output: 'new', attemptCount: 1 });
    }
  });

  test('a step of a type that no replica has fails', async () => {
    const { one } = await twoRuntimes({ isServedElsewhere: async () => false });
    await one.deploy({ a: stepOf('New') });
    await one.runtime.start();
    const runId = await one.trigger();
    expect((await one.ended(runId)).status).toBe('Failed');
    expect((await one.steps(runId)).a?.error).toMatchObject({ code: 'unknown_handler' });
  });

  test('a step of a replica that died is taken up, and what the dead one still says of it counts for nothing', async () => {
    const hanging: (() => void)[] = [];
    const own = (output: string, hangs: boolean) =>
      defineHandler({
        type: 'Count',
        inputs: z.unknown(),
        run: async () => {
          if (hangs) await new Promise<void>((resolve) => hanging.push(resolve));
          return { kind: 'succeeded', output };
        },
      });
    const { schema, stores } = await openReplicas(['one', 'two']);
    const [first, second] = stores.map(inTestTime) as [Store, Store];
    const one = await openFlowService({ store: first, own: [own('late', true)] });
    const two = await openFlowService({ store: second, own: [own('in time', false)] });
    for (const each of [one, two]) await each.deploy({ a: stepOf('Count') });
    await one.runtime.start();
    const runId = await one.trigger();
    await until(() => hanging.length > 0);
    // Marked as begun, like every step that runs longer than a moment.
    await eventually(
      () => one.steps(runId),
      ({ a }) => a?.attemptCount === 1,
    );
    await two.runtime.start();
    await runSql(`UPDATE "${schema}".replicas SET seen_at = 0 WHERE name = 'one'`);
    expect(await two.store.beat(beat)).toMatchObject({ died: [{ name: 'one', steps: 1 }] });
    two.runtime.dispatcher.nudge();
    expect((await two.ended(runId)).status).toBe('Succeeded');
    for (const release of hanging) release();
    await one.runtime.stop(1000);
    expect((await two.steps(runId)).a).toMatchObject({ output: 'in time', attemptCount: 2 });
    expect((await two.store.findFlow(FLOW_ID))?.revision).toBe(1);
  });
});
