import { beforeAll, describe, expect, it } from 'vitest';
import { type Operation, validatorOf } from './described.ts';
import { ORDERS_ID, startDashboard, UNKNOWN_ID, useDashboard } from './fixture.ts';

/* Rules that hold for every operation. The rows come from the OpenAPI document, so that none can be forgotten. */

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly schema: {
    readonly format?: string;
    readonly type?: string;
    readonly minimum?: number;
    readonly maximum?: number;
  };
}
interface Row {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly parameters: readonly Parameter[];
  /** By status that the operation may answer with. */
  readonly responses: Operation['responses'];
  /** With valid values for the path's parameters. */
  readonly url: string;
  /** The required query parameters with valid values; empty if there are none. */
  readonly required: string;
}

const acceptedBy = ({ schema }: Parameter) =>
  schema.format === 'uuid' ? UNKNOWN_ID : schema.type === 'integer' ? '1' : 'x';

const RECEIVE = '/flows/api/webhook/{idOrSlug}';

const dashboard = useDashboard();
let rows: Row[] = [];
let validator: ReturnType<typeof validatorOf>;

beforeAll(async () => {
  const document = (await dashboard.app.inject('/flows/api/openapi.json')).json();
  validator = validatorOf(document);
  // The receive endpoint has its own form of answers for publishers.
  const { [RECEIVE]: _, ...own } = document.paths;
  rows = Object.entries<Record<string, Operation<Parameter>>>(own).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters = [], responses }]) => ({
      method: method.toUpperCase() as Row['method'],
      path,
      parameters,
      responses,
      url: parameters.reduce((url, parameter) => url.replace(`{${parameter.name}}`, acceptedBy(parameter)), path),
      required: parameters
        .filter(({ in: place, required }) => place === 'query' && required)
        .map((parameter) => `${parameter.name}=${acceptedBy(parameter)}`)
        .join('&'),
    })),
  );
});

const ask = ({ method }: Row, url: string) => dashboard.app.inject({ method, url });
/** A refusal fits the document's schema for its status. */
function expectFit({ path, responses }: Row, answer: { readonly statusCode: number }): void {
  const { schema } = responses[answer.statusCode]?.content?.['application/json'] ?? {};
  if (schema === undefined) throw new Error(`${path} does not say that it answers ${answer.statusCode}`);
  expect(validator(schema).safeParse(answer).error, path).toBeUndefined();
}
const query = (row: Row) => row.parameters.filter(({ in: place }) => place === 'query');

/** Probes and scrapers may send any query, and a dry run takes the publisher's query. */
const anyQuery = /^\/(health|metrics)|\/dry-run\//;

/** Manifests, bodies that a flow or a step reads, and bodies that a publisher would send. */
const anyBody = /^PUT \S+\/flows(\/\{id\})?$|\/flows\/\{id\}\/trigger$|\/signals\/|\/dry-run\//;

describe('every operation', () => {
  it('is refused without credentials, before its input is looked at', async () => {
    const access = { kind: 'credentials', token: 'a token of the test' } as const;
    const guarded = await startDashboard({ access });
    const own = rows.filter(({ path }) => !path.startsWith('/health/'));
    expect(own.length).toBeGreaterThan(rows.length - 4);
    for (const { method, path, url } of own) {
      for (const asked of [url, `${url}?nobody=1`]) {
        const { statusCode } = await guarded.app.inject({ method, url: asked });
        expect({ method, path, statusCode }).toEqual({ method, path, statusCode: 401 });
      }
    }
  });

  it('refuses a query parameter that it does not know, by name', async () => {
    const strict = rows.filter(({ path }) => !anyQuery.test(path));
    expect(strict.length).toBeGreaterThan(30);
    for (const row of strict) {
      const answer = (await ask(row, `${row.url}?${row.required}&nobody=1`)).json();
      expect({ path: row.path, ...answer }).toMatchObject({
        statusCode: 400,
        message: expect.stringMatching(/^nobody: there is no such query parameter/),
      });
      expectFit(row, answer);
    }
  });

  it('refuses a field that its body does not have, by name, and takes none as {}', async () => {
    const commands = rows.filter(({ method, path }) => method !== 'GET' && !anyBody.test(`${method} ${path}`));
    expect(commands.length).toBeGreaterThan(15);
    const commanded = await startDashboard();
    for (const { method, path, url, required } of commands) {
      const answer = (payload: string) => commanded.app.inject({ method, url: `${url}?${required}`, payload });
      expect({ path, ...(await answer('{"reason":"why","bogus":1}')).json() }).toMatchObject({
        statusCode: 400,
        message: expect.stringMatching(/body\.bogus: there is no such field.* Known fields are /),
      });
      const [none, empty] = await Promise.all(['', '{}'].map(answer));
      expect({ path, status: none?.statusCode }).toEqual({ path, status: empty?.statusCode });
    }
  });

  it('refuses an id that is not a GUID, by name', async () => {
    for (const row of rows) {
      for (const { name } of row.parameters.filter(
        ({ in: place, schema }) => place === 'path' && schema.format === 'uuid',
      )) {
        const answer = (await ask(row, row.path.replace(`{${name}}`, '42').replace(/\{\w+\}/g, 'x'))).json();
        expect({ path: row.path, ...answer }).toMatchObject({
          statusCode: 400,
          message: expect.stringMatching(new RegExp(`^${name}: "42" is not accepted; expected a GUID`)),
        });
      }
    }
  });

  it('answers an unknown id with 404, except those that create a flow or a consumer', async () => {
    const single = rows.filter(({ path }) => path.includes('{'));
    const opensConsumer = ({ method, path }: (typeof rows)[number]) => method === 'PUT' && /consumers/.test(path);
    // It answers 404 to an unknown flow in its body.
    const known = single.filter((row) => !('404' in row.responses) || opensConsumer(row));
    expect(known.map(({ method, path }) => `${method} ${path}`).sort()).toEqual([
      'PUT /flows/api/flows/{id}',
      'PUT /flows/api/webhooks/consumers/{name}',
    ]);
    expect(single.length).toBeGreaterThan(30);
    for (const row of single.filter((one) => !known.includes(one))) {
      const cron = row.method === 'PUT' ? { body: '{"cronExpression":"0 0 * * *"}' } : {};
      const body = row.path.endsWith('/held/discard') ? { body: '{"reason":"moved"}' } : cron;
      const url = `${row.url}?${row.required}`;
      const answer = (await dashboard.app.inject({ method: row.method, url, ...body })).json();
      const named = row.url.includes(UNKNOWN_ID) ? UNKNOWN_ID : 'x';
      expect({ path: row.path, ...answer }).toMatchObject({
        statusCode: 404,
        error: 'Not Found',
        message: expect.stringMatching(new RegExp(`^(There is no|No) \\w+ .*${named}`)),
        reason: expect.stringMatching(/^unknown_/),
      });
      expectFit(row, answer);
    }
  });

  it('refuses invalid GUIDs, numbers, flags and times, and numbers beyond their range', async () => {
    let asked = 0;
    for (const row of rows) {
      for (const { name, schema } of query(row)) {
        const wrong = [
          ...(schema.format === 'uuid' ? ['42'] : []),
          ...(schema.format === 'date-time' ? ['yesterday', '2026-11-21T12:00:00'] : []),
          ...(schema.type === 'integer' ? ['-1', '1.5', 'ten', '99999999999', String((schema.maximum ?? 0) + 1)] : []),
          ...(schema.type === 'integer' && schema.minimum === 1 ? ['0'] : []),
          ...(schema.type === 'boolean' ? ['yes'] : []),
        ];
        for (const value of wrong) {
          const { statusCode, message } = (await ask(row, `${row.url}?${name}=${value}&${row.required}`)).json();
          expect({ path: row.path, name, value, statusCode, message }).toMatchObject({
            statusCode: 400,
            message: expect.stringContaining(`${name}: "${value}" is not accepted; expected `),
          });
          asked += 1;
        }
      }
    }
    expect(asked).toBeGreaterThan(90);
  });

  it('that pages does it in the same way', async () => {
    const lists = rows.filter((row) => query(row).some(({ name }) => name === 'includeTotal'));
    expect(lists.map(({ path }) => path).sort()).toEqual([
      '/flows/api/activity',
      '/flows/api/flows',
      '/flows/api/flows/{id}/revisions',
      '/flows/api/runs',
      '/flows/api/runs/{id}/steps',
      '/flows/api/schedules',
      '/flows/api/webhooks/recent',
    ]);
    // The steps of a run are tested with runs: their default page has nearly all steps of a run.
    for (const row of lists.filter(({ path }) => !path.startsWith('/flows/api/runs/'))) {
      const url = row.path.replace('{id}', ORDERS_ID);
      // The tests above left more than 50 entries in the activity.
      const bare = (await ask(row, `${url}?take=500`)).json();
      expect(bare).toBeInstanceOf(Array);
      const page = (await ask(row, `${url}?includeTotal=true&take=500`)).json();
      expect(page).toEqual({ items: bare, total: bare.length, skip: 0, take: 500 });
      expect((await ask(row, `${url}?includeTotal=true`)).json()).toMatchObject({ total: bare.length, take: 50 });
      const behind = (await ask(row, `${url}?includeTotal=1&skip=${bare.length}&take=7`)).json();
      expect(behind).toEqual({ items: [], total: bare.length, skip: bare.length, take: 7 });
    }
  });
});

describe('methods', () => {
  it('GET is answered to HEAD too, without a body', async () => {
    for (const row of rows.filter(({ method, path }) => method === 'GET' && !path.endsWith('/stream'))) {
      const [head, get] = [await dashboard.app.inject({ method: 'HEAD', url: row.url }), await ask(row, row.url)];
      expect({ path: row.path, status: head.statusCode, body: head.body }).toEqual({
        path: row.path,
        status: get.statusCode,
        body: '',
      });
    }
  });

  it('any other is a 405 that names the known ones', async () => {
    for (const path of new Set(rows.map(({ path }) => path).filter((path) => path.startsWith('/flows/')))) {
      const own = rows.filter((row) => row.path === path);
      const url = own[0]?.url ?? '';
      // Other patterns may match the same path: `/webhooks/recent` also matches `/webhooks/{deliveryId}`.
      const response = await dashboard.app.inject({ method: 'PATCH', url });
      expect({ path, status: response.statusCode }).toEqual({ path, status: 405 });
      const allowed = String(response.headers.allow).split(', ');
      expect(allowed).toEqual(expect.arrayContaining(own.map(({ method }) => method)));
      expect(allowed.includes('HEAD')).toBe(allowed.includes('GET') && !path.endsWith('/stream'));
    }
  });

  it('a stream that never ends has no HEAD', async () => {
    const response = await dashboard.app.inject({ method: 'HEAD', url: '/flows/api/events/stream' });
    expect(response.statusCode).toBe(405);
  });
});

describe('a browser on another site', () => {
  it.each([
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { origin: 'https://evil.example' },
    { origin: 'null' },
  ])('changes nothing, whatever the operation: %j', async (headers) => {
    const changing = rows.filter(({ method }) => method !== 'GET');
    expect(changing.length).toBeGreaterThan(10);
    for (const row of changing) {
      const response = await dashboard.app.inject({ method: row.method, url: row.url, headers });
      expect({ path: row.path, ...response.json() }).toMatchObject({ statusCode: 403, reason: 'cross_site' });
    }
  });

  it('may not embed an answer: each carries the strict policy', async () => {
    for (const row of rows.filter(({ path }) => !path.endsWith('/stream'))) {
      const { headers } = await ask(row, row.url);
      expect({ path: row.path, ...headers }).toMatchObject({
        'content-security-policy': expect.stringMatching(/^default-src 'none';.* frame-ancestors 'none'/),
        'cross-origin-resource-policy': 'same-origin',
        'x-content-type-options': 'nosniff',
      });
    }
  });
});
