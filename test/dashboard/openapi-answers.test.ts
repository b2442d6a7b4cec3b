import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  HOOK_ONLY_ID,
  ORDERS,
  ORDERS_ID,
  orderDelivery,
  startDashboard,
  type TestDashboard,
  UNKNOWN_ID,
} from './fixture.ts';

/*
 * Every operation answers as its OpenAPI document says: each is asked for something that it does and for something that it
 * refuses, of an app with data in it, and each answer must fit the schema that the document has for its status.
 */

const APPROVAL_ID = '4fb26388-a051-4d42-9e95-7343c1605e54';
const APPROVAL = {
  id: APPROVAL_ID,
  name: 'approval',
  version: '1',
  triggers: { byHand: { type: 'manual' } },
  steps: { approved: { type: 'WaitForSignal', inputs: { signalName: 'approve' } } },
};

type JsonSchema = Parameters<typeof z.fromJSONSchema>[0];
interface Operation {
  readonly operationId: string;
  readonly responses: Record<string, { content?: Record<string, { schema: object }> }>;
  readonly requestBody?: { content: Record<string, { schema: object; example: unknown }> };
}

/** What a request is made of; words in capitals stand for ids that only the running app knows. */
interface Example {
  readonly url: string;
  readonly status: number;
  readonly body?: unknown;
  readonly before?: () => Promise<unknown>;
}

const api = '/flows/api';
const at = (url: string, status: number, rest: Partial<Example> = {}): Example => ({
  url: `${api}${url}`,
  status,
  ...rest,
});
const run = (rest: string) => [at(`/runs/RUN${rest}`, 200), at(`/runs/${UNKNOWN_ID}${rest}`, 404)];
const flow = (rest: string) => [at(`/flows/${ORDERS_ID}${rest}`, 200), at(`/flows/${UNKNOWN_ID}${rest}`, 404)];
const job = `flow-${ORDERS_ID}-hourly`;
const schedule = (rest: string, body?: unknown) => [
  at(`/schedules/${job}/${rest}`, 200, { body }),
  at(`/schedules/nobody/${rest}`, 404, { body }),
];
const list = (path: string) => [at(path, 200), at(`${path}?includeTotal=true`, 200), at(`${path}?take=0`, 400)];
const strict = (path: string) => [at(path, 200), at(`${path}?nobody=1`, 400)];

let dashboard: TestDashboard;
let isStopping = false;
let runId = '';
const ids: Record<string, string> = {};

const examples: Record<string, readonly Example[]> = {
  live: [{ url: '/health/live', status: 200 }],
  ready: [
    { url: '/health/ready', status: 200 },
    { url: '/health/ready', status: 503, before: async () => (isStopping = true) },
  ],
  metrics: [{ url: '/metrics', status: 200 }],
  listAttention: strict('/attention'),
  listHandlers: strict('/handlers'),
  listSchemes: strict('/schemes'),
  listDeliveries: [...list('/webhooks/recent'), at('/webhooks/recent?search=order&reason=SIGNATURE_MISMATCH', 200)],
  deliveryStats: [at('/webhooks/stats', 200), at('/webhooks/stats?hours=0', 400)],
  webhookTimeseries: [at('/webhooks/timeseries?bucket=day', 200), at('/webhooks/timeseries?hours=0', 400)],
  webhookReadiness: [at('/webhooks/readiness', 200), at('/webhooks/readiness?flowId=x', 400)],
  getDelivery: [
    at('/webhooks/DELIVERY', 200),
    at('/webhooks/REFUSED', 200),
    at('/webhooks/42', 400),
    at(`/webhooks/${UNKNOWN_ID}`, 404),
  ],
  dryRunDelivery: [at('/webhooks/dry-run/orders', 200, { body: { order: 7 } }), at('/webhooks/dry-run/nobody', 404)],
  redeliverDelivery: [
    at('/webhooks/REFUSED/redeliver', 200, { body: { force: true } }),
    at('/webhooks/REFUSED/redeliver', 400, { body: { force: 1 } }),
    at(`/webhooks/${UNKNOWN_ID}/redeliver`, 404),
  ],
  redeliverDeliveries: [
    at('/webhooks/redeliver', 200, { body: { reason: 'signature_mismatch' } }),
    at('/webhooks/redeliver', 400, { body: { limit: 0 } }),
  ],
  listRuns: [...list('/runs'), at('/runs?search=orders&status=running', 200)],
  listActiveRuns: strict('/runs/active'),
  getRun: run(''),
  listSteps: run('/steps'),
  getRunControl: run('/control'),
  listRunEvents: run('/events'),
  getRunLineage: run('/lineage'),
  runStats: strict('/runs/stats'),
  runTimeseries: [at('/runs/timeseries', 200), at('/runs/timeseries?since=2000-01-01T00:00:00Z', 400)],
  retryStep: [
    at('/runs/FAILED/steps/validate/retry', 200),
    at('/runs/FAILED/steps/nobody/retry', 404),
    at('/runs/RUN/steps/validate/retry', 409),
  ],
  rerunRun: [at('/runs/RUN/rerun', 200), at(`/runs/${UNKNOWN_ID}/rerun`, 404)],
  cancelRun: [
    at('/runs/RUN/cancel', 200, { body: { reason: 'why' } }),
    at('/runs/RUN/cancel', 409),
    at('/runs/RUN/cancel', 400, { body: [] }),
  ],
  sendSignal: [
    at('/runs/WAITING/signals/approve', 200, { body: { by: 'me' } }),
    at('/runs/WAITING/signals/other', 404),
    at('/runs/WAITING/signals/approve', 409),
  ],
  listFlows: list('/flows'),
  getFlow: flow(''),
  getFlowMermaid: flow('/mermaid'),
  triggerFlow: [...flow('/trigger'), at(`/flows/${ORDERS_ID}/trigger?triggerKey=nobody`, 400)],
  disableFlow: flow('/disable'),
  enableFlow: [...flow('/enable'), at('/flows/x/enable', 400)],
  listSchedules: list('/schedules'),
  previewSchedule: [at('/schedules/preview?cronExpression=0%209%20*%20*%20*', 200), at('/schedules/preview', 400)],
  pauseSchedule: schedule('pause'),
  resumeSchedule: schedule('resume'),
  triggerSchedule: schedule('trigger'),
  changeCron: [...schedule('cron', { cronExpression: '0 2 * * *' }), at(`/schedules/${job}/cron`, 400, { body: {} })],
};
/** Answers that never end are asked for over a socket, below. */
const streams = ['streamEvents'];
/** The description itself. */
const hidden = ['GET /flows/api/openapi.json', 'GET /flows/api/docs'];

let schemas: object;
let operations: { method: string; path: string; operation: Operation }[] = [];

beforeAll(async () => {
  dashboard = await startDashboard({ isStopping: () => isStopping }, [
    ORDERS,
    {
      id: HOOK_ONLY_ID,
      name: 'hook only',
      version: '1',
      triggers: { hook: { type: 'webhook', inputs: {} } },
      steps: {},
    } as object as typeof ORDERS,
    APPROVAL as object as typeof ORDERS,
  ]);
  const document = (await dashboard.app.inject(`${api}/openapi.json`)).json();
  schemas = document.components.schemas;
  operations = Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
  const trigger = async (flowId: string) =>
    (await dashboard.app.inject({ method: 'POST', url: `${api}/flows/${flowId}/trigger` })).json().runId;
  ids.FAILED = await trigger(ORDERS_ID);
  await failDue();
  ids.WAITING = await trigger(APPROVAL_ID);
  const accepted = (await dashboard.app.inject(orderDelivery('{"order":1}'))).json();
  ids.DELIVERY = accepted.deliveryId;
  ids.RUN = runId = accepted.runId;
  await dashboard.app.inject(orderDelivery('{"order":2}', { key: 'wrong' }));
  await dashboard.app.inject({
    method: 'POST',
    url: `${api}/webhook/nobody`,
    headers: { cookie: 'a=b' },
    body: Buffer.from([0, 255]),
  });
  const refused = await dashboard.store.listDeliveries({ reason: 'signature_mismatch', skip: 0, take: 1 });
  ids.REFUSED = refused.items[0]?.id ?? '';
});
afterAll(() => dashboard.close());

async function failDue(): Promise<void> {
  const now = dashboard.clock.now();
  const { claims } = await dashboard.store.claimDue({ now, leasedUntil: now + 1000, limit: 10 });
  for (const { token, runId: claimed, stepKey } of claims) {
    const result = { kind: 'failed', error: { code: 'refused', message: 'no', retryable: false } } as const;
    await dashboard.store.advance({ token, runId: claimed, stepKey, at: now, input: {}, result });
  }
}

/** A schema of the document as a validator that refuses fields which it does not name. */
function validator(schema: object): z.ZodType {
  const inlined = JSON.stringify({ ...schema, $defs: schemas }).replaceAll('#/components/schemas/', '#/$defs/');
  return z.fromJSONSchema(JSON.parse(inlined) as JsonSchema);
}

describe('every route', () => {
  it('is an operation of the document, or the document itself', () => {
    const described = operations.map(({ method, path }) => `${method} ${path.replace(/\{(\w+)\}/g, ':$1')}`);
    expect([...dashboard.routes].sort()).toEqual([...described, ...hidden].sort());
  });

  it('is asked below for something that it does, and for something that it refuses where it can', () => {
    const asked = Object.fromEntries(operations.map(({ operation }) => [operation.operationId, operation.responses]));
    expect(Object.keys(asked).sort()).toEqual([...Object.keys(examples), ...streams].sort());
    const lacking = Object.entries(examples).filter(([name, rows]) => {
      const refuses = Object.keys(asked[name] ?? {}).some(
        (status) => status === '400' || status === '404' || status === '503',
      );
      const isRefused = rows.some(({ status }) => status >= 400) || !refuses || name === 'metrics';
      return !isRefused || !rows.some(({ status }) => status < 400);
    });
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
  const rows = Object.entries(examples).flatMap(([name, list]) =>
    list.map((example) => [name, example.status, example.url, example] as const),
  );
  it.each(rows)('%s: %i for %s', async (name, status, url, { body, before }) => {
    await before?.();
    const found = operations.find(({ operation }) => operation.operationId === name);
    if (found === undefined) throw new Error(`there is no operation ${name}`);
    const response = await dashboard.app.inject({
      method: found.method as 'GET',
      url: url.replace(/RUN|FAILED|WAITING|DELIVERY|REFUSED/, (word) => ids[word] ?? word),
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    expect({ status: response.statusCode, body: response.body }).toMatchObject({ status });
    const [type = '', content] = Object.entries(found.operation.responses[status]?.content ?? {})[0] ?? [];
    expect(response.headers['content-type']).toContain(type);
    if (content === undefined) throw new Error(`${name} does not say that it answers ${status}`);
    // GUIDs are lower-case, whoever wrote them in whatever case.
    expect(response.body).not.toMatch(/"(?=[^"]*[A-F])[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"/);
    const answer = type === 'application/json' ? response.json() : response.body;
    expect(validator(content.schema).safeParse(answer).error).toBeUndefined();
  });

  it('a bare list and the items of a page are not empty here, so that their schemas were asked', async () => {
    for (const path of [
      '/webhooks/recent',
      '/runs',
      '/flows',
      '/schedules',
      '/runs/active',
      '/attention',
      `/runs/${runId}/events`,
    ]) {
      expect((await dashboard.app.inject(`${api}${path}`)).json(), path).not.toEqual([]);
    }
  });

  it('a time that is not ISO 8601 in UTC would not fit', () => {
    const time = validator({ type: 'string', format: 'date-time' });
    expect(time.safeParse('2026-11-21T12:00:00.000Z').success).toBe(true);
    for (const other of ['2026-11-21 12:00', '1763726400000', '']) expect(time.safeParse(other).success).toBe(false);
  });

  it('a stream of events is one', async () => {
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
