import { expect, it } from 'vitest';
import { readSettings } from '../../src/config/settings.ts';
import { compareRevisions } from '../../src/deploys/changes/index.ts';
import { snapshotOf } from '../../src/manifest/secrets.ts';
import type { Graph } from '../../src/model/manifest.ts';
import { FLOW_ID, type FlowService, manifestOf, openFlowService, START, stepOf } from '../flows/fixture.ts';

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

async function run(service: FlowService, steps: Graph): Promise<void> {
  await service.deploy(steps);
  await service.runtime.start();
  await service.ended(await service.trigger());
}

async function removalOf(service: FlowService, steps: Graph): Promise<string[]> {
  const live = await service.store.readLiveFlow(FLOW_ID);
  const snapshots = [steps, bare].map((graph) => snapshotOf(manifestOf(graph), () => []));
  const [before = null, next = null] = snapshots;
  return compareRevisions({ before, after: next, live, settings: readSettings({}) }).map(
    (each) => `${each.path} ${each.class}`,
  );
}

it('lets a retired step go when retention has taken the last run that did something in it', async () => {
  const service = await openFlowService();
  await run(service, first);
  expect(await removalOf(service, first)).toEqual([
    'steps.entry breaking',
    'steps.next breaking',
    'steps.leaf breaking',
  ]);
  service.clock.pass(DAY_MS);
  await run(service, retired);
  expect((await service.store.readLiveFlow(FLOW_ID)).lastRunOfStep).toEqual({
    entry: START,
    next: START,
    leaf: START,
    kept: START + DAY_MS,
  });
  expect(await removalOf(service, retired)).toEqual([
    'steps.entry breaking',
    'steps.next breaking',
    'steps.leaf breaking',
  ]);
  await service.store.purgeRuns({ before: START + DAY_MS, maxRows: 100 });
  expect(await removalOf(service, retired)).toEqual([
    'steps.entry caution',
    'steps.next caution',
    'steps.leaf caution',
  ]);
});

it('lets a step go that was retired behind the last one, and what was retired behind it', async () => {
  const service = await openFlowService();
  const last: Graph = { kept: say(), leaf: say(after('kept')), twig: stepOf('NoOp', after('leaf')) };
  await run(service, last);
  service.clock.pass(DAY_MS);
  const idle: Graph = {
    kept: say(),
    leaf: stepOf('NoOp', after('kept')),
    twig: stepOf('NoOp', { ...after('leaf'), inputs: { retired: true } }),
  };
  await run(service, idle);
  expect(await removalOf(service, idle)).toEqual(['steps.leaf breaking', 'steps.twig breaking']);
  await service.store.purgeRuns({ before: START + DAY_MS, maxRows: 100 });
  expect(await removalOf(service, idle)).toEqual(['steps.leaf caution', 'steps.twig caution']);
});

it('takes a NoOp that was one all along for a step with history', async () => {
  const service = await openFlowService();
  const steps: Graph = { entry: stepOf('NoOp'), kept: say() };
  await run(service, steps);
  await run(service, { ...steps, more: say() });
  expect(await removalOf(service, steps)).toEqual(['steps.entry breaking']);
});
