import { expect, it } from 'vitest';
import { prepareExtensions } from '../../src/config/extensions.ts';
import { readSettings } from '../../src/config/settings.ts';
import { prepareRevision } from '../../src/flows/prepared-revision.ts';
import { parseManifest } from '../../src/manifest/load.ts';
import { createTriggerTable } from '../../src/webhooks/triggers.ts';
import { deployedFlow, FakeClock, sampleDelivery } from '../webhooks/samples.ts';

it('leaves the rate limits in force alone when it checks a manifest that is not deployed', async () => {
  const settings = readSettings({});
  const { rules, gates } = prepareExtensions({
    settings,
    extensions: {},
    environment: {},
    clock: new FakeClock(),
    folder: '.',
  });
  const load = (smallBurst: number) => {
    const limit = { webhookRateLimitPermitsPerSecond: 1, webhookEnforcementMode: 'Enforce' };
    const trigger = (webhookSlug: string, webhookRateLimitBurstSize: number) => ({
      type: 'webhook',
      inputs: { ...limit, webhookSlug, webhookRateLimitBurstSize },
    });
    const manifest = {
      id: '5b0e7d1c-93f2-4a86-8c1d-2f6e4b7a9035',
      name: 'limits',
      version: '1',
      triggers: { small: trigger('small', smallBurst), large: trigger('large', 10) },
      steps: { only: { type: 'NoOp' } },
    };
    const { flow } = parseManifest(JSON.stringify(manifest), 'limits.json', rules.folder);
    if (flow === undefined) throw new Error('the manifest does not load');
    return flow;
  };
  const loaded = load(2);
  const { record } = deployedFlow({ webhooks: [] });
  const flow = { record, loaded, prepared: prepareRevision(loaded.manifest, 'folder') };
  const options = { defaultMode: 'Enforce' as const, preparer: gates };
  const table = createTriggerTable({ flows: [flow], ...options });
  load(9);
  const deliver = async (slug: string) => {
    const gate = table.find(slug)?.gates.find(({ name }) => name === 'rateLimit');
    return (await gate?.check(sampleDelivery(), {}))?.passed;
  };
  expect([await deliver('large'), await deliver('large')]).toEqual([true, true]);
  expect(await deliver('small')).toBe(false);
});
