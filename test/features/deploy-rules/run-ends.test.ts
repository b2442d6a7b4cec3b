import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Manifest } from '../../../src/manifest/schema.ts';
import type { Finding } from '../../../src/model/finding.ts';
import type { Json } from '../../../src/model/json.ts';
import type { Graph, RunStatus, StepStatus } from '../../../src/model/manifest.ts';
import { planNext, wire } from '../../../src/model/planner.ts';
import { mergePatch } from './merge-patch.ts';
import { compare, flow, snapshot, withHistory } from './samples.ts';

/** What a step does when it starts, and the result of its condition, whatever graph contains it. */
type Outcomes = Readonly<Record<string, 'succeeds' | 'fails' | 'is skipped'>>;

function endOf(graph: Graph, outcomes: Outcomes = {}): RunStatus {
  const states = new Map<string, StepStatus>();
  for (;;) {
    const { start, skip, end } = planNext(wire(graph), states);
    if (end !== null) return end;
    for (const { stepKey } of skip) states.set(stepKey, 'Skipped');
    for (const key of start) {
      const step = graph[key];
      const isGuarded = Object.values(step?.runAfter ?? {}).some(({ when }) => when === 'false');
      if (isGuarded || (step?.type !== 'NoOp' && outcomes[key] === 'is skipped')) states.set(key, 'Skipped');
      else states.set(key, step?.type !== 'NoOp' && outcomes[key] === 'fails' ? 'Failed' : 'Succeeded');
    }
  }
}

const stepsOf = (manifest: object) => (snapshot(manifest) as unknown as Manifest).steps;
const breaking = (findings: readonly Finding[]) => findings.filter((finding) => finding.class === 'breaking');
const patched = (manifest: object, findings: readonly Finding[]) =>
  findings.reduce<Json>((result, { recipe }) => mergePatch(result, recipe?.patch ?? {}), manifest as Json) as object;

const say = (message: string, ...after: string[]) => ({
  type: 'LogMessage',
  inputs: { message },
  runAfter: Object.fromEntries(after.map((key) => [key, ['Succeeded']])),
});
const nothing = (...after: string[]) => ({ ...say('', ...after), type: 'NoOp', inputs: {} });
const chain = { a: say('one'), b: say('two', 'a'), c: say('three', 'b') };

describe('a run of a manifest to which the recipe was applied', () => {
  it.each<[string, object, object]>([
    ['the sole leaf was removed', chain, { a: say('one'), b: say('two', 'a') }],
    ['the sole leaf and the step before it were removed', chain, { a: say('one') }],
    ['everything was removed', chain, {}],
    ['a middle step was removed', chain, { a: say('one'), c: say('three', 'a') }],
    ['an entry step was removed', chain, { b: say('two'), c: say('three', 'b') }],
    ['the sole leaf was renamed', chain, { a: say('one'), b: say('two', 'a'), last: say('three', 'b') }],
    ['one of two leaves was removed', { ...chain, d: say('four', 'a') }, { a: say('one'), d: say('four', 'a') }],
    [
      'a join of two leaves was removed',
      { x: say('1'), y: say('2'), z: say('3', 'x', 'y') },
      { x: say('1'), y: say('2') },
    ],
    ['a leaf that was a NoOp was removed', { a: say('one'), b: nothing('a') }, { a: say('one') }],
    ['the only step was replaced', { a: say('one') }, { b: say('two') }],
  ])('succeeds where %s', (_, before, after) => {
    const found = breaking(compare(flow(before), flow(after), withHistory(...Object.keys(before))));
    expect(found.length).toBeGreaterThan(0);
    for (const findings of [found, ...found.map((finding) => [finding])]) {
      expect(endOf(stepsOf(patched(flow(after), findings)))).toBe('Succeeded');
    }
  });

  it('succeeds where one of two alternatives was cut short', () => {
    const either = { ask: say('?'), yes: say('y', 'ask'), no: say('n', 'ask'), told: say('t', 'yes') };
    const { told, ...after } = either;
    const found = compare(flow(either), flow(after), withHistory('told'));
    expect(endOf(stepsOf(patched(flow(after), found)), { no: 'is skipped' })).toBe('Succeeded');
    expect(endOf(stepsOf(patched(flow(after), found)), { yes: 'is skipped', no: 'is skipped' })).toBe('Skipped');
  });

  it('fails where the step that handled the failure is gone', () => {
    const before = { a: say('one'), undo: { ...say('undo'), runAfter: { a: ['Failed'] } } };
    const found = compare(flow(before), flow({ a: say('one') }), withHistory('undo'));
    const steps = stepsOf(patched(flow({ a: say('one') }), found));
    expect(endOf(steps, { a: 'fails' })).toBe('Failed');
    expect(endOf(steps, { a: 'succeeds' })).toBe('Succeeded');
  });

  it('ends as it would without what the recipe keeps, whatever was removed and whatever its steps do', () => {
    fc.assert(
      fc.property(anyRemoval, ({ before, after, outcomes, choice }) => {
        const found = breaking(compare(flow(before), flow(after), withHistory(...Object.keys(before))));
        const wanted = endOf(stepsOf(flow(after)), outcomes);
        for (const findings of [found, found.filter((_, index) => choice[index % choice.length])]) {
          const kept = stepsOf(patched(flow(after), findings));
          const end = endOf(kept, outcomes);
          // The requirement keeps a retired entry step that does nothing, and such a step succeeds.
          const hasRetiredEntry = Object.entries(kept).some(
            ([key, { runAfter }]) => !Object.hasOwn(after, key) && Object.keys(runAfter).length === 0,
          );
          expect([wanted, ...(hasRetiredEntry && wanted === 'Skipped' ? ['Succeeded'] : [])]).toContain(end);
        }
      }),
      { numRuns: 500 },
    );
  });

  it('asks for nothing that a placeholder could fail at where the step did not run before', () => {
    const reads = (key: string) => say(`\${steps.${key}.output.id}`, key);
    const before = { a: say('one'), b: reads('a'), c: reads('b') };
    const found = breaking(compare(flow(before), flow({ a: say('one') }), withHistory('b', 'c')));
    const { b, c } = stepsOf(patched(flow({ a: say('one') }), found));
    expect([b, c]).toEqual([
      { type: 'NoOp', inputs: {}, runAfter: { a: { statuses: ['Succeeded'] } } },
      { type: 'NoOp', inputs: {}, runAfter: { b: { statuses: ['Succeeded'] } } },
    ]);
  });
});

const KEYS = ['s0', 's1', 's2', 's3', 's4', 's5'];
const statuses = fc.subarray(['Succeeded', 'Failed', 'Skipped'], { minLength: 1 });

/** A graph, the same without some of its steps, and the outcome of each step. */
const anyRemoval = fc
  .record({
    edges: fc.array(fc.dictionary(fc.constantFrom(...KEYS), statuses, { maxKeys: 3 }), { minLength: 1, maxLength: 6 }),
    removed: fc.subarray(KEYS, { minLength: 1 }),
    types: fc.array(fc.constantFrom('LogMessage', 'Loud', 'NoOp'), { minLength: 6, maxLength: 6 }),
    outcomes: fc.record(
      Object.fromEntries(KEYS.map((key) => [key, fc.constantFrom('succeeds', 'fails', 'is skipped')])),
    ) as fc.Arbitrary<Outcomes>,
    choice: fc.array(fc.boolean(), { minLength: 1, maxLength: 6 }),
  })
  .map(({ edges, removed, types, outcomes, choice }) => {
    const steps = edges.map((runAfter, at): [string, { runAfter: object }] => {
      const earlier = Object.entries(runAfter).filter(([key]) => KEYS.indexOf(key) < at);
      const type = types[at] ?? 'NoOp';
      const inputs = type === 'NoOp' ? {} : { message: `step ${at}` };
      return [KEYS[at] ?? '', { type, inputs, runAfter: Object.fromEntries(earlier) } as { runAfter: object }];
    });
    const after = steps
      .filter(([key]) => !removed.includes(key))
      .map(([key, step]): [string, object] => {
        const left = Object.entries(step.runAfter).filter(([upstream]) => !removed.includes(upstream));
        return [key, { ...step, runAfter: Object.fromEntries(left) }];
      });
    return { before: Object.fromEntries(steps), after: Object.fromEntries(after), outcomes, choice };
  });
