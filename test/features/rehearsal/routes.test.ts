import { beforeAll, expect, it } from 'vitest';
import type { Credentials } from '../../../src/config/credentials.ts';
import { activityStore } from '../../../src/features/activity/store.ts';
import { CANARIES, ORDERS, ORDERS_ID, orderDelivery, startDashboard, useDashboard } from '../../dashboard/fixture.ts';

const ALL = 'all-0f1e2d3c4b5a6978';
const TOKENS = [
  { name: 'ci', token: 'ci-4f1c9d7ab2e8', scopes: ['deploy'] },
  { name: 'release', token: 'release-6e7f8091a2', scopes: ['deploy'] },
  { name: 'limited', token: 'limited-5d6e7f80', scopes: ['deploy'], flows: ['orders'] },
  { name: 'reader', token: 'reader-9a8b7c6d', scopes: ['read', 'operate'] },
] as const;
const access: Credentials = { kind: 'credentials', token: ALL, tokens: TOKENS };

const dashboard = useDashboard('all', { access });

beforeAll(async () => {
  const delivered = await dashboard.app.inject(
    orderDelivery('{"order":7,"mail":"jo@example.com"}', {
      headers: { authorization: CANARIES.authorization, cookie: CANARIES.cookie },
    }),
  );
  expect(delivered.statusCode).toBe(200);
});

const CHANGED = {
  ...ORDERS,
  version: '2',
  triggers: ORDERS.triggers,
  steps: {
    ...ORDERS.steps,
    charge: {
      ...ORDERS.steps.charge,
      inputs: {
        url: 'https://example.com/charge',
        method: 'POST',
        headers: { authorization: 'another-literal-secret-4711' },
        body: { mail: `\${trigger.body.mail}`, seen: `\${trigger.headers.authorization}` },
      },
    },
  },
};

const rehearse = (token: string, body: unknown = { manifests: [CHANGED] }) =>
  dashboard.app.inject({
    method: 'POST',
    url: '/flows/api/flows/rehearse',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify(body),
  });

it('shows who reads deliveries what differs, and nobody a secret', async () => {
  const answer = await rehearse(ALL);
  const [flow] = answer.json().flows;
  expect(flow).toMatchObject({ flowId: ORDERS_ID, deliveries: 1, differing: 1 });
  expect(flow.groups[0]).toMatchObject({
    kind: 'request',
    at: 'charge',
    what: ['method', 'headers.content-type', 'body'],
  });
  expect(answer.body).toContain('jo@example.com');
  for (const secret of [...Object.values(CANARIES), 'another-literal-secret-4711']) {
    expect(answer.body).not.toContain(secret);
  }
});

it('shows who may only deploy which deliveries differ, and none of their contents', async () => {
  const answer = await rehearse('ci-4f1c9d7ab2e8');
  const [flow] = answer.json().flows;
  expect(flow).toMatchObject({ differing: 1, groups: [{ at: 'charge', what: [], examples: [], count: 1 }] });
  expect(answer.body).not.toContain('jo@example.com');
});

it('is refused to who may not deploy, and to who is limited to flows', async () => {
  expect((await rehearse('reader-9a8b7c6d')).json()).toMatchObject({ statusCode: 403, reason: 'insufficient_scope' });
  expect((await rehearse('limited-5d6e7f80')).json()).toMatchObject({ statusCode: 403, reason: 'limited_to_flows' });
});

it('is one at a time, and leaves no trace', async () => {
  const before = await dashboard.store.of(activityStore).listInterventions({ skip: 0, take: 100 });
  const answers = await Promise.all([rehearse(ALL), rehearse(ALL)]);
  expect(answers.map(({ statusCode }) => statusCode).sort()).toEqual([200, 409]);
  expect(answers.find(({ statusCode }) => statusCode === 409)?.json()).toMatchObject({ reason: 'rehearsal_running' });
  expect((await rehearse(ALL)).statusCode).toBe(200);
  expect(await dashboard.store.of(activityStore).listInterventions({ skip: 0, take: 100 })).toEqual(before);
  expect((await dashboard.store.findFlow(ORDERS_ID))?.revision).toBe(1);
});

it('leaves other credentials their room, which is given back', async () => {
  const all = await Promise.all(['ci-4f1c9d7ab2e8', 'release-6e7f8091a2', ALL].map((token) => rehearse(token)));
  expect(all.map(({ statusCode }) => statusCode).sort()).toEqual([200, 200, 409]);
  expect(all.find(({ statusCode }) => statusCode === 409)?.json()).toMatchObject({
    message: 'Two others rehearse deploys now; try again when one has ended',
  });
  expect(await Promise.all([rehearse(ALL), rehearse('ci-4f1c9d7ab2e8')])).toMatchObject([
    { statusCode: 200 },
    { statusCode: 200 },
  ]);
  const metrics = await dashboard.app.inject({ url: '/metrics', headers: { authorization: `Bearer ${ALL}` } });
  expect(metrics.body).toMatch(/^sluice_room_refused_total\{room="rehearsals"\} [1-9]/m);
});

it.each([
  ['no manifests', {}, /body\.manifests/],
  ['too many deliveries', { manifests: [CHANGED], deliveries: 1001 }, /body\.deliveries/],
  ['answers of another form', { manifests: [CHANGED], answers: { [ORDERS_ID]: { charge: {} } } }, /body\.answers/],
  [
    'answers of a flow that is nowhere',
    { manifests: [CHANGED], answers: { orders: { charge: [] } } },
    /^body\.answers\.orders: no manifest and no deployed flow/,
  ],
  [
    'answers of a step that no revision has',
    { manifests: [CHANGED], answers: { [ORDERS_ID]: { charg: [] } } },
    /^body\.answers\.\S+\.charg: the flow has no step "charg"; did you mean "charge"\?/,
  ],
  ['a manifest of another form', { manifests: ['orders'] }, /body\.manifests|manifest/],
])('refuses %s by name', async (_, body, message) => {
  const answer = await rehearse(ALL, body);
  expect(answer.json()).toMatchObject({ statusCode: 400, message: expect.stringMatching(message) });
});

it('takes names of prototypes for what they are', async () => {
  const text = `{"manifests":[${JSON.stringify(CHANGED)}],"answers":{"__proto__":{"charge":[]},"${ORDERS_ID}":{"__proto__":[],"constructor":[{"output":1}]}}}`;
  const answer = await dashboard.app.inject({
    method: 'POST',
    url: '/flows/api/flows/rehearse',
    headers: { authorization: `Bearer ${ALL}` },
    body: text,
  });
  const { statusCode, message } = answer.json();
  expect(statusCode).toBe(400);
  for (const name of ['__proto__', `${ORDERS_ID}.__proto__`, `${ORDERS_ID}.constructor`]) {
    expect(message).toContain(`${name}: `);
  }
});

it('says where gates cannot be judged again, and compares what follows', async () => {
  const hook = (webhookHmacKey: string) => ({
    type: 'webhook',
    inputs: {
      webhookSlug: 'bell',
      webhookSignatureScheme: 'Token',
      webhookSignatureHeader: 'X-Bell-Token',
      webhookHmacKey,
      webhookEnforcementMode: 'Enforce',
    },
  });
  const bell = (key: string, when: string) => ({
    id: ORDERS_ID,
    name: 'bell',
    version: when,
    triggers: { ring: hook(key) },
    steps: {
      first: { type: 'NoOp' },
      next: { type: 'NoOp', runAfter: { first: { statuses: ['Succeeded'], when } } },
    },
  });
  const own = await startDashboard({}, [bell('canary-of-the-bell-1', 'true')]);
  const ask = (manifest: object) =>
    own.app.inject({
      method: 'POST',
      url: '/flows/api/flows/rehearse',
      body: JSON.stringify({ manifests: [manifest] }),
    });
  const headers = { 'x-bell-token': 'canary-of-the-bell-1', 'content-type': 'application/json' };
  const delivered = await own.app.inject({ method: 'POST', url: '/flows/api/webhook/bell', headers, body: '{}' });
  expect(delivered.statusCode).toBe(200);
  const [other] = (await ask(bell('canary-of-the-bell-2', 'false'))).json().flows;
  expect(other.unknown).toMatchObject([{ what: expect.stringContaining('gates: cannot be judged again'), count: 1 }]);
  expect(other.groups).toMatchObject([{ kind: 'step', at: 'next', what: ['Succeeded -> Skipped'] }]);
  const [same] = (await ask(bell('canary-of-the-bell-1', 'false'))).json().flows;
  expect(same).toMatchObject({ unknown: [], groups: [{ at: 'next' }] });
});
