import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ORDERS, ORDERS_ID, startDashboard, useDashboard } from '../../dashboard/fixture.ts';

type JsonSchema = Parameters<typeof z.fromJSONSchema>[0];
interface Document {
  openapi: string;
  info: { version: string };
  paths: Record<string, Record<string, Operation>>;
  webhooks: Record<string, { post: { summary: string; description: string; requestBody: object; security: unknown } }>;
  components: { schemas: Record<string, object> };
}
interface Operation {
  operationId: string;
  summary: string;
  requestBody?: { required: boolean };
  security?: object[];
  parameters?: { name: string; in: string; schema: object; examples?: object }[];
  responses: Record<string, { description: string; content: Record<string, { schema: object }> }>;
}

const LOOPING_ID = '2d7a4d6c-52a1-4a0e-9c5f-1d6b7f0f3a55';
const LOOPING = {
  id: LOOPING_ID,
  name: 'looping',
  version: '1',
  steps: {
    first: { type: 'NoOp' },
    lines: { type: 'ForEach', forEach: ['a'], steps: { pack: { type: 'NoOp' } }, runAfter: { first: ['Succeeded'] } },
  },
};

const BODY_SCHEMA = { type: 'object', required: ['invoice'], properties: { invoice: { type: 'string' } } };
const INVOICES = {
  id: '3e8b5e7d-63b2-4b1f-8d60-2e7c8f104b66',
  name: 'invoices',
  version: '1',
  triggers: { hook: { type: 'webhook', inputs: { webhookSlug: 'invoices', webhookBodySchema: BODY_SCHEMA } } },
  steps: { first: { type: 'NoOp' } },
};
const LOOSE_ID = '4f9c6f8e-74c3-4c20-9e71-3f8d90215c77';
const REFERRING = { $ref: '#/$defs/loose', $defs: { loose: { type: 'object' } } };
const LOOSE = {
  ...INVOICES,
  id: LOOSE_ID,
  name: 'loose',
  triggers: { hook: { type: 'webhook', inputs: { webhookBodySchema: REFERRING } } },
};

const dashboard = useDashboard('all', {}, [ORDERS, LOOPING, INVOICES, LOOSE] as object as (typeof ORDERS)[]);
let document: Document;

beforeAll(async () => {
  document = (await dashboard.app.inject('/flows/api/openapi.json')).json();
});

/** A schema of the document as a validator that refuses unnamed fields. */
function validator(schema: object): z.ZodType {
  const inlined = JSON.parse(
    JSON.stringify({ ...schema, $defs: document.components.schemas }).replaceAll('#/components/schemas/', '#/$defs/'),
  );
  return z.fromJSONSchema(inlined as JsonSchema);
}

describe('the OpenAPI document', () => {
  it('is OpenAPI 3.1 of this release and names every operation once', () => {
    expect(document.openapi).toBe('3.1.0');
    expect(document.info.version).toBe('9.9.9');
    const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
    const names = operations.map(({ operationId }) => operationId);
    expect(new Set(names).size).toBe(names.length);
    for (const operation of operations) expect(operation.summary).not.toBe('');
  });

  it('names the URL of each deployed webhook, and none that no address leads to', async () => {
    const parameters = document.paths['/flows/api/webhook/{idOrSlug}']?.post?.parameters ?? [];
    const { examples = {} } = parameters.find(({ name }) => name === 'idOrSlug') ?? {};
    expect(examples).toMatchObject({
      orders: {
        value: 'orders',
        summary: expect.stringMatching(/^http:.*\/flows\/api\/webhook\/orders \(orders, GitHub, Enforce\)$/),
      },
    });
    const page = (await dashboard.app.inject('/flows/api/docs')).body;
    expect(page).toContain('/flows/api/webhook/orders (orders, GitHub, Enforce)');
  });

  it('lists what the publisher of each deployed webhook sends, by the body schema of the trigger where it has one', () => {
    expect(Object.keys(document.webhooks)).toEqual(['orders', 'invoices', LOOSE_ID]);
    const bodyOf = (name: string) => document.webhooks[name]?.post.requestBody;
    expect(document.webhooks.orders?.post).toMatchObject({
      summary: 'orders, GitHub, Enforce',
      description: expect.stringMatching(/ http:.*\/flows\/api\/webhook\/orders\. /),
      security: [],
    });
    expect(bodyOf('orders')).toEqual({ content: { '*/*': { schema: expect.any(Object) } } });
    expect(bodyOf('invoices')).toEqual({ content: { 'application/json': { schema: BODY_SCHEMA } } });
    // Its references are not in this document.
    expect(JSON.stringify(bodyOf(LOOSE_ID))).not.toContain('$ref');
  });

  it('refers to nothing that it does not hold, and holds nothing that it does not refer to', () => {
    const text = JSON.stringify(document);
    const names = [...text.matchAll(/#\/components\/schemas\/(\w+)/g)].map(([, name]) => name);
    expect([...new Set(names)].sort()).toEqual(Object.keys(document.components.schemas).sort());
  });

  it('says what a query accepts', () => {
    const parameters = document.paths['/flows/api/webhooks/recent']?.get?.parameters ?? [];
    expect(parameters).toContainEqual(
      expect.objectContaining({
        name: 'take',
        in: 'query',
        required: false,
        schema: { type: 'integer', minimum: 1, maximum: 500 },
      }),
    );
    const reason = parameters.find(({ name }) => name === 'reason');
    expect(reason?.schema).toMatchObject({ enum: expect.arrayContaining(['nonce_replayed']) });
  });

  it('says which scope an operation needs, and none of one that needs no credentials', () => {
    const scopesOf = (path: string, method: string) => document.paths[path]?.[method]?.security;
    const needing = (scope: string) => [{ basic: [scope] }, { bearer: [scope] }];
    expect(scopesOf('/flows/api/runs', 'get')).toEqual(needing('read'));
    expect(scopesOf('/flows/api/webhooks/dry-run/{idOrSlug}', 'post')).toEqual(needing('read'));
    expect(scopesOf('/flows/api/runs/retry', 'post')).toEqual(needing('operate'));
    expect(scopesOf('/flows/api/flows/{id}', 'put')).toEqual(needing('deploy'));
    expect(scopesOf('/metrics', 'get')).toEqual(needing('metrics'));
    expect(scopesOf('/health/live', 'get')).toEqual([]);
    expect(scopesOf('/flows/api/webhook/{idOrSlug}', 'post')).toEqual([]);
  });

  it('marks nothing of what Sluice says of a scheme as written by a sender', () => {
    const { Scheme, Delivery } = document.components.schemas;
    expect(JSON.stringify(Delivery)).toContain('"x-sluice-content":true');
    expect(JSON.stringify(Scheme)).not.toContain('"x-sluice-content":true');
  });

  it('says of a body whether it must be there', () => {
    const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
    const needed = operations.filter(({ requestBody }) => requestBody?.required).map(({ operationId }) => operationId);
    expect(needed.sort()).toEqual(['changeCron', 'deployFlow', 'deployFlows', 'discardHeld', 'rehearseFlows']);
  });

  it('the validator used here refuses an answer with a field too many or too few', () => {
    const control = validator(
      document.paths['/flows/api/runs/{id}/control']?.get?.responses[200]?.content['application/json']?.schema ?? {},
    );
    expect(control.safeParse({ runId: ORDERS_ID }).success).toBe(false);
    const live = validator(
      document.paths['/health/live']?.get?.responses[200]?.content['application/json']?.schema ?? {},
    );
    expect(live.safeParse({ status: 'live', more: 1 }).success).toBe(false);
  });
});

describe('the page of the API', () => {
  it('lists every operation, without scripts or external resources', async () => {
    const response = await dashboard.app.inject('/flows/api/docs');
    expect(response.headers['content-type']).toBe('text/html; charset=utf-8');
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const [method, { operationId }] of Object.entries(methods)) {
        const verb = method.toUpperCase();
        expect(response.body).toContain(
          `<section id="${operationId}">\n<h3><a class="self" href="#${operationId}"><span class="method ${verb}">${verb}</span><span class="path">${path}<`,
        );
        expect(response.body).toContain(`<li><a href="#${operationId}">`);
      }
    }
    expect(response.body).not.toMatch(/<script|\son\w+=|style=|(src|href)="(?!openapi\.json"|#\w+")|url\(|@import/i);
  });

  it('shows each operation as a command that works here', async () => {
    await dashboard.app.inject({ method: 'POST', url: `/flows/api/flows/${LOOPING_ID}/trigger` });
    await dashboard.app.inject({ method: 'PUT', url: '/flows/api/webhooks/consumers/ada@laptop' });
    const { body } = await dashboard.app.inject('/flows/api/docs');
    const shells = [...body.matchAll(/<pre class="shell">(.*?)<\/pre>/gs)].map(([, text = '']) =>
      text.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code))),
    );
    const commands = shells.map((text) =>
      /^curl (?:-N )?(?:-X (\w+) )?(?:-H \S+ \S+ -d '(.*)' )?'(http:.*)'$/.exec(text),
    );
    expect(commands).toHaveLength(Object.values(document.paths).flatMap((methods) => Object.keys(methods)).length);
    for (const [, method = 'GET', sent, url = ''] of commands.map((command) => command ?? [])) {
      expect(url).toMatch(/^http:\/\/127\.0\.0\.1:3000\/[^{}]+$/);
      if (method !== 'GET' || /\/webhooks\/0|\/api\/webhook\/|\/stream$/.test(url)) continue;
      expect({
        url,
        sent,
        status: (await dashboard.app.inject(url.slice('http://127.0.0.1:3000'.length))).statusCode,
      }).toEqual({
        url,
        sent: undefined,
        status: 200,
      });
    }
  });

  it.each([
    [{ kind: 'credentials', token: 'secret-token' }, 'authorization: Bearer $SLUICE_DASHBOARD_TOKEN'],
    [
      { kind: 'credentials', basic: { user: 'u', password: 'secret-password' } },
      '-u "$SLUICE_DASHBOARD_USER:$SLUICE_DASHBOARD_PASSWORD"',
    ],
  ] as const)('names the variables of the credentials and never their values: %j', async (access, shown) => {
    const guarded = await startDashboard({ access });
    const basic = `Basic ${Buffer.from('u:secret-password').toString('base64')}`;
    const authorization = 'token' in access ? 'Bearer secret-token' : basic;
    const { body } = await guarded.app.inject({ url: '/flows/api/docs', headers: { authorization } });
    expect(body.replaceAll('&#34;', '"')).toContain(shown);
    expect(body).not.toMatch(/secret-/);
  });

  it('may use its own style and nothing else', async () => {
    const { headers, body } = await dashboard.app.inject('/flows/api/docs');
    const style = /<style>([^<]*)<\/style>/.exec(body)?.[1] ?? '';
    const hash = createHash('sha256').update(style).digest('base64');
    expect(headers['content-security-policy']).toBe(
      `default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'sha256-${hash}'`,
    );
  });
});
