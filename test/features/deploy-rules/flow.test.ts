import { describe, expect, it } from 'vitest';
import { findReplaced } from '../../../src/deploys/changes/index.ts';
import { compare, flow } from './samples.ts';

describe('a manifest with an unknown id', () => {
  const deployed = [
    { id: 'a', name: 'Orders', slugs: ['in'] },
    { id: 'b', name: 'Reports', slugs: [] },
  ];
  it.each([
    [
      'shares a slug with a flow that is gone',
      { id: 'x', name: 'New', slugs: ['IN'] },
      ['a'],
      { id: 'a', because: 'slug' },
    ],
    [
      'has the name of a flow that is gone',
      { id: 'x', name: 'Reports', slugs: [] },
      ['a', 'b'],
      { id: 'b', because: 'name' },
    ],
    ['has the name of a flow that is there', { id: 'x', name: 'Reports', slugs: [] }, ['a'], undefined],
    ['has nothing of any', { id: 'x', name: 'New', slugs: ['new'] }, ['a', 'b'], undefined],
    ['has an id that is known after all', { id: 'b', name: 'Orders', slugs: ['in'] }, ['a'], undefined],
  ])('%s', (_, next, gone, expected) => {
    expect(findReplaced({ next, deployed, goneIds: new Set(gone) })).toEqual(expected);
  });
});

describe('the order of runs', () => {
  const steps = { a: { type: 'NoOp' } };
  const by = (serialize?: string, serializeOnFailure?: string) =>
    flow(steps, { ...(serialize && { serialize }), ...(serializeOnFailure && { serializeOnFailure }) });

  it.each([
    [by(), by('trigger.key'), ['serialize-changed caution']],
    [by('trigger.key'), by(), ['serialize-changed caution']],
    [by('trigger.key'), by('trigger.body.id'), ['serialize-changed caution']],
    [by('trigger.key'), by('trigger.key', 'stop'), ['serialize-on-failure-changed caution']],
    [by('trigger.key', 'stop'), by('trigger.key', 'continue'), ['serialize-on-failure-changed caution']],
    // Both mean the same.
    [by('trigger.key'), by('trigger.key', 'continue'), ['serialize-on-failure-changed safe']],
  ])('a change is told: %#', (before, after, found) => {
    expect(compare(before, after).map(({ rule, class: gravity }) => `${rule} ${gravity}`)).toEqual(found);
  });
});
