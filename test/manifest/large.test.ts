import { expect, it, test } from 'vitest';
import { z } from 'zod';
import { hasStep } from '../../src/manifest/check-steps.ts';
import { isWithin, MAX_NAMES, nearestName, placesOn } from '../../src/manifest/issues.ts';
import { FLOW_ID, issuesAfter, issuesOf, rules } from './rules.ts';

/** Names that count how often they are read. */
function counted(count: number) {
  const asked = { times: 0 };
  const names = Array.from({ length: count }, (_, index) => `step${index}`);
  const get = (target: string[], key: string | symbol): unknown => {
    asked.times += 1;
    return Reflect.get(target, key);
  };
  return { asked, names: new Proxy(names, { get }) };
}

it('compares a mistake with a few hundred names at most', () => {
  function* names() {
    for (let index = 0; ; index += 1) {
      expect(index).toBeLessThanOrEqual(MAX_NAMES);
      yield `step${index}`;
    }
  }
  expect(nearestName('stp7', names())).toBe('step7');
  expect(nearestName('s'.repeat(1_000_000), ['step'])).toBeUndefined();
});

it('tells of the first hundred unknown names what was meant, and refuses all of them', () => {
  const inputs = Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`webhookSlugs${n}`, 1]));
  const issues = issuesAfter(({ triggers }) => Object.assign(triggers.github?.inputs ?? {}, inputs));
  expect(issues).toHaveLength(300);
  expect(issues.filter((issue) => issue.includes('did you mean "webhookSlug"?'))).toHaveLength(100);
});

it('takes a key in quotes for one place, whatever is in it', () => {
  expect(placesOn('steps["a..[\\"[[."][0].when')).toEqual([
    'steps',
    'steps["a..[\\"[[."]',
    'steps["a..[\\"[[."][0]',
    'steps["a..[\\"[[."][0].when',
  ]);
  expect(placesOn(`steps[${JSON.stringify('."\\['.repeat(100_000))}]`)).toHaveLength(2);
});

it('takes 10 000 steps, those in loops included, and no more', () => {
  const steps = (count: number, prefix = 's') =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`${prefix}${n}`, { type: 'NoOp' }]));
  const loop = { inputs: z.unknown(), secretInputs: [] };
  const withLoops = { ...rules, handlers: new Map([...rules.handlers, ['ForEach', loop]]) };
  const manifest = (inLoop: number) => ({
    id: FLOW_ID,
    name: 'Large',
    version: '1',
    steps: { ...steps(9_000), loop: { type: 'ForEach', forEach: [1], steps: steps(inLoop, 'child') } },
  });
  expect(issuesOf(JSON.stringify(manifest(999)), withLoops)).toEqual([]);
  expect(issuesOf(JSON.stringify(manifest(1000)), withLoops)).toEqual([
    'error flow.json steps: has 10001 steps, those in loops included; at most 10000 are accepted',
  ]);
});

it('looks through the keys of a graph once, however often it is asked', () => {
  const { asked, names } = counted(1_000);
  expect(hasStep({ stepKeys: names }, 'step1')).toBe(true);
  const once = asked.times;
  for (let index = 0; index < 1_000; index += 1) expect(hasStep({ stepKeys: names }, `step${index}`)).toBe(true);
  expect(asked.times).toBe(once);
});

test.each([
  ['steps.a', true],
  ['steps.a.inputs', true],
  ['steps.a[0]', true],
  ['steps.ab', false],
  ['steps', false],
  ['lists[1].x', true],
  ['lists[12]', false],
])('%s lies within steps.a or lists[1]: %s', (path, expected) => {
  expect(isWithin(path, new Set(['steps.a', 'lists[1]']))).toBe(expected);
});
