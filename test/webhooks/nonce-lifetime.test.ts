import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import type { Extensions } from '../../src/config/api.ts';
import type { SettingsInput } from '../../src/config/settings-schema.ts';
import { ManifestsError } from '../../src/errors.ts';
import { buildApp, deliveryStores } from '../database.ts';
import { createWorkspace, FLOW_ID, type Workspace } from '../e2e/service.ts';

const KEY = 'whsec_a_key_of_thirty_two_characters';
const START = Date.UTC(2026, 10, 21, 12);
const BODY = '{"type":"invoice.paid"}';

interface Bench {
  readonly clock: { ms: number };
  /** Stops the service and starts it again on the same database. */
  start(settings?: SettingsInput, extensions?: Extensions): Promise<{ app: SluiceApp; url: string }>;
  /** Writes the manifest; the trigger key is the first argument. */
  write(triggerKey: string, inputs: object): Promise<void>;
}

async function bench(deliveryStore: 'database' | 'memory'): Promise<Bench> {
  const workspace: Workspace = await createWorkspace();
  const clock = { ms: START };
  let running: SluiceApp | undefined;
  return {
    clock,
    async start(settings = {}, extensions = {}) {
      await running?.close();
      const app = await buildApp({
        settings: { enforcementMode: 'Enforce', port: 0, deliveryStore, ...settings },
        extensions,
        folder: workspace.folder,
        // Its deploys widen access on purpose.
        allow: ['access'],
        clock: { now: () => clock.ms, monotonic: () => clock.ms },
      });
      running = app;
      return { app, url: `${await app.listen()}/flows/api/webhook/in` };
    },
    write: (triggerKey, inputs) =>
      workspace.writeManifest('in.json', {
        id: FLOW_ID,
        name: 'in',
        version: '1',
        triggers: { [triggerKey]: { type: 'webhook', inputs: { webhookSlug: 'in', ...inputs } } },
        steps: {},
      }),
  };
}

const stripe = (webhookReplayToleranceSeconds?: number) => ({
  webhookSignatureScheme: 'Stripe',
  webhookHmacKey: KEY,
  ...(webhookReplayToleranceSeconds === undefined ? {} : { webhookReplayToleranceSeconds }),
});

/** Sends now what the publisher signed at the start. */
async function sendCaptured(url: string): Promise<number> {
  const at = START / 1000;
  const signature = createHmac('sha256', KEY).update(`${at}.${BODY}`).digest('hex');
  const headers = { 'content-type': 'application/json', 'stripe-signature': `t=${at},v1=${signature}` };
  return (await fetch(url, { method: 'POST', headers, body: BODY })).status;
}

describe.each(deliveryStores())('an accepted delivery, its records in the %s', (place) => {
  it('stays accepted once when the tolerance of all triggers is raised at a restart', async () => {
    const { clock, start, write } = await bench(place);
    await write('hook', stripe());
    expect(await sendCaptured((await start({ replayToleranceSeconds: 5 })).url)).toBe(200);
    clock.ms += 3_600_000;
    expect(await sendCaptured((await start({ replayToleranceSeconds: 5 })).url)).toBe(401);
    for (const replayToleranceSeconds of [7200, 86_400]) {
      expect(await sendCaptured((await start({ replayToleranceSeconds })).url)).toBe(409);
    }
  });

  it('stays accepted once when its trigger is deployed with a longer tolerance', async () => {
    const { clock, start, write } = await bench(place);
    await write('hook', stripe(5));
    const { app, url } = await start();
    expect(await sendCaptured(url)).toBe(200);
    clock.ms += 60_000;
    await write('hook', stripe(3600));
    await app.reload();
    expect(await sendCaptured(url)).toBe(409);
  });

  it('stays accepted once when its trigger gets another key', async () => {
    const { start, write } = await bench(place);
    await write('hook', stripe(300));
    const { app, url } = await start();
    expect(await sendCaptured(url)).toBe(200);
    await write('renamed', stripe(300));
    await app.reload();
    expect(app.triggers().list()[0]?.trigger.triggerKey).toBe('renamed');
    expect(await sendCaptured(url)).toBe(409);
    await write('once-more', stripe(600));
    expect(await sendCaptured((await start()).url)).toBe(409);
  });

  it('is known to a copy that came while its nonce lived, however long a verifier thinks about the copy', async () => {
    const { clock, start, write } = await bench(place);
    await write('hook', { webhookSignatureScheme: 'Slow', webhookHmacKey: KEY, webhookNonceHeader: 'X-Id' });
    let think = async () => {};
    const verify = async () => {
      await think();
      return { outcome: 'verified' as const };
    };
    const { url } = await start({ nonceTtlSeconds: 60 }, { verifiers: [{ name: 'Slow', verify }] });
    const send = async () => (await fetch(url, { method: 'POST', headers: { 'x-id': '1' }, body: BODY })).status;
    expect(await send()).toBe(200);
    // A little longer than its lifetime.
    clock.ms += 65_999;
    think = async () => {
      clock.ms += 4000;
    };
    expect(await send()).toBe(409);
    expect(await send()).toBe(200);
  });
});

it('a manifest with a tolerance that is longer than nonces are kept is refused by its field', async () => {
  const { start, write } = await bench('database');
  await write('hook', stripe(61));
  const refused = start({ nonceTtlSeconds: 60, refusedDeploys: 'fail' });
  await expect(refused).rejects.toThrow(ManifestsError);
  await expect(refused).rejects.toThrow('triggers.hook.inputs.webhookReplayToleranceSeconds');
});
