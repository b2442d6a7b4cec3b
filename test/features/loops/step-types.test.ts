import { describe, expect, it } from 'vitest';
import { startOfLoop } from '../../../src/features/loops/step-types.ts';
import { StepFailure } from '../../../src/flows/step-failure.ts';
import { stepOf } from '../../flows/fixture.ts';

/** The number of items that the loop starts with, or its error. */
function start(stepKey: string, items: number, children: number): number | string {
  const steps = Object.fromEntries(Array.from({ length: children }, (_, at) => [`s${at}`, stepOf('NoOp')]));
  const given = { forEach: Array.from({ length: items }, () => 0) };
  try {
    return startOfLoop(stepOf('ForEach', { steps }), given, stepKey).items.length;
  } catch (error) {
    if (!(error instanceof StepFailure)) throw error;
    return error.message;
  }
}

describe('a loop of a run has', () => {
  it.each<[string, string, number, number, number | RegExp]>([
    ['100 000 items', 'each', 100_000, 10, 100_000],
    ['no more', 'each', 100_001, 1, /has 100001 items; at most 100000/],
    ['a million steps', 'each', 1000, 1000, 1000],
    ['no more', 'each', 1001, 1000, /1001 items of 1000 steps make 1001000 steps; a loop of a run has at most 1000000/],
    ['as many in a loop, whichever iteration it is in', 'rows.999.cells', 100, 10, 100],
    [
      'no more, if the iterations before had as many',
      'rows.1000.cells',
      100,
      10,
      /make 1001000 steps in 1001 iterations/,
    ],
    ['no more, three loops deep', 'a.99.b.9.c', 1001, 1, /make 1001000 steps in 1000 iterations/],
  ])('%s', (_what, stepKey, items, children, expected) => {
    const found = start(stepKey, items, children);
    if (typeof expected === 'number') expect(found).toBe(expected);
    else expect(found).toMatch(expected);
  });
});
