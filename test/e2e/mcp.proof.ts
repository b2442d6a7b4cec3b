// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.
import { createHmac, randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Client, StdioClientTransport } from '../oracles/mcp.ts';
import { runCli } from './cli.ts';
import {
  createWorkspace,
  eventually,
  FLOW_ID,
  githubManifest,
  type Service,
  startService,
  type Workspace,
} from './service.ts';

/** Planted in deliveries, and in secrets of the service. */
const BODY = 'canary-in-a-body';
const HEADER = 'canary-in-a-header';
const SECRETS = {
  key: 'canary-secret-webhook-key',
  previousKey: 'canary-secret-webhook-key-before',
  step: 'canary-secret-of-a-step',
  readToken: 'canary-secret-token-of-read',
  operateToken: 'canary-secret-token-of-operate',
  metricsToken: 'canary-secret-token-of-metrics',
} as const;

const WAITING_ID = '5f0c3c1e-2a77-4f5b-9a0e-7d1f6a5b4c3d';

const inputs = {
  webhookHmacKey: SECRETS.key,
  webhookHmacKeyPrevious: SECRETS.previousKey,
  webhookEnforcementMode: 'Enforce',
  webhookNonceHeader: undefined,
  webhookEventId: 'body.id',
};

/** Puts senders' data wherever a flow can: search keys, orders, logs, errors, requests, signals and loops. */
const FLOW = {
  ...githubManifest({
    inputs,
    steps: {
      tell: { type: 'LogMessage', inputs: { message: '${trigger.body.name} of ${trigger.headers["x-canary"]}' } },
      loop: {
        type: 'ForEach',
        forEach: '${trigger.body.items}',
        steps: { each: { type: 'LogMessage', inputs: { message: '${loop.item}' } } },
        runAfter: { tell: { statuses: ['Succeeded'], when: 'trigger.body.name != "nobody"' } },
      },
      call: {
        type: 'HttpRequest',
        inputs: {
          url: 'http://127.0.0.1:9/${trigger.body.name}',
          headers: { authorization: SECRETS.step, 'x-from': '${trigger.body.name}' },
        },
        retry: { maxAttempts: 1 },
        runAfter: { tell: ['Succeeded'] },
      },
      bad: { type: 'LogMessage', inputs: { message: '${int(trigger.body.name)}' }, runAfter: { tell: ['Succeeded'] } },
      skipped: {
        type: 'NoOp',
        runAfter: { tell: { statuses: ['Succeeded'], when: 'trigger.body.name == "nobody"' } },
      },
      fail: { type: 'Fail', inputs: { message: 'no ${trigger.body.name}' }, runAfter: { tell: ['Succeeded'] } },
    },
  }),
  serialize: 'trigger.body.name',
};

const WAITING = {
  id: WAITING_ID,
  name: 'waiting',
  version: '1',
  triggers: { byHand: { type: 'manual' } },
  steps: { approved: { type: 'WaitForSignal', inputs: { signalName: '${trigger.body.name}' } } },
};

const ANSWERING_BODIES = [
  ...['listDeliveries', 'getDelivery', 'getEvidence', 'readConsumer', 'listRuns', 'listActiveRuns', 'listRunFailures'],
  ...[
    'getRun',
    'getRunTrigger',
    'getRunControl',
    'listRunEvents',
    'outlineRun',
    'listSteps',
    'getStep',
    'getStepInput',
  ],
  ...['getStepOutput', 'planCancelRuns'],
];
const ANSWERING_HEADERS = [
  ...[
    'listDeliveries',
    'getDelivery',
    'getEvidence',
    'readConsumer',
    'listRuns',
    'getRun',
    'getRunTrigger',
    'listKeys',
  ],
  ...['outlineRun', 'listSteps', 'getStep', 'getStepInput', 'getStepOutput', 'planRetryRuns', 'planRerunRuns'],
];

let workspace: Workspace;
let service: Service;
/** One agent per token; the trusted one may read bodies. */
let reader: Client;
let operator: Client;
let trusted: Client;
/** Example ids of each kind. */
const ids = { runs: [] as string[], deliveries: [] as string[] };

beforeAll(async () => {
  workspace = await createWorkspace();
  await workspace.writeManifest('push.json', FLOW);
  await workspace.writeManifest('waiting.json', WAITING);
  const tokens = [
    { name: 'reader', token: SECRETS.readToken, scopes: ['read'] },
    { name: 'operator', token: SECRETS.operateToken, scopes: ['read', 'operate'] },
    { name: 'scraper', token: SECRETS.metricsToken, scopes: ['metrics'] },
  ];
  await writeFile(join(workspace.folder, 'tokens.json'), JSON.stringify(tokens));
  service = await startService(workspace, {
    SLUICE_TOKENS: join(workspace.folder, 'tokens.json'),
    SLUICE_EGRESS_ALLOW: '127.0.0.1',
  });
  await deliver({ id: 'one' });
  await deliver({ id: 'two' }, SECRETS.previousKey);
  // Neither its event id nor its order key can be read.
  await deliver({ id: { of: BODY }, name: { of: BODY } });
  await deliver({ id: 'three' }, 'a wrong key');
  await api('POST', `/flows/${WAITING_ID}/trigger`, { name: BODY });
  // An hour ago by the machine's clock, which the service uses.
  await api('PUT', '/webhooks/consumers/laptop', { since: new Date(Date.now() - 3_600_000).toISOString() });
  await eventually(
    async () => (await api('GET', '/runs?status=Failed')) as unknown[],
    (failed) => failed.length >= 3,
  );
  ids.runs = ((await api('GET', '/runs')) as { id: string }[]).map(({ id }) => id);
  ids.deliveries = ((await api('GET', '/webhooks/recent')) as { id: string }[]).map(({ id }) => id);
  reader = await startAgent(SECRETS.readToken);
  operator = await startAgent(SECRETS.operateToken);
  trusted = await startAgent(SECRETS.operateToken, ['--bodies']);
}, 60_000);
afterAll(async () => {
  for (const agent of [reader, operator, trusted]) await agent?.close();
  await service?.stop('SIGTERM');
});

async function api(method: string, path: string, body?: object): Promise<unknown> {
  const headers = { authorization: `Bearer ${SECRETS.operateToken}`, 'content-type': 'application/json' };
  const response = await fetch(`${service.url}/flows/api${path}`, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  expect({ path, status: response.status }).toEqual({ path, status: 200 });
  return response.json();
}

async function deliver(given: object, key: string = SECRETS.key): Promise<void> {
  const body = JSON.stringify({ name: BODY, items: [BODY, BODY], repository: { full_name: BODY }, ...given });
  await fetch(`${service.url}/flows/api/webhook/push?from=${BODY}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-hub-signature-256': `sha256=${createHmac('sha256', key).update(body).digest('hex')}`,
      'x-github-event': HEADER,
      'x-canary': HEADER,
      'user-agent': HEADER,
      'idempotency-key': `${HEADER} ${randomUUID()}`,
      'x-request-id': HEADER,
    },
    body,
  });
}

/** The official client, with `sluice mcp` as its child process. */
async function startAgent(token: string, options: readonly string[] = []): Promise<Client> {
  const agent = new Client({ name: 'test', version: '1' });
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [resolve(import.meta.dirname, '../../dist/cli.js'), 'mcp', '--to', service.url, '--token', token, ...options],
    cwd: workspace.folder,
  });
  await agent.connect(transport);
  return agent;
}

async function call(agent: Client, name: string, given: Record<string, unknown> = {}) {
  const { content, isError = false } = await agent.callTool({ name, arguments: given });
  const text = content.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
  return { text, isError };
}

/** A text, followed by its decoded base64 parts. */
function revealed(text: string): string {
  const hidden = text.match(/[A-Za-z0-9+/]{24,}=*/g) ?? [];
  return [text, ...hidden.map((part) => Buffer.from(part, 'base64').toString())].join('\n');
}

/** The JSON between the two lines that mark data. */
function dataOf(text: string): unknown {
  const [, mark = ''] = /lines (sluice-data-[0-9a-f]{12})\./.exec(text) ?? [];
  const [, json = ''] = text.split(`\n${mark}\n`);
  return JSON.parse(json.split(`\n${mark}`)[0] ?? '');
}

/** Values by parameter name. */
const VALUES: Readonly<Record<string, () => readonly unknown[]>> = {
  id: () => [FLOW_ID, ...ids.runs],
  deliveryId: () => ids.deliveries,
  flowId: () => [FLOW_ID],
  key: () => ['tell', 'loop', 'call', 'bad', 'skipped', 'fail', 'approved'],
  loop: () => ['loop'],
  name: () => ['laptop'],
  revision: () => [1],
  from: () => [1],
  to: () => [1],
  cronExpression: () => ['0 * * * *'],
  token: () => ['plan-of-nobody'],
  reason: () => ['why'],
};

/** Every combination of values for the required parameters. */
function argumentsOf(schema: { required?: string[] }): Record<string, unknown>[] {
  return (schema.required ?? []).reduce<Record<string, unknown>[]>(
    (all, name) => all.flatMap((given) => (VALUES[name]?.() ?? []).map((value) => ({ ...given, [name]: value }))),
    [{}],
  );
}

/** The answers to every question that needs only required arguments. */
async function askEverything(agent: Client): Promise<{ name: string; text: string; isError: boolean }[]> {
  const answers = [];
  for (const { name, inputSchema } of (await agent.listTools()).tools) {
    const asked = argumentsOf(inputSchema as { required?: string[] });
    expect({ name, asked: asked.length > 0 }).toEqual({ name, asked: true });
    for (const given of asked) answers.push({ name, ...(await call(agent, name, given)) });
  }
  return answers;
}

describe('sluice mcp', () => {
  it('gives a token with the scope read what reads, and nothing that changes anything', async () => {
    const { tools } = await reader.listTools();
    const names = tools.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['listRuns', 'getDelivery', 'listAttention', 'listFlows']));
    expect(names.filter((name) => /^plan|^(cancel|retry|rerun|redeliver|enable|disable)/.test(name))).toEqual([]);
    expect(tools.every(({ annotations }) => annotations?.readOnlyHint === true)).toBe(true);
    const { isError, text } = await call(reader, 'listRuns', { status: 'Failed', take: 5 });
    expect(isError).toBe(false);
    expect(dataOf(text)).toHaveLength(3);
  });

  it('answers nothing that a sender wrote, and no secret, whatever is asked', async () => {
    const answers = await askEverything(operator);
    const answered = new Set(answers.flatMap(({ name, isError }) => (isError ? [] : [name])));
    const { tools } = await operator.listTools();
    const readers = tools.filter(({ annotations }) => annotations?.readOnlyHint === true).map(({ name }) => name);
    expect(readers.filter((name) => !answered.has(name))).toEqual([]);
    for (const { name, text } of answers) expect.soft(`${name} ${revealed(text)}`).not.toMatch(/canary-/);
  });

  it('answers what senders wrote, and still no secret, to an operator who says --bodies', async () => {
    const answers = await askEverything(trusted);
    // If one of these did not answer with data, the test before would prove less.
    const answering = (what: string) =>
      new Set(answers.filter(({ text }) => revealed(text).includes(what)).map(({ name }) => name));
    expect([...answering(BODY)]).toEqual(expect.arrayContaining(ANSWERING_BODIES));
    expect([...answering(HEADER)]).toEqual(expect.arrayContaining(ANSWERING_HEADERS));
    for (const { name, text } of answers) expect.soft(`${name} ${revealed(text)}`).not.toMatch(/canary-secret/);
  });

  it('carries out what was planned and nothing else, and the activity names the token and the reason', async () => {
    for (const token of ['plan-0000000000000000', 'x.y.z']) {
      const refused = await call(operator, 'cancelRuns', { token, reason: 'a guess' });
      expect(refused).toMatchObject({ isError: true, text: expect.stringContaining('ask for a plan first') });
    }
    const plan = dataOf((await call(operator, 'planCancelRuns', { flowId: WAITING_ID })).text) as {
      token: string;
      ready: number;
    };
    expect(plan).toMatchObject({ ready: 1, token: expect.stringMatching(/^plan-[0-9a-f]{16}$/) });
    const elsewhere = await call(operator, 'retryRuns', { token: plan.token, reason: 'the wrong tool' });
    expect(elsewhere).toMatchObject({ isError: true, text: expect.stringContaining('ask for a plan first') });
    const unreasoned = await call(operator, 'cancelRuns', { token: plan.token });
    expect(unreasoned.isError).toBe(true);
    expect(await api('GET', `/runs?flowId=${WAITING_ID}&status=Running`)).toHaveLength(1);

    const done = await call(operator, 'cancelRuns', { token: plan.token, reason: 'the shop asked' });
    expect(done.isError).toBe(false);
    const { interventionId } = dataOf(done.text) as { interventionId: string };
    const [entry] = await eventually(
      async () => (await api('GET', `/activity?id=${interventionId}`)) as { outcome: string }[],
      ([it]) => it?.outcome !== 'unknown',
    );
    expect(entry).toMatchObject({
      action: 'cancelRuns',
      actor: 'operator',
      reason: 'the shop asked',
      outcome: 'done',
    });
    expect(await api('GET', `/runs?flowId=${WAITING_ID}&status=Cancelled`)).toHaveLength(1);
  });

  it.each(['.', '..', '../flows', '%2e%2e'])('does not let the argument %s lead to another operation', async (id) => {
    const { isError, text } = await call(reader, 'getStep', { id: ids.runs[0], key: id });
    expect(isError).toBe(true);
    expect(text).not.toContain('stepsTotal');
  });

  it.each([
    ['an argument that the tool does not have', { nobody: 1 }],
    ['a value that the parameter does not take', { take: 'all' }],
  ])('refuses %s', async (_, given) => {
    expect((await call(reader, 'listRuns', given)).isError).toBe(true);
  });

  it('goes on after the service refused something', async () => {
    const { isError, text } = await call(reader, 'getRun', { id: '00000000-0000-4000-8000-000000000000' });
    expect({ isError, text }).toMatchObject({ isError: true, text: expect.stringContaining('There is no run') });
    expect((await call(reader, 'runStats')).isError).toBe(false);
  });

  it.each(['2026-11-01', '2026-11-01T00:00:00Z', '1790000000000'])(
    'takes the time %s as the API does',
    async (since) => {
      expect(await call(reader, 'listRuns', { since })).toMatchObject({ isError: false });
    },
  );

  it('offers no tool whose whole answer would be left out', async () => {
    const names = async (agent: Client) => (await agent.listTools()).tools.map(({ name }) => name);
    expect(await names(operator)).not.toContain('getStepOutput');
    expect(await names(trusted)).toContain('getStepOutput');
  });

  it('answers what fits, and says how to get the rest', async () => {
    for (let number = 0; number < 60; number += 1) await deliver({ id: `large ${number}`, padding: 'x'.repeat(3000) });
    const { text } = await call(trusted, 'listDeliveries', { take: 100 });
    expect(text.length).toBeLessThan(41_000);
    const { length } = dataOf(text) as unknown[];
    expect(text).toContain(`the list: the first ${length} of 6`);
    expect(text).toContain('`skip` from 0 plus');
    const rest = await call(trusted, 'listDeliveries', { skip: length, take: 10 });
    expect(dataOf(rest.text)).toHaveLength(10);
  });

  it('ends with 2 and says why where the credentials may not read', async () => {
    const to = ['mcp', '--to', service.url];
    const wrong = await runCli(workspace, [...to, '--token', 'nobody has this token']);
    expect(wrong).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('401') });
    const narrow = await runCli(workspace, [...to, '--token', SECRETS.metricsToken]);
    expect(narrow).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('403') });
    expect(narrow.stderr).not.toContain(SECRETS.metricsToken);
  });
});
