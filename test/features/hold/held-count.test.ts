import { setImmediate } from 'node:timers/promises';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { createHolding } from '../../../src/features/hold/holding.ts';
import type { holdStore } from '../../../src/features/hold/store.ts';
import type { DeployedFlow } from '../../../src/flows/catalog.ts';
import type { Members } from '../../../src/store/part.ts';
import type { HoldResult, Store } from '../../../src/store/store.ts';
import { createMetrics } from '../../../src/telemetry/metrics.ts';
import { fakeClock } from '../../flows/fixture.ts';
import { acceptanceOf, flowId } from '../../store/samples.ts';

/** A flow that starts no runs, unless the test opens it, on a store that answers when the test says so. */
function holdingOn() {
  const rows = { held: 0, isLost: false };
  const flow = { isOpen: false, deployed: { record: { isEnabled: true } } as DeployedFlow };
  const counts: (() => void)[] = [];
  const holds: (() => void)[] = [];
  const releases: (() => void)[] = [];
  const store: Pick<Store, 'holdDelivery'> & Members<typeof holdStore> = {
    discardHeld: () => Promise.reject(new Error('nothing is discarded here')),
    releaseHeld: () => {
      const left = rows.held;
      return new Promise((resolve) => releases.push(() => resolve({ runs: [], left })));
    },
    listHeld: () => {
      const counted = rows.held === 0 ? [] : [{ flowId, held: rows.held, oldestAt: 0 }];
      return new Promise((resolve) => counts.push(() => resolve(counted)));
    },
    holdDelivery: ({ run }) => {
      rows.held += 1;
      const result: HoldResult = { kind: 'held', runId: run.id, isReplay: false };
      return new Promise((resolve, reject) =>
        holds.push(() => (rows.isLost ? reject(new Error('the answer was lost')) : resolve(result))),
      );
    },
  };
  const holding = createHolding({
    store,
    rows: store,
    catalog: { find: () => (flow.isOpen ? flow.deployed : undefined) },
    engine: { announce: () => {} },
    clock: fakeClock(),
    logger: pino({ level: 'silent' }),
    metrics: createMetrics(),
    holdDeliveries: true,
  });
  const answer = async (calls: (() => void)[]) => {
    for (const call of calls.splice(0)) call();
    await setImmediate();
  };
  return {
    rows,
    flow,
    releases,
    holding,
    hold: () => holding.hold(acceptanceOf(1)),
    answerHolds: () => answer(holds),
    answerCounts: () => answer(counts),
    answerReleases: () => answer(releases),
    counted: () => holding.counts.get(flowId) ?? 0,
  };
}

test('a delivery counts once, though the store counted it before it answered that it is held', async () => {
  const { holding, hold, answerHolds, answerCounts, counted } = holdingOn();
  const held = hold();
  const refreshed = holding.refresh(flowId);
  await answerCounts();
  await answerHolds();
  await held;
  await answerCounts();
  await refreshed;
  expect(counted()).toBe(1);
});

test('a delivery counts once, though it was held while the store counted', async () => {
  const { rows, holding, hold, answerHolds, answerCounts, counted } = holdingOn();
  // Held by another process.
  rows.held = 4;
  const refreshed = holding.refresh(flowId);
  const held = hold();
  await answerHolds();
  await answerCounts();
  await held;
  await answerCounts();
  await refreshed;
  expect(counted()).toBe(5);
});

test('what other processes hold counts as soon as this one holds nothing more', async () => {
  const { rows, holding, hold, answerHolds, answerCounts, counted } = holdingOn();
  const held = [hold(), hold()];
  rows.held += 3;
  const refreshed = holding.refresh(flowId);
  await answerCounts();
  await answerHolds();
  await Promise.all(held);
  await answerCounts();
  await refreshed;
  expect(counted()).toBe(5);
});

test('a delivery that was stored while its flow was resumed is released', async () => {
  const { flow, releases, holding, hold, answerHolds, answerReleases } = holdingOn();
  const held = hold();
  flow.isOpen = true;
  holding.release(flowId);
  await answerReleases();
  await answerHolds();
  await held;
  expect(releases).toHaveLength(1);
  await answerReleases();
  await holding.stop();
});

test.each(['before', 'after'])(
  'a delivery counts once, though it was stored %s a release that left it',
  async (order) => {
    const { flow, holding, hold, answerHolds, answerCounts, answerReleases, counted } = holdingOn();
    flow.isOpen = true;
    const first = order === 'before' ? hold() : undefined;
    holding.release(flowId);
    const held = first ?? hold();
    if (order === 'after') await answerHolds();
    await answerReleases();
    await answerHolds();
    await held;
    await answerReleases();
    await answerCounts();
    await holding.stop();
    expect(counted()).toBe(1);
  },
);

test('a delivery counts, though the answer that it is held was lost', async () => {
  const { rows, hold, answerHolds, answerCounts, counted } = holdingOn();
  rows.isLost = true;
  const held = hold();
  await Promise.all([expect(held).rejects.toThrow('the answer was lost'), answerHolds()]);
  await answerCounts();
  expect(counted()).toBe(1);
});

test.each(['start', 'refresh'] as const)(
  'what is held of a flow that starts runs is released at a %s',
  async (when) => {
    const { rows, flow, releases, holding, answerCounts, answerReleases } = holdingOn();
    rows.held = 2;
    flow.isOpen = true;
    const looked = when === 'start' ? holding.start() : holding.refresh(flowId);
    await answerCounts();
    await looked;
    expect(releases).toHaveLength(1);
    await answerReleases();
    await holding.stop();
  },
);
