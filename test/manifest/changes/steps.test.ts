import { describe, expect, it } from 'vitest';
import { compare, flow, verdicts, withHistory } from './samples.ts';

const noOp = (...after: string[]) => ({
  type: 'NoOp',
  runAfter: Object.fromEntries(after.map((key) => [key, ['Succeeded']])),
});
const chain = { a: noOp(), b: noOp('a'), c: noOp('b') };

describe('the class of an edit of steps', () => {
  it.each([
    ['a leaf is added', chain, { ...chain, d: noOp('c') }, ['step-added safe steps.d']],
    ['an entry step is added', chain, { ...chain, d: noOp() }, ['step-added safe steps.d']],
  ])('%s', (_, before, after, expected) => {
    expect(verdicts(compare(flow(before), flow(after), withHistory('a', 'b', 'c')))).toEqual(expected);
  });
});
