import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { stepKeys } from '../../../src/features/runs/page/step-paths.ts';

describe('the key of a step in a run', () => {
  it.each([
    ['price', 'price', '', null],
    ['lines.2.price', 'lines.price', 'lines.2.', { loopKey: 'lines', index: 2 }],
    ['a.0.1.22.3', 'a.1.3', 'a.0.1.22.', { loopKey: 'a.0.1', index: 22 }],
  ])('%s is the step %s', (key, path, scope, iteration) => {
    expect(stepKeys.pathOf(key)).toBe(path);
    expect(stepKeys.scopeOf(key)).toBe(scope);
    expect(stepKeys.iterationOf(key)).toEqual(iteration);
  });
});

describe('keys of steps in loops', () => {
  it.each([
    ['a.b.c', 'a.0.b.0.c'],
    ['a', 'a'],
  ])('the path %s is first run as %s', (path, key) => {
    expect(stepKeys.firstKeyAt(path)).toBe(key);
  });

  it.each([
    ['lines.2.price', 'lines'],
    ['a.0.b.3.c', 'a.0.b'],
    ['lines.price', 'lines'],
    ['ship', null],
  ])('%s is in the loop %j', (key, loop) => {
    expect(stepKeys.loopAround(key)).toBe(loop);
  });

  it('are alike but for the iteration', () => {
    expect(stepKeys.inIteration('a.0.b.3.c', 12)).toBe('a.0.b.12.c');
    expect(stepKeys.inIteration('ship', 12)).toBe('ship');
  });

  it('of any depth lead back to their path, their loop and their iteration', () => {
    const name = fc.stringMatching(/^[A-Za-z0-9_-]{1,8}$/);
    fc.assert(
      fc.property(fc.array(fc.tuple(name, fc.nat(1e6)), { maxLength: 4 }), name, fc.nat(1e6), (loops, own, other) => {
        const scope = loops.map(([loop, index]) => `${loop}.${index}.`).join('');
        const path = [...loops.map(([loop]) => loop), own].join('.');
        expect(stepKeys.pathOf(scope + own)).toBe(path);
        expect(stepKeys.scopeOf(scope + own)).toBe(scope);
        expect(stepKeys.pathOf(stepKeys.firstKeyAt(path))).toBe(path);
        const last = loops.at(-1);
        const loopKey = scope.slice(0, -1).replace(/\.\d+$/, '');
        expect(stepKeys.iterationOf(scope + own)).toEqual(last === undefined ? null : { loopKey, index: last[1] });
        if (last !== undefined)
          expect(stepKeys.iterationOf(stepKeys.inIteration(scope + own, other))).toEqual({ loopKey, index: other });
      }),
    );
  });
});
