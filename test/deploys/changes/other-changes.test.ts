import { expect, it } from 'vitest';
import { compareRevisions } from '../../../src/deploys/changes/index.ts';
import type { Json } from '../../../src/model/json.ts';
import { mergePatch } from '../../features/deploy-rules/merge-patch.ts';
import { flow, QUIET, SETTINGS, snapshot, verdicts } from '../../features/deploy-rules/samples.ts';

const steps = { a: { type: 'NoOp' }, b: { type: 'NoOp', runAfter: { a: ['Succeeded'] } } };
const [one, two] = [{ type: 'webhook' }, { type: 'webhook' }];
const before = snapshot(flow(steps, { triggers: { one, two } }));
const verdictsOf = (after: Json) =>
  verdicts(compareRevisions({ before, after, live: QUIET, settings: SETTINGS })).sort();

// Fields that a later release might write and no rule of this one knows.
it.each<[string, Json]>([
  ['priority', { priority: 1 }],
  ['steps.b.priority', { steps: { b: { priority: 1 } } }],
  ['steps.b.runAfter.a.priority', { steps: { b: { runAfter: { a: { priority: 1 } } } } }],
  ['triggers.one.priority', { triggers: { one: { priority: 1 } } }],
])('takes %s, which no rule knows, for a caution', (path, patch) => {
  expect(verdictsOf(mergePatch(before, patch))).toEqual([`other-changed caution ${path}`]);
});

it('takes a new order of triggers for a caution', () => {
  const turned = snapshot(flow(steps, { triggers: { two, one } }));
  expect(verdictsOf(mergePatch(turned, { triggers: { two: { priority: 1 } } }))).toEqual([
    'first-webhook-changed caution triggers',
    'other-changed caution triggers.two.priority',
  ]);
});
