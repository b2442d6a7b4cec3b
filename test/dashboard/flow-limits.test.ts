import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Credentials } from '../../src/config/credentials.ts';
import { startDashboard, type TestDashboard, UNKNOWN_ID } from './fixture.ts';

/*
 * Whoever is limited to flows sees no others. The rows are the operations of the OpenAPI document, asked about flows in sight
 * and about a flow that is not, so that a new operation is asked too. All that only the other flow has says `canary`.
 */

const api = '/flows/api';
const SHOP_ID = '3f4c1a5e-0b7d-4c12-9e61-1a2b3c4d5e6f';
// Before the other one, so that a record of a delivery to both is about this one.
const TWIN_ID = '1a5b6c7d-1c8e-4d23-8f72-2b3c4d5e6f7a';
const CANARY_ID = '9d8c7b6a-2d9f-4e34-a083-3c4d5e6f7a8b';
const KEY = 'key-of-a-shop-4f1c9d7ab2e8';

const hook = (webhookSlug: string) => ({
  type: 'webhook',
  inputs: { webhookSlug, webhookSignatureScheme: 'github', webhookHmacKey: KEY, webhookEnforcementMode: 'Enforce' },
});
const shared = (webhookSlug: string) => ({
  type: 'webhook',
  inputs: { ...hook(webhookSlug).inputs, webhookShared: true },
});

const SHOP = {
  id: SHOP_ID,
  name: 'orders-shop',
  version: '1',
  // It names the flow by its id, which is no secret; the name is.
  onFailure: TWIN_ID,
  triggers: {
    byHand: { type: 'manual' },
    nightly: { type: 'cron', inputs: { cronExpression: '0 3 * * *' } },
    shop: { ...hook('shop'), searchKeys: { order: 'body.order' } },
    common: shared('common'),
  },
  steps: {
    first: { type: 'NoOp' },
    lines: { type: 'ForEach', forEach: ['a'], concurrencyLimit: 1, steps: { pack: { type: 'NoOp' } } },
  },
};
/** Of the other flows, the one that those in sight have to do with. */
const TWIN = {
  id: TWIN_ID,
  name: 'canary-twin',
  version: '1',
  triggers: { byHand: { type: 'manual' }, canaryCommon: shared('common') },
  steps: { canaryStep: { type: 'NoOp' } },
};
const CANARY = {
  id: CANARY_ID,
  name: 'canary-flow',
  version: 'canary-1',
  triggers: {
    byHand: { type: 'manual' },
    canaryNight: { type: 'cron', inputs: { cronExpression: '0 4 * * *' } },
    canaryHook: { ...hook('canary-slug'), searchKeys: { order: 'body.order' } },
  },
  steps: { canaryStep: { type: 'NoOp' } },
};

const ALL = 'all-0f1e2d3c4b5a6978';
const TOKENS = {
  reader: { name: 'reader', token: 'reader-4f1c9d7ab2e8', scopes: ['read', 'operate'], flows: ['orders-*'] },
  unlimited: { name: 'unlimited', token: 'unlimited-5d6e7f80', scopes: ['read', 'operate'] },
} as const;
const access: Credentials = { kind: 'credentials', token: ALL, tokens: Object.values(TOKENS) };

interface Row {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly operationId: string;
  readonly parameters: readonly { readonly name: string; readonly in: string; readonly required?: boolean }[];
}

let dashboard: TestDashboard;
let rows: Row[] = [];
/** What stands for each parameter of a path, in sight and out of it. */
let seen: Record<string, string>;
let hidden: Record<string, string>;
let before = new Map<string, Answer>();

interface Answer {
  readonly status: number;
  readonly body: string;
}

async function ask(token: string, method: Row['method'], url: string, payload?: object): Promise<Answer> {
  const headers = { authorization: `Bearer ${token}` };
  const response = await dashboard.app.inject({ method, url, headers, ...(payload && { payload }) });
  return { status: response.statusCode, body: response.body };
}

const asReader = (method: Row['method'], url: string, payload?: object) =>
  ask(TOKENS.reader.token, method, url, payload);

function deliver(slug: string, payload: object, key = KEY) {
  const body = JSON.stringify(payload);
  const signature = createHmac('sha256', key).update(body).digest('hex');
  const headers = { 'content-type': 'application/json', 'x-hub-signature-256': `sha256=${signature}` };
  return dashboard.app.inject({ method: 'POST', url: `${api}/webhook/${slug}`, headers, body });
}

const trigger = async (flowId: string): Promise<string> =>
  JSON.parse((await ask(ALL, 'POST', `${api}/flows/${flowId}/trigger`)).body).runId;

/** Ends every step that is due; loops begin. */
async function advance(error?: object): Promise<void> {
  const { store, clock } = dashboard;
  const now = clock.now();
  const { claims } = await store.claimDue({ owner: 'me', now, leasedUntil: now + 1000, limit: 50 });
  for (const { token, runId, stepKey } of claims) {
    const result =
      stepKey === 'lines'
        ? ({ kind: 'loop', items: ['a'], concurrency: 1 } as const)
        : error === undefined
          ? ({ kind: 'succeeded', output: { of: stepKey } } as const)
          : ({ kind: 'failed', error: error as never } as const);
    await store.advance({ token, runId, stepKey, at: now, input: { for: stepKey }, result });
  }
}

async function populateShop(): Promise<Record<string, string>> {
  const runId = await trigger(SHOP_ID);
  await advance();
  const { deliveryId, runId: delivered } = (await deliver('shop', { order: 'S-1' })).json();
  for (const _ of ['its steps', 'those of its loop']) await advance();
  await deliver('shop', { order: 'S-2' }, 'wrong');
  await ask(ALL, 'PUT', `${api}/webhooks/consumers/shop-laptop`, { flowId: SHOP_ID });
  expect(delivered).toBeTypeOf('string');
  return {
    flow: SHOP_ID,
    run: runId,
    deliveryId,
    jobId: `flow-${SHOP_ID}-nightly`,
    name: 'shop-laptop',
    key: 'first',
    idOrSlug: 'shop',
  };
}

/** All that the other flow can have: runs that wait and failed, deliveries that were accepted, refused and held, a consumer. */
async function populateCanary(): Promise<Record<string, string>> {
  const deployed = await ask(ALL, 'PUT', `${api}/flows/${CANARY_ID}?reason=canary`, CANARY);
  expect(deployed).toMatchObject({ status: 200 });
  const runId = await trigger(CANARY_ID);
  await trigger(CANARY_ID);
  await advance({ code: 'canary_code', message: 'canary broke', retryable: false, host: 'https://canary.example' });
  const { deliveryId } = (await deliver('canary-slug', { order: 'canary-7' })).json();
  await deliver('canary-slug', { order: 'canary-8' }, 'wrong');
  await trigger(CANARY_ID);
  await ask(ALL, 'PUT', `${api}/webhooks/consumers/canary-laptop`, { flowId: CANARY_ID });
  await ask(ALL, 'POST', `${api}/schedules/flow-${CANARY_ID}-canaryNight/pause`, { reason: 'canary' });
  await ask(ALL, 'POST', `${api}/flows/${CANARY_ID}/disable`, { hold: true, reason: 'canary' });
  await deliver('canary-slug', { order: 'canary-9' });
  await deliver('nobody-canary', { order: 'canary-10' });
  return {
    flow: CANARY_ID,
    run: runId,
    deliveryId,
    jobId: `flow-${CANARY_ID}-canaryNight`,
    name: 'canary-laptop',
    key: 'canaryStep',
    idOrSlug: 'canary-slug',
  };
}

/** Of an id that was never used. */
const NEVER: Record<string, string> = {
  flow: UNKNOWN_ID,
  run: UNKNOWN_ID,
  deliveryId: UNKNOWN_ID,
  jobId: `flow-${UNKNOWN_ID}-canaryNight`,
  name: 'never',
  key: 'canaryStep',
  idOrSlug: 'never',
};

const OTHERS: Readonly<Record<string, string>> = {
  revision: '1',
  from: '1',
  to: '1',
  triggerKey: 'shop',
  origin: 'https%3A%2F%2Fcanary.example',
};

/** The address of an operation for given ids. A parameter that this does not know fails the test: say what it stands for. */
function urlOf({ path }: Row, ids: Record<string, string>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    if (path.startsWith(`${api}/runs/{id}/signals/`) && name === 'name') return 'approve';
    const known = name === 'id' ? ids[path.startsWith(`${api}/runs/`) ? 'run' : 'flow'] : (ids[name] ?? OTHERS[name]);
    if (known === undefined) throw new Error(`${path} has the parameter ${name}, which no flow of this test gives`);
    return encodeURIComponent(decodeURIComponent(known));
  });
}

/** Query parameters that an operation needs. */
const NEEDED: Readonly<Record<string, string>> = {
  listIterations: 'loop=lines',
  previewSchedule: 'cronExpression=0%209%20*%20*%20*',
  advanceConsumer: `from=${UNKNOWN_ID}&to=${UNKNOWN_ID}`,
};

/** Values of filters that only the other flow has, and values that nothing has. */
const FILTERS: readonly (readonly [name: string, hidden: () => string, never: string])[] = [
  ['flowId', () => CANARY_ID, UNKNOWN_ID],
  ['runId', () => hidden.run ?? '', UNKNOWN_ID],
  ['search', () => 'canary', 'never-there'],
  ['search', () => hidden.run ?? '', UNKNOWN_ID],
  ['search', () => 'order:canary-7', 'order:never-7'],
  ['searchKeys', () => 'order:canary-7', 'order:never-7'],
  ['step', () => 'canaryStep', 'neverStep'],
  ['code', () => 'canary_code', 'never_code'],
  ['host', () => 'canary.example', 'never.example'],
  ['error', () => 'canary broke', 'never broke'],
  ['target', () => CANARY_ID, UNKNOWN_ID],
  ['target', () => hidden.run ?? '', UNKNOWN_ID],
  ['target', () => hidden.deliveryId ?? '', UNKNOWN_ID],
];

const has = ({ parameters }: Row, name: string) =>
  parameters.some((parameter) => parameter.in === 'query' && parameter.name === name);
const query = (...parts: readonly (string | undefined)[]) => {
  const given = parts.filter((part) => part !== undefined);
  return given.length === 0 ? '' : `?${given.join('&')}`;
};

/** A stream never ends, and is read over a socket below; a metric and the documents of the API have no rows of their own. */
const isRead = ({ operationId }: Row) => operationId !== 'streamEvents';

/** What an operation answers of itself alone: what is asked, and when. */
function comparable(body: string, ids: Record<string, string>): string {
  return Object.values(ids).reduce((text, id) => (id.length < 5 ? text : text.replaceAll(id, '…')), body);
}

/** How far all that was accepted has come is where a consumer goes on. */
const withoutEnd = (answer: Answer | undefined) =>
  answer && { ...answer, body: answer.body.replace(/"upTo":"[^"]*"/, '') };

/** With the texts that it has in base64, as evidence and what is forwarded have. */
function readable(body: string): string {
  const encoded = [...body.matchAll(/"([A-Za-z0-9+/_-]{16,}={0,2})"/g)].map(([, text = '']) => text);
  return [body, ...encoded.map((text) => Buffer.from(text, 'base64').toString('latin1'))].join('\n');
}

async function snapshot(): Promise<Map<string, Answer>> {
  const answers = new Map<string, Answer>();
  for (const row of rows
    .filter(isRead)
    .filter(({ method, operationId }) => method === 'GET' || isDryRun(operationId))) {
    const variants = [
      undefined,
      ...(has(row, 'includeTotal') ? ['includeTotal=true'] : []),
      ...(has(row, 'includeBuiltIn') ? ['includeBuiltIn=true'] : []),
      ...(has(row, 'bucket') ? ['bucket=minute', 'bucket=day'] : []),
      ...(has(row, 'search') ? ['search=o'] : []),
      ...(has(row, 'heldOnly') ? ['heldOnly=true', 'rejectedOnly=true', 'acceptedOnly=true'] : []),
      ...(has(row, 'waiting') ? ['waiting=slot', 'status=Failed', 'step=canaryStep'] : []),
      ...(has(row, 'target') ? [`target=${SHOP_ID}`, `target=${seen.run}&includeTotal=true`] : []),
    ];
    for (const variant of variants) {
      const url = urlOf(row, seen) + query(NEEDED[row.operationId], variant);
      answers.set(`${row.method} ${url}`, await asReader(row.method, url, isDryRun(row.operationId) ? {} : undefined));
    }
  }
  for (const url of [`${api}/openapi.json`, `${api}/docs`, '/flows'])
    answers.set(`GET ${url}`, await asReader('GET', url));
  return answers;
}

const isDryRun = (operationId: string) => operationId === 'dryRunDelivery';

beforeAll(async () => {
  dashboard = await startDashboard({ access }, [SHOP, TWIN]);
  const { paths } = JSON.parse((await ask(ALL, 'GET', `${api}/openapi.json`)).body);
  rows = Object.entries<Record<string, Omit<Row, 'method' | 'path'>>>(paths)
    .filter(([path]) => path !== `${api}/webhook/{idOrSlug}` && !path.startsWith('/health/'))
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { operationId, parameters = [] }]) => ({
        method: method.toUpperCase() as Row['method'],
        path,
        operationId,
        parameters,
      })),
    );
  seen = await populateShop();
  before = await snapshot();
  hidden = await populateCanary();
});
afterAll(() => dashboard.close());

describe('whoever is limited to flows', () => {
  it('gets the same answers, counts and totals included, whatever another flow is and does', async () => {
    const after = await snapshot();
    expect(before.size).toBeGreaterThan(70);
    for (const [url, answer] of after)
      expect({ url, ...withoutEnd(answer) }).toEqual({ url, ...withoutEnd(before.get(url)) });
  });

  it('sees something with each operation, or is told that it is about the whole service', async () => {
    const refused = [...before].filter(([, { status }]) => status !== 200);
    const operations = refused.map(([url, { status, body }]) => [url.split('?')[0], status, JSON.parse(body).reason]);
    const refusedPaths = [
      '/flows/api/activity',
      '/flows/api/activity',
      '/flows/api/activity/verify',
      '/flows/api/alerts',
    ];
    expect(operations.sort()).toEqual(
      [...refusedPaths, '/flows/api/hosts', '/flows/api/replicas', '/metrics'].map((path) => [
        `GET ${path}`,
        403,
        'limited_to_flows',
      ]),
    );
  });

  it('finds no word of another flow in any answer, nor its ids', async () => {
    for (const [url, { body }] of await snapshot()) {
      if (url.includes('canary')) continue;
      const text = readable(body);
      expect({ url, canary: /canary/i.exec(text)?.[0], id: text.includes(CANARY_ID) }).toEqual({
        url,
        canary: undefined,
        id: false,
      });
    }
  });

  it('finds nothing by what only another flow has, as by what nothing has', async () => {
    let asked = 0;
    for (const row of rows.filter(({ method }) => method === 'GET').filter(isRead)) {
      for (const [name, hiddenValue, never] of FILTERS.filter(([filter]) => has(row, filter))) {
        const urls = [hiddenValue(), never].map(
          (value) => urlOf(row, seen) + query(NEEDED[row.operationId], `${name}=${encodeURIComponent(value)}`),
        );
        const [found, nothing] = await Promise.all(urls.map((url) => asReader('GET', url)));
        const same = (body = '') => comparable(body, { value: hiddenValue(), never });
        expect({ url: urls[0], status: found?.status, body: same(found?.body) }).toEqual({
          url: urls[0],
          status: nothing?.status,
          body: same(nothing?.body),
        });
        asked += 1;
      }
    }
    expect(asked).toBeGreaterThan(25);
  });

  it('is answered about another flow as about one that there never was, and changes nothing of it', async () => {
    const single = rows.filter(isRead).filter(({ path }) => path.includes('{'));
    expect(single.length).toBeGreaterThan(45);
    const state = () => ask(ALL, 'GET', `${api}/flows/${CANARY_ID}`);
    const was = await state();
    for (const row of single) {
      const body = row.operationId === 'changeCron' ? { cronExpression: '0 0 * * *' } : undefined;
      const payload = row.operationId === 'discardHeld' ? { reason: 'moved' } : body;
      const [ofHidden, ofNever] = await Promise.all(
        [hidden, NEVER].map((ids) => asReader(row.method, urlOf(row, ids) + query(NEEDED[row.operationId]), payload)),
      );
      const shown = { operation: row.operationId, status: ofHidden?.status };
      expect(shown).toEqual({ operation: row.operationId, status: ofNever?.status });
      expect([403, 404]).toContain(ofHidden?.status);
      expect(comparable(ofHidden?.body ?? '', hidden)).toBe(comparable(ofNever?.body ?? '', NEVER));
    }
    expect(await state()).toEqual(was);
  });

  it('is told so by the page, which shows nothing of the whole service', async () => {
    expect((await asReader('GET', '/flows')).body).toContain('data-limited="true"');
    expect((await ask(TOKENS.unlimited.token, 'GET', '/flows')).body).not.toContain('data-limited');
  });

  it('would see all of that without the limit', async () => {
    for (const path of ['runs', 'webhooks/recent', 'flows', 'schedules', 'keys', 'webhooks/consumers', 'attention']) {
      expect((await ask(TOKENS.unlimited.token, 'GET', `${api}/${path}`)).body).toContain('canary');
    }
  });
});

describe('what a flow in sight has to do with another one', () => {
  const json = async (path: string) => JSON.parse((await asReader('GET', `${api}/${path}`)).body);

  it('a delivery to a slug that both share is shown as the flow in sight got it, and cannot be delivered again', async () => {
    const { deliveryId, runs } = (await deliver('common', { order: 'C-1' })).json();
    expect(runs.map(({ flowId }: { flowId: string }) => flowId).sort()).toEqual([TWIN_ID, SHOP_ID].sort());
    const own = runs.find(({ flowId }: { flowId: string }) => flowId === SHOP_ID);
    const whole = JSON.parse((await ask(ALL, 'GET', `${api}/webhooks/${deliveryId}`)).body);
    expect(whole).toMatchObject({ flowId: TWIN_ID, triggerKey: 'canaryCommon' });
    const [listed] = await json('webhooks/recent?take=1');
    for (const shown of [listed, await json(`webhooks/${deliveryId}`)]) {
      expect(shown).toMatchObject({ flowId: SHOP_ID, triggerKey: 'common', runId: own.runId, runStatus: null });
      expect(shown.runs).toEqual([expect.objectContaining({ flowId: SHOP_ID })]);
      expect(JSON.stringify(shown)).not.toMatch(/canary|1a5b6c7d/);
    }
    const evidence = readable((await asReader('GET', `${api}/webhooks/${deliveryId}/evidence`)).body);
    expect(evidence).toContain(own.runId);
    expect(evidence).not.toMatch(/canary/);
    await deliver('common', { order: 'C-2' }, 'wrong');
    const [refused] = await json('webhooks/recent?take=1');
    const again = await asReader('POST', `${api}/webhooks/${refused.id}/redeliver`, { force: true });
    expect(JSON.parse(again.body)).toMatchObject({ statusCode: 403, reason: 'limited_to_flows' });
    const many = await asReader('POST', `${api}/webhooks/redeliver`, { reason: 'signature_mismatch' });
    expect(many.body).not.toContain(refused.id);
  });

  it('it is named by the id that the manifest has, and its runs are in no lineage', async () => {
    const runId = await trigger(SHOP_ID);
    await advance({ code: 'broken', message: 'no', retryable: false });
    for (let turn = 0; turn < 3; turn += 1) await advance({ code: 'broken', message: 'no', retryable: false });
    const whole = JSON.parse((await ask(ALL, 'GET', `${api}/runs/${runId}/lineage`)).body);
    expect(whole.derived).toEqual([expect.objectContaining({ flowName: 'canary-twin' })]);
    expect(await json(`runs/${runId}/lineage`)).toEqual({ runId, source: null, derived: [] });
    expect((await json(`runs/${runId}/outline`)).onFailure).toEqual({ flowId: TWIN_ID, flowName: TWIN_ID });
    expect((await asReader('GET', `${api}/runs/${whole.derived[0].id}`)).status).toBe(404);
  });

  it('no attention is about it, nor names it', async () => {
    await ask(ALL, 'POST', `${api}/flows/${TWIN_ID}/disable`);
    expect((await ask(ALL, 'GET', `${api}/attention`)).body).toContain('its failure flow canary-twin is disabled');
    expect((await asReader('GET', `${api}/attention`)).body).not.toMatch(/canary|1a5b6c7d/);
    expect(JSON.parse((await asReader('GET', `${api}/attention`)).body)).toContainEqual(
      expect.objectContaining({ kind: 'failed_runs', flowId: SHOP_ID }),
    );
  });
});

describe('a command of whoever is limited to flows', () => {
  it('to many runs takes those in sight alone', async () => {
    const plan = JSON.parse((await asReader('POST', `${api}/runs/rerun`, { limit: 1000 })).body);
    expect(plan.ready).toBeGreaterThan(0);
    const all = JSON.parse((await ask(TOKENS.unlimited.token, 'POST', `${api}/runs/rerun`, {})).body);
    expect(all.total).toBeGreaterThan(plan.total);
    expect(JSON.stringify(plan)).not.toMatch(/canary/);
    const stolen = await asReader('POST', `${api}/runs/rerun`, { plan: false, token: all.token });
    expect(stolen.status).toBe(400);
  });

  it.each([
    ['of no flow', {}],
    ['of another flow', { flowId: CANARY_ID }],
    ['of a flow that there never was', { flowId: UNKNOWN_ID }],
  ])('has no deliveries forwarded %s', async (_what, body) => {
    const answer = await asReader('PUT', `${api}/webhooks/consumers/mine`, body);
    expect(JSON.parse(answer.body)).toMatchObject({ statusCode: 403, reason: 'limited_to_flows' });
  });

  it('has deliveries of a flow in sight forwarded, under a name that is free', async () => {
    expect((await asReader('PUT', `${api}/webhooks/consumers/mine`, { flowId: SHOP_ID })).status).toBe(200);
    const taken = await asReader('PUT', `${api}/webhooks/consumers/canary-laptop`, { flowId: SHOP_ID });
    expect(taken.status).toBe(409);
    expect(taken.body).not.toContain(CANARY_ID);
  });

  it('is in the activity of the flow, under the name of the token', async () => {
    await asReader('POST', `${api}/flows/${SHOP_ID}/trigger?reason=because`);
    const [row] = JSON.parse((await asReader('GET', `${api}/activity?target=${SHOP_ID}&take=1`)).body);
    expect(row).toMatchObject({ actor: 'reader', action: 'triggerFlow', reason: 'because' });
    expect((await asReader('GET', `${api}/activity?id=${row.id}`)).status).toBe(200);
    const others = JSON.parse((await ask(ALL, 'GET', `${api}/activity?target=${CANARY_ID}&actor=token&take=1`)).body);
    expect((await asReader('GET', `${api}/activity?id=${others[0].id}`)).status).toBe(403);
  });
});

describe('the event stream', () => {
  const read = async (search = '') => {
    const { app } = dashboard;
    if (!app.server.listening) await app.listen({ port: 0, host: '127.0.0.1' });
    const { port } = app.server.address() as { port: number };
    const aborted = new AbortController();
    const response = await fetch(`http://127.0.0.1:${port}${api}/events/stream${search}`, {
      headers: { authorization: `Bearer ${TOKENS.reader.token}` },
      signal: aborted.signal,
    });
    const reader = response.body?.getReader();
    let text = '';
    const until = async (pattern: RegExp) => {
      while (!pattern.test(text)) text += Buffer.from((await reader?.read())?.value ?? []).toString();
      return text;
    };
    return { status: response.status, until, end: () => aborted.abort() };
  };

  it('has the runs and deliveries of flows in sight, and of no others', async () => {
    const { until, end } = await read();
    await until(/: open/);
    await ask(ALL, 'POST', `${api}/flows/${CANARY_ID}/enable`);
    const other = await trigger(CANARY_ID);
    await deliver('canary-slug', { order: 'canary-11' });
    const own = await trigger(SHOP_ID);
    const text = await until(new RegExp(`"runId":"${own}"`));
    expect(text).not.toContain(other);
    expect(text).not.toMatch(/canary|9d8c7b6a/);
    // What needs attention is counted among those flows; what is wrong with the service is not told in words.
    const attention = JSON.parse((await asReader('GET', `${api}/attention`)).body) as { severity: string }[];
    const warnings = attention.filter(({ severity }) => severity === 'warning').length;
    expect(await until(/event: attention\.changed\n.*\n\n/)).toMatch(`"warnings":${warnings}`);
    expect(await until(/event: service\.state\n.*\n\n/)).toMatch(/"message":null,"refused":null/);
    end();
  });

  it('of a run that is out of sight is that of a run that there never was', async () => {
    expect((await read(`?runId=${hidden.run}`)).status).toBe(404);
    expect((await read(`?runId=${UNKNOWN_ID}`)).status).toBe(404);
  });
});
