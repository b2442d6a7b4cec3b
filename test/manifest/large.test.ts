import { expect, it, test } from 'vitest';
import { hasStep } from '../../src/manifest/check-steps.ts';
import { isWithin, MAX_NAMES, nearestName } from '../../src/manifest/issues.ts';

/** Names that count how often they are asked for. */
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
