import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineHandler } from '../../../src/flows/handlers/handler.ts';
import type { Json } from '../../../src/model/json.ts';
import type { Graph, StepDefinition } from '../../../src/model/manifest.ts';
import { cel, openStarted, ownHandler, stepOf, until } from '../../flows/fixture.ts';

const loop = (forEach: Json, steps: Graph, change: Partial<StepDefinition> = {}) =>
  stepOf('ForEach', { forEach, steps, ...change });
const value = (inner: Json, change: Partial<StepDefinition> = {}) =>
  stepOf('Transform', { inputs: { value: inner }, ...change });
const behind = (key: string) => ({ runAfter: { [key]: { statuses: ['Succeeded'] as const } } });

const failsOn = defineHandler({
  type: 'FailsOn',
  inputs: z.object({ item: z.unknown(), bad: z.array(z.unknown()) }),
  run: ({ inputs: { item, bad } }) =>
    bad.includes(item)
      ? { kind: 'failed', code: 'bad_item', message: `no ${item}`, retryable: false }
      : { kind: 'succeeded', output: item as Json },
});

async function run(steps: Graph, body: Json = {}) {
  const service = await openStarted({ own: [failsOn] }, steps);
  const runId = await service.trigger(body);
  const ended = await service.ended(runId);
  return { service, runId, status: ended.status, steps: await service.steps(runId) };
}

describe('a loop', () => {
  it('runs its children for each item and leaves what they left, in order', async () => {
    const { status, steps } = await run(
      {
        each: loop(cel('trigger.body.orders'), { double: value(cel('loop.item.n * 2')) }, { concurrencyLimit: 2 }),
        sum: value(cel('steps.each.output[0] + steps.each.output[2]'), behind('each')),
      },
      { orders: [{ n: 1 }, { n: 2 }, { n: 3 }] },
    );
    expect(status).toBe('Succeeded');
    expect(steps.each).toMatchObject({
      status: 'Succeeded',
      output: [2, 4, 6],
      input: { items: 3, concurrencyLimit: 2 },
      attempts: [{ attempt: 1, status: 'Succeeded' }],
    });
    expect(steps.sum?.output).toBe(8);
    expect(Object.keys(steps).filter((key) => key.includes('.'))).toEqual([
      'each.0.double',
      'each.1.double',
      'each.2.double',
    ]);
  });

  it('gives a child its item, its index, its siblings and the steps before the loop', async () => {
    const { steps } = await run({
      before: value('b'),
      each: loop(
        ['x', 'y'],
        {
          one: value(`${cel('loop.item')}${cel('loop.index')}`),
          two: value([cel('steps.one.output'), cel('steps.before.output')], behind('one')),
        },
        behind('before'),
      ),
    });
    expect(steps.each?.output).toEqual([
      ['x0', 'b'],
      ['y1', 'b'],
    ]);
  });

  it('reads the run as every step does: in its items, conditions, children and later attempts', async () => {
    const again = defineHandler({
      type: 'Again',
      inputs: z.unknown(),
      run: ({ inputs, attempt }) =>
        attempt === 1
          ? { kind: 'failed', code: 'later', message: 'later', retryable: true }
          : { kind: 'succeeded', output: inputs as Json },
    });
    const service = await openStarted(
      { own: [again] },
      {
        each: loop([cel('run.id')], {
          one: stepOf('Again', {
            inputs: { of: cel('loop.item'), run: cel('run') },
            retry: { maxAttempts: 2, backoffSeconds: 0, factor: 1, maxBackoffSeconds: 1, jitter: false },
          }),
          two: value(cel('run.revision'), {
            runAfter: { one: { statuses: ['Succeeded'], when: 'run.flow == steps.one.output.run.flow' } },
          }),
        }),
      },
    );
    const runId = await service.trigger({});
    const { startedAt, revision, flowId } = await service.ended(runId);
    const steps = await service.steps(runId);
    expect(steps['each.0.one']?.attempts).toHaveLength(2);
    expect(steps['each.0.one']?.output).toEqual({
      of: runId,
      run: { id: runId, startedAt: new Date(startedAt).toISOString(), flow: flowId, revision },
    });
    expect(steps['each.0.two']?.output).toBe(revision);
  });

  it('with several last children leaves them by key', async () => {
    const { steps } = await run({ each: loop([1], { a: value(1), b: value(2) }) });
    expect(steps.each?.output).toEqual([{ a: 1, b: 2 }]);
  });

  it('without items has succeeded', async () => {
    const { status, steps } = await run({ each: loop([], { a: value(1) }), next: value(0, behind('each')) });
    expect(status).toBe('Succeeded');
    expect(steps.each).toMatchObject({ status: 'Succeeded', output: [] });
    expect(steps.next?.status).toBe('Succeeded');
  });

  it.each([['text'], [{ a: 1 }], [null], [7]])('over %j fails: only an array can be looped over', async (items) => {
    const { status, steps } = await run({ each: loop(cel('trigger.body.items'), { a: value(1) }) }, { items });
    expect(status).toBe('Failed');
    expect(steps.each?.error).toMatchObject({ code: 'invalid_input', message: expect.stringContaining('forEach: ') });
  });

  it.each([
    ['more than 16 MiB', 'trigger.body.map(a, trigger.body.map(b, trigger.body))', 'the input has at least '],
    [
      'more than 8 MiB',
      'trigger.body.map(a, trigger.body) + [1,2,3,4,5,6].map(n, trigger.body.map(a, trigger.body))',
      'forEach: has',
    ],
    ['an item of more than 1 MiB', '[trigger.body.map(b, trigger.body)]', 'forEach[0]: has at least '],
  ])('over %s fails before anything is stored', async (_what, items, message) => {
    const body = Array.from({ length: 120 }, () => 'x'.repeat(100));
    const { status, steps } = await run({ each: loop(cel(items), { a: value(1) }) }, body);
    expect(status).toBe('Failed');
    expect(steps.each?.error).toMatchObject({ code: 'input_too_large', message: expect.stringContaining(message) });
  });

  it('nests', async () => {
    const { status, steps } = await run({
      rows: loop(
        [[1, 2], [3], []],
        { cells: loop(cel('loop.item'), { cell: value(cel('loop.item * 10')) }, { concurrencyLimit: 5 }) },
        { concurrencyLimit: 2 },
      ),
    });
    expect(status).toBe('Succeeded');
    expect(steps.rows?.output).toEqual([[10, 20], [30], []]);
    expect(steps['rows.1.cells.0.cell']).toMatchObject({ output: 30 });
  });

  it('fails with its first failure and starts no further iteration', async () => {
    const child = stepOf('FailsOn', { inputs: { item: cel('loop.item'), bad: [2] } });
    const { status, steps } = await run({ each: loop([1, 2, 3], { child }) });
    expect(status).toBe('Failed');
    expect(steps.each).toMatchObject({
      status: 'Failed',
      error: { code: 'iteration_failed', message: '"each.1.child" failed: no 2' },
      output: [1, null, null],
    });
    expect(steps['each.2.child']).toBeUndefined();
  });

  it('goes on past a failure that its children handled, and past what a condition skipped', async () => {
    const { status, steps } = await run({
      each: loop([1, 2, 3], {
        child: stepOf('FailsOn', { inputs: { item: cel('loop.item'), bad: [2] } }),
        mend: value('mended', { runAfter: { child: { statuses: ['Failed'] } } }),
        odd: value('odd', { runAfter: { child: { statuses: ['Succeeded'], when: 'loop.item > 1' } } }),
      }),
    });
    expect(status).toBe('Succeeded');
    expect(steps.each?.output).toEqual([
      { mend: null, odd: null },
      { mend: 'mended', odd: null },
      { mend: null, odd: 'odd' },
    ]);
  });

  it('makes the rows of an iteration when it starts, and runs no more at once than it may', async () => {
    let running = 0;
    let most = 0;
    let release: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const own = ownHandler('Own', async () => {
      running += 1;
      most = Math.max(most, running);
      await gate;
      running -= 1;
      return { kind: 'succeeded', output: null };
    });
    const service = await openStarted(
      { own: [own] },
      {
        each: loop(
          Array.from({ length: 1000 }, (_, n) => n),
          { own: stepOf('Own') },
          { concurrencyLimit: 3 },
        ),
      },
    );
    const runId = await service.trigger();
    await until(() => running >= 3);
    expect(Object.keys(await service.steps(runId))).toHaveLength(4);
    release();
    await service.ended(runId);
    expect(most).toBe(3);
    const { each } = await service.steps(runId);
    expect(each?.output).toHaveLength(1000);
  });
});
