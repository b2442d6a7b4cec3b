import pino from 'pino';
import { expect, it } from 'vitest';
import { createDeployer } from '../../src/deploys/deployer.ts';
import { createNeedsReader } from '../../src/deploys/needs.ts';
import { createCatalog } from '../../src/flows/catalog.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import type { LoadedFlow } from '../../src/manifest/load.ts';
import { gateChain, gatePreparer } from '../../src/webhooks/gates/index.ts';
import { createTriggersInForce } from '../../src/webhooks/triggers.ts';
import { fakeClock, loadedFlow, manifestOf, openStore, stepOf } from '../flows/fixture.ts';
import { sampleSettings, sampleTrigger } from '../webhooks/samples.ts';

const idOf = (at: number) => `0b7c9d10-0000-4000-8000-${String(at).padStart(12, '0')}`;

/** How often a deploy of this many flows, all deployed already, looks at a flow's manifest or triggers. */
async function looksOfDeploy(count: number): Promise<number> {
  const store = await openStore();
  const catalog = createCatalog(store, fakeClock());
  const logger = pino({ level: 'silent' });
  const gates = gatePreparer(gateChain(), sampleSettings());
  const rule = { handlers: handlerTable([]), readSecret: () => ({ value: '' }), strict: false, checks: [] };
  const inForce = createTriggersInForce({ catalog, logger, defaultMode: 'Enforce', preparer: gates });
  const rules = { folder: rule, api: rule };
  const needs = createNeedsReader({
    keys: { current: undefined, find: () => undefined },
    rules,
    gates,
    settings: {},
  });
  const deployer = createDeployer({
    store,
    needs,
    catalog,
    rules,
    logger,
    onDeployed: inForce.renew,
    clock: fakeClock(),
    settings: { runRetentionDays: 30, enforcementMode: 'Enforce', replayToleranceSeconds: 300 },
    gates,
  });
  let looks = 0;
  const flow = (at: number, version: string): LoadedFlow => {
    // All run one flow, and each also runs one that no other runs.
    const own = at === 0 ? {} : { common: stepOf('RunFlow', { inputs: { flow: idOf(0) } }) };
    const loaded = loadedFlow(manifestOf(own, { id: idOf(at), name: `flow ${at}`, version }));
    const inputs = { webhookSlug: `flow-${at}`, webhookEnforcementMode: 'Off' } as const;
    const webhooks = [sampleTrigger(inputs, { flowId: idOf(at) })];
    return new Proxy(
      { ...loaded, webhooks },
      {
        get(target, name, receiver) {
          looks += 1;
          return Reflect.get(target, name, receiver);
        },
      },
    );
  };
  const deploy = async (version: string) => {
    const flows = Array.from({ length: count }, (_, at) => flow(at, version));
    return deployer.deploy(flows, { allow: [], isWholeFolder: true, source: 'folder', actor: 'test' });
  };
  await deploy('1');
  looks = 0;
  const outcomes = await deploy('2');
  expect(outcomes.map(({ action }) => action)).toEqual(Array.from({ length: count }, () => 'updated'));
  return looks;
}

it('looks at each flow so often as one flow needs, however many there are', async () => {
  const few = await looksOfDeploy(20);
  const many = await looksOfDeploy(80);
  expect(many / 80).toBeLessThanOrEqual(few / 20);
});
