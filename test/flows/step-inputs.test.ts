import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { Reference } from '../../src/expressions/context.ts';
import { Lease } from '../../src/flows/leases.ts';
import { createRunInputs } from '../../src/flows/step-inputs.ts';
import type { Graph } from '../../src/model/manifest.ts';
import type { Claim, Store } from '../../src/store/store.ts';
import { RUN_INPUT } from './try-step.ts';

const MIB = 1024 * 1024;
const step = { type: 'NoOp', inputs: {}, runAfter: {} };
const graph: Graph = { a: step, b: step, each: { ...step, type: 'ForEach', steps: { child: step, twin: step } } };
const named = (...path: string[]): Reference => ({ root: 'steps', path: ['steps', ...path], position: 0 });

/** A store in which the steps' outputs have this size; records the calls. */
function opened(outputBytes: number) {
  const asked: Parameters<Store['readRunInput']>[0][] = [];
  const open = createRunInputs({
    store: {
      readRunInput: async (query) => {
        asked.push(query);
        const bytes = query.stepKeys?.length === 0 ? 0 : outputBytes;
        return bytes > (query.maxBytes ?? 0) ? { kind: 'tooLarge', bodyBytes: 0, outputBytes: bytes } : RUN_INPUT;
      },
    },
    catalog: { pinned: async () => ({ graph }) },
  });
  const claim = (stepKey: string) => ({ flowId: 'f', revision: 1, runId: 'r', stepKey }) as Claim;
  return { asked, open: (stepKey = 'b', lease = new Lease(claim(stepKey), 0)) => open(lease.claim, lease), claim };
}

it('reads the steps that are named, of the own scope and those around it, and all where a name is worked out', async () => {
  const { asked, open } = opened(1);
  await open('each.3.child').read([named('twin'), named('a', 'output'), named('elsewhere')]);
  await open('each.3.child').read([named()]);
  expect(asked.map(({ stepKeys }) => stepKeys)).toEqual([
    ['each.3.twin', 'a'],
    ['each.3.child', 'each.3.twin', 'a', 'b', 'each'],
  ]);
});

it('reads once what was read before, and parses the body of the trigger once', async () => {
  const { asked, open } = opened(1);
  const { read } = open();
  const first = await read([named('a'), named('each')]);
  expect(await read([named('a')])).toBe(first);
  expect((await read([named('b')])).trigger).toBe(first.trigger);
  expect(asked).toHaveLength(2);
});

it('refuses what is more than a step may read', async () => {
  const { open } = opened(16 * MIB + 1);
  await expect(open().read([named('a')])).rejects.toMatchObject({ code: 'input_too_large' });
});

it('lets attempts that read much wait for each other, in turn, and those that read little pass', async () => {
  const { asked, open } = opened(16 * MIB);
  const attempts = Array.from({ length: 4 }, () => open());
  const done: number[] = [];
  const reading = attempts.map(({ read }, index) => read([named('a')]).then(() => done.push(index)));
  await setImmediate();
  expect(done).toEqual([0, 1]);
  await open().read([]);
  expect(asked.at(-1)?.stepKeys).toEqual([]);
  attempts[0]?.release();
  await reading[2];
  expect(done).toEqual([0, 1, 2]);
  attempts[1]?.release();
  await Promise.all(reading);
});

it('holds nothing while it waits for more, so that no two attempts wait for each other', async () => {
  const { open } = opened(16 * MIB);
  const attempts = Array.from({ length: 3 }, () => open());
  const twice = async ({ read, release }: (typeof attempts)[number]) => {
    await read([named('a')]);
    await read([named('b')]);
    release();
  };
  await Promise.all(attempts.map(twice));
});

it('gives up when its lease aborts, and leaves its turn to the next', async () => {
  const { open, claim } = opened(16 * MIB);
  const holding = [open(), open()];
  for (const { read } of holding) await read([named('a')]);
  const lease = new Lease(claim('b'), 0);
  const aborted = open('b', lease).read([named('a')]);
  const next = open().read([named('a')]);
  lease.abort(new Error('stopped'));
  await expect(aborted).rejects.toThrow('stopped');
  holding[0]?.release();
  await next;
});
