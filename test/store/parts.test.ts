import { expect, test } from 'vitest';
import { storePart, verbsOfParts } from '../../src/store/decisions/part.ts';
import { handlesOf } from '../../src/store/part.ts';

const figures = storePart({
  name: 'figures',
  verbs: {
    countAll: {
      access: 'read',
      // biome-ignore lint/correctness/useYield: a count that asks nothing.
      *decide(_port, { most }: { most: number }) {
        return most;
      },
    },
  },
});

test('a handle of a part has the verbs of that part alone, with their types', async () => {
  const of = handlesOf({ countAll: async ({ most }: { most: number }) => most, listRuns: async () => [] });
  const count: number = await of(figures).countAll({ most: 3 });
  expect(count).toBe(3);
  expect(Object.keys(of(figures))).toEqual(['countAll']);
});

test('a part that the list of store parts does not name has no handle', () => {
  expect(() => handlesOf({})(figures)).toThrow('figures is not in the list');
});

test('a verb never takes the name of another member', () => {
  expect(verbsOfParts([figures], {})).toEqual(figures.verbs);
  expect(() => verbsOfParts([figures], { countAll: {} })).toThrow('a member countAll already; the part figures');
  expect(() => verbsOfParts([figures, { ...figures, name: 'others' }], {})).toThrow('the part others');
});
