import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { edgeLabel, edgeState, graphStepAt } from '../../../src/features/runs/page/graph.ts';
import type { Edge } from '../../../src/model/manifest.ts';

describe('the label of an edge', () => {
  it('is short enough for the picture, however long the condition is', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 300, unit: 'grapheme' }), (condition) => {
        const label = edgeLabel({ statuses: ['Succeeded'], when: condition }, 'pay') ?? '';
        expect([...label].length).toBeLessThanOrEqual(34);
        expect(label).not.toMatch(/\p{Surrogate}/u);
      }),
    );
  });
});

describe('an edge', () => {
  it.each([
    [{ statuses: ['Succeeded'] }, null],
    [{ statuses: ['Succeeded', 'Failed'] }, 'Succeeded or Failed'],
    [{ statuses: ['Succeeded'], when: 'steps.pay.output.ok == true' }, 'when output.ok == true'],
    [
      { statuses: ['Failed'], when: `size(steps.other.output.${'x'.repeat(40)}) > 1` },
      'Failed, when size(steps.other.out…',
    ],
  ] as [Edge, string | null][])('%j is labelled %j', (edge, text) => {
    expect(edgeLabel(edge, 'pay')).toBe(text);
  });

  it.each([
    [undefined, undefined, 'ahead'],
    ['Running', 'Pending', 'ahead'],
    ['Succeeded', 'Running', 'taken'],
    ['Succeeded', 'Skipped', 'skipped'],
    ['Failed', 'Skipped', 'skipped'],
    ['Failed', undefined, 'skipped'],
  ] as const)('from a step that is %s to one that is %s is %s', (from, to, state) => {
    expect(edgeState({ statuses: ['Succeeded'] }, from, to)).toBe(state);
  });
});

it('a path leads to the step of the graph', () => {
  const price = { type: 'NoOp', runAfter: {} };
  const graph = { lines: { type: 'ForEach', runAfter: {}, steps: { price } } };
  expect(graphStepAt(graph, 'lines.price')).toBe(price);
  expect(graphStepAt(graph, 'lines.none')).toBeUndefined();
  expect(graphStepAt(graph, 'toString')).toBeUndefined();
  expect(graphStepAt(graph, 'lines.price.deeper')).toBeUndefined();
  expect(graphStepAt(graph, '')).toBeUndefined();
});
