import { describe, expect, it } from 'vitest';
import { findReplaced } from '../../../src/deploys/changes/index.ts';

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
