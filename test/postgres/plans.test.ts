import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { awaited, decide } from '../../src/store/decisions/decision.ts';
import { SEARCHED_ROWS } from '../../src/store/decisions/lists.ts';
import type { Query } from '../../src/store/decisions/port.ts';
import { type Connections, createConnections } from '../../src/store/postgres/connections.ts';
import { migrate } from '../../src/store/postgres/migrate.ts';
import { operations } from '../../src/store/postgres/operations.ts';
import type { Sql, SqlValue } from '../../src/store/postgres/sql.ts';
import { eventually } from '../eventually.ts';
import { flowId, id, T0 } from '../store/samples.ts';
import { asked, type Node, planOf } from './query-plans.ts';
import { dropSchema, runSql, storeOptions } from './schemas.ts';

/** Enough rows to make reading all of them too expensive for PostgreSQL. */
const RUNS = 60_000;
const schema = `test_${randomUUID().replaceAll('-', '')}`;
const otherFlow = '6f2b1c1e-9999-4222-8333-444455556666';
let connections: Connections;
/** PostgreSQL 15 cannot. */
let explainsPrepared = false;

beforeAll(async () => {
  const options = storeOptions(schema);
  await migrate(options);
  await seed();
  connections = createConnections({ ...options, replica: 'test' });
  const [server] = await runSql("SELECT current_setting('server_version_num')::integer AS version");
  explainsPrepared = Number(server?.version) >= 160_000;
}, 120_000);
afterAll(async () => {
  await connections?.close();
  await dropSchema(schema);
});

/** Runs of two flows, one a second; of two hundred, one failed, one is running and the others succeeded. */
async function seed(): Promise<void> {
  const uuid = (n: string) => `('019aa000-0000-7000-8000-' || lpad(to_hex(${n}), 12, '0'))::uuid`;
  const flow = `CASE WHEN n % 3 = 0 THEN '${otherFlow}' ELSE '${flowId}' END`;
  const status = "CASE WHEN n % 200 = 0 THEN 'Running' WHEN n % 200 = 1 THEN 'Failed' ELSE 'Succeeded' END";
  const numbers = `generate_series(1, ${RUNS}) AS n`;
  await runSql(`SET search_path = ${schema};
    INSERT INTO flows VALUES ('${flowId}', 'Orders', '1', 3, true, NULL, NULL, NULL, 0, 0);
    INSERT INTO revisions (flow_id, revision, name, version, hash, digest, acting_steps, snapshot, created_at, source,
      access, overrides, findings)
    SELECT '${flowId}', n, 'Orders', '1', 'hash ' || n, ${uuid('n')}, '[]', '{"steps":{"first":{"type":"NoOp","inputs":{},"runAfter":{}}}}', 0, 'api',
      'same', '[]', '[]' FROM generate_series(1, 3) AS n;
    INSERT INTO runs (id, flow_id, flow_name, flow_version, revision, status, trigger_key, trigger_type, delivery_id,
      source_run_id, started_at, trigger_headers, trigger_body)
    SELECT ${uuid('n')}, ${flow}, 'Orders', '1', 1 + n * 3 / ${RUNS + 1}, ${status}, 'hook', 'webhook',
      ${uuid(`${RUNS} + n`)}, CASE WHEN n % 50 = 0 THEN ${uuid('n - 1')} END, ${T0} + n * 1000, '{}', ''
    FROM ${numbers};
    INSERT INTO steps (run_id, step_key, step_type, status, flow_id, attempt_count, started_at, completed_at)
    SELECT ${uuid('n')}, key, 'NoOp', 'Succeeded', ${flow}, 1, ${T0} + n * 1000, ${T0} + n * 1000
    FROM ${numbers}, unnest(ARRAY['first']) AS key;
    INSERT INTO attempts (run_id, step_key, attempt, status, due_at, started_at, completed_at)
    SELECT run_id, step_key, 1, status, started_at, started_at, completed_at FROM steps;
    INSERT INTO deliveries (id, flow_id, trigger_key, received_at, client_ip, mode, rejected, enforced, status_code, reason,
      violations, body_bytes, processing_ms, run_id, used_previous_key, headers, kept_bytes)
    SELECT ${uuid(`${RUNS} + n`)}, ${flow}, 'hook', ${T0} + n * 1000, '192.0.2.7', 'Enforce', n % 10 = 0, n % 10 = 0,
      CASE n % 10 WHEN 0 THEN 401 ELSE 200 END, CASE n % 10 WHEN 0 THEN 'ip_denied' END, '[]', 2, 1,
      CASE WHEN n % 10 > 0 THEN ${uuid('n')} END, false, '{}', 1000
    FROM ${numbers};
    INSERT INTO run_keys SELECT id, 'order', 'so-' || right(id::text, 6), 'SO-' || right(id::text, 6) FROM runs;
    INSERT INTO run_keys SELECT id, 'event', 'orders/create' FROM runs;
    INSERT INTO delivery_keys SELECT id, 'order', 'so-' || right(id::text, 6) FROM deliveries WHERE run_id IS NULL;
    INSERT INTO signals (run_id, name, delivered_at) SELECT id, 'go', started_at FROM runs;
    INSERT INTO loops SELECT id, 'each', 1, 1, 1, 1, 0 FROM runs;
    INSERT INTO interventions (seq, id, at, actor, action, target_type, target_id, details, previous_hash, hash)
    SELECT row_number() OVER (ORDER BY id), id, started_at, 'oncall', 'cancelRun', 'run', id::text, '{}', '', '' FROM runs;
    INSERT INTO intervention_ends VALUES (1, 0, '', ${RUNS}, '', NULL, '');
    INSERT INTO run_totals SELECT flow_id, status, 0, count(*) FROM runs GROUP BY flow_id, status;
    INSERT INTO delivery_totals SELECT flow_id, coalesce(reason, ''), rejected, 0, count(*) FROM deliveries GROUP BY 1, 2, 3;
    INSERT INTO delivery_counts
    SELECT received_at / 60000, coalesce(reason, ''), rejected, 0, count(*), (array_agg(id ORDER BY id))[1],
      (array_agg(id ORDER BY id DESC))[1]
    FROM deliveries GROUP BY 1, 2, 3;
    RESET search_path`);
  for (const table of LARGE) await eventually(() => vacuum(table), Boolean);
}

/** Vacuums; returns whether all pages are visible now, which affects plans. Other tests' transactions prevent it. */
async function vacuum(table: string): Promise<boolean> {
  await runSql(`VACUUM (ANALYZE) ${schema}.${table}`);
  const [pages] = await runSql('SELECT relpages = relallvisible AS visible FROM pg_class WHERE oid = $1::regclass', [
    `${schema}.${table}`,
  ]);
  return pages?.visible === true;
}

const LARGE = new Set([
  'runs',
  'steps',
  'attempts',
  'deliveries',
  'run_keys',
  'delivery_keys',
  'signals',
  'loops',
  'interventions',
]);

interface Plans {
  /** Plans that PostgreSQL executed for this call's values. */
  readonly done: Node[];
  /** Generic plans, which it may use in later calls of a prepared statement, whatever the values. */
  readonly prepared: Node[];
}

interface Operation {
  readonly purpose: 'read' | 'write';
  run(sql: Sql, ...args: unknown[]): Promise<unknown>;
}

function unknown(name: string): never {
  throw new Error(`the store has no member ${name}`);
}

/** The plans of a member's statements. */
async function plansOf(name: string, ...args: unknown[]): Promise<Plans> {
  const { purpose, run } = (operations as unknown as Readonly<Record<string, Operation>>)[name] ?? unknown(name);
  const plans: Plans = { done: [], prepared: [] };
  const work = async (sql: Sql) => {
    const later: Query[] = [];
    await run(explained(sql, plans, later), ...args);
    // Statements that nothing awaited have run by then, so only their generic plans are left to read.
    for (const { strings } of explainsPrepared ? later : []) {
      plans.prepared.push(...(await planOf(sql, 'GENERIC_PLAN', textOf(strings))));
    }
    throw new Error('rolled back');
  };
  await expect(purpose === 'read' ? connections.read(work) : connections.transact('write', work)).rejects.toThrow(
    'rolled back',
  );
  return plans;
}

const textOf = (strings: readonly string[]) => strings.reduce((before, after, at) => `${before}$${at}${after}`);

/** Explains each statement before it runs, and rolls back so that the statement can then run. */
function explained(sql: Sql, plans: Plans, later: Query[] = []): Sql {
  const explainUnprepared = async (text: string, values: readonly SqlValue[] = []) => {
    await sql.run('SAVEPOINT explained');
    plans.done.push(...(await planOf(sql, 'ANALYZE, TIMING OFF', text, values)));
    await sql.run('ROLLBACK TO SAVEPOINT explained');
  };
  const explain = async (text: string, values: readonly SqlValue[] = []) => {
    if (explainsPrepared) plans.prepared.push(...(await planOf(sql, 'GENERIC_PLAN', text)));
    await explainUnprepared(text, values);
  };
  const explainQuery = async ({ strings, values, isFixed }: Query) => {
    const text = textOf(strings);
    await (isFixed ? explain(text, values) : explainUnprepared(text, values));
  };
  return {
    ...sql,
    port: {
      ...sql.port,
      get: <Row>(query: Query) => awaited(explainQuery(query).then(() => decide(asked(sql.port.get<Row>(query))))),
      all: <Row>(query: Query) => awaited(explainQuery(query).then(() => decide(asked(sql.port.all<Row>(query))))),
      run: (query) => awaited(explainQuery(query).then(() => decide(asked(sql.port.run(query))))),
      later(query) {
        later.push(query);
        sql.port.later(query);
      },
    },
    all: async <Row>(text: string, values?: readonly SqlValue[]) => {
      await explain(text, values);
      return sql.all<Row>(text, values);
    },
    get: async <Row>(text: string, values?: readonly SqlValue[]) => {
      await explain(text, values);
      return sql.get<Row>(text, values);
    },
    run: async (text, values) => {
      await explain(text, values);
      return sql.run(text, values);
    },
  };
}

/** Whether it reads a large table completely. */
function isWhole(node: Node): boolean {
  return node['Node Type'] === 'Seq Scan' && LARGE.has(node['Relation Name'] ?? '');
}

/** Rows of large tables that were read. */
function rowsRead(nodes: readonly Node[]): number {
  const scans = nodes.filter((node) => LARGE.has(node['Relation Name'] ?? ''));
  return scans.reduce((sum, node) => {
    const rows = (node['Actual Rows'] ?? 0) + (node['Rows Removed by Filter'] ?? 0);
    return sum + rows * (node['Actual Loops'] ?? 0);
  }, 0);
}

const flows = [{}, { flowId }];
const pages = [
  { skip: 0, take: 50 },
  { skip: 1, take: 50, includeTotal: true },
];
const combined = (...parts: object[][]): object[] =>
  parts.reduce((left, right) => left.flatMap((one) => right.map((other) => ({ ...one, ...other }))), [{}]);

const statuses = ['Running', 'Succeeded', 'Failed'].map((status) => ({ status }));
const runQueries = combined(pages, flows, [
  {},
  ...statuses,
  { status: 'Running', before: { startedAt: T0 + 9_000_000, id: id(9000) } },
]);
const deliveryQueries = combined(pages, flows, [
  {},
  { reason: 'ip_denied' },
  { rejectedOnly: true },
  { acceptedOnly: true },
]);
const lists = ['listRuns', 'listDeliveries'] as const;
/** An order that exists, and one that does not. */
const orders = [`SO-${id(RUNS - 1).slice(-6)}`, 'SO-none'];
const limits = { valueBytes: 100, answerBytes: 1000 };
const range = { since: T0, until: T0 + 3_600_000, bucketMs: 3_600_000 };
const minutes = { since: T0, until: T0 + 300_000, bucketMs: 60_000 };

type Question = [name: string, ...unknown[]];
const questions: Question[] = [
  ...runQueries.map((query): Question => ['listRuns', query]),
  ...deliveryQueries.map((query): Question => ['listDeliveries', query]),
  ...lists.flatMap((list) =>
    combined(
      pages,
      flows,
      orders.map((order) => ({ searchKeys: { order } })),
    ).map((query): Question => [list, query]),
  ),
  ['findDelivery', id(RUNS + 1)],
  ['findRun', id(10)],
  ['describeRuns', { running: [id(200)], ended: [id(201), id(401)], dueBefore: T0 }],
  ...(['signal', 'slot'] as const).map(
    (kind): Question => ['listRuns', { skip: 0, take: 50, waiting: { kind, dueBefore: T0 } }],
  ),
  ['listDeliveries', { skip: 0, take: 50, heldOnly: true }],
  ['listRuns', { skip: 0, take: 50, includeTotal: true, withoutFlow: id(9) }],
  ...combined(flows, [{}, { step: 'first' }, { code: 'timeout' }, { host: 'a.example', error: 'no … é' }]).flatMap(
    ({ flowId: own, ...cause }: { flowId?: string }): Question[] => [
      ['listRuns', { skip: 0, take: 50, includeTotal: true, flowId: own, cause }],
      ['groupFailures', { flowId: own, cause, trend: { since: T0, until: T0 + 24, parts: 24 } }],
      ['runTimeseries', { flowId: own, cause, ...range }],
    ],
  ),
  ['findLineage', id(49)],
  ['listSteps', id(10)],
  ['listSignals', id(10)],
  ['readRunInput', { runId: id(10) }],
  ['findWait', { runId: id(10), stepKey: 'first' }],
  ['readRunInput', { runId: id(10), stepKeys: ['first'], maxBytes: 1 }],
  ['outlineSteps', id(10), ['first', 'second']],
  ['findStep', id(10), 'first', limits],
  ['pageSteps', { runId: id(10), planned: ['first'], skip: 0, take: 50, limits }],
  ['readValue', { runId: id(10), stepKey: 'first', attempt: undefined, value: 'output', offset: 0, bytes: 100 }],
  ['readValue', { runId: id(10), stepKey: 'first', attempt: 1, value: 'input', offset: 0, bytes: 100 }],
  ['listStepEvents', { runId: id(10), limit: 50 }],
  ['listLoops', id(10)],
  ['countChildren', id(10)],
  ['findIterations', { runId: id(10), loopKey: 'each', status: 'Failed', limit: 50 }],
  ['readLiveFlow', flowId],
  ['listRevisions', { flowId: otherFlow, skip: 0, take: 50 }],
  ['listInterventions', { skip: 0, take: 50 }],
  ['listInterventions', { skip: 0, take: 50, target: id(10) }],
  ['listInterventions', { skip: 0, take: 1, id: id(10) }],
  ['noteIntervention', { id: id(10), details: { done: '1' } }],
  ['endIntervention', { id: id(10), statusCode: 200 }],
  ['purgeInterventions', { before: T0 + 9_000_000, limit: 100 }],
  ['checkInterventions', { limit: 50 }],
  ['countRuns'],
  ['countEndedRuns', T0],
  ['deliveryStats', { since: T0 + 61_001 }],
  ['deliveriesByFlow', { since: T0, flowIds: undefined }],
  ['slowestByFlow', T0],
  ['countDeliveries', { since: T0, recentSince: T0 }],
  ['countUnevaluated', T0],
  ['countRefused', { flowId, triggerKey: 'github', reason: 'signature_mismatch', since: T0 }],
  ['countRefused', { flowId: null, triggerKey: null, reason: 'unknown_flow', since: T0 }],
  ['listDeliveries', { skip: 0, take: 50, outcome: 'filtered' }],
  ['countBooks', { since: T0, until: T0 + 60_000 }],
  ...flows.flatMap((flow): Question[] => [
    ['deliveryTimeseries', { flowId: undefined, ...flow, ...range }],
    ['runTimeseries', { flowId: undefined, ...flow, ...range }],
    ['deliveryTimeseries', { flowId: undefined, ...flow, ...minutes }],
    ['runTimeseries', { flowId: undefined, ...flow, ...minutes }],
  ]),
];

describe('no question reads more rows than its answer needs', () => {
  it.each(questions.map(([name, ...args]) => [name, JSON.stringify(args), args] as const))(
    '%s %s',
    async (name, _text, args) => {
      const { done, prepared } = await plansOf(name, ...args);
      expect(done).not.toEqual([]);
      // A page with its total where one row in ten matches, the runs in flight, or the runs whose step is read.
      expect(rowsRead(done)).toBeLessThan(1500);
      expect(prepared.filter(isWhole)).toEqual([]);
    },
  );

  it.each(combined(flows, [{}, ...statuses], [{ search: 'no such text' }, { search: id(7) }]))(
    'a search for runs reads as many as are searched: %j',
    async (query) => {
      const { done } = await plansOf('listRuns', { skip: 0, take: 50, ...query });
      // Each has two search keys.
      expect(rowsRead(done)).toBeLessThanOrEqual(3 * SEARCHED_ROWS + 1500);
    },
  );

  it.each(lists.flatMap((list) => [list, list]).map((list, n) => [list, orders[n % 2] ?? ''] as const))(
    'and a search for the value of a search key few more: %s %s',
    async (list, search) => {
      const { done } = await plansOf(list, { skip: 0, take: 50, search });
      expect(rowsRead(done)).toBeLessThanOrEqual(3 * SEARCHED_ROWS + 1500);
    },
  );

  it.each(lists)('and a value that all have no more than are searched: %s', async (list) => {
    for (const query of [{ searchKeys: { event: 'Orders/Create' } }, { search: 'orders/' }]) {
      const { done } = await plansOf(list, { skip: 0, take: 50, ...query });
      expect(rowsRead(done)).toBeLessThanOrEqual(5 * SEARCHED_ROWS);
    }
  });

  it('and one that does would be seen here', async () => {
    const plans: Plans = { done: [], prepared: [] };
    await connections.read((sql) => explained(sql, plans).all('SELECT id FROM sluice.runs WHERE flow_name = $1', ['']));
    expect(rowsRead(plans.done)).toBe(RUNS);
    expect(plans.prepared.filter(isWhole)).toHaveLength(explainsPrepared ? 1 : 0);
  });
});

it('removal finds what is old by an index, and what belongs to it by its keys', async () => {
  const before = T0 + 100_000;
  const removals = [
    await plansOf('purgeRuns', { before, maxRows: 100 }),
    await plansOf('purgeDeliveries', { before, limit: 50 }),
    await plansOf('purgeNonces', { now: before, limit: 50 }),
  ];
  for (const { done, prepared } of removals) {
    expect(rowsRead(done)).toBeLessThan(1500);
    expect(prepared.filter(isWhole)).toEqual([]);
  }
});

describe('a list reads its rows from the index that has them in its order', () => {
  it.each<[string, object, string]>([
    ['listRuns', {}, 'runs_by_time'],
    // Nearly all runs succeed, so no index is worth a write at the end of each run.
    ['listRuns', { status: 'Succeeded' }, 'runs_by_time'],
    ['listRuns', { status: 'Failed' }, 'runs_by_status'],
    ['listRuns', { status: 'Running' }, 'runs_by_status'],
    ['listRuns', { search: 'x', searchedTriggers: ['rare'] }, 'runs_by_trigger'],
    ['listRuns', { flowId }, 'runs_by_revision'],
    ['listRuns', { flowId, status: 'Failed' }, 'runs_by_status'],
    ['listRuns', { flowId, status: 'Running' }, 'runs_by_status'],
    ['listRuns', { flowId, status: 'Succeeded' }, 'runs_by_revision'],
    ['listDeliveries', {}, 'deliveries_pkey'],
    ['listDeliveries', { rejectedOnly: true }, 'deliveries_rejected'],
    ['listDeliveries', { reason: 'ip_denied' }, 'deliveries_by_reason'],
    ['listDeliveries', { flowId }, 'deliveries_by_flow'],
    ['listDeliveries', { flowId, rejectedOnly: true }, 'deliveries_by_flow_rejected'],
    ['listDeliveries', { flowId, reason: 'ip_denied' }, 'deliveries_by_flow_reason'],
    ['listInterventions', {}, 'interventions_by_id'],
    ['listInterventions', { target: id(10) }, 'interventions_by_target'],
  ])('%s %j', async (name, query, index) => {
    const { done } = await plansOf(name, { skip: 0, take: 50, ...query });
    expect(done.map((node) => node['Index Name'])).toContain(index);
  });
});

/** Due steps of two flows and three types; a claim takes the first few. */
const DUE = 30_000;

async function seedDue(): Promise<void> {
  const uuid = (n: string) => `('019aa000-0000-7000-8000-' || lpad(to_hex(${n}), 12, '0'))::uuid`;
  await runSql(`SET search_path = ${schema};
    INSERT INTO steps (run_id, step_key, step_type, status, due_at, flow_id)
    SELECT ${uuid(`200 * (1 + n % ${RUNS / 200})`)}, 'due ' || n, 'Type ' || n % 3, 'Pending', ${T0} + n,
      CASE WHEN n % 2 = 0 THEN '${flowId}' ELSE '${otherFlow}' END
    FROM generate_series(1, ${DUE}) AS n;
    RESET search_path`);
  await runSql(`VACUUM (ANALYZE) ${schema}.steps`);
}

// Last, because the other questions need the rows as they are before.
describe('with many steps due', () => {
  beforeAll(seedDue, 60_000);

  const request = { owner: 'one', now: T0 + DUE, leasedUntil: T0 + 2 * DUE, limit: 64 };

  it.each<[string, object, number]>([
    ['claimDue', request, 2000],
    ['claimOverdue', request, 500],
    ['recover', { owner: 'one', now: T0 }, 100],
    ['listLongSteps', { startedBefore: T0 }, 100],
    ['listReplicas', { now: T0 }, 100],
    ['listHostWaits', { now: T0, most: 10_000 }, 100],
    ['releaseHostWaits', { queue: 'https://a.example.com', now: T0, limit: 20, everyMs: 50 }, 100],
    ['measureBacklog', { now: T0 + DUE, most: 100 }, 1000],
  ])('%s reads few of them', async (name, given, most) => {
    const { done, prepared } = await plansOf(name, given);
    expect(rowsRead(done)).toBeLessThan(most);
    expect(prepared.filter(isWhole)).toEqual([]);
  });
});
