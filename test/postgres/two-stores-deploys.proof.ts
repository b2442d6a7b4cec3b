import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from 'vitest';
import { learnedKeysStore } from '../../src/features/learned-keys/store.ts';
import { revisionsStore } from '../../src/features/revisions/store.ts';
import { type ScheduleRecord, schedulesStore } from '../../src/features/schedules/store.ts';
import type { PlannedDeploy } from '../../src/store/store.ts';
import { eventually } from '../eventually.ts';
import { aRun, deployOf, graphOf, id, PLAN, T0 } from '../store/samples.ts';
import { running } from '../store/sub-run-samples.ts';
import { newSchema, openEmpty, openStore, runSql } from './schemas.ts';

const ROUNDS = 50;
const one = graphOf({ a: [] });
const two = graphOf({ b: [] });
const three = graphOf({ c: [] });

type Opened = Awaited<ReturnType<typeof openEmpty>>;
let left: Opened;
let right: Opened;
beforeAll(async () => {
  const schema = `test_${randomUUID().replaceAll('-', '')}`;
  left = await openEmpty({ schema });
  right = await openStore({ schema });
});
afterAll(async () => {
  await right.close();
  await left.close();
});

describe('two services with schemas of their own in one database', () => {
  it('keep each other from nothing, whatever the names of their flows', async () => {
    const schema = newSchema();
    const [own, other] = [await openEmpty({ schema }), await openEmpty()];
    onTestFinished(async () => {
      await Promise.all([own.close(), other.close()]);
    });
    for (const store of [own, other]) await store.applyDeploys([planned('flow', one)]);
    const holder = new pg.Client({ connectionString: inject('postgresUrl') });
    await holder.connect();
    onTestFinished(() => holder.end());
    await holder.query(`BEGIN; SELECT FROM "${schema}".flows FOR UPDATE`);
    // It has its flow's locks, and waits for the row.
    const waiting = own.applyDeploys([planned('flow', two, { basedOn: 1 })]);
    const waits = () =>
      runSql(`SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%"${schema}".flows%'`);
    await eventually(waits, ({ length }) => length > 0);
    await other.applyDeploys([planned('flow', three, { basedOn: 1 })]);
    expect(await other.findFlow('flow')).toMatchObject({ revision: 2 });
    await holder.query('ROLLBACK');
    await waiting;
  });
});

let count = 0;
/** Each round uses a different flow and different runs. */
async function inEachRound(round: (flowId: string, runId: () => string) => Promise<void>): Promise<void> {
  for (let n = 0; n < ROUNDS; n += 1) {
    count += 1;
    await round(`flow ${count}`, () => {
      count += 1;
      return id(count);
    });
  }
}

function planned(flowId: string, graph: typeof one, change: Partial<PlannedDeploy> = {}): PlannedDeploy {
  return { ...deployOf(graph), ...PLAN, id: flowId, source: 'api', ...change };
}

const kinds = (results: readonly { kind: string }[]) => results.map(({ kind }) => kind).sort();

describe('of two processes on one database', () => {
  it('one deploys the next revision of a flow', async () => {
    await inEachRound(async (flowId) => {
      await left.deployFlow({ ...deployOf(one), id: flowId });
      const results = await Promise.all([
        left.applyDeploys([planned(flowId, two, { basedOn: 1 })]),
        right.applyDeploys([planned(flowId, three, { basedOn: 1 })]),
      ]);
      expect(kinds(results)).toEqual(['applied', 'outdated']);
      expect(await right.of(revisionsStore).listRevisions({ flowId, skip: 0, take: 9 })).toMatchObject({ total: 2 });
    });
  });

  it('one deploys a flow first, and where both deploy the same it is one revision', async () => {
    await inEachRound(async (flowId) => {
      const results = await Promise.all([
        left.applyDeploys([planned(flowId, one)]),
        right.applyDeploys([planned(flowId, two)]),
      ]);
      expect(kinds(results)).toEqual(['applied', 'outdated']);
      const same = { ...deployOf(three), id: `${flowId} of both` };
      const flows = await Promise.all([left.deployFlow(same), right.deployFlow(same)]);
      expect(flows.map(({ revision }) => revision)).toEqual([1, 1]);
    });
  });

  it('one deploys its half of a cycle of flows that run each other', async () => {
    await inEachRound(async () => {
      const ids = [randomUUID(), randomUUID(), randomUUID()] as const;
      await left.applyDeploys(ids.map((flowId) => planned(flowId, one)));
      const runs = (from: number, to: number) => planned(ids[from] ?? '', running(ids[to] ?? ''), { basedOn: 1 });
      const results = await Promise.all([
        left.applyDeploys([runs(0, 1)]),
        right.applyDeploys([runs(1, 2)]),
        left.applyDeploys([runs(2, 0)]),
      ]);
      expect(kinds(results)).toEqual(['applied', 'applied', 'outdated']);
    });
  });

  it('both deploy the same flows in different orders, and neither waits for ever', async () => {
    await inEachRound(async (flowId) => {
      const flows = [`${flowId} x`, `${flowId} y`];
      const results = await Promise.all([
        left.applyDeploys(flows.map((each) => planned(each, one))),
        right.applyDeploys(flows.toReversed().map((each) => planned(each, two))),
      ]);
      expect(kinds(results)).toEqual(['applied', 'outdated']);
    });
  });

  it('none deploys what needs an idle flow while the other accepts a run of the former revision', async () => {
    await inEachRound(async (flowId, runId) => {
      await left.deployFlow({ ...deployOf(one), id: flowId });
      const [accepted, deployed] = await Promise.all([
        left.accept({ run: aRun({ id: runId(), flowId }) }),
        right.applyDeploys([planned(flowId, two, { basedOn: 1, needsIdle: true })]),
      ]);
      expect([
        ['accepted', 'busy'],
        ['outdated', 'applied'],
      ]).toContainEqual([accepted.kind, deployed.kind]);
    });
  });

  it('the one that drains a flow counts every run that the other accepts', async () => {
    await inEachRound(async (flowId, runId) => {
      await left.deployFlow({ ...deployOf(one), id: flowId });
      const accepting = Promise.all(
        Array.from({ length: 5 }, () => left.accept({ run: aRun({ id: runId(), flowId }) })),
      );
      await right.setFlowDraining({ flowId, isDraining: true, at: T0 });
      const { runsInFlight } = await right.readLiveFlow(flowId);
      const accepted = (await accepting).filter(({ kind }) => kind === 'accepted');
      expect(runsInFlight).toBe(accepted.length);
      expect(await left.accept({ run: aRun({ id: runId(), flowId }) })).toEqual({ kind: 'outdated' });
    });
  });

  const schedule = (flowId: string): ScheduleRecord => ({
    flowId,
    triggerKey: 'nightly',
    cron: '0 3 * * *',
    timeZone: 'Europe/Berlin',
    cronOverride: null,
    isPaused: false,
    nextAt: T0,
    lastAt: null,
    revision: 0,
  });
  const tick = { triggerKey: 'nightly', dueAt: T0, nextAt: T0 + 60_000, at: T0 };
  const runOf = (flowId: string, runId: string) =>
    aRun({ id: runId, flowId, triggerKey: 'nightly', triggerType: 'cron' });

  it('one fires a tick, and one run starts', async () => {
    await inEachRound(async (flowId, runId) => {
      await left.of(schedulesStore).changeSchedule(schedule(flowId));
      const fired = await Promise.all(
        [left, right, left].map((store) =>
          store.of(schedulesStore).fireSchedule({ ...tick, flowId, run: runOf(flowId, runId()) }),
        ),
      );
      expect(fired.sort()).toEqual(['fired', 'passed', 'passed']);
      expect((await right.listRuns({ flowId, skip: 0, take: 9, includeTotal: true })).total).toBe(1);
    });
  });

  it('a tick that the other deploys before stays due, and one that it deploys after has fired', async () => {
    await inEachRound(async (flowId, runId) => {
      await left.deployFlow({ ...deployOf(one), id: flowId });
      await left.of(schedulesStore).changeSchedule(schedule(flowId));
      const [fired] = await Promise.all([
        left.of(schedulesStore).fireSchedule({ ...tick, flowId, run: runOf(flowId, runId()) }),
        right.applyDeploys([planned(flowId, two, { basedOn: 1 })]),
      ]);
      const { items } = await right.listRuns({ flowId, skip: 0, take: 9 });
      const [found] = (await right.of(schedulesStore).listSchedules()).filter((each) => each.flowId === flowId);
      expect({ fired, runs: items.length, nextAt: found?.nextAt }).toEqual(
        fired === 'fired' ? { fired, runs: 1, nextAt: tick.nextAt } : { fired: 'outdated', runs: 0, nextAt: T0 },
      );
    });
  });

  it('one changes a schedule that both have read, and neither undoes a tick that fires', async () => {
    await inEachRound(async (flowId) => {
      const first = await Promise.all(
        [left, right].map((store) => store.of(schedulesStore).changeSchedule(schedule(flowId))),
      );
      const [made, ...others] = first.filter((each) => each !== undefined);
      expect(others).toEqual([]);
      if (made === undefined) throw new Error('nothing was stored');
      const [paused, moved, fired] = await Promise.all([
        left.of(schedulesStore).changeSchedule({ ...made, isPaused: true, nextAt: null }),
        right.of(schedulesStore).changeSchedule({ ...made, cronOverride: '* * * * *' }),
        right.of(schedulesStore).fireSchedule({ ...tick, flowId, run: null }),
      ]);
      const won = [paused !== undefined, moved !== undefined, fired === 'fired'].filter(Boolean).length;
      // A tick may fire after the change of the expression, because the change leaves it due.
      expect(won === 1 || (won === 2 && moved !== undefined && fired === 'fired')).toBe(true);
      const [found] = (await left.of(schedulesStore).listSchedules()).filter((each) => each.flowId === flowId);
      expect(found?.revision).toBe(1 + won);
    });
  });

  const key = (flowId: string, triggerKey: string, secret: string) => ({
    flowId,
    triggerKey,
    scheme: 'Asana',
    secret: new TextEncoder().encode(secret),
    learnedAt: T0,
  });

  it('the first to learn the key of a trigger decides it, under its former name too', async () => {
    await inEachRound(async (flowId) => {
      await left.applyDeploys([planned(flowId, one, { triggers: { keys: ['b'], moved: [{ from: 'a', to: 'b' }] } })]);
      const learned = await Promise.all([
        left.of(learnedKeysStore).learnKey(key(flowId, 'b', 'left')),
        right.of(learnedKeysStore).learnKey(key(flowId, 'b', 'right')),
      ]);
      expect(new Set(learned.map(({ secret }) => String(secret))).size).toBe(1);
      // `left` does not know of the rename yet.
      await left.of(learnedKeysStore).forgetKey({ flowId, triggerKey: 'b' });
      const [former, own] = await Promise.all([
        left.of(learnedKeysStore).learnKey(key(flowId, 'a', 'former')),
        right.of(learnedKeysStore).learnKey(key(flowId, 'b', 'own')),
      ]);
      const kept = (await left.of(learnedKeysStore).listLearnedKeys()).filter((each) => each.flowId === flowId);
      expect(kept).toContainEqual(own);
      expect(kept.length === 1 ? own : former).toEqual(former);
    });
  });
});
