import { beforeAll, describe, expect, it } from 'vitest';
import { CANARIES, ORDERS_ID, orderDelivery, startDashboard, type TestDashboard } from './fixture.ts';

const credentials = {
  authorization: `Bearer ${CANARIES.authorization}`,
  cookie: `session=${CANARIES.cookie}`,
};
const PASSWORD = 'canary-dashboard-password';
const TOKEN = 'canary-dashboard-token';

let dashboard: TestDashboard;
let urls: string[];

beforeAll(async () => {
  dashboard = await startDashboard({
    access: { kind: 'credentials', basic: { user: 'ops', password: PASSWORD }, token: TOKEN },
  });
  const accepted = (await dashboard.app.inject(orderDelivery('{"order":1}', { headers: credentials }))).json();
  await dashboard.app.inject(orderDelivery('{"order":2}', { key: 'wrong', headers: credentials }));
  const started = await ask(`/flows/api/flows/${ORDERS_ID}/trigger`, 'POST');
  const list = await ask('/flows/api/webhooks/recent');
  const ids: { id: string }[] = list.json();
  urls = [
    ...[accepted.runId, started.json().runId].flatMap((id) => [
      `/flows/api/runs/${id}`,
      `/flows/api/runs/${id}/steps`,
      `/flows/api/runs/${id}/control`,
    ]),
    ...ids.map(({ id }) => `/flows/api/webhooks/${id}`),
    '/flows/api/webhooks/recent',
    '/flows/api/webhooks/stats',
    '/flows/api/runs',
    '/flows/api/runs/active',
    '/flows/api/flows',
    `/flows/api/flows/${ORDERS_ID}`,
    '/flows/api/handlers',
    '/flows/api/schemes',
    '/flows/api/openapi.json',
    '/flows/api/docs',
    '/metrics',
    '/health/ready',
    '/nope',
  ];
});

function ask(url: string, method: 'GET' | 'POST' = 'GET') {
  const headers = { authorization: `Bearer ${TOKEN}`, cookie: `session=${CANARIES.cookie}` };
  return dashboard.app.inject({ method, url, headers });
}

describe('secrets', () => {
  it('appear in no answer: keys of manifests, credentials of deliveries and of the dashboard', async () => {
    expect(urls.length).toBeGreaterThan(20);
    for (const url of urls) {
      const { body, headers } = await ask(url);
      expect.soft(`${url} ${JSON.stringify(headers)} ${body}`).not.toMatch(/canary/);
    }
  });

  it('appear in no refused login and in no log line', async () => {
    const wrong = Buffer.from(`ops:${PASSWORD}x`).toString('base64');
    const { body, headers } = await dashboard.app.inject({
      url: '/flows/api/runs',
      headers: { authorization: `Basic ${wrong}` },
    });
    expect(JSON.stringify([headers, body, dashboard.logged])).not.toMatch(/canary/);
    expect(dashboard.logged.length).toBeGreaterThan(0);
  });

  it('of a request by hand do not reach the run, while its other headers do', async () => {
    const { runId } = (await ask(`/flows/api/flows/${ORDERS_ID}/trigger`, 'POST')).json();
    const run = await dashboard.store.findRun(runId);
    expect(run?.trigger.headers).toMatchObject({ authorization: '[redacted]', cookie: '[redacted]' });
    expect(run?.trigger.headers.host).toMatch(/^localhost/);
  });
});
