import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { z } from 'zod';
import { compileValidator } from '../../src/dashboard/input.ts';
import { StoreUnavailableError } from '../../src/errors.ts';
import { MAX_MANIFEST_BYTES } from '../../src/manifest/load.ts';
import type { Store } from '../../src/store/store.ts';
import { ORDERS_ID, startDashboard, UNKNOWN_ID, useDashboard } from './fixture.ts';

const dashboard = useDashboard();

// The texts of the messages. Other tests check, from the OpenAPI document, that each operation refuses such values.
const paging: [query: string, message: string][] = [
  ['skip=-1', 'skip: "-1" is not accepted; expected a whole number from 0 to 2147483647'],
  ['skip=3000000000', 'skip: "3000000000" is not accepted; expected a whole number from 0 to 2147483647'],
  ...['20261130', '202611301200', '20261130120000', '1772357400'].map((digits): [string, string] => [
    `since=${digits}`,
    `since: "${digits}" is not accepted; expected a time such as 2026-03-01T12:00:00Z, a date such as 2026-03-01, or`,
  ]),
  ['take=0', 'take: "0" is not accepted; expected a whole number from 1 to 500'],
  ['take=1e2', 'take: "1e2" is not accepted'],
  ['take=5&take=6', 'take: was given more than once'],
  ['includeTotal=yes', 'includeTotal: "yes" is not accepted; expected true or false'],
  ['tkae=5', 'tkae: there is no such query parameter; did you mean "take"?'],
];
const filters: [path: string, query: string, message: string][] = [
  ['/flows/api/webhooks/recent', 'reason=bad', 'reason: "bad" is not accepted; expected one of body_too_large, '],
  ['/flows/api/webhooks/recent', 'rejectedOnly=true&acceptedOnly=true', 'rejectedOnly, acceptedOnly: only one'],
  ['/flows/api/webhooks/recent', `search=${'x'.repeat(201)}`, `search: "${'x'.repeat(80)}…" is not accepted`],
  ['/flows/api/webhooks/recent', 'FlowID=', 'FlowID: there is no such query parameter; did you mean "flowId"?'],
  ['/flows/api/webhooks/stats', 'hours=0', 'hours: "0" is not accepted; expected a whole number from 1 to 720'],
  [
    '/flows/api/runs',
    'waiting=tea',
    'waiting: "tea" is not accepted; expected one of signal, delay, retry, poll, host, secret, run, coalesce, order, slot',
  ],
  ['/flows/api/runs', 'status=Done', 'status: "Done" is not accepted; expected one of Running, Succeeded, '],
  [
    '/flows/api/runs',
    'skip=-1&take=0',
    'skip: "-1" is not accepted; expected a whole number from 0 to 2147483647; take: "0"',
  ],
  [
    '/flows/api/runs/active',
    `flowId=${ORDERS_ID}`,
    'flowId: there is no such query parameter. Known parameters are includeBuiltIn, since, until',
  ],
  [
    '/flows/api/runs/active',
    'since=later',
    'since: "later" is not accepted; expected a time such as 2026-03-01T12:00:00Z',
  ],
  [
    '/flows/api/runs/timeseries',
    'bucket=minute&since=2026-11-21T00:00:00Z&until=2026-11-21T06:01:00Z',
    'since: asks for 361 buckets of one minute; at most 360 are allowed',
  ],
  [
    '/flows/api/webhooks/timeseries',
    'minutes=361',
    'minutes: "361" is not accepted; expected a whole number from 1 to 360',
  ],
  ['/flows/api/runs/timeseries', 'days=7', 'days: does not fit bucket=hour, which takes hours'],
  ['/flows/api/runs/timeseries', 'bucket=day&hours=48', 'hours: does not fit bucket=day, which takes days'],
  ['/flows/api/runs/timeseries', 'bucket=Minute&hours=1', 'hours: does not fit bucket=minute, which takes minutes'],
  ['/flows/api/webhooks/timeseries', 'bucket=day&minutes=60', 'minutes: does not fit bucket=day, which takes hours'],
];
describe('bad input is a 400 that names the field', () => {
  const rows = paging.map(([query, message]) => ['/flows/api/runs', query, message] as const);
  it.each([...rows, ...filters])('%s?%s', async (path, query, message) => {
    const response = await dashboard.app.inject(`${path}?${query}`);
    expect(response.json()).toEqual({
      statusCode: 400,
      error: 'Bad Request',
      message: expect.stringContaining(message),
      reason: 'invalid_request',
    });
    expect(response.statusCode).toBe(400);
  });

  const timed = [
    ...['webhooks/recent', 'runs', 'runs/active', 'activity', 'flows', 'schedules'],
    ...[`flows/${ORDERS_ID}/revisions`, `runs/${UNKNOWN_ID}/events`],
  ];
  it.each(timed)('since and until of %s', async (path) => {
    const messageOf = async (query: string) =>
      (await dashboard.app.inject(`/flows/api/${path}?${query}`)).json().message ?? 'accepted';
    expect(await messageOf('since=2026-11-21T12:00:00Z&until=2026-11-21T12:00:00%2B02:00')).toBe(
      'since: must not be after until',
    );
    expect(await messageOf('until=yesterday')).toContain('until: "yesterday" is not accepted; expected a time such as');
    expect(await messageOf('since=2026-02-30T00:00:00Z')).toContain('since: "2026-02-30T00:00:00Z" is not accepted');
    expect(await messageOf('since=2026-02-30')).toContain('since: "2026-02-30" is not accepted');
    expect(await messageOf('since=2026-11-22&until=2026-11-21T23:59:59Z')).toBe('since: must not be after until');
    expect(await messageOf('since=2026-11-21&until=2026-11-21T00:00:00Z')).not.toMatch(/since|until/);
    expect(await messageOf('since=1&until=2026-11-21T12:00:00Z')).not.toMatch(/since|until/);
  });
});

describe('a body says what kind of value it got', () => {
  it.each([
    ['{"flowId":7}', 'flowId: expected text, got number'],
    ['{"search":null}', 'search: expected text, got null'],
    ['{"step":["a","b"]}', 'step: was given more than once'],
    ['{"limit":0}', 'body.limit: is out of range; at least 1 is accepted'],
    ['{"limit":10001}', 'body.limit: is out of range; at most 10000 is accepted'],
    ['{"limit":1.5}', 'body.limit: is not a whole number'],
    ['{"plan":"yes"}', 'body.plan: is a string; true or false is accepted'],
    [
      `{"reason":"${'x'.repeat(501)}"}`,
      'body.reason: is a string of the wrong length; at most 500 characters are accepted',
    ],
    ['[]', 'body: is an array; an object is accepted'],
  ])('%s', async (body, message) => {
    const response = await dashboard.app.inject({ method: 'POST', url: '/flows/api/runs/retry', body });
    expect(response.json()).toMatchObject({ statusCode: 400, message: expect.stringContaining(message) });
  });
});

describe('a body that is not what its command takes says what is accepted', () => {
  it.each([
    [
      'PUT',
      '/flows/api/webhooks/consumers/a',
      '{"since":"2026-11-30"}',
      'body.since: is not a time such as 2026-03-01T',
    ],
    ['PUT', '/flows/api/webhooks/consumers/a', '{"flowId":"x"}', 'body.flowId: is not a GUID such as 0f0c5a52-'],
    [
      'POST',
      '/flows/api/webhooks/redeliver',
      '{"since":"today"}',
      'body.since: is not a time such as 2026-03-01T12:00:00Z',
    ],
    ['PUT', '/flows/api/flows', '{}', 'error body: is an object; expected an array of manifests'],
    ['PUT', '/flows/api/flows', '7', 'error body: is a number; expected an array of manifests'],
    ['PUT', '/flows/api/flows', '', 'error body:1:1: value expected'],
  ] as const)('%s %s %s', async (method, url, body, message) => {
    const response = await dashboard.app.inject({ method, url, body });
    expect(response.json()).toMatchObject({ statusCode: 400, message: expect.stringContaining(message) });
  });
});

describe('manifests may take as many bytes as in the folder, not more', () => {
  it.each([
    ['PUT', '/flows/api/flows'],
    ['PUT', `/flows/api/flows/${UNKNOWN_ID}`],
    ['POST', '/flows/api/flows/rehearse'],
  ] as const)('%s %s', async (method, url) => {
    const statusOf = async (bytes: number) =>
      (await dashboard.app.inject({ method, url, body: '{}'.padStart(bytes) })).statusCode;
    // The manifest is read, and is none.
    expect(await statusOf(MAX_MANIFEST_BYTES)).toBe(400);
    expect(await statusOf(MAX_MANIFEST_BYTES + 1)).toBe(413);
  });
});

describe('a body that is not UTF-8 is refused: its text would be read as another one', () => {
  const manifest = { id: UNKNOWN_ID, version: '1', name: 'Schlüssel', steps: { a: { type: 'NoOp' } } };
  it.each([
    ['PUT', '/flows/api/flows', 'latin1', [manifest]],
    ['PUT', `/flows/api/flows/${UNKNOWN_ID}`, 'latin1', manifest],
    ['PUT', `/flows/api/flows/${UNKNOWN_ID}`, 'utf16le', manifest],
    ['POST', `/flows/api/flows/${ORDERS_ID}/disable`, 'latin1', { reason: 'für heute' }],
  ] as const)('%s %s in %s', async (method, url, encoding, value) => {
    const body = Buffer.from(JSON.stringify(value), encoding);
    const response = await dashboard.app.inject({ method, url, body });
    expect(response.json()).toMatchObject({
      statusCode: 400,
      reason: 'invalid_json',
      message: 'body: is not UTF-8 text',
    });
  });
});

describe('every 400 has a reason', () => {
  it.each([
    ['GET', '/flows/api/runs/%zz', undefined, 'invalid_request'],
    ['GET', `/flows/api/runs/timeseries?since=2026-11-21&until=2026-11-20`, undefined, 'invalid_request'],
    ['POST', `/flows/api/flows/${ORDERS_ID}/trigger?triggerKey=nobody`, undefined, 'invalid_request'],
    ['POST', `/flows/api/flows/${ORDERS_ID}/disable`, '{"bogus":1}', 'invalid_request'],
    ['POST', `/flows/api/flows/${ORDERS_ID}/disable`, '{', 'invalid_json'],
    ['PUT', '/flows/api/flows', '[{}]', 'invalid_manifest'],
    ['PUT', '/flows/api/flows', '[null]', 'invalid_manifest'],
  ] as const)('%s %s %s', async (method, url, body, reason) => {
    const response = await dashboard.app.inject({ method, url, ...(body !== undefined && { body }) });
    expect(response.json()).toMatchObject({ statusCode: 400, reason });
  });
});

describe('other errors have the same shape', () => {
  it.each([
    ['GET', '/nope?x=1', 'There is no GET /nope'],
    ['GET', '/flows/api/nope', 'There is no GET /flows/api/nope'],
    ['POST', '/nope', 'There is no POST /nope'],
  ] as const)('%s %s: a route that nobody has', async (method, url, message) => {
    const response = await dashboard.app.inject({ method, url });
    expect(response.json()).toEqual({ statusCode: 404, error: 'Not Found', message });
  });

  it.each([
    [new StoreUnavailableError('disk /secret/path is full'), 503, 'store_unavailable'],
    [new Error('SELECT secret FROM internals'), 500, undefined],
  ])('a fault behind the dashboard shows nothing of itself and is logged: %s', async (error, statusCode, reason) => {
    const store = faultyStore(dashboard.store, error);
    const broken = await startDashboard({ store });
    const response = await broken.app.inject('/flows/api/runs');
    expect(response.statusCode).toBe(statusCode);
    expect(response.json().reason).toBe(reason);
    expect(response.body).not.toMatch(/secret/);
    expect(broken.logged).toContainEqual(
      expect.objectContaining({ level: 50, err: expect.objectContaining({ message: error.message }) }),
    );
  });
});

/** The store, with a list of runs that fails. */
function faultyStore(store: Store, error: Error): Store {
  return { ...store, listRuns: () => Promise.reject(error) };
}

it('does not take a body apart that is bytes', () => {
  const validate = compileValidator({ schema: z.unknown(), method: 'PUT', url: '/', httpPart: 'body' });
  const body = Buffer.from('[]');
  const looked = vi.spyOn(Object, 'entries');
  onTestFinished(() => looked.mockRestore());
  expect(validate(body)).toEqual({ value: body });
  expect(looked).not.toHaveBeenCalledWith(body);
});
