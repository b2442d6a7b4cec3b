import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DeliveryRecord } from '../../src/model/delivery.ts';
import {
  CANARIES,
  NOW,
  ORDERS_ID,
  orderDelivery,
  startDashboard,
  type TestDashboard,
  UNKNOWN_ID,
  useDashboard,
} from './fixture.ts';

const HOUR_MS = 3_600_000;
const dashboard = useDashboard();
const { get } = dashboard;

function rejected(number: number, overrides: Partial<DeliveryRecord> = {}): DeliveryRecord {
  return {
    id: `01990000-0000-7000-8000-${String(number).padStart(12, '0')}`,
    flowId: null,
    triggerKey: null,
    receivedAt: NOW - HOUR_MS * number,
    clientIp: '203.0.113.7',
    mode: 'Enforce',
    scheme: null,
    rejected: true,
    enforced: true,
    statusCode: 404,
    reason: 'unknown_flow',
    violations: ['unknown_flow'],
    detail: null,
    bodyBytes: 0,
    body: null,
    headers: {},
    processingMs: 0.25,
    runId: null,
    usedPreviousKey: false,
    ...overrides,
  };
}

describe('one delivery', () => {
  it('has every field, times in ISO 8601 UTC and the body that its run holds', async () => {
    const answer = (await dashboard.app.inject(orderDelivery('{"order":1}'))).json();

    expect(await get(`/flows/api/webhooks/${answer.deliveryId.toUpperCase()}`)).toEqual({
      id: answer.deliveryId,
      flowId: ORDERS_ID,
      triggerKey: 'shop',
      receivedAt: '2026-11-21T12:00:00.000Z',
      clientIp: '127.0.0.1',
      mode: 'Enforce',
      scheme: 'GitHub',
      rejected: false,
      enforced: false,
      statusCode: 200,
      reason: null,
      violations: [],
      detail: null,
      bodyBytes: 11,
      body: '{"order":1}',
      bodyEncoding: 'utf8',
      bodyTruncated: false,
      headers: expect.objectContaining({ 'content-type': 'application/json' }),
      processingMs: expect.any(Number),
      runId: answer.runId,
      runStatus: 'Running',
      usedPreviousKey: false,
      edited: false,
      gateResults: expect.any(Array),
      hints: [],
      signature: { scheme: 'GitHub', keys: { current: expect.stringMatching(/^[0-9a-f]{8}$/), previous: null } },
      outcome: null,
      held: false,
      searchKeys: {},
      requestUrl: null,
      redelivery: null,
      repeats: null,
      redeliveredFrom: null,
      redeliveredAs: null,
    });
  });

  it('with a wrong signature says why and that Enforce refused it', async () => {
    await dashboard.app.inject(orderDelivery('{"order":2}', { key: 'wrong' }));
    const [newest] = await get('/flows/api/webhooks/recent?rejectedOnly=true&take=1');
    expect(newest).toMatchObject({
      rejected: true,
      enforced: true,
      statusCode: 401,
      reason: 'signature_mismatch',
      violations: ['signature_mismatch'],
      runId: null,
      body: '{"order":2}',
    });
  });

  const bodies: [rule: string, body: Buffer | null, bodyBytes: number, expected: object][] = [
    ['of no bytes read has none', null, 0, { body: null, bodyEncoding: null, bodyTruncated: false }],
    ['of bytes that are no UTF-8 is base64', Buffer.from([0xff, 0]), 2, { body: '/wA=', bodyEncoding: 'base64' }],
    ['keeps a byte order mark', Buffer.from('\ufeffa'), 4, { body: '\ufeffa', bodyEncoding: 'utf8' }],
    [
      'over 64 KiB is cut before a character that does not fit',
      Buffer.from(`x${'é'.repeat(40_000)}`),
      80_001,
      { body: `x${'é'.repeat(32_767)}`, bodyEncoding: 'utf8', bodyTruncated: true },
    ],
    [
      'that was cut when it was kept says so',
      Buffer.from('abc'),
      100_000,
      { body: 'abc', bodyEncoding: 'utf8', bodyTruncated: true },
    ],
  ];
  it.each(bodies)('a body %s', async (rule, body, bodyBytes, expected) => {
    const id = `01980000-0000-7000-8000-${String(bodies.findIndex(([name]) => name === rule)).padStart(12, '0')}`;
    await dashboard.store.recordDelivery(rejected(0, { id, body, bodyBytes, receivedAt: NOW - 1000 * HOUR_MS }));
    expect(await get(`/flows/api/webhooks/${id}`)).toMatchObject({ bodyBytes, ...expected });
  });

  it('redacts credentials, even those that were kept as they came', async () => {
    const id = '01970000-0000-7000-8000-000000000001';
    const headers = { authorization: CANARIES.authorization, cookie: CANARIES.cookie, 'user-agent': 'shop/1' };
    await dashboard.store.recordDelivery(rejected(0, { id, headers, receivedAt: NOW - 1000 * HOUR_MS }));
    const { headers: shown } = await get(`/flows/api/webhooks/${id}`);
    expect(shown).toEqual({ authorization: '[redacted]', cookie: '[redacted]', 'user-agent': 'shop/1' });
  });
});

describe('the delivery log', () => {
  let log: TestDashboard;
  const ids = async (query: string) => {
    const list: DeliveryRecord[] = (await log.app.inject(`/flows/api/webhooks/recent?${query}`)).json();
    return list.map(({ id }) => Number(id.slice(-12)));
  };

  beforeAll(async () => {
    log = await startDashboard();
    const records = [
      rejected(1),
      rejected(2, { flowId: ORDERS_ID, reason: 'rate_limited', violations: ['rate_limited'], statusCode: 429 }),
      rejected(3, { rejected: false, enforced: false, statusCode: 200, reason: null, violations: [], detail: 'Fine' }),
      rejected(30, { clientIp: '198.51.100.9' }),
    ];
    for (const record of records) await log.store.recordDelivery(record);
  });
  afterAll(() => log.close());

  it.each([
    ['', [30, 3, 2, 1]],
    ['flowId=&reason=&rejectedOnly=&acceptedOnly=&search=&skip=&take=&includeTotal=', [30, 3, 2, 1]],
    [`flowId=${ORDERS_ID.toUpperCase()}`, [2]],
    [`flowId=${UNKNOWN_ID}`, []],
    ['reason=RATE_LIMITED', [2]],
    ['rejectedOnly=true', [30, 2, 1]],
    ['rejectedOnly=false', [30, 3, 2, 1]],
    ['acceptedOnly=1', [3]],
    ['search=FINE', [3]],
    ['search=198.51', [30]],
    ['skip=1&take=2', [3, 2]],
  ])('answers %j with what matches, newest first', async (query, expected) => {
    expect(await ids(query)).toEqual(expected);
  });

  it('counts in the order of the reasons, whatever the store has them in', async () => {
    const { counts } = (await log.app.inject('/flows/api/webhooks/stats')).json();
    expect(Object.keys(counts)).toEqual(['unknown_flow', 'rate_limited']);
  });

  it.each([
    ['', { windowHours: 24, counts: { unknown_flow: 1, rate_limited: 1 }, accepted: 1, rejected: 2, total: 3 }],
    ['?hours=1', { windowHours: 1, counts: { unknown_flow: 1 }, accepted: 0, rejected: 1, total: 1 }],
    [
      '?hours=720',
      { windowHours: 720, counts: { unknown_flow: 2, rate_limited: 1 }, accepted: 1, rejected: 3, total: 4 },
    ],
  ])('counts by reason over the hours asked for: %j', async (query, expected) => {
    expect((await log.app.inject(`/flows/api/webhooks/stats${query}`)).json()).toEqual(expected);
  });
});
