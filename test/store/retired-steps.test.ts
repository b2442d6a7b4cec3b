import { expect, it } from 'vitest';
import { compareRevisions } from '../../src/deploys/changes/index.ts';
import { snapshotOf } from '../../src/manifest/secrets.ts';
import type { Graph } from '../../src/model/manifest.ts';
import { FLOW_ID, type House, manifestOf, openHouse, START, stepOf } from '../flows/fixture.ts';

const DAY_MS = 86_400_000;
const after = (upstream: string, when?: string) => ({
  runAfter: { [upstream]: { statuses: ['Succeeded'] as const, ...(when === undefined ? {} : { when }) } },
});
const say = (change = {}) => stepOf('LogMessage', { inputs: { message: 'hi' }, ...change });
const first: Graph = { entry: say(), next: say(after('entry')), kept: say(), leaf: say(after('kept')) };
const retired: Graph = {
  entry: stepOf('NoOp'),
  next: say(after('entry', 'false')),
  kept: say(),
  leaf: say(after('kept', 'false')),
};
const bare: Graph = { kept: say() };

async function run(house: House, steps: Graph): Promise<void> {
  await house.deploy(steps);
  await house.runtime.start();
  await house.ended(await house.trigger());
}

async function removalOf(house: House, steps: Graph): Promise<string[]> {
  const live = await house.store.readLiveFlow(FLOW_ID);
  const snapshots = [steps, bare].map((graph) => snapshotOf(manifestOf(graph), () => []));
  const [before = null, next = null] = snapshots;
  return compareRevisions({ before, after: next, live, retentionDays: 30 }).map((each) => `${each.path} ${each.class}`);
}

it('lets a retired step go when retention has taken the last run that did something in it', async () => {
  const house = await openHouse();
  await run(house, first);
  expect(await removalOf(house, first)).toEqual(['steps.entry breaking', 'steps.next breaking', 'steps.leaf breaking']);
  house.clock.pass(DAY_MS);
  await run(house, retired);
  expect((await house.store.readLiveFlow(FLOW_ID)).lastRunOfStep).toEqual({
    entry: START,
    next: START,
    leaf: START,
    kept: START + DAY_MS,
  });
  expect(await removalOf(house, retired)).toEqual([
    'steps.entry breaking',
    'steps.next breaking',
    'steps.leaf breaking',
  ]);
  await house.store.purgeRuns({ before: START + DAY_MS, maxRows: 100 });
  expect(await removalOf(house, retired)).toEqual(['steps.entry caution', 'steps.next caution', 'steps.leaf caution']);
});

it('lets a step go that was retired behind the last one, and what was retired behind it', async () => {
  const house = await openHouse();
  const last: Graph = { kept: say(), leaf: say(after('kept')), twig: stepOf('NoOp', after('leaf')) };
  await run(house, last);
  house.clock.pass(DAY_MS);
  const idle: Graph = {
    kept: say(),
    leaf: stepOf('NoOp', after('kept')),
    twig: stepOf('NoOp', { ...after('leaf'), inputs: { retired: true } }),
  };
  await run(house, idle);
  expect(await removalOf(house, idle)).toEqual(['steps.leaf breaking', 'steps.twig breaking']);
  await house.store.purgeRuns({ before: START + DAY_MS, maxRows: 100 });
  expect(await removalOf(house, idle)).toEqual(['steps.leaf caution', 'steps.twig caution']);
});

it('takes a NoOp that was one all along for a step with history', async () => {
  const house = await openHouse();
  const steps: Graph = { entry: stepOf('NoOp'), kept: say() };
  await run(house, steps);
  await run(house, { ...steps, more: say() });
  expect(await removalOf(house, steps)).toEqual(['steps.entry breaking']);
});
