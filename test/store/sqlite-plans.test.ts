import SqliteDatabase from 'better-sqlite3';
import { afterAll, describe, expect, it } from 'vitest';
import { tokenOf } from '../../src/model/runtime-keys.ts';
import { leaseVerbs } from '../../src/store/decisions/leases.ts';
import { removalVerbs } from '../../src/store/decisions/removal.ts';
import { verbsWith } from '../../src/store/decisions/verbs.ts';
import { defineFunctions, migrate } from '../../src/store/sqlite/connection.ts';
import { forgetRunKeys } from '../../src/store/sqlite/key-index.ts';
import type { OperationName } from '../../src/store/sqlite/messages.ts';
import { migrations } from '../../src/store/sqlite/migrations/index.ts';
import { operations } from '../../src/store/sqlite/operations.ts';
import { membersOf } from '../../src/store/sqlite/port.ts';
import { dispatchOperations, prepareTurns } from '../../src/store/sqlite/turns.ts';
import type { Claim } from '../../src/store/store.ts';
import { countRecords } from './count-records.ts';
import { flowId, graphOf, id, T0 } from './samples.ts';

const db = new SqliteDatabase(':memory:');
defineFunctions(db);
migrate(db, migrations);
afterAll(() => db.close());

/** The statements since it was last emptied. */
const asked: { sql: string; values: unknown[] }[] = [];
const watched = new Proxy(db, {
  get: (target, member) =>
    member === 'prepare'
      ? (sql: string) => watch(target.prepare(sql), (values) => asked.push({ sql, values }))
      : Reflect.get(target, member),
});
const prepared = new Map<string, (...given: unknown[]) => unknown>();

/** The plans of an operation's statements, without statistics, as in every service. */
function plansOf(name: string, ...args: unknown[]): string[] {
  const operation = operations[name as OperationName];
  if (operation.thread !== 'reader') throw new Error(`${name} writes`);
  const run = prepared.get(name) ?? (operation.prepare(watched) as (...given: unknown[]) => unknown);
  prepared.set(name, run);
  return plansIn(() => run(...args));
}

function plansIn(ask: () => void): string[] {
  asked.length = 0;
  ask();
  return asked.flatMap(({ sql, values }) => {
    const plan = plans.get(sql) ?? explain(sql, values);
    plans.set(sql, plan);
    return plan;
  });
}

/** Without statistics a statement has one plan, whatever its values. */
const plans = new Map<string, readonly string[]>();

function explain(sql: string, values: readonly unknown[]): string[] {
  const steps = db.prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`).all(...values);
  return steps.map(({ detail }) => detail);
}

function watch(statement: SqliteDatabase.Statement, note: (values: unknown[]) => void): SqliteDatabase.Statement {
  return new Proxy(statement, {
    get: (target, member) => {
      const own = Reflect.get(target, member);
      if (typeof own !== 'function') return own;
      return (...values: unknown[]) => {
        if (['all', 'get', 'iterate', 'run'].includes(String(member))) note(values);
        return own.apply(target, values);
      };
    },
  });
}

const large = /^SCAN (deliveries|runs|run_keys|delivery_keys|steps|attempts|d|r|k)\b(?! USING| VIRTUAL TABLE)/;

/** If counters say that a list is empty, it asks nothing more, so each filter needs a row to find. */
function seed(): void {
  db.exec(`
    INSERT INTO deliveries (id, flow_id, received_at, client_ip, mode, rejected, enforced, status_code, reason, violations,
      body_bytes, processing_ms, run_id, used_previous_key, kept_bytes, headers)
    VALUES ('${id(1)}', '${flowId}', ${T0}, '', 'Enforce', 1, 1, 401, 'ip_denied', '[]', 0, 0, NULL, 0, 0, '{}'),
      ('${id(2)}', '${flowId}', ${T0}, '', 'Enforce', 0, 0, 200, NULL, '[]', 0, 0, '${id(3)}', 0, 0, '{}')`);
  for (const [n, status] of ['Running', 'Succeeded', 'Failed'].entries()) {
    db.exec(`
      INSERT INTO runs (id, flow_id, flow_name, flow_version, revision, status, trigger_key, trigger_type, started_at,
        completed_at)
      VALUES ('${id(10 + n)}', '${flowId}', 'orders', '1', 1, '${status}', 'hook', 'webhook', ${T0},
        ${status === 'Running' ? 'NULL' : T0});
      INSERT INTO run_inputs VALUES ('${id(10 + n)}', NULL, '{}', x'')`);
  }
  countRecords(db);
}
seed();

const flows = [{}, { flowId }];
const pages = [
  { skip: 0, take: 50 },
  { skip: 1, take: 50, includeTotal: true },
];
const searches = [{}, { search: 'text' }, { search: id(1) }, { searchKeys: { order: 'SO-1' } }];
const combined = (...parts: object[][]): object[] =>
  parts.reduce((left, right) => left.flatMap((one) => right.map((other) => ({ ...one, ...other }))), [{}]);

const deliveryQueries = combined(
  pages,
  flows,
  searches,
  [{}, { reason: 'ip_denied' }],
  [
    {},
    { rejectedOnly: true },
    { acceptedOnly: true },
    { refusedOnly: true },
    { refusedOnly: true, since: T0, until: T0 + 1 },
    { since: T0 },
    { heldOnly: true },
  ],
);
const causes = [
  {},
  { step: 'first' },
  { code: 'timeout' },
  { host: 'a.example' },
  { error: 'no' },
  { step: 'first', code: 'timeout', host: 'https://a.example', error: 'no … é' },
];
const runQueries = combined(pages, flows, searches, [
  {},
  ...['Running', 'Succeeded', 'Failed'].map((status) => ({ status })),
  { status: 'Running', before: { startedAt: T0, id: id(10) } },
  { since: T0, until: T0 + 1 },
  { status: 'Succeeded', since: T0 },
  ...(['signal', 'slot'] as const).map((kind) => ({ waiting: { kind, dueBefore: T0 } })),
  { withoutFlow: id(9) },
  ...causes.map((cause) => ({ cause })),
  { cause: {}, status: 'Failed', since: T0, until: T0 + 1, withoutFlow: id(9) },
]);
const limits = { valueBytes: 100, answerBytes: 1000 };
const range = { since: T0, until: T0 + 3_600_000, bucketMs: 3_600_000 };

const questions: [name: string, ...unknown[]][] = [
  ...deliveryQueries.map((query): [string, unknown] => ['listDeliveries', query]),
  ...runQueries.map((query): [string, unknown] => ['listRuns', query]),
  ['listRuns', { skip: 0, take: 50, includeTotal: true, search: 'text', searchedFlows: [flowId] }],
  ['countArrivals', { flowId, triggerKey: 'a', after: id(1), upTo: id(9), byEvent: true }],
  ['listArrivalHours', { flowId, triggerKey: 'a' }],
  ['listRefusalHours', { flowId, triggerKey: 'a', fromHour: 1, toHour: 3 }],
  ['sampleDeliveries', { flowId, triggerKey: 'a', after: id(1), upTo: id(9), limit: 9, maxBytes: 9 }],
  ['listPathCounts', { flowId, triggerKey: 'a' }],
  ['sumPathCounts', flowId],
  ['findDelivery', id(1)],
  ['findRedelivery', id(1)],
  ['findRun', id(10)],
  ['describeRuns', { running: [id(10)], ended: [id(11)], dueBefore: T0 }],
  ['findLineage', id(10)],
  ['listSteps', id(10)],
  ['listSignals', id(10)],
  ['readRunInput', { runId: id(10) }],
  ['findWait', { runId: id(10), stepKey: 'first' }],
  ['readRunInput', { runId: id(10), stepKeys: ['first'], maxBytes: 1 }],
  ['outlineSteps', id(10), ['first', 'second']],
  ['findStep', id(10), 'first', limits],
  ['pageSteps', { runId: id(10), planned: ['first'], skip: 0, take: 50, limits }],
  ['readValue', { runId: id(10), stepKey: 'first', value: 'output', offset: 0, bytes: 100 }],
  ['readValue', { runId: id(10), stepKey: 'first', attempt: 1, value: 'input', offset: 0, bytes: 100 }],
  ['listStepEvents', { runId: id(10), limit: 50 }],
  ['listLoops', id(10)],
  ['countChildren', id(10)],
  ['findIterations', { runId: id(10), loopKey: 'each', status: 'Failed', limit: 50 }],
  ['deliveryStats', { since: T0 + 1 }],
  ['deliveriesByFlow', { since: T0, flowIds: undefined }],
  ['slowestByFlow', T0],
  ['summariseDeliveries', { since: T0 }],
  ['summariseDeliveries', { since: T0, flowId }],
  ['countDeliveries', { since: T0, recentSince: T0 }],
  ['countUnevaluated', T0],
  ['countRefused', { flowId, triggerKey: 'github', reason: 'signature_mismatch', since: T0 }],
  ['countRefused', { flowId: null, triggerKey: null, reason: 'unknown_flow', since: T0 }],
  ['listDeliveries', { skip: 0, take: 50, outcome: 'filtered' }],
  ['countBooks', { since: T0, until: T0 + 60_000 }],
  ['listKeyUsers', { flowId, triggerKey: 'hook', upTo: id(9), since: T0, limit: 9 }],
  ['countRuns'],
  ['countEndedRuns', T0],
  ['listSlotWaits', { now: T0, dueBefore: T0 }],
  ['listLongSteps', { startedBefore: T0 }],
  ['measureBacklog', { now: T0, most: 10_000 }],
  ['listHostWaits', { now: T0, most: 10_000 }],
  ...flows.flatMap((flow): [string, unknown][] => [
    ['deliveryTimeseries', { flowId: undefined, ...flow, ...range }],
    ['runTimeseries', { flowId: undefined, ...flow, ...range }],
    ...searches.flatMap((search): [string, unknown][] => [
      ['deliveryTimeseries', { ...flow, ...search, ...range, reason: 'ip_denied' }],
      ['deliveryTimeseries', { ...flow, ...search, ...range, heldOnly: true }],
      ['runTimeseries', { ...flow, ...search, ...range, status: 'Failed', withoutFlow: id(9) }],
    ]),
    ...causes.flatMap((cause): [string, unknown][] => [
      ['runTimeseries', { ...flow, ...range, cause }],
      ['groupFailures', { ...flow, cause, trend: { since: T0, until: T0 + 24, parts: 24 } }],
    ]),
    ['deliveryTimeseries', { flowId: undefined, ...flow, ...range, bucketMs: 60_000 }],
    ['runTimeseries', { flowId: undefined, ...flow, ...range, bucketMs: 60_000 }],
  ]),
];

describe('no question reads a large table from one end to the other', () => {
  it.each(questions.map(([name, ...args]) => [name, JSON.stringify(args), args] as const))(
    '%s %s',
    (name, _text, args) => {
      const plans = plansOf(name, ...args);
      expect(plans).not.toEqual([]);
      expect(plans.filter((plan) => large.test(plan))).toEqual([]);
    },
  );

  it.each(['listRuns', 'listDeliveries'] as const)('%s sorts no keys that begin with a text to count them', (name) => {
    const plans = plansOf(name, { skip: 0, take: 50, search: 'text' }).join('\n');
    const counted = [...plans.matchAll(/CO-ROUTINE first\n(.*?)\nSCAN first/gs)].map(([, plan = '']) => plan);
    expect(counted).not.toEqual([]);
    expect(counted.filter((plan) => plan.includes('TEMP B-TREE'))).toEqual([]);
  });

  it('and one that does would be seen here', () => {
    const plans = db
      .prepare<[], { detail: string }>("EXPLAIN QUERY PLAN SELECT * FROM runs WHERE flow_name = ''")
      .all();
    expect(plans.filter(({ detail }) => large.test(detail))).not.toEqual([]);
  });
});

describe('the next turn of a flow', () => {
  it('is found by seeks in the index of due steps: nothing is sorted, and no row of another turn is read', () => {
    db.exec(`
      INSERT INTO steps (run_id, flow_id, step_key, step_type, status, due_at)
      VALUES ('${id(10)}', '${flowId}', 'a', 'NoOp', 'Pending', ${T0}),
        ('${id(10)}', '${flowId}', 'b', 'Delay', 'Running', ${T0 + 1})`);
    const plans = plansIn(() => {
      const claim = prepareTurns(watched);
      claim({ owner: 'me', now: T0, leasedUntil: T0 + 1, limit: 1 }, () => ({}) as Claim);
    });
    db.exec('DELETE FROM steps');
    const steps = 'SEARCH steps USING INDEX steps_due';
    // Comparing a pair of columns at once would give the same plan, but read every step of the pair that it leaves.
    expect(new Set(plans.filter((plan) => /\b(steps|s|own) USING /.test(plan)))).toEqual(
      new Set([
        `${steps} (status=?)`,
        `${steps} (status=? AND flow_id>?)`,
        `${steps} (status=? AND flow_id=? AND step_type>?)`,
        'SEARCH own USING INTEGER PRIMARY KEY (rowid=?)',
        'SEARCH steps USING INDEX steps_suspect (due_at>?)',
        'SEARCH s USING INDEX steps_due (status=? AND flow_id=? AND step_type=? AND due_at>?)',
      ]),
    );
    expect(plans.filter((plan) => plan.includes('TEMP B-TREE'))).toEqual([]);
  });
});

describe('what every start and every claim asks', () => {
  it('reads no step but those that are due', () => {
    db.exec(`
      INSERT INTO steps (run_id, flow_id, step_key, step_type, status, due_at, lease_token)
      VALUES ('${id(10)}', '${flowId}', 'a', 'NoOp', 'Running', ${T0}, 'held')`);
    const plans = plansIn(() => {
      membersOf(leaseVerbs).recover.prepare(watched)({ owner: 'me', now: T0 });
      dispatchOperations.claimDue.prepare(watched)({ owner: 'me', now: T0, leasedUntil: T0 + 1, limit: 1 });
    });
    db.exec('DELETE FROM steps; DELETE FROM attempts');
    expect(plans.filter((plan) => /^SCAN s(teps)?\b/.test(plan))).toEqual([]);
    expect(plans.filter((plan) => large.test(plan))).toEqual([]);
  });
});

describe('an outcome', () => {
  it('finds its step and its run by one look-up, by their keys', () => {
    db.exec(`
      INSERT INTO steps (run_id, flow_id, step_key, step_type, status, due_at, lease_token)
      VALUES ('${id(10)}', '${flowId}', 'a', 'NoOp', 'Running', ${T0}, 'me~1')`);
    const advance = membersOf(verbsWith({})).advance.prepare(watched);
    const outcome = { runId: id(10), stepKey: 'a', token: tokenOf(id(10), 'a', 'me~1'), at: T0, input: {} };
    const error = { code: 'busy', message: 'busy', retryable: true };
    const plans = plansIn(() => advance({ ...outcome, result: { kind: 'retry', error, dueAt: T0 + 1 } }));
    const held = db.prepare("SELECT status, due_at, lease_token FROM steps WHERE step_key = 'a'").get();
    db.exec('DELETE FROM steps; DELETE FROM attempts');
    expect(held).toEqual({ status: 'Pending', due_at: T0 + 1, lease_token: null });
    expect(asked.filter(({ sql }) => /^\s*SELECT/.test(sql))).toHaveLength(1);
    expect(plans.slice(0, 2)).toEqual([
      'SEARCH s USING INDEX sqlite_autoindex_steps_1 (run_id=? AND step_key=?)',
      'SEARCH r USING INDEX sqlite_autoindex_runs_1 (id=?)',
    ]);
  });
});

describe('the outcome of a step of a large graph', () => {
  const advance = membersOf(verbsWith({})).advance.prepare(watched);

  /** What outcomes ask, but for the first, which reads the graph, and the last, after which one step follows. */
  function questionsOf(number: number, count: number, order: (keys: string[]) => string[]) {
    const runId = id(number);
    const keys = Array.from({ length: count }, (_, n) => `s${String(n).padStart(4, '0')}`);
    const snapshot = { steps: graphOf({ ...Object.fromEntries(keys.map((key) => [key, []])), join: keys }) };
    db.exec(`
      INSERT INTO runs (id, flow_id, flow_name, flow_version, revision, status, trigger_key, trigger_type, started_at)
      VALUES ('${runId}', '${flowId}', 'orders', '1', ${number}, 'Running', 'hook', 'webhook', ${T0});
      INSERT INTO revisions (flow_id, revision, name, version, hash, digest, created_at, access, overrides, findings,
        acting_steps, snapshot)
      VALUES ('${flowId}', ${number}, '', '1', '', '', ${T0}, 'same', '[]', '[]', '[]', '${JSON.stringify(snapshot)}')`);
    const insert = db.prepare(`
      INSERT INTO steps (run_id, flow_id, step_key, step_type, status, due_at, lease_token)
      VALUES ('${runId}', '${flowId}', ?, 'NoOp', 'Running', ${T0}, 'me~1')`);
    for (const key of keys) insert.run(key);
    const questions = order(keys).map((stepKey) => {
      asked.length = 0;
      const token = tokenOf(runId, stepKey, 'me~1');
      advance({ runId, stepKey, token, at: T0, input: {}, result: { kind: 'succeeded', output: null } });
      return asked.filter(({ sql }) => /^\s*SELECT/.test(sql)).map(({ values }) => JSON.stringify(values).length);
    });
    const joined = db.prepare("SELECT status FROM steps WHERE step_key = 'join'").get();
    db.exec(`DELETE FROM steps; DELETE FROM runs WHERE id = '${runId}'; DELETE FROM revisions`);
    expect(joined).toEqual({ status: 'Pending' });
    const others = questions.slice(1, -1);
    return { most: Math.max(...others.map(({ length }) => length)), characters: Math.max(...others.flat()) };
  }

  it.each<[string, number, (keys: string[]) => string[]]>([
    ['in their order', 20, (keys) => keys],
    ['from the last to the first', 30, (keys) => keys.toReversed()],
  ])('asks no more the more steps come before the same step, though they end %s', (_, number, order) => {
    expect(questionsOf(number + 1, 800, order)).toEqual(questionsOf(number, 100, order));
  });
});

describe('removal', () => {
  const removal = membersOf(removalVerbs({ forgetRuns: forgetRunKeys }));

  it('reads the rows of removed runs in the order of their keys, so that a slice reads no more than it removes', () => {
    db.exec(`
      INSERT INTO removed_runs VALUES ('${id(10)}'), ('${id(11)}');
      INSERT INTO steps (run_id, flow_id, step_key, step_type, status)
      SELECT run_id, '${flowId}', 'a', 'NoOp', 'Succeeded' FROM removed_runs`);
    const plans = plansIn(() => {
      expect(removal.purgeRuns.prepare(watched)({ before: T0, maxRows: 100 })).toMatchObject({ rows: 2 });
    });
    expect(plans.filter((plan) => large.test(plan) || plan.includes('TEMP B-TREE'))).toEqual([]);
  });

  it('finds what is old by an index, and what belongs to it by its keys', () => {
    const plans = plansIn(() => {
      db.exec('BEGIN');
      const given = { before: T0 + 1, limit: 100 };
      expect(removal.purgeRuns.prepare(watched)({ before: T0 + 1, maxRows: 100 })).toMatchObject({ runs: 2 });
      expect(removal.purgeDeliveries.prepare(watched)(given)).toBe(2);
      removal.purgeNonces.prepare(watched)({ now: T0, limit: 100 });
      db.exec('ROLLBACK');
    });
    expect(plans.filter((plan) => large.test(plan))).toEqual([]);
  });
});

describe('a filter reads only the rows that match it', () => {
  it.each<[OperationName, object, string]>([
    ['listDeliveries', {}, 'COVERING INDEX'],
    ['listDeliveries', { rejectedOnly: true }, 'COVERING INDEX deliveries_rejected'],
    // Nearly all are accepted, so no index is worth a write with each of them.
    ['listDeliveries', { acceptedOnly: true }, 'INDEX sqlite_autoindex_deliveries_1'],
    ['listDeliveries', { reason: 'ip_denied' }, 'COVERING INDEX deliveries_by_reason (reason=?)'],
    ['listDeliveries', { flowId }, 'COVERING INDEX deliveries_by_flow (flow_id=?)'],
    ['listDeliveries', { flowId, rejectedOnly: true }, 'COVERING INDEX deliveries_by_flow_rejected (flow_id=?)'],
    ['listDeliveries', { flowId, acceptedOnly: true }, 'COVERING INDEX deliveries_by_flow (flow_id=?)'],
    [
      'listDeliveries',
      { flowId, reason: 'ip_denied' },
      'COVERING INDEX deliveries_by_flow_reason (flow_id=? AND reason=?)',
    ],
    ['listRuns', {}, 'COVERING INDEX runs_by_time'],
    // Nearly all succeed, so no index is worth a write at the end of each run.
    ['listRuns', { status: 'Succeeded' }, 'INDEX runs_by_time'],
    ['listRuns', { status: 'Failed' }, 'COVERING INDEX runs_by_status (status=?)'],
    ['listRuns', { status: 'Running' }, 'COVERING INDEX runs_by_status (status=?)'],
    ['listRuns', { search: 'x', searchedTriggers: ['hook'] }, 'COVERING INDEX runs_by_trigger (trigger_key=?)'],
    ['listRuns', { flowId }, 'COVERING INDEX runs_by_revision (flow_id=?)'],
    ['listRuns', { flowId, status: 'Failed' }, 'COVERING INDEX runs_by_status (status=?)'],
    ['listRuns', { flowId, status: 'Running' }, 'COVERING INDEX runs_by_status (status=?)'],
    ['listRuns', { flowId, status: 'Succeeded' }, 'INDEX runs_by_revision (flow_id=?)'],
    ['listRuns', { withoutFlow: id(9) }, 'COVERING INDEX runs_by_time'],
    ['listRuns', { cause: { step: 'first' } }, 'INDEX steps_failed'],
    ['listRuns', { cause: { code: 'timeout', host: 'a.example' } }, 'INDEX steps_failed_by_code (<expr>=?)'],
  ])('%s %j', (name, query, index) => {
    const plans = plansOf(name, { skip: 0, take: 50, ...query });
    expect(plans).toContainEqual(expect.stringContaining(index));
  });
});
