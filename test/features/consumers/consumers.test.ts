import { describe, expect, it } from 'vitest';
import { DAY_MS } from '../../../src/model/clock.ts';
import { ORDERS_ID, startDashboard, useDashboard } from '../../dashboard/fixture.ts';
import { eventually } from '../../eventually.ts';

const HOOK = {
  id: '3c1f0d9a-7b2e-4c55-8f10-6a9d2b7e4f01',
  name: 'hook',
  version: '1',
  triggers: { in: { type: 'webhook', inputs: { webhookSlug: 'hook' } } },
  steps: { only: { type: 'NoOp' } },
};
const ADA = '/flows/api/webhooks/consumers/ada';

const dashboard = useDashboard('each', {}, [HOOK]);

const open = (payload: object = {}) => dashboard.app.inject({ method: 'PUT', url: ADA, payload });
const read = async () => (await dashboard.app.inject(`${ADA}/deliveries`)).json();
/** PostgreSQL does not return rows newer than an open transaction, even another test's. */
const readAll = (count: number) => eventually(read, ({ deliveries }) => deliveries.length === count);
const advance = (from: string, to: string) =>
  dashboard.app.inject({ method: 'POST', url: `${ADA}/advance?${new URLSearchParams({ from, to })}` });
const receive = async (body: string, headers: Record<string, string> = {}) =>
  (await dashboard.app.inject({ method: 'POST', url: '/flows/api/webhook/hook', payload: body, headers })).json();

describe('a consumer', () => {
  it('gets the exact body and the headers that the delivery shows, redacted ones redacted', async () => {
    await open();
    const body = '{ "ünicode" : 1 }\r\n';
    const headers = { 'content-type': 'application/json', authorization: 'Bearer hush', 'x-tenant': 'acme' };
    const { deliveryId, runId } = await receive(body, headers);
    const { deliveries, gone } = await readAll(1);
    expect(deliveries).toMatchObject([{ deliveryId, runId, flowName: 'hook', triggerKey: 'in' }]);
    expect(Buffer.from(deliveries[0].body, 'base64').toString()).toBe(body);
    const shown = (await dashboard.app.inject(`/flows/api/webhooks/${deliveryId}`)).json();
    expect(deliveries[0].headers).toEqual(shown.headers);
    expect(deliveries[0].headers).toMatchObject({ authorization: '[redacted]', 'x-tenant': '[redacted]' });
    expect(gone).toBeNull();
  });

  it('gets the same until it says that it has it, and each cursor counts once', async () => {
    const { cursor } = (await open()).json();
    await receive('1');
    await receive('2');
    const [first, second] = (await readAll(2)).deliveries;
    expect((await read()).deliveries).toHaveLength(2);
    expect((await advance(cursor, first.cursor)).json()).toMatchObject({ cursor: first.deliveryId });
    expect((await read()).deliveries).toEqual([second]);
    expect((await advance(cursor, second.cursor)).json()).toMatchObject({ statusCode: 409, reason: 'cursor_moved' });
    await advance(first.cursor, second.cursor);
    expect((await read()).deliveries).toEqual([]);
  });

  it('keeps what it gets: another subject needs another name', async () => {
    await open({ flowId: HOOK.id.toUpperCase() });
    expect((await open({ flowId: HOOK.id })).statusCode).toBe(200);
    expect((await open()).json()).toMatchObject({ statusCode: 409, reason: 'consumer_differs' });
    expect((await open({ flowId: ORDERS_ID })).json()).toMatchObject({ reason: 'consumer_differs' });
  });

  it('is refused for a flow or a trigger that does not exist, unless it is there already', async () => {
    const never = '00000000-0000-4000-8000-000000000000';
    expect((await open({ flowId: never })).json()).toMatchObject({
      statusCode: 404,
      reason: 'unknown_flow',
      message: `There is no flow with the id ${never}`,
    });
    expect((await open({ flowId: HOOK.id, triggerKey: 'inn' })).json()).toMatchObject({
      statusCode: 404,
      reason: 'unknown_trigger',
      message: 'The flow has no webhook trigger "inn"; it has in',
    });
    expect((await open({ triggerKey: 'in' })).json()).toMatchObject({
      statusCode: 400,
      message: 'body.triggerKey: belongs to a flow; name the flow as body.flowId',
    });
    expect((await read()).reason).toBe('unknown_consumer');
    expect((await open({ flowId: HOOK.id, triggerKey: 'in' })).statusCode).toBe(200);
    await dashboard.app.inject({ method: 'DELETE', url: `/flows/api/flows/${HOOK.id}` });
    expect((await open({ flowId: HOOK.id, triggerKey: 'in' })).statusCode).toBe(200);
  });

  it('is opened and deleted by somebody, and advances without a line in the activity', async () => {
    const { cursor } = (await open({ reason: 'a new laptop' })).json();
    await receive('1');
    const { upTo } = await readAll(1);
    expect((await advance(cursor, upTo)).statusCode).toBe(200);
    await dashboard.app.inject({ method: 'DELETE', url: ADA });
    const activity: { action: string; reason: string | null }[] = (
      await dashboard.app.inject('/flows/api/activity')
    ).json();
    const ofConsumers = activity.filter(({ action }) => action.endsWith('Consumer'));
    expect(ofConsumers.map(({ action, reason }) => [action, reason])).toEqual([
      ['deleteConsumer', null],
      ['openConsumer', 'a new laptop'],
    ]);
  });

  it('is told what may be gone that came before what is kept', async () => {
    await open();
    await receive('1');
    dashboard.clock.advance(40 * DAY_MS);
    const { gone } = await read();
    expect(gone).toMatchObject({ since: expect.any(String), until: expect.any(String), atMost: 1 });
  });
});

describe('a token', () => {
  it('needs the scope operate to have a consumer, and read to look', async () => {
    const reader = { name: 'reader', token: 'reads-0f1e2d3c4b5a6978', scopes: ['read' as const] };
    const guarded = await startDashboard({ access: { kind: 'credentials', tokens: [reader] } }, [HOOK]);
    const headers = { authorization: 'Bearer reads-0f1e2d3c4b5a6978' };
    const denied = await guarded.app.inject({ method: 'PUT', url: ADA, headers });
    expect(denied.json()).toMatchObject({ statusCode: 403, reason: 'insufficient_scope' });
    expect((await guarded.app.inject({ url: '/flows/api/webhooks/consumers', headers })).json()).toEqual([]);
  });
});
