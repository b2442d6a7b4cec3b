import { describe, expect, it } from 'vitest';
import { GITHUB_SECRET } from '../e2e/service.ts';
import { push, useFolderApp } from '../folder-app.ts';

const ID = '3a7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10';
const folder = useFolderApp({ listens: false });

function manifest(enabled: unknown) {
  const inputs = { webhookSlug: 'push', webhookSignatureScheme: 'GitHub', webhookHmacKey: GITHUB_SECRET };
  const triggers = {
    hook: { type: 'webhook', enabled, inputs },
    daily: { type: 'cron', enabled, inputs: { cronExpression: '* * * * *' } },
    hand: { type: 'manual', enabled },
  };
  return { id: ID, name: 'switched', version: '1', triggers, steps: { one: { type: 'NoOp', inputs: {} } } };
}

async function start(enabled: unknown) {
  await folder.writeManifest('switched.json', manifest(enabled));
  return folder.start();
}

describe('a trigger that the manifest switches off', () => {
  it('refuses deliveries and calls as a disabled flow does, fires nothing, and is told of', async () => {
    const app = await start(false);
    expect(await push(app)).toMatchObject({ status: 403, answer: { reason: 'flow_disabled' } });
    expect((await folder.ask('POST', `/flows/${ID}/trigger`)).status).toBe(403);
    expect((await folder.ask('POST', `/flows/${ID}/trigger?triggerKey=hook`)).status).toBe(403);
    const { answer: schedules } = await folder.ask('GET', '/schedules');
    expect(schedules).toMatchObject([{ triggerKey: 'daily', enabled: false, nextExecution: null }]);
    expect((await folder.ask('POST', `/schedules/${schedules[0].jobId}/trigger`)).status).toBe(404);
    const { triggers } = (await folder.ask('GET', `/flows/${ID}`)).answer;
    expect(triggers.map((each: { enabled: boolean }) => each.enabled)).toEqual([false, false, false]);
    const { answer: items } = await folder.ask('GET', '/attention');
    expect(items).toContainEqual(
      expect.objectContaining({
        kind: 'deliveries_to_disabled_flow',
        message: expect.stringMatching(/^1 delivery to switched was refused because its trigger hook is switched off/),
      }),
    );
    expect((await folder.ask('GET', '/runs')).answer).toEqual([]);
  });

  it('is off after a restart from the stored revision, and on again after a deploy', async () => {
    await start(false);
    await folder.writeManifest('switched.json', { ...manifest(true), version: 2 });
    expect(await push(await folder.start())).toMatchObject({ status: 403 });
    await folder.writeManifest('switched.json', manifest(true));
    expect(await push(await folder.start())).toMatchObject({ status: 200 });
  });

  it('has its deliveries redelivered by hand once it is on again', async () => {
    const app = await start(false);
    await push(app);
    const [{ id: deliveryId }] = (await folder.ask('GET', '/webhooks/recent')).answer;
    const redeliver = () => folder.ask('POST', `/webhooks/${deliveryId}/redeliver`, {});
    expect((await redeliver()).answer).toMatchObject({ outcome: 'refused', reason: 'flow_disabled' });
    await start(true);
    expect((await redeliver()).answer).toMatchObject({ outcome: 'accepted' });
  });
});
