import { beforeAll, describe, expect, it } from 'vitest';
import { examples, refusals } from './answer-examples.ts';
import { type Operation, validatorOf } from './described.ts';
import { ORDERS_ID, type TestDashboard } from './fixture.ts';
import { api, type Populated, startPopulated } from './populated.ts';

/*
 * Every operation answers as its OpenAPI document says: each gets a request that succeeds, in an app with data, and
 * each answer must fit the document's schema for its status. every-operation.test.ts tests the refusals that follow
 * from the document itself.
 */

/** Endless answers; a test below reads them over a socket. */
const streams = ['streamEvents'];
/** The description itself, and the pages that links to answers open. */
const hidden = [
  ...['GET /flows/api/openapi.json', 'GET /flows/api/docs'],
  ...['GET', 'POST'].map((method) => `${method} /flows/api/webhook/answers/:token(^.+$)`),
];
/** The pages for browsers: everything below `/flows` except the API. */
const isPage = (route: string) => route === 'GET /' || /^GET \/flows(?!\/api\/)(\/|$)/.test(route);

let populated: Populated;
let dashboard: TestDashboard;
let validator: ReturnType<typeof validatorOf>;
let operations: { method: string; path: string; operation: Operation }[] = [];

beforeAll(async () => {
  populated = await startPopulated();
  dashboard = populated.dashboard;
  const document = (await dashboard.app.inject(`${api}/openapi.json`)).json();
  validator = validatorOf(document);
  operations = Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
});

describe('every route', () => {
  it('is an operation of the document, or the document itself', () => {
    const described = operations.map(({ method, path }) => `${method} ${path.replace(/\{(\w+)\}/g, ':$1')}`);
    const served = dashboard.routes.filter((route) => !isPage(route));
    expect(served.sort()).toEqual([...described, ...hidden].sort());
  });

  it('is asked below for a success', () => {
    const names = operations.map(({ operation }) => operation.operationId);
    expect(names.sort()).toEqual([...Object.keys(examples), ...streams].sort());
    const lacking = Object.entries(examples).filter(([, rows]) => !rows.some(({ status }) => status < 400));
    expect(lacking).toEqual([]);
  });

  it('whose body has a shape shows an example that fits it', () => {
    for (const { operation } of operations) {
      const body = operation.requestBody?.content['application/json'];
      if (body === undefined) continue;
      expect(body.example, operation.operationId).toBeDefined();
      expect(validator(body.schema).safeParse(body.example).error, operation.operationId).toBeUndefined();
    }
  });
});

describe('an answer is as the document says', () => {
  const asked = [...Object.entries(examples), ...Object.entries(refusals).map(([name, row]) => [name, [row]] as const)];
  const rows = asked.flatMap(([name, list]) =>
    list.map((example) => [name, example.status, example.url, example] as const),
  );
  it.each(rows)('%s: %i for %s', async (name, status, url, { body, before }) => {
    await before?.(populated);
    const found = operations.find(({ operation }) => operation.operationId === name);
    if (found === undefined) throw new Error(`there is no operation ${name}`);
    const response = await dashboard.app.inject({
      method: found.method as 'GET',
      url: url.replace(/RUN|FAILED|WAITING|LOOPING|HOLDING|DELIVERY|REFUSED/, (word) => populated.ids[word] ?? word),
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    populated.goOn();
    expect({ status: response.statusCode, body: response.body }).toMatchObject({ status });
    const [type = '', content] = Object.entries(found.operation.responses[status]?.content ?? {})[0] ?? [];
    expect(response.headers['content-type']).toContain(type);
    if (content === undefined) throw new Error(`${name} does not say that it answers ${status}`);
    // GUIDs are lower-case, in whatever case they were written.
    expect(response.body).not.toMatch(/"(?=[^"]*[A-F])[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"/);
    const answer = type === 'application/json' ? response.json() : response.body;
    expect(validator(content.schema).safeParse(answer).error).toBeUndefined();
  });

  it('bare lists and pages are not empty here, so that the schemas of their items are checked', async () => {
    for (const path of [
      '/webhooks/recent',
      '/runs',
      '/flows',
      '/schedules',
      '/runs/active',
      '/attention',
      `/runs/${populated.ids.RUN}/events`,
      `/flows/${ORDERS_ID}/revisions`,
    ]) {
      expect((await dashboard.app.inject(`${api}${path}`)).json(), path).not.toEqual([]);
    }
  });

  it('a time that is not ISO 8601 in UTC would not fit', () => {
    const time = validator({ type: 'string', format: 'date-time' });
    expect(time.safeParse('2026-11-21T12:00:00.000Z').success).toBe(true);
    for (const other of ['2026-11-21 12:00', '1763726400000', '']) expect(time.safeParse(other).success).toBe(false);
  });

  it('the stream of events has its content type', async () => {
    const base = await dashboard.app.listen({ host: '127.0.0.1', port: 0 });
    const stop = new AbortController();
    const response = await fetch(`${base}${api}/events/stream`, { signal: stop.signal });
    const [type] = Object.keys(
      operations.find(({ operation }) => operation.operationId === 'streamEvents')?.operation.responses[200]?.content ??
        {},
    );
    expect(response.headers.get('content-type')).toContain(type);
    stop.abort();
    expect((await dashboard.app.inject(`${api}/events/stream?runId=x`)).statusCode).toBe(400);
  });
});
