import { describe, expect, inject, test } from 'vitest';
import { openPostgresStore, type PostgresStoreOptions } from '../../src/store/postgres/client.ts';
import { migrate } from '../../src/store/postgres/migrate.ts';
import { migrations } from '../../src/store/postgres/migrations/index.ts';
import type { Store } from '../../src/store/store.ts';
import { eventually } from '../eventually.ts';
import { graphOf, minute, startRun, T0 } from '../store/samples.ts';
import { newSchema, openReplicas, runSql, storeOptions } from './schemas.ts';

const beat = {
  version: '1.0',
  startedAt: T0,
  clockOffsetMs: 0,
  fingerprint: null,
  judgesOthers: true,
  ledgerAt: T0,
  now: T0,
};
const request = { now: T0, leasedUntil: T0 + minute, limit: 9 };

/** Sets back the time at which a replica was last seen. */
function age(schema: string, name: string, ms: number) {
  return runSql(`UPDATE "${schema}".replicas SET seen_at = seen_at - $2::bigint WHERE name = $1`, [name, ms]);
}

describe('a replica', () => {
  test('counts under a number that no other one has, and that the next one takes over', async () => {
    const { schema, stores } = await openReplicas(['one', 'two', 'three']);
    const slots = async () => {
      const rows = await runSql(`SELECT name, slot FROM "${schema}".replicas ORDER BY slot`);
      return rows.map(({ slot }) => slot);
    };
    expect(await slots()).toEqual([0, 1, 2]);
    await stores[1]?.close();
    expect(await slots()).toEqual([0, 2]);
    const next = await openPostgresStore({ ...storeOptions(schema), replica: 'four' });
    expect(await slots()).toEqual([0, 1, 2]);
    await next.ping();
    // Each replica has 16 numbers, one for each of its connections.
    expect(await runSql(`SELECT slot FROM "${schema}".pings`)).toEqual([{ slot: 16 }]);
    await next.close();
  });

  test('that starts together with others has a number of its own', async () => {
    const { schema } = await openReplicas([]);
    const names = Array.from({ length: 6 }, (_, n) => `r${n}`);
    const opened = await Promise.all(names.map((replica) => openPostgresStore({ ...storeOptions(schema), replica })));
    const rows = await runSql(`SELECT slot FROM "${schema}".replicas ORDER BY slot`);
    expect(rows.map(({ slot }) => slot)).toEqual([0, 1, 2, 3, 4, 5]);
    await Promise.all(opened.map((store) => store.close()));
  });

  test('that was not seen for 15 s is dead: its steps are due at once and count its death', async () => {
    const { schema, stores } = await openReplicas(['one', 'two']);
    const [one, two] = stores as [Store, Store];
    await startRun(one, graphOf({ a: [], b: [] }));
    await one.claimDue({ ...request, owner: 'one', limit: 1 });
    await one.beat(beat);
    await age(schema, 'one', 14_000);
    expect(await two.beat(beat)).toMatchObject({ replicas: 2, died: [] });
    await age(schema, 'one', 1001);
    // A replica that missed its own heartbeats does not judge others.
    expect(await two.beat({ ...beat, judgesOthers: false })).toMatchObject({ died: [] });
    expect((await two.listReplicas({ now: T0 })).map(({ name }) => name)).toEqual(['two']);
    expect(await two.beat({ ...beat, now: T0 + 1 })).toMatchObject({ replicas: 1, died: [{ name: 'one', steps: 1 }] });
    const { claims } = await two.claimDue({ ...request, owner: 'two', now: T0 + 1 });
    expect(claims).toMatchObject([
      { stepKey: 'b', interruptions: 0 },
      { stepKey: 'a', interruptions: 1, loneDeaths: 1 },
    ]);
  });

  test('returns the leases that it was given and never heard of, and they count as nothing', async () => {
    const { stores } = await openReplicas(['one', 'two']);
    const [one, two] = stores as [Store, Store];
    await startRun(one, graphOf({ a: [], b: [] }));
    const { claims } = await one.claimDue({ ...request, owner: 'one' });
    const [known, lost] = claims.map(({ token }) => token) as [string, string];
    const held = [known];
    const left = async () => (await two.claimDue({ ...request, owner: 'two' })).claims;
    await two.beat({ ...beat, lost: { leasedBefore: T0 + minute, held: [] } });
    await one.beat({ ...beat, lost: { leasedBefore: T0 + minute - 1, held } });
    expect(await left()).toEqual([]);
    await one.beat({ ...beat, lost: { leasedBefore: T0 + minute, held } });
    expect(await one.renewLeases({ tokens: [known, lost], leasedUntil: T0 + minute })).toEqual([lost]);
    expect(await left()).toMatchObject([{ stepKey: claims[1]?.stepKey, interruptions: 0, loneDeaths: 0 }]);
  });

  test('that was taken for dead and lives is listed again, without its leases', async () => {
    const { schema, stores } = await openReplicas(['one', 'two']);
    const [one, two] = stores as [Store, Store];
    await startRun(one, graphOf({ a: [] }));
    const { claims } = await one.claimDue({ ...request, owner: 'one' });
    await age(schema, 'one', 16_000);
    await two.beat(beat);
    expect(await one.beat(beat)).toMatchObject({ replicas: 2, died: [] });
    const tokens = claims.map(({ token }) => token);
    expect(await one.renewLeases({ tokens, leasedUntil: T0 + 9 * minute })).toEqual(tokens);
  });

  test('that died is buried once, however many find it', async () => {
    const { schema, stores } = await openReplicas(['dead', 'one', 'two', 'three']);
    await age(schema, 'dead', 16_000);
    const beats = await Promise.all(stores.slice(1).map((store) => store.beat(beat)));
    expect(beats.flatMap(({ died }) => died)).toEqual([{ name: 'dead', at: expect.any(Number), steps: 0 }]);
    // From then on any of them can report it, until a replica of that name comes back.
    expect((await stores[1]?.beat(beat))?.dead).toEqual([{ name: 'dead', at: expect.any(Number), steps: 0 }]);
    await stores[0]?.beat(beat);
    expect((await stores[1]?.beat(beat))?.dead).toEqual([]);
  });

  test('that stopped is not among the dead', async () => {
    const { stores } = await openReplicas(['one', 'two']);
    const [one, two] = stores as [Store, Store];
    await one.close();
    expect(await two.beat(beat)).toMatchObject({ replicas: 1, dead: [] });
  });

  test('is told when the schema no longer fits its release, and not as long as it does', async () => {
    const { schema, stores } = await openReplicas(['one']);
    const [one] = stores as [Store];
    const newest = migrations.at(-1)?.version ?? 0;
    const next = (n: number, compatibleFrom: number) => ({
      version: newest + n,
      name: `next ${n}`,
      compatibleFrom,
      sql: `CREATE TABLE sluice.next_${n} (id integer)`,
    });
    const expand = next(1, newest);
    await migrate({ url: inject('postgresUrl'), schema, migrations: [...migrations, expand] });
    expect((await one.beat(beat)).misfit).toBeUndefined();
    const contract = next(2, newest + 1);
    await migrate({ url: inject('postgresUrl'), schema, migrations: [...migrations, expand, contract] });
    const needs = `has schema version ${newest + 2}, which needs a release that knows version ${newest + 1}`;
    expect((await one.beat(beat)).misfit).toContain(needs);
    await expect(openPostgresStore({ ...storeOptions(schema), replica: 'late' })).rejects.toThrow(needs);
  });

  test('that closes is gone at once', async () => {
    const { stores } = await openReplicas(['one', 'two']);
    const [one, two] = stores as [Store, Store];
    await one.close();
    expect(await two.beat(beat)).toMatchObject({ replicas: 1, died: [] });
  });
});

describe('of two processes with one name', () => {
  const open = (schema: string, change: Partial<PostgresStoreOptions> = {}) =>
    openPostgresStore({ ...storeOptions(schema), replica: 'one', ...change });

  test('the second does not start while the first is alive, and says what to set', async () => {
    const schema = newSchema();
    const applicationName = `name-${schema}`.slice(0, 50);
    const one = await open(schema, { applicationName });
    // The next connection takes the lock again.
    await runSql('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', [
      `${applicationName}/changes`,
    ]);
    let answer = '';
    await eventually(
      () => isNameFree(schema),
      (isFree) => isFree !== true,
    );
    void open(schema).then(
      () => {
        answer = 'it started';
      },
      (error: Error) => {
        answer = error.message;
      },
    );
    const beatOn = async () => {
      await one.beat(beat);
      return answer;
    };
    expect(await eventually(beatOn, (told) => told !== '', WAITS_FOR_BEATS)).toBe(
      'another running process is called one; give each replica its own SLUICE_REPLICA_NAME',
    );
    expect(await one.beat(beat)).toMatchObject({ replicas: 1, died: [] });
    await one.close();
  });

  test('the second starts at once where the first has crashed', async () => {
    const { schema, stores } = await openReplicas(['other']);
    await runSql(
      `INSERT INTO "${schema}".replicas (name, instance, slot, version, started_at, seen_at, clock_offset_ms, fingerprint)
      VALUES ('one', 'crashed', 9, '', 0, extract(epoch FROM now()) * 1000 + 3600000, 0, 'null')`,
    );
    const one = await open(schema);
    expect((await stores[0]?.listReplicas({ now: T0 }))?.map(({ name }) => name)).toEqual(['one', 'other']);
    await one.close();
  });

  test('the second takes the place of the first where that was silent for 15 s, and the first ends if it wakes', async () => {
    const { schema, stores } = await openReplicas(['other']);
    const lost: Error[] = [];
    const first = await open(schema, { onFatal: (error) => lost.push(error) });
    await age(schema, 'one', 15_001);
    const second = await open(schema);
    await expect(first.beat(beat)).rejects.toThrow('SLUICE_REPLICA_NAME');
    expect(lost).toMatchObject([{ name: 'NameTakenError' }]);
    await first.close();
    expect(await second.beat(beat)).toMatchObject({ replicas: 2 });
    expect(stores).toHaveLength(1);
    await second.close();
  });
});

const WAITS_FOR_BEATS = { seconds: 40, because: 'a start waits for 15 s until it knows that the other one lives' };

/** Whether no living process holds the lock of the name `one`. */
async function isNameFree(schema: string): Promise<unknown> {
  const [row] = await runSql(
    `SELECT pg_try_advisory_xact_lock(hashtextextended('sluice replica one of ' || $1, 0)) AS "isFree"`,
    [schema],
  );
  return row?.isFree;
}
