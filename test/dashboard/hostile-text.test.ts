import { beforeEach, describe, expect, it } from 'vitest';
import { activityStore } from '../../src/features/activity/store.ts';
import { ORDERS, ORDERS_ID, useDashboard } from './fixture.ts';

const dashboard = useDashboard();
const ask = (method: 'GET' | 'POST' | 'PUT', path: string, body?: string) =>
  dashboard.ask(method, `/flows/api${path}`, body);
let runId: string;
beforeEach(async () => {
  runId = (await ask('POST', `/flows/${ORDERS_ID}/trigger`, '{"order":1}')).body.runId;
});

const refused = { status: 400, body: { message: expect.stringContaining('cannot be stored') } };

describe('a NUL', () => {
  it.each<[string, 'GET' | 'POST', () => string]>([
    ['a search', 'GET', () => '/runs?search=a%00b'],
    ['a search of deliveries', 'GET', () => '/webhooks/recent?search=%00'],
    ['the name of a parameter', 'GET', () => '/runs?a%00=b'],
    ['an id', 'GET', () => '/runs/a%00b'],
    ['the key of a step', 'GET', () => `/runs/${runId}/steps/a%00b`],
    ['the name of a signal', 'POST', () => `/runs/${runId}/signals/a%00b`],
    ['the id of a schedule', 'POST', () => '/schedules/a%00b/pause'],
  ])('in %s is refused', async (_name, method, path) => {
    expect(await ask(method, path())).toMatchObject(refused);
  });
});

describe.each([
  ['a NUL', '\\u0000'],
  ['half of a surrogate pair', '\\ud83d'],
])('%s in JSON', (_name, escaped) => {
  it('is refused as the reason of an intervention, which does not happen', async () => {
    expect(await ask('POST', `/runs/${runId}/cancel`, `{"reason":"a${escaped}b"}`)).toMatchObject(refused);
    expect((await ask('GET', `/runs/${runId}`)).body.status).toBe('Running');
    const { items } = await dashboard.store
      .of(activityStore)
      .listInterventions({ skip: 0, take: 9, action: 'cancelRun' });
    expect(items.map(({ reason }) => reason)).not.toContain('a\0b');
  });

  it.each(['name', 'version'])('is refused in the %s of a manifest', async (field) => {
    const text = JSON.stringify({ ...ORDERS, [field]: 'PLACE' }).replace('PLACE', `a${escaped}b`);
    const { status, body } = await ask('PUT', `/flows/${ORDERS_ID}`, text);
    expect(status).toBe(400);
    const message = expect.stringContaining('cannot be stored');
    expect(body.issues).toContainEqual(expect.objectContaining({ path: field, severity: 'error', message }));
  });

  it('is refused in the key of a trigger', async () => {
    const text = JSON.stringify({ ...ORDERS, triggers: { PLACE: { type: 'manual' } } }).replace(
      'PLACE',
      `a${escaped}b`,
    );
    const { status, body } = await ask('PUT', `/flows/${ORDERS_ID}`, text);
    expect(status).toBe(400);
    expect(body.issues.map(({ message }: { message: string }) => message).join()).toContain('cannot be stored');
  });

  it('is taken as data in the body of a start by hand, of a webhook and of a signal', async () => {
    const data = `{"text":"a${escaped}b"}`;
    const started = await ask('POST', `/flows/${ORDERS_ID}/trigger`, data);
    expect(started.status).toBe(200);
    const run = await dashboard.store.findRun(started.body.runId);
    expect(Buffer.from(run?.trigger.body ?? []).toString()).toBe(data);
    // The signature decides, and whether a step waits for the signal.
    expect((await ask('POST', '/webhook/orders', data)).body.reason).toBe('signature_missing');
    expect((await ask('POST', `/runs/${runId}/signals/any`, data)).body.reason).toBe('unknown_signal');
  });
});
