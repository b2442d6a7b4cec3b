import { expect, onTestFinished, test } from 'vitest';
import { acceptAll } from '../../src/store/postgres/acceptance.ts';
import { advanceAll } from '../../src/store/postgres/advance-batch.ts';
import { createConnections } from '../../src/store/postgres/connections.ts';
import { operations } from '../../src/store/postgres/operations.ts';
import type { Sql } from '../../src/store/postgres/sql.ts';
import { acceptanceOf, aNonce, deployOf, failed, graphOf, retryAt, succeeded, T0 } from '../store/samples.ts';
import { type Node, planOf } from './query-plans.ts';
import { newSchema, openStore, runSql, storeOptions } from './schemas.ts';

/** Records the statements of a transaction. */
function noting(sql: Sql, texts: Set<string>): Sql {
  const noted =
    <Rest extends unknown[], Value>(send: (text: string, ...rest: Rest) => Value) =>
    (text: string, ...rest: Rest) => {
      texts.add(text);
      return send(text, ...rest);
    };
  return { ...sql, all: noted(sql.all) as Sql['all'], get: noted(sql.get) as Sql['get'], later: noted(sql.later) };
}

const KINDS = [
  ['of its own', false],
  ['through a pooler', true],
] as const;

test.each(KINDS)('what writes is never compiled on a connection %s', async (_name, isPooled) => {
  const schema = newSchema();
  await (await openStore({ schema })).close();
  const connections = createConnections({ ...storeOptions(schema), replica: 'test', isPooled });
  onTestFinished(() => connections.close());
  for (const purpose of ['accept', 'write'] as const) {
    expect(await connections.transact(purpose, (sql) => sql.get("SELECT current_setting('jit') AS jit"))).toEqual({
      jit: 'off',
    });
  }
});

test.each(KINDS)(
  'what accepts, claims and advances is planned to read no table as a whole on a connection %s, though the tables are small',
  async (_name, isPooled) => {
    const [server] = await runSql("SELECT current_setting('server_version_num')::integer AS version");
    // PostgreSQL 15 cannot show the plan of a statement without its values.
    if (Number(server?.version) < 160_000) return;
    const schema = newSchema();
    const store = await openStore({ schema });
    onTestFinished(() => store.close());
    const connections = createConnections({ ...storeOptions(schema), replica: 'test', isPooled });
    onTestFinished(() => connections.close());
    await store.deployFlow(deployOf(graphOf({ first: [], second: ['first'] })));
    const writes: Set<string> = new Set();
    const nonce = (value: string) => aNonce({ value });
    const accepted = [1, 2, 3].map((n) => ({
      acceptance: acceptanceOf(n, { nonce: nonce(`${n}`), idempotencyKey: `${n}` }),
    }));
    await connections.transact('accept', (sql) => acceptAll(noting(sql, writes), accepted));
    const request = { owner: 'one', now: T0, leasedUntil: T0 + 1, limit: 3 };
    const { claims } = await connections.transact('write', (sql) =>
      operations.claimDue.run(noting(sql, writes), request),
    );
    const results = [succeeded(), failed(), retryAt(T0)];
    const outcomes = claims.map(({ token, runId, stepKey }, n) => {
      return { outcome: { token, runId, stepKey, at: T0, input: {}, result: results[n] ?? succeeded() } };
    });
    expect(await connections.transact('write', (sql) => advanceAll(noting(sql, writes), outcomes))).toHaveLength(3);
    for (const purpose of ['accept', 'write'] as const) {
      const nodes = await connections.transact(purpose, async (sql) => {
        const plans: Node[] = [];
        for (const text of writes) plans.push(...(await planOf(sql, 'GENERIC_PLAN', text)));
        return plans;
      });
      const names = new Set(nodes.map((node) => `${node['Node Type']} ${node['Relation Name'] ?? ''}`));
      expect([...names]).toContain('Index Scan steps');
      expect([...names].filter((name) => /^Seq Scan|^Hash Join|^Merge Join/.test(name))).toEqual([]);
    }
  },
);
