import { describe, expect, onTestFinished, test } from 'vitest';
import { tokenOf } from '../../src/model/runtime-keys.ts';
import { type AdvanceAnswer, type AdvanceCall, advanceAll } from '../../src/store/postgres/advance-batch.ts';
import { createConnections } from '../../src/store/postgres/connections.ts';
import { operations } from '../../src/store/postgres/operations.ts';
import type { Claim, StepOutcome, StepResult } from '../../src/store/store.ts';
import { chanceOf } from '../chance.ts';
import { claimAll, deployOf, failed, graphOf, id, minute, retryAt, startRun, succeeded, T0 } from '../store/samples.ts';
import { borrowSchema, openStore, runSql, storeOptions } from './schemas.ts';

async function open() {
  const schema = borrowSchema();
  const store = await openStore({ schema });
  onTestFinished(() => store.close());
  const connections = createConnections({ ...storeOptions(schema), replica: 'test' });
  onTestFinished(() => connections.close());
  const dump = (table: string, columns: string) =>
    runSql(`SELECT ${columns} FROM "${schema}".${table} t ORDER BY t::text`);
  return {
    schema,
    store,
    connections,
    together: (calls: readonly AdvanceCall[]) => connections.transact('write', (sql) => advanceAll(sql, calls)),
    async alone(calls: readonly AdvanceCall[]) {
      const answers: AdvanceAnswer[] = [];
      for (const { outcome, lease } of calls) {
        answers.push({
          advance: await connections.transact('write', (sql) => operations.advance.run(sql, outcome, lease)),
        });
      }
      return answers;
    },
    rows: async () => ({
      steps: await dump('steps', "to_jsonb(t) - 'lease_token' - 'lease_owner' AS row"),
      attempts: await dump('attempts', 'to_jsonb(t) AS row'),
      runs: await dump('runs', "to_jsonb(t) - 'xid' AS row"),
      totals: await runSql(`SELECT status, sum(count) AS runs FROM "${schema}".run_totals GROUP BY 1 ORDER BY 1`),
    }),
  };
}

const outcomeOf = ({ token, runId, stepKey }: Claim, result: StepResult, at = T0): StepOutcome => ({
  token,
  runId,
  stepKey,
  at,
  input: { of: stepKey },
  result,
});

const GRAPH = graphOf({
  a: [],
  b: [],
  c: ['a'],
  d: { a: ['Failed'], b: ['Succeeded', 'Failed'] },
  e: { b: ['Skipped', 'Succeeded'] },
  f: { c: ['Succeeded', 'Skipped'], d: ['Succeeded', 'Skipped'], e: ['Succeeded', 'Skipped', 'Failed'] },
});

const RESULTS: readonly ((at: number) => StepResult)[] = [
  () => succeeded({ left: 'something' }),
  () => succeeded(),
  failed,
  (at) => retryAt(at + 1, { so: 'far' }),
  () => ({ kind: 'skipped', reason: 'its condition is false' }),
];

interface Held extends Pick<Claim, 'token' | 'runId' | 'stepKey'> {
  readonly startedAt?: number;
}

describe('a batch of outcomes', () => {
  test.each([1, 2, 3])('leads to what they lead to one after the other: %i', async (number) => {
    const [one, other] = [await open(), await open()];
    for (let n = 0; n < 9; n += 1) {
      for (const { store } of [one, other]) await startRun(store, GRAPH, { id: id(100 + n) });
    }
    const { once, pick } = chanceOf(`outcomes of batch ${number}`);
    let leased: Held[] = [];
    for (let round = 0; round < 12; round += 1) {
      const at = T0 + round;
      const claims = await Promise.all([one, other].map(({ store }) => claimAll(store, at)));
      const plans = [...(claims[0] ?? []), ...leased].map((held) => ({
        ...{ runId: held.runId, stepKey: held.stepKey, startedAt: 'attempt' in held ? undefined : held.startedAt },
        result: pick(RESULTS)(at),
        lease: once(3) ? { holder: `me~${round}`, leasedUntil: T0 + minute, limit: 1 } : undefined,
        evaluationTrace: once(4) ? { round } : undefined,
      }));
      const callsOf = (own: readonly Held[]): AdvanceCall[] =>
        plans.map(({ runId, stepKey, result, lease, evaluationTrace, startedAt }) => {
          const token = own.find((held) => held.runId === runId && held.stepKey === stepKey)?.token ?? 'none';
          const times = startedAt === undefined ? {} : { dueAt: startedAt, startedAt };
          const outcome = { token, runId, stepKey, at, input: { round }, result, evaluationTrace, ...times };
          return { outcome, lease };
        });
      const expected = await one.alone(callsOf([...(claims[0] ?? []), ...leased]));
      expect(await other.together(callsOf([...(claims[1] ?? []), ...leased]))).toEqual(expected);
      expect(await other.rows()).toEqual(await one.rows());
      leased = expected.flatMap(({ advance }, n) => {
        const runId = plans[n]?.runId ?? '';
        const steps = advance?.leased ?? [];
        return steps.map(({ stepKey }) => ({
          ...{ runId, stepKey, startedAt: at },
          token: tokenOf(runId, stepKey, `me~${round}`),
        }));
      });
    }
    expect(await runSql(`SELECT FROM "${one.schema}".runs WHERE status <> 'Running'`)).not.toEqual([]);
  });

  test('stores none whose lease is lost, and one of two under the same lease', async () => {
    const { store, together } = await open();
    await startRun(store, graphOf({ a: [], b: [] }));
    const [a, b] = await claimAll(store);
    if (a === undefined || b === undefined) throw new Error('nothing was due');
    const lost = { ...a, token: `${a.token}x` };
    const calls = [lost, a, a, b].map((claim) => ({ outcome: outcomeOf(claim, succeeded()) }));
    const unknownRun = { outcome: { ...outcomeOf(a, succeeded()), runId: id(9) } };
    const statuses = (await together([...calls, unknownRun])).map((answer) => answer?.advance?.runStatus ?? answer);
    const none = { advance: undefined };
    expect(statuses).toEqual([none, 'Running', none, 'Succeeded', none]);
  });

  test('leaves those of a run that was told to stop to be stored alone, with all that follow in it', async () => {
    const { store, together } = await open();
    await store.deployFlow(deployOf(graphOf({ a: [], b: [] })));
    for (const n of [1, 2]) await startRun(store, graphOf({ a: [], b: [] }), { id: id(n) });
    const claims = await claimAll(store);
    // One outcome comes twice: the first one's result must not cost the second one its lease.
    claims.push(...claims.filter(({ runId }) => runId === id(1)).slice(0, 1));
    await store.cancelRun({ runId: id(1), reason: null, at: T0 });
    const answers = await together(claims.map((claim) => ({ outcome: outcomeOf(claim, succeeded()) })));
    const isStored = claims.map(({ runId }, n) => [runId, answers[n] !== undefined]);
    expect(isStored).toEqual(claims.map(({ runId }) => [runId, runId === id(2)]));
    const ended = await Promise.all(
      claims.filter(({ runId }) => runId === id(1)).map((claim) => store.advance(outcomeOf(claim, succeeded()))),
    );
    expect(ended.map((advance) => advance?.runStatus)).toContain('Cancelled');
  });

  test('writes no more than some millions of characters, and leaves the others', async () => {
    const { store, together } = await open();
    for (const n of [1, 2, 3]) await startRun(store, graphOf({ a: [] }), { id: id(n) });
    const large = succeeded('x'.repeat(3_000_000));
    const calls = (await claimAll(store)).map((claim) => ({ outcome: outcomeOf(claim, large) }));
    expect((await together(calls)).map((answer) => answer?.advance?.runStatus)).toEqual([
      'Succeeded',
      'Succeeded',
      undefined,
    ]);
    expect((await claimAll(store, T0 + 2 * minute)).map(({ runId }) => runId)).toEqual([calls[2]?.outcome.runId]);
  });

  test('leaves those of a run of many steps', async () => {
    const { store, together } = await open();
    const keys = Array.from({ length: 101 }, (_, n) => `s${n}`);
    await startRun(store, graphOf(Object.fromEntries(keys.map((key) => [key, []]))));
    const [claim] = await claimAll(store, T0, 1);
    if (claim === undefined) throw new Error('nothing was due');
    const outcome = outcomeOf(claim, succeeded());
    expect(await together([{ outcome }])).toEqual([undefined]);
    expect(await store.advance(outcome)).toMatchObject({ runStatus: 'Running' });
  });
});

test('outcomes that wait for each other keep no connection from a claim', async () => {
  const { store, connections } = await open();
  const graph = graphOf({ a: [], b: [], c: [], d: [] });
  await startRun(store, graph, { id: id(1) });
  const claims = await claimAll(store);
  expect(claims).toHaveLength(4);
  await startRun(store, graph, { id: id(2) });
  const wait: StepResult = { kind: 'waiting', dueAt: T0 + minute, signalName: null, state: null };
  const stored = await connections.transact('write', async (sql) => {
    await sql.all('SELECT 1 FROM sluice.runs WHERE id = $1 FOR UPDATE', [id(1)]);
    const storing = Promise.all(claims.map((claim) => store.advance(outcomeOf(claim, wait))));
    expect(await claimAll(store)).toHaveLength(4);
    return { storing };
  });
  expect((await stored.storing).map((advance) => advance?.runStatus)).toEqual(Array(4).fill('Running'));
});
