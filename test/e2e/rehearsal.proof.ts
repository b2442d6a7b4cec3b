import { writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FlowRehearsal } from '../../src/features/rehearsal/tally.ts';
import { runCli } from './cli.ts';
import {
  createWorkspace,
  eventually,
  FLOW_ID,
  getJson,
  pushHeaders,
  type Service,
  startService,
  type Workspace,
} from './service.ts';

const cel = (expression: string) => `\${${expression}}`;
const TOLD_ID = FLOW_ID.replace(/10$/, '11');
const KEY = 'a-key-of-the-shop-4f1c9d7a';
const API_KEY = 'Bearer of-the-process-93d1';
const OLD_KEY = 'a-former-key-77aa0b';

let workspace: Workspace;
let service: Service;
let peer: Server;
let origin = '';
let requests = 0;

const request = (path: string, body: unknown, rest = {}) => ({
  type: 'HttpRequest',
  inputs: { method: 'POST', url: `${origin}${path}`, headers: { authorization: 'env:SECRET_API' }, body },
  ...rest,
});

const orders = ({ inputs = {}, steps = {}, version = '1' } = {}) => ({
  id: FLOW_ID,
  name: 'orders',
  version,
  triggers: {
    shop: {
      type: 'webhook',
      inputs: {
        webhookSlug: 'orders',
        webhookSignatureScheme: 'GitHub',
        webhookHmacKey: 'env:SECRET_SHOP',
        webhookNonceHeader: 'X-GitHub-Delivery',
        webhookEnforcementMode: 'Enforce',
        ...inputs,
      },
    },
  },
  steps: {
    charge: request(
      '/charge',
      { amount: cel('trigger.body.total') },
      { retry: { maxAttempts: 2, backoffSeconds: 0.01 } },
    ),
    big: {
      type: 'Transform',
      inputs: { value: cel('steps.charge.output.body.id') },
      runAfter: { charge: { statuses: ['Succeeded'], when: 'trigger.body.total > 50' } },
    },
    rest: { type: 'Delay', inputs: { seconds: 0.01 }, runAfter: { charge: ['Succeeded'] } },
    tell: {
      type: 'RunFlow',
      inputs: { flow: TOLD_ID, body: { charge: cel('steps.charge.output.body.id') } },
      runAfter: { rest: ['Succeeded'] },
    },
    ...steps,
  },
});
const told = (headers = {}) => ({
  id: TOLD_ID,
  name: 'told',
  version: '1',
  triggers: {},
  steps: { tell: { type: 'HttpRequest', inputs: { ...request('/tell', cel('trigger.body')).inputs, headers } } },
});

beforeAll(async () => {
  const seen = new Set<string>();
  peer = createServer((asked, answer) => {
    requests += 1;
    let text = '';
    asked.on('data', (part) => {
      text += part;
    });
    asked.on('end', () => {
      const isBusy = asked.url === '/charge' && text.includes('"amount":60') && !seen.has(text);
      seen.add(text);
      answer.statusCode = isBusy ? 503 : 200;
      answer.setHeader('content-type', 'application/json');
      answer.end(JSON.stringify({ id: `C${text.length}`, secret: asked.headers.authorization ?? null }));
    });
  });
  await new Promise<void>((resolve) => peer.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(peer.address() as AddressInfo).port}`;
  workspace = await createWorkspace();
  await workspace.writeManifest('orders.json', orders());
  await workspace.writeManifest('told.json', told());
  service = await startService(workspace, {
    SECRET_SHOP: KEY,
    SECRET_API: API_KEY,
    SECRET_OLD: OLD_KEY,
    SLUICE_EGRESS_ALLOW: '127.0.0.1',
  });
  for (const total of [10, 60, 90]) await deliver({ total });
  expect(await deliver({ total: 5 }, OLD_KEY)).toBe(401);
  await eventually(
    () => getJson<{ flowName: string; status: string }[]>(at('runs?take=20')),
    (runs) => runs.filter(({ flowName, status }) => flowName === 'orders' && status === 'Succeeded').length === 3,
  );
});
afterAll(async () => {
  await service.stop('SIGTERM');
  await new Promise((resolve) => peer.close(resolve));
});

const at = (path: string) => `${service.url}/flows/api/${path}`;

async function deliver(body: object, key = KEY): Promise<number> {
  const text = JSON.stringify(body);
  const headers = { ...pushHeaders(text, { key }), 'x-github-event': 'push' };
  return (await fetch(at('webhook/orders'), { method: 'POST', headers, body: text })).status;
}

/** Rehearses manifests and checks that no request leaves. */
async function rehearse(manifests: readonly object[], rest: object = {}): Promise<FlowRehearsal[]> {
  const before = requests;
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({ manifests, ...rest });
  const response = await fetch(at('flows/rehearse'), { method: 'POST', headers, body });
  const text = await response.text();
  expect({ status: response.status, text }).toMatchObject({ status: 200 });
  for (const secret of [KEY, API_KEY, OLD_KEY]) expect(text).not.toContain(secret);
  expect(requests).toBe(before);
  return JSON.parse(text).flows;
}

const groupsOf = ({ groups }: FlowRehearsal) =>
  groups.map(({ kind, at: place, what, count }) => [kind, place, what, count]);

describe('a rehearsed deploy', () => {
  it('is of no flow that stays as it is', async () => {
    expect(await rehearse([orders(), told()])).toEqual([]);
  });

  it('finds nothing where only what no delivery reaches has changed', async () => {
    const [one] = await rehearse([orders({ version: '2' })]);
    expect(one).toMatchObject({
      deliveries: 4,
      same: 4,
      differing: 0,
      groups: [],
      skipped: [],
      unknown: [],
      revision: 1,
    });
  });

  it('names the place of a request that would differ, and makes up no answer to it', async () => {
    const charge = request('/charge', { amount: cel('trigger.body.total * 100') });
    const [one] = await rehearse([orders({ steps: { charge } })]);
    expect(groupsOf(one as FlowRehearsal)).toEqual([['request', 'charge', ['body.amount'], 3]]);
    expect(one?.unknown).toMatchObject([{ what: 'charge', count: 3 }]);
    const changes = one?.groups[0]?.examples.map(({ differences }) => differences.map((each) => each.changes));
    expect(changes).toContainEqual([[{ path: 'body.amount', before: 90, after: 9000 }]]);
  });

  it('goes on with the answers that a file gives', async () => {
    const charge = request('/charge', { amount: cel('trigger.body.total * 100') });
    const given = { output: { status: 200, headers: {}, body: { id: 'other' } } };
    const [one] = await rehearse([orders({ steps: { charge } })], { answers: { [FLOW_ID]: { charge: [given] } } });
    const [first] = one?.groups[0]?.examples ?? [];
    expect(first?.differences.map(({ kind, at: place }) => [kind, place])).toEqual([
      ['request', 'charge'],
      ['request', 'tell/tell'],
    ]);
    expect(one?.unknown).toMatchObject([{ what: 'tell/tell' }]);
  });

  const withCharge = (inputs: object) => {
    const { charge } = orders().steps;
    return { charge: { ...charge, inputs: { ...charge.inputs, ...inputs } } };
  };
  const bigFrom = (total: number) => {
    const when = `trigger.body.total > ${total}`;
    return { big: { ...orders().steps.big, runAfter: { charge: { statuses: ['Succeeded'], when } } } };
  };
  it.each([
    ['a condition', () => bigFrom(80), ['step', 'big', ['Succeeded -> Skipped'], 1]],
    [
      'what an answer means',
      () => withCharge({ expectedStatuses: '404' }),
      ['step', 'charge', ['Succeeded -> Failed: unexpected_status'], 3],
    ],
    [
      'a wait',
      () => ({ rest: { ...orders().steps.rest, inputs: { seconds: 3600 } } }),
      ['wait', 'rest', ['10 -> 3600000'], 3],
    ],
    [
      'a step that is new',
      () => ({ extra: { type: 'Transform', inputs: { value: 1 } } }),
      ['step', 'extra', ['not reached -> Succeeded'], 3],
    ],
  ])('names the step that would go another way by %s', async (_, steps, group) => {
    const [one] = await rehearse([orders({ steps: steps() })]);
    expect(groupsOf(one as FlowRehearsal)).toContainEqual(group);
  });

  it('rehearses a flow that runs another one which changes', async () => {
    const rehearsed = await rehearse([orders(), told({ 'x-new': '1' })]);
    expect(rehearsed.map(({ name }) => name)).toEqual(['orders', 'told']);
    expect(groupsOf(rehearsed[0] as FlowRehearsal)).toEqual([['request', 'tell/tell', ['headers.x-new'], 3]]);
    expect(rehearsed[1]).toMatchObject({ deliveries: 0 });
  });

  it('shows another reference in the place of its secret', async () => {
    const [one] = await rehearse([orders({ steps: withCharge({ headers: { authorization: 'env:SECRET_OLD' } }) })]);
    const [change] = one?.groups[0]?.examples[0]?.differences[0]?.changes ?? [];
    expect(change).toEqual({
      path: 'headers.authorization',
      before: '[secret env:SECRET_API]',
      after: '[secret env:SECRET_OLD]',
    });
  });

  it.each([
    ['would be refused', { webhookHmacKey: 'env:SECRET_OLD' }, ['accepted -> refused: signature_mismatch', 3]],
    ['would be let in', { webhookHmacKey: 'env:SECRET_OLD' }, ['refused: signature_mismatch -> accepted', 1]],
    ['would come to nobody', { webhookSlug: 'elsewhere' }, ['accepted -> refused: unknown_flow', 3]],
    ['would be filtered', { webhookWhen: 'body.total < 80' }, ['accepted -> filtered by webhookWhen', 1]],
    [
      'would be let in by another mode',
      { webhookEnforcementMode: 'Audit' },
      ['refused: signature_mismatch -> accepted', 1],
    ],
  ])('names the deliveries that %s', async (_, inputs, [what, count]) => {
    const [one] = await rehearse([orders({ inputs })]);
    expect(groupsOf(one as FlowRehearsal)).toContainEqual(['gates', 'gates', [what], count]);
  });

  it('says where the deployed revision does not go as the run did', async () => {
    const other = orders({ steps: { big: { ...orders().steps.big, runAfter: { charge: ['Failed'] } } }, version: '3' });
    const put = (manifest: object) =>
      fetch(at(`flows/${FLOW_ID}?allow=caution,breaking,rollback`), { method: 'PUT', body: JSON.stringify(manifest) });
    expect((await put(other)).status).toBe(200);
    const [one] = await rehearse([orders({ version: '4' })]);
    expect(one?.skipped).toMatchObject([
      { what: 'the deployed revision takes another way than its run did, at big', count: 2 },
    ]);
    expect((await put(orders())).status).toBe(200);
  });

  it('refuses manifests that cannot be deployed, with the place', async () => {
    const steps = { charge: { type: 'NoSuchStep' } };
    const response = await fetch(at('flows/rehearse'), {
      method: 'POST',
      body: JSON.stringify({ manifests: [orders({ steps })] }),
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ issues: [{ path: 'steps.charge.type' }] });
  });

  it('is asked for by `sluice check`, whose exit code it makes worse', async () => {
    const steps = withCharge({ body: { amount: cel('trigger.body.total * 100') } });
    await workspace.writeManifest('orders.json', orders({ steps }));
    const answer = { output: { status: 200, headers: {}, body: { id: 'C' } } };
    await writeFile(join(workspace.folder, 'answers.json'), JSON.stringify({ orders: { charge: [answer] } }));
    const check = (...rest: string[]) => runCli(workspace, ['check', '--against', service.url, ...rest]);
    expect((await check()).code).toBe(0);
    const rehearsed = await check('--rehearse', '10', '--answers', 'answers.json');
    expect(rehearsed.code).toBe(1);
    expect(rehearsed.stdout).toMatch(
      /REQUEST of charge: body\.amount \(3 deliveries\)[\s\S]*- request charge body\.amount: 90\n {4}\+ request charge body\.amount: 9000/,
    );
    expect(rehearsed.stdout).toMatch(/Rehearsed: 4 deliveries, 3 would go another way\..*Exit code 1: /);
    const json = JSON.parse((await check('--rehearse', '2', '--json')).stdout);
    expect(json.rehearsals).toMatchObject([{ deliveries: 2 }]);
    expect(await runCli(workspace, ['check', '--rehearse', '2'])).toMatchObject({ code: 2 });
    await workspace.writeManifest('orders.json', orders({ version: '9' }));
    expect((await check('--rehearse', '10')).code).toBe(0);
  });
});
