import { setImmediate } from 'node:timers/promises';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { createHolding } from '../../src/deploys/holding.ts';
import type { HoldResult, Store } from '../../src/store/store.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { fakeClock } from '../flows/fixture.ts';
import { acceptanceOf, flowId } from '../store/samples.ts';

/** A flow that starts no runs, on a store whose answers come when the test lets them. */
function holdingOn() {
  const rows = { held: 0 };
  const counts: (() => void)[] = [];
  const holds: (() => void)[] = [];
  const store: Pick<Store, 'releaseHeld' | 'countHeld' | 'holdDelivery'> = {
    releaseHeld: async () => ({ runs: [], left: rows.held }),
    countHeld: () => {
      const counted = { [flowId]: rows.held };
      return new Promise((resolve) => counts.push(() => resolve(counted)));
    },
    holdDelivery: ({ run }) => {
      rows.held += 1;
      const result: HoldResult = { kind: 'held', runId: run.id, isReplay: false };
      return new Promise((resolve) => holds.push(() => resolve(result)));
    },
  };
  const holding = createHolding({
    store,
    catalog: { find: () => undefined },
    engine: { announce: () => {} },
    clock: fakeClock(),
    logger: pino({ level: 'silent' }),
    metrics: createMetrics(),
  });
  const answer = async (calls: (() => void)[]) => {
    for (const call of calls.splice(0)) call();
    await setImmediate();
  };
  return {
    rows,
    holding,
    hold: () => holding.hold(acceptanceOf(1)),
    answerHolds: () => answer(holds),
    answerCounts: () => answer(counts),
    counted: () => holding.count(flowId),
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
  // Those of another process.
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
