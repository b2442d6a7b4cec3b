import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Answer, Call } from '../../../src/features/rehearsal/calls.ts';
import { compareRuns } from '../../../src/features/rehearsal/compare.ts';
import { isSame, type Json } from '../../../src/model/json.ts';
import { delivered, loaded, simulatorOf } from './flows.ts';

const ANSWERS: Readonly<Record<string, Answer | undefined>> = {
  answers: { output: { status: 200, headers: {}, body: 1 } },
  refuses: { output: { status: 404, headers: {}, body: null } },
  'is busy': { output: { status: 503, headers: {}, body: null } },
  'is away': { error: { code: 'network_error', message: 'ECONNREFUSED', retryable: true } },
  'is not known': undefined,
};

const anyStep = fc.record({
  kind: fc.constantFrom('call', 'call', 'delay', 'fail', 'each', 'noOp'),
  answers: fc.array(fc.constantFrom(...Object.keys(ANSWERS)), { minLength: 3, maxLength: 3 }),
  after: fc.uniqueArray(fc.nat(6), { maxLength: 2 }),
  statuses: fc.subarray(['Succeeded', 'Failed', 'Skipped'], { minLength: 1 }),
});
type AnyStep = typeof anyStep extends fc.Arbitrary<infer Step> ? Step : never;

const call = (name: string) => ({
  type: 'HttpRequest',
  inputs: { url: `https://a.example/${name}`, headers: { 'x-same': '1' } },
  retry: { maxAttempts: 3, backoffSeconds: 1 },
});

function stepOf({ kind, after, statuses }: AnyStep, index: number) {
  const runAfter = Object.fromEntries(after.filter((each) => each < index).map((each) => [`s${each}`, statuses]));
  const makes = {
    call: call(`s${index}`),
    delay: { type: 'Delay', inputs: { seconds: index } },
    fail: { type: 'Fail', inputs: { message: 'no' } },
    each: { type: 'ForEach', forEach: [1, 2], concurrencyLimit: 2, steps: { one: call(`s${index}`) } },
    noOp: { type: 'NoOp' },
  } as const;
  return [`s${index}`, { ...makes[kind], runAfter }] as const;
}

const flowOf = (rows: readonly AnyStep[]) => Object.fromEntries(rows.map(stepOf));

async function run(steps: object, answer: (made: Call) => Answer | undefined) {
  const simulator = await simulatorOf(loaded(steps));
  try {
    return await simulator.run({ ...delivered({}), answer });
  } finally {
    await simulator.close();
  }
}

describe('two runs of one delivery', () => {
  const answerBy =
    (rows: readonly AnyStep[]) =>
    ({ path, attempt }: Call) =>
      ANSWERS[rows[Number(/^s(\d)/.exec(path)?.[1])]?.answers[attempt - 1] ?? ''];

  it('differ in nothing where the flow is the same', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { minLength: 1, maxLength: 7 }), async (rows) => {
        const [one, other] = [await run(flowOf(rows), answerBy(rows)), await run(flowOf(rows), answerBy(rows))];
        expect(compareRuns(one, other)).toEqual([]);
      }),
      { numRuns: 60 },
    );
  });

  it('differ in a changed request alone, where its answer is not known', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { minLength: 1, maxLength: 7 }), fc.nat(6), async (rows, at) => {
        const before = await run(flowOf(rows), answerBy(rows));
        const key = `s${at}`;
        const text = JSON.stringify(flowOf(rows)).replaceAll(`a.example/${key}"`, `a.example/${key}/changed"`);
        const after = await run(JSON.parse(text), (made) => {
          const isOf = (each: Call) => each.path === made.path && each.attempt === made.attempt;
          const isKnown = before.calls.some((each) => isOf(each) && isSame(each.request as Json, made.request as Json));
          return isKnown ? answerBy(rows)(made) : undefined;
        });
        const found = compareRuns(before, after);
        const places = new Set(found.map(({ kind, at: path }) => `${kind} ${path.replace(/\..*/, '')}`));
        const isCalled = before.calls.some(({ path }) => path === key || path.startsWith(`${key}.`));
        expect([...places]).toEqual(isCalled ? [`request ${key}`] : []);
        for (const { changes } of found) expect(changes.map(({ path }) => path)).toEqual(['url']);
      }),
      { numRuns: 60 },
    );
  });
});
