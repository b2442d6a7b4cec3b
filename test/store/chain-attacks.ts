import { expect, test } from 'vitest';
import type { ActivityFault, ChainPlace } from '../../src/features/activity/chain.ts';
import { activityStore } from '../../src/features/activity/store.ts';
import { bodySealer, newKey } from '../../src/store/sealed-body.ts';
import type { Store } from '../../src/store/store.ts';
import { flowId, id, minute, T0 } from './samples.ts';

const { chainKey } = bodySealer(newKey());
const { chainKey: laterKey } = bodySealer(newKey());
type Key = typeof chainKey | undefined;

/** A database that is attacked between two uses. */
export interface AttackedDatabase {
  open(key: Key): Promise<Store>;
  /** Runs statements on tables with their SQLite names. */
  write(...statements: string[]): Promise<void>;
}

interface Attack {
  readonly name: string;
  readonly statements: readonly string[];
  readonly faults: readonly Pick<ActivityFault, 'kind' | 'seq'>[];
}

const SHIFT = [
  'UPDATE interventions SET seq = -seq - 1 WHERE seq > 2',
  'UPDATE interventions SET seq = -seq WHERE seq < 0',
];
const COLUMNS = 'id, at, actor, client_ip, action, target_type, target_id, reason, status_code, details, key_id';

/** On ten rows, from five interventions that have ended. */
const ATTACKS: readonly Attack[] = [
  ...['actor', 'reason', 'details', 'action', 'target_id'].map((column) => ({
    name: `changes the ${column} of a row`,
    statements: [`UPDATE interventions SET ${column} = 'x' WHERE seq = 5`],
    faults: [{ kind: 'changed', seq: 5 } as const],
  })),
  {
    name: 'changes how one ended',
    statements: ['UPDATE interventions SET status_code = 403 WHERE seq = 10'],
    faults: [{ kind: 'changed', seq: 10 }],
  },
  {
    name: 'changes two rows',
    statements: ["UPDATE interventions SET actor = 'x' WHERE seq IN (1, 7)"],
    faults: [
      { kind: 'changed', seq: 1 },
      { kind: 'changed', seq: 7 },
    ],
  },
  {
    name: 'removes a row',
    statements: ['DELETE FROM interventions WHERE seq = 4'],
    faults: [{ kind: 'removed', seq: 4 }],
  },
  {
    name: 'removes the first rows',
    statements: ['DELETE FROM interventions WHERE seq < 4'],
    faults: [{ kind: 'removed', seq: 1 }],
  },
  {
    name: 'removes the newest rows',
    statements: ['DELETE FROM interventions WHERE seq > 8'],
    faults: [{ kind: 'removed', seq: 9 }],
  },
  {
    name: 'inserts a row and numbers the others anew',
    statements: [
      ...SHIFT,
      `INSERT INTO interventions (seq, previous_hash, hash, ${COLUMNS})
        SELECT 3, hash, 'made up', ${COLUMNS} FROM interventions WHERE seq = 2`,
      'UPDATE intervention_ends SET newest_seq = 11',
    ],
    faults: [
      { kind: 'inserted', seq: 3 },
      { kind: 'ends', seq: null },
    ],
  },
  {
    name: 'adds a row at the end',
    statements: [
      `INSERT INTO interventions (seq, previous_hash, hash, ${COLUMNS})
        SELECT 11, hash, 'made up', ${COLUMNS} FROM interventions WHERE seq = 10`,
    ],
    faults: [{ kind: 'inserted', seq: 11 }],
  },
  {
    name: 'gives a row another number',
    statements: ['UPDATE interventions SET seq = 20 WHERE seq = 10', 'UPDATE intervention_ends SET newest_seq = 20'],
    faults: [
      { kind: 'changed', seq: 20 },
      { kind: 'ends', seq: null },
    ],
  },
  {
    name: 'says that retention removed the first rows',
    statements: [
      'DELETE FROM interventions WHERE seq < 4',
      'UPDATE intervention_ends SET removed_seq = 3, removed_hash = (SELECT previous_hash FROM interventions WHERE seq = 4)',
    ],
    faults: [{ kind: 'ends', seq: null }],
  },
  {
    name: 'says that an older row is the newest',
    statements: [
      'DELETE FROM interventions WHERE seq > 6',
      'UPDATE intervention_ends SET newest_seq = 6, newest_hash = (SELECT hash FROM interventions WHERE seq = 6)',
    ],
    faults: [{ kind: 'ends', seq: null }],
  },
];

/** Attacks that only the holder of the key could hide. */
const KEYED_ATTACKS: readonly Attack[] = [
  {
    name: 'removes rows and closes the gap',
    statements: [
      'DELETE FROM interventions WHERE seq IN (4, 5)',
      'UPDATE interventions SET seq = -(seq - 2) WHERE seq > 5',
      'UPDATE interventions SET seq = -seq WHERE seq < 0',
    ],
    faults: [{ kind: 'removed', seq: 4 }],
  },
  {
    name: 'empties the log',
    statements: ['DELETE FROM interventions', 'DELETE FROM intervention_ends'],
    faults: [{ kind: 'ends', seq: null }],
  },
];

/** Attacks on the activity log, each on a new database. */
export function chainAttacks(create: () => Promise<AttackedDatabase>): void {
  const written = async (key: Key) => {
    const database = await create();
    await withStore(database, key, async (store) => {
      for (const n of [1, 2, 3, 4, 5]) await act(store, n);
    });
    return database;
  };

  for (const key of [undefined, chainKey]) {
    const attacks = key === undefined ? ATTACKS : [...ATTACKS, ...KEYED_ATTACKS];
    test.each(attacks)(
      `${key === undefined ? 'without' : 'with'} a key, a check names it where one $name`,
      async (attack) => {
        const database = await written(key);
        await database.write(...attack.statements);
        await withStore(database, key, async (store) => {
          expect((await check(store)).map(({ kind, seq }) => ({ kind, seq }))).toEqual(attack.faults);
        });
      },
    );
  }

  test('what was changed is kept, and all that follows it, however old', async () => {
    const database = await written(chainKey);
    await database.write('UPDATE interventions SET at = 0 WHERE seq = 5');
    await withStore(database, chainKey, async (store) => {
      const before = T0 + 60 * minute;
      expect(await store.of(activityStore).purgeInterventions({ before, limit: 3 })).toEqual({
        rows: 3,
        brokenAt: null,
      });
      expect(await store.of(activityStore).purgeInterventions({ before, limit: 100 })).toEqual({
        rows: 1,
        brokenAt: 5,
      });
      expect(await store.of(activityStore).purgeInterventions({ before, limit: 100 })).toEqual({
        rows: 0,
        brokenAt: 5,
      });
      expect(await check(store)).toMatchObject([{ kind: 'changed', seq: 5 }]);
    });
  });

  test('rows of a key that is gone are deleted once a row after them is old', async () => {
    const database = await written(chainKey);
    await withStore(database, laterKey, async (store) => {
      await store.of(activityStore).changeActivityKey({ id: id(20), at: T0 + 100 * minute });
      const before = (n: number) => ({ before: T0 + n * minute, limit: 4 });
      expect(await store.of(activityStore).checkInterventions({ limit: 20 })).toMatchObject({
        rows: 11,
        otherKey: 10,
        faults: [],
      });
      expect(await store.of(activityStore).purgeInterventions(before(100))).toEqual({ rows: 0, brokenAt: null });
      expect(await store.of(activityStore).purgeInterventions(before(101))).toEqual({ rows: 4, brokenAt: null });
    });
  });

  test('a service that begins without the key is told by who has it', async () => {
    const database = await written(chainKey);
    await withStore(database, undefined, (store) => act(store, 6));
    await withStore(database, chainKey, async (store) => {
      expect(await check(store)).toEqual([
        expect.objectContaining({ kind: 'ends', message: expect.stringContaining('without the key') }),
      ]);
      await store.of(activityStore).changeActivityKey({ id: id(20), at: T0 });
      expect(await store.of(activityStore).checkInterventions({ limit: 20 })).toMatchObject({
        withoutKey: 2,
        faults: [],
      });
      const [change] = (
        await store.of(activityStore).listInterventions({ action: 'changeActivityKey', skip: 0, take: 5 })
      ).items;
      expect(change?.details).toEqual({ key: chainKey.id, formerKey: 'none' });
    });
  });
}

async function withStore<Value>({ open }: AttackedDatabase, key: Key, work: (store: Store) => Promise<Value>) {
  const store = await open(key);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

async function act(store: Store, n: number): Promise<void> {
  const about = { actor: 'oncall', clientIp: '203.0.113.9', action: 'disableFlow', details: {}, reason: 'why' };
  await store
    .of(activityStore)
    .beginIntervention({ id: id(n), at: T0 + n * minute, target: { type: 'flow', id: flowId }, ...about });
  await store.of(activityStore).endIntervention({ id: id(n), statusCode: 200 });
}

/** One row at a time, so that the state carried between checks is tested too. */
async function check(store: Store): Promise<readonly ActivityFault[]> {
  const faults: ActivityFault[] = [];
  for (let from: ChainPlace | null | undefined; from !== null; ) {
    const checked = await store.of(activityStore).checkInterventions({ from, limit: 1 });
    faults.push(...checked.faults);
    from = checked.next;
  }
  return faults;
}
