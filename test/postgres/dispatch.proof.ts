import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openPostgresStore } from '../../src/store/postgres/client.ts';
import type { Claim } from '../../src/store/store.ts';
import { flowId, graphOf, id, minute, T0 } from '../store/samples.ts';
import { newSchema, runSql, storeOptions } from './schemas.ts';

type PostgresStore = Awaited<ReturnType<typeof openPostgresStore>>;

/** Opens two stores on one schema, as two replicas do. */
async function openTwo() {
  const schema = newSchema();
  const stores: PostgresStore[] = [];
  for (let n = 0; n < 2; n += 1) stores.push(await openPostgresStore(storeOptions(schema)));
  onTestFinished(async () => {
    await Promise.all(stores.map((store) => store.close()));
  });
  const [one, two] = stores as [PostgresStore, PostgresStore];
  return { schema, one, two };
}

/** Inserts a flow with its limits, and runs with one due step each. */
async function seed(
  schema: string,
  { runs, from = 0, flow = flowId, ...limits }: { runs: number; from?: number; flow?: string; concurrency?: number },
): Promise<void> {
  const snapshot = JSON.stringify({ id: flow, steps: graphOf({ a: [] }), ...limits });
  await runSql(
    `INSERT INTO "${schema}".flows (id, name, version, revision, is_enabled, created_at, updated_at)
    VALUES ($1, 'Orders', '1.0', 1, true, 0, 0) ON CONFLICT DO NOTHING`,
    [flow],
  );
  await runSql(
    `INSERT INTO "${schema}".revisions
      (flow_id, revision, name, version, hash, digest, acting_steps, created_at, access, overrides, findings, snapshot)
    VALUES ($1, 1, 'Orders', '1.0', 'hash', gen_random_uuid(), '[]', 0, 'same', '[]', '[]', $2) ON CONFLICT DO NOTHING`,
    [flow, snapshot],
  );
  const ids = Array.from({ length: runs }, (_, n) => id(1000 + from + n));
  await runSql(
    `INSERT INTO "${schema}".runs (id, flow_id, flow_name, flow_version, revision, status, trigger_key, trigger_type,
      started_at, trigger_headers, trigger_body)
    SELECT id, $2, 'Orders', '1.0', 1, 'Running', 'github', 'webhook', $3, '{}', '' FROM unnest($1::uuid[]) AS id`,
    [ids, flow, T0],
  );
  await runSql(
    `INSERT INTO "${schema}".steps (run_id, step_key, step_type, status, due_at, flow_id)
    SELECT id, 'a', 'NoOp', 'Pending', $2, $3 FROM unnest($1::uuid[]) AS id`,
    [ids, T0, flow],
  );
}

const request = { owner: 'one', now: T0, leasedUntil: T0 + minute, limit: 100 };

/** Claims until no step can be claimed. */
async function drain(store: PostgresStore, owner: string, limit: number): Promise<Claim[]> {
  const claims: Claim[] = [];
  for (;;) {
    const batch = await store.claimDue({ ...request, owner, limit });
    claims.push(...batch.claims);
    if (batch.claims.length === 0 && batch.nextDueAt !== T0 + 20) return claims;
  }
}

describe('two replicas that claim at once', () => {
  test('take every due step, each one once', async () => {
    const { schema, one, two } = await openTwo();
    await seed(schema, { runs: 300 });
    const all = await Promise.all([drain(one, 'one', 7), drain(two, 'two', 7), drain(one, 'one', 7)]);
    const claims = all.flat();
    expect(new Set(claims.map(({ runId }) => runId)).size).toBe(300);
    expect(claims).toHaveLength(300);
    expect(claims.every(({ attempt, interruptions }) => attempt === 1 && interruptions === 0)).toBe(true);
  });

  test('neither waits for the rows that the other is claiming', async () => {
    const { schema, one } = await openTwo();
    await seed(schema, { runs: 2 });
    await holding(`SELECT 1 FROM "${schema}".steps WHERE run_id = '${id(1000)}' FOR UPDATE`, async () => {
      const batch = await one.claimDue(request);
      expect(batch.claims.map(({ runId }) => runId)).toEqual([id(1001)]);
      expect(batch.nextDueAt).toBe(T0 + 20);
    });
    expect((await one.claimDue(request)).claims.map(({ runId }) => runId)).toEqual([id(1000)]);
  });

  test('a step of a run that is being told to stop is left until that is done', async () => {
    const { schema, one } = await openTwo();
    await seed(schema, { runs: 1 });
    await holding(`SELECT 1 FROM "${schema}".runs FOR UPDATE`, async () => {
      expect((await one.claimDue(request)).claims).toEqual([]);
    });
    expect((await one.claimDue(request)).claims).toHaveLength(1);
  });

  test('run no more steps of a flow than it may, whichever claims first', async () => {
    const { schema, one, two } = await openTwo();
    for (let round = 0; round < 20; round += 1) {
      const flow = id(round);
      await seed(schema, { runs: 9, from: round * 10, flow, concurrency: 3 });
      const batches = await Promise.all([
        one.claimDue(request),
        two.claimDue({ ...request, owner: 'two' }),
        one.claimDue(request),
        two.claimDue({ ...request, owner: 'two' }),
      ]);
      const claims = [...batches.flatMap((batch) => batch.claims), ...(await drain(one, 'one', 9))];
      expect(claims.map(({ flowId }) => flowId)).toEqual([flow, flow, flow]);
    }
  });

  test('a limited flow that another claims from holds no other flow back', async () => {
    const { schema, one } = await openTwo();
    await seed(schema, { runs: 1, concurrency: 1 });
    await seed(schema, { runs: 1, from: 1, flow: id(7) });
    const lock = `SELECT pg_advisory_xact_lock(hashtextextended('sluice claims of ${schema} from ${flowId}', 0))`;
    await holding(lock, async () => {
      const batch = await one.claimDue(request);
      expect(batch).toMatchObject({ claims: [{ flowId: id(7) }], nextDueAt: T0 + 20 });
    });
    expect((await one.claimDue(request)).claims).toMatchObject([{ flowId }]);
  });

  test('a run whose time is up and that another transaction has is looked at a moment later, not again and again', async () => {
    const { schema, one } = await openTwo();
    await seed(schema, { runs: 1 });
    await runSql(`UPDATE "${schema}".runs SET timeout_at = $1`, [T0]);
    await holding(`SELECT 1 FROM "${schema}".runs FOR UPDATE`, async () => {
      expect(await one.claimOverdue(request)).toEqual({ timedOut: [], orphaned: [], claims: [], nextAt: T0 + 20 });
    });
    expect(await one.claimOverdue(request)).toMatchObject({ timedOut: [{ runId: id(1000) }], nextAt: null });
  });

  test('a claim of a limited flow does not wait for a deploy of it', async () => {
    const { schema, one } = await openTwo();
    await seed(schema, { runs: 1, concurrency: 1 });
    await holding(`SELECT 1 FROM "${schema}".flows FOR UPDATE`, async () => {
      expect((await one.claimDue(request)).claims).toHaveLength(1);
    });
  });
});

describe('the leases of one replica', () => {
  test('are freed without those of the others', async () => {
    const { schema, one, two } = await openTwo();
    await seed(schema, { runs: 3 });
    await one.claimDue({ ...request, limit: 2 });
    await two.claimDue({ ...request, owner: 'two' });
    expect(await one.recover({ owner: 'one', now: T0 + 1 })).toBe(2);
    const again = await two.claimDue({ ...request, owner: 'two', now: T0 + 1 });
    expect(again.claims).toMatchObject([
      { runId: id(1000), attempt: 2, interruptions: 1, loneDeaths: 0 },
      { runId: id(1001), attempt: 2, interruptions: 1, loneDeaths: 0 },
    ]);
    expect(await one.recover({ owner: 'one', now: T0 + 1 })).toBe(0);
  });

  test('are lost to whoever claimed the steps meanwhile', async () => {
    const { schema, one, two } = await openTwo();
    await seed(schema, { runs: 1 });
    const [late] = (await one.claimDue(request)).claims;
    await two.claimDue({ ...request, owner: 'two', now: T0 + minute, leasedUntil: T0 + 2 * minute });
    const tokens = [late?.token ?? ''];
    expect(await one.renewLeases({ tokens, leasedUntil: T0 + 9 * minute })).toEqual(tokens);
    await one.returnLeases({ tokens, at: T0 });
    await one.beginAttempts({ attempts: [{ token: tokens[0] ?? '', dueAt: T0, startedAt: T0 }] });
    expect(await two.recover({ owner: 'two', now: T0 + minute })).toBe(1);
  });
});

/** Does something while a transaction on another connection holds locks. */
async function holding(lock: string, work: () => Promise<void>): Promise<void> {
  const { url } = storeOptions('public');
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query('BEGIN');
    await client.query(lock);
    await work();
  } finally {
    await client.end();
  }
}
