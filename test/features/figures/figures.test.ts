import { describe, expect, it } from 'vitest';
import { HOOK_ONLY_ID, ORDERS_ID, orderDelivery, useDashboard } from '../../dashboard/fixture.ts';

const dashboard = useDashboard();
const { get } = dashboard;

describe('deliveries over time', () => {
  it('are counted by the hour, including empty hours, for all flows or one', async () => {
    await dashboard.app.inject(orderDelivery('{"order":1}'));
    await dashboard.app.inject(orderDelivery('{"order":2}', { key: 'wrong' }));
    dashboard.clock.advance(3_600_000);
    await dashboard.app.inject(orderDelivery('{"order":3}'));
    const answer = await get('/flows/api/webhooks/timeseries?hours=3');
    expect(answer).toEqual({
      bucket: 'hour',
      since: '2026-11-21T11:00:00.000Z',
      until: '2026-11-21T14:00:00.000Z',
      flowId: null,
      firstAt: '2026-11-21T12:00:00.000Z',
      buckets: [
        { timestamp: '2026-11-21T11:00:00.000Z', accepted: 0, rejected: 0, total: 0 },
        { timestamp: '2026-11-21T12:00:00.000Z', accepted: 1, rejected: 1, total: 2 },
        { timestamp: '2026-11-21T13:00:00.000Z', accepted: 1, rejected: 0, total: 1 },
      ],
    });
    expect(await get(`/flows/api/webhooks/timeseries?hours=3&flowId=${ORDERS_ID.toUpperCase()}`)).toEqual({
      ...answer,
      flowId: ORDERS_ID,
    });
    const { buckets } = await get(`/flows/api/webhooks/timeseries?hours=3&flowId=${HOOK_ONLY_ID}`);
    expect(buckets.map(({ total }: { total: number }) => total)).toEqual([0, 0, 0]);
  });

  it('are counted by the minute, of a span that is widened to whole minutes', async () => {
    const span = 'since=2026-11-21T12:00:30Z&until=2026-11-21T12:02:01Z';
    const { since, until, buckets } = await get(`/flows/api/webhooks/timeseries?bucket=minute&${span}`);
    expect({ since, until }).toEqual({ since: '2026-11-21T12:00:00.000Z', until: '2026-11-21T12:03:00.000Z' });
    expect(buckets.map(({ total }: { total: number }) => total)).toEqual([2, 0, 0]);
    const runs = await get(`/flows/api/runs/timeseries?bucket=minute&flowId=${ORDERS_ID}&${span}`);
    expect(runs.buckets).toMatchObject([{ total: 1, running: 1 }, { total: 0 }, { total: 0 }]);
    expect((await get('/flows/api/runs/timeseries?bucket=minute')).buckets).toHaveLength(60);
  });

  it('are counted by the day, for as many days as the hours touch', async () => {
    const { bucket, buckets } = await get('/flows/api/webhooks/timeseries?bucket=day&hours=25');
    expect(bucket).toBe('day');
    expect(buckets).toEqual([
      { timestamp: '2026-11-20T00:00:00.000Z', accepted: 0, rejected: 0, total: 0 },
      { timestamp: '2026-11-21T00:00:00.000Z', accepted: 2, rejected: 1, total: 3 },
    ]);
  });
});

describe('figures of each flow', () => {
  it('are deliveries and refusals of the last hours, rounded up to a whole hour', async () => {
    const ofOrders = { flowId: ORDERS_ID, p95DurationMs: null };
    const [since, before] = ['2026-11-21T13:00:00.000Z', '2026-11-21T12:00:00.000Z'];
    dashboard.clock.advance(1);
    expect(await get('/flows/api/flows/stats?hours=1')).toEqual([
      { ...ofOrders, since, deliveries: 1, rejected: 0 },
      { ...ofOrders, flowId: HOOK_ONLY_ID, since, deliveries: 0, rejected: 0 },
    ]);
    expect(await get('/flows/api/flows/stats?hours=2')).toContainEqual({
      ...ofOrders,
      since: before,
      deliveries: 3,
      rejected: 1,
    });
  });
});

describe('a preview of a schedule', () => {
  it.each([
    ['cronExpression=0 9 * * *', 'UTC', ['2026-11-22T09:00:00.000Z', '2026-11-23T09:00:00.000Z']],
    [
      'cronExpression=0 9 * * *&timeZone=Europe/Berlin',
      'Europe/Berlin',
      ['2026-11-22T08:00:00.000Z', '2026-11-23T08:00:00.000Z'],
    ],
    ['cronExpression=30 0 12 29 2 *', 'UTC', ['2028-02-29T12:00:30.000Z', '2032-02-29T12:00:30.000Z']],
  ])('names the next times: %s', async (query, timeZone, nextExecutions) => {
    const answer = await get(`/flows/api/schedules/preview?${encodeURI(query)}&count=2`);
    expect(answer).toMatchObject({ timeZone, nextExecutions });
  });

  it('names five times unless asked for more', async () => {
    expect((await get('/flows/api/schedules/preview?cronExpression=*%20*%20*%20*%20*')).nextExecutions).toHaveLength(5);
  });

  it.each([
    ['', /^cronExpression: /],
    ['?cronExpression=99%20*%20*%20*%20*', /^cronExpression: /],
    ['?cronExpression=0%209%20*%20*%20*&timeZone=Mars/Olympus', /^timeZone: is not an IANA time zone/],
    ['?cronExpression=0%209%20*%20*%20*&count=0', /^count: "0" is not accepted/],
    ['?cronExpression=0%209%20*%20*%20*&cont=1', /^cont: there is no such query parameter; did you mean "count"\?/],
  ])('is refused with the reason: %s', async (query, message) => {
    expect(await get(`/flows/api/schedules/preview${query}`)).toMatchObject({
      statusCode: 400,
      message: expect.stringMatching(message),
    });
  });
});
