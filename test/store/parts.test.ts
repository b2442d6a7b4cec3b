import SqliteDatabase from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { keysStore } from '../../src/features/keys/store.ts';
import { decideNow } from '../../src/store/decisions/decision.ts';
import { inspectionOf } from '../../src/store/decisions/inspection.ts';
import { storePart, verbsOfParts } from '../../src/store/decisions/part.ts';
import { handlesOf } from '../../src/store/part.ts';
import { defineFunctions, migrate } from '../../src/store/sqlite/connection.ts';
import { migrations } from '../../src/store/sqlite/migrations/index.ts';
import { portOf } from '../../src/store/sqlite/port.ts';

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

test('an inspection answers what a part reads, and refuses what it writes', async () => {
  const db = new SqliteDatabase(':memory:');
  onTestFinished(() => void db.close());
  defineFunctions(db);
  migrate(db, migrations);
  const keys = inspectionOf(portOf(db), decideNow).of(keysStore);
  expect(await keys.listKeyFigures({ recentSince: 0 })).toEqual([]);
  await expect(keys.tidyKeys({ before: 0, limit: 1 })).rejects.toThrow('an inspection changes nothing');
});
