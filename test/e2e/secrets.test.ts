import { execFile } from 'node:child_process';
import { createHmac, randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { storedText } from '../database.ts';
import {
  createWorkspace,
  eventually,
  FLOW_ID,
  githubManifest,
  type Service,
  startService,
  type Workspace,
} from './service.ts';

// Contains characters that each encoding writes differently.
const canary = (name: string) => `canary/${name}+&"${randomUUID()}`;
/** For places where quotes are not allowed. */
const plainCanary = (name: string) => `canary-${name}-${randomUUID()}`;
const SECRETS = {
  literalKey: canary('literal-key'),
  previousKey: canary('previous-key'),
  envKey: canary('env-key'),
  fileKey: canary('file-key'),
  verifyToken: canary('verify-token'),
  stepToken: plainCanary('step-token'),
  stepPassword: canary('step-password'),
  stepCookie: plainCanary('step-cookie'),
  stepQuery: canary('step-query'),
  literalStepToken: plainCanary('literal-step-token'),
  literalUrlToken: plainCanary('literal-url-token'),
  urlPath: canary('url-path'),
  urlToken: canary('url-token'),
  publicUrlPassword: plainCanary('public-url-password'),
  publicUrlToken: plainCanary('public-url-token'),
  publicUrlFromEnv: plainCanary('public-url-from-env'),
  basePassword: plainCanary('base-password'),
  storeKey: canary('store-key'),
  dashboardToken: plainCanary('dashboard-token'),
  dashboardPassword: plainCanary('dashboard-password'),
  exporterHeader: plainCanary('exporter-header'),
};
/** Secrets that senders bring; these must not be stored either. */
const SENT = Object.fromEntries(
  ['authorization', 'cookie', 'x-jwt', 'x-pin', 'x-session', 'x-signature-token', 'x-api-key', 'x-jwt-assertion'].map(
    (name) => [name, plainCanary(name)],
  ),
);
const QUERY_TOKEN = plainCanary('query-token');

let workspace: Workspace;
let service: Service;
let echo: Server;
const exported: string[] = [];
const authorization = { authorization: `Bearer ${SECRETS.dashboardToken}` };

/** Every spelling of the text that a server may choose, also inside a larger encoded text. */
function spellings(text: string): string[] {
  const percent = encodeURIComponent(text);
  const base64 = ['', 'a', 'ab'].map((before) => Buffer.from(`${before}${text} and more`).toString('base64'));
  const hex = Buffer.from(text).toString('hex');
  return [
    text,
    percent,
    percent.replace(/%../g, (byte) => byte.toLowerCase()),
    encodeURIComponent(percent),
    JSON.stringify(text),
    JSON.stringify(JSON.stringify(text)),
    hex,
    hex.toUpperCase(),
    ...base64,
    ...base64.map((digits) => digits.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')),
  ];
}

/** The parts of these spellings that must not appear; of base64, only digits that depend on the secret alone. */
function traces(secret: string): string[] {
  const bytes = Buffer.byteLength(secret);
  return spellings(secret).map((text, index) => {
    const offset = index < 8 ? undefined : (index - 8) % 3;
    if (offset === undefined) return index === 4 || index === 5 ? JSON.stringify(secret).slice(1, -1) : text;
    return text.slice(offset === 0 ? 0 : offset + 1, Math.floor(((offset + bytes) * 8) / 6));
  });
}

function wordsOf(request: IncomingMessage): string[] {
  const url = new URL(request.url ?? '/', 'http://echo');
  const basic = /^Basic (\S+)$/.exec(request.headers.authorization ?? '')?.[1];
  return [
    request.url ?? '',
    url.pathname.slice(1),
    ...url.pathname.split('/').map(decodeURIComponent),
    ...url.searchParams.values(),
    ...Object.values(request.headers).flatMap((value) => value ?? []),
    ...(basic === undefined ? [] : [Buffer.from(basic, 'base64').toString()]),
    ...(request.headers.cookie ?? '').split('; ').map((pair) => pair.split('=')[1] ?? ''),
  ];
}

beforeAll(async () => {
  // Echoes the whole request in every spelling, as a debugging endpoint would; also collects the spans.
  echo = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    if (request.url === '/v1/traces') {
      exported.push(Buffer.concat(chunks).toString('latin1'));
      response.end();
      return;
    }
    const words = wordsOf(request);
    response.statusCode = request.url?.startsWith('/fail') === true ? 500 : 200;
    response.setHeader('content-type', 'application/json');
    response.setHeader(
      'x-echo',
      words.map((word) => encodeURIComponent(word)),
    );
    response.end(JSON.stringify({ headers: request.headers, words, spelled: words.flatMap(spellings) }));
  }).listen(0, '127.0.0.1');
  await new Promise((listening) => echo.once('listening', listening));
  const origin = `http://127.0.0.1:${(echo.address() as AddressInfo).port}`;
  workspace = await createWorkspace();
  await writeManifests(origin);
  await writeFile(join(workspace.folder, 'webhook.key'), SECRETS.fileKey);
  service = await startService(workspace, {
    SLUICE_ENFORCEMENT_MODE: 'Enforce',
    SLUICE_LOG_LEVEL: 'trace',
    SLUICE_EGRESS_ALLOW: '127.0.0.0/8,localhost',
    SLUICE_PUBLIC_URL: `https://operator:${SECRETS.basePassword}@hooks.example.com`,
    SLUICE_STORE_KEY: SECRETS.storeKey,
    SLUICE_DASHBOARD_TOKEN: SECRETS.dashboardToken,
    SLUICE_DASHBOARD_USER: 'operator',
    SLUICE_DASHBOARD_PASSWORD: SECRETS.dashboardPassword,
    SLUICE_ALLOW_LEGACY_SHA1: 'true',
    OTEL_EXPORTER_OTLP_ENDPOINT: origin,
    OTEL_EXPORTER_OTLP_HEADERS: `x-exporter=${SECRETS.exporterHeader}`,
    OTEL_BSP_SCHEDULE_DELAY: '10',
    WEBHOOK_KEY: SECRETS.envKey,
    STEP_TOKEN: `Bearer ${SECRETS.stepToken}`,
    STEP_BASIC: `Basic ${Buffer.from(`shop:${SECRETS.stepPassword}`).toString('base64')}`,
    STEP_COOKIE: `theme=dark; sid=${SECRETS.stepCookie}`,
    STEP_QUERY: SECRETS.stepQuery,
    STEP_URL: `${origin}/hooks/${encodeURIComponent(SECRETS.urlPath)}?v=2&token=${encodeURIComponent(SECRETS.urlToken)}`,
    PUBLIC_URL: `https://hooks.example.com/in?token=${SECRETS.publicUrlFromEnv}`,
  });
});

async function writeManifests(origin: string): Promise<void> {
  const headers = { authorization: 'env:STEP_TOKEN', 'x-api-key': SECRETS.literalStepToken, cookie: 'env:STEP_COOKIE' };
  const steps = {
    call: { type: 'HttpRequest', inputs: { url: `${origin}/`, headers, query: { q: 'env:STEP_QUERY' } } },
    basic: { type: 'HttpRequest', inputs: { url: `${origin}/`, headers: { authorization: 'env:STEP_BASIC' } } },
    secretUrl: { type: 'HttpRequest', inputs: { url: 'env:STEP_URL' } },
    literalUrl: { type: 'HttpRequest', inputs: { url: `${origin}/?page=1&token=${SECRETS.literalUrlToken}` } },
    poll: {
      type: 'HttpRequest',
      inputs: {
        url: 'env:STEP_URL',
        pollEnabled: true,
        pollIntervalSeconds: 1,
        pollTimeoutSeconds: 1,
        pollCondition: 'false',
      },
    },
    refused: { type: 'HttpRequest', inputs: { url: `${origin}/fail`, headers, query: { q: 'env:STEP_QUERY' } } },
    fail: { type: 'HttpRequest', inputs: { url: 'http://localhost:1/', headers } },
    reads: {
      type: 'Transform',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a placeholder of the manifest.
      inputs: { value: '${steps.call.output}' },
      runAfter: { call: ['Succeeded'] },
    },
  };
  const keys = { webhookHmacKey: SECRETS.literalKey, webhookHmacKeyPrevious: SECRETS.previousKey };
  const userInfo = `u:${SECRETS.publicUrlPassword}@`;
  const webhookPublicUrl = `https://${userInfo}hooks.example.com/in?token=${SECRETS.publicUrlToken}`;
  const others = {
    'from-env': { webhookHmacKey: 'env:WEBHOOK_KEY', webhookPublicUrl: 'env:PUBLIC_URL' },
    'from-file': { webhookHmacKey: 'file:../webhook.key' },
    meta: {
      webhookSignatureScheme: 'Meta',
      webhookHmacKey: 'env:WEBHOOK_KEY',
      webhookVerifyToken: SECRETS.verifyToken,
    },
    twilio: { webhookSignatureScheme: 'Twilio', webhookHmacKey: 'env:WEBHOOK_KEY', webhookPublicUrl: 'env:PUBLIC_URL' },
  };
  const inputs = { ...keys, webhookPublicUrl };
  await workspace.writeManifest('literal.json', githubManifest({ inputs, steps }));
  for (const [slug, own] of Object.entries(others)) {
    const manifest = githubManifest({ inputs: { webhookSlug: slug, ...own } });
    await workspace.writeManifest(`${slug}.json`, { ...manifest, id: randomUUID(), name: slug });
  }
}

afterAll(async () => {
  await service.stop('SIGTERM');
  echo.close();
});

/** The status, and everything that the sender received. */
async function deliver(slug: string, key: string): Promise<{ status: number; said: string }> {
  const body = JSON.stringify({ slug });
  const response = await fetch(`${service.url}/flows/api/webhook/${slug}?token=${QUERY_TOKEN}`, {
    method: 'POST',
    headers: {
      ...SENT,
      authorization: `Bearer ${SENT.authorization}`,
      cookie: `session=${SENT.cookie}`,
      'x-hub-signature-256': `sha256=${createHmac('sha256', key).update(body).digest('hex')}`,
      'x-github-delivery': randomUUID(),
    },
    body,
  });
  return { status: response.status, said: `${await response.text()} ${JSON.stringify([...response.headers])}` };
}

async function read(path: string, init: RequestInit = {}): Promise<string> {
  const headers = { ...authorization, 'content-type': 'application/json' };
  const response = await fetch(`${service.url}${path}`, { ...init, headers });
  return `${JSON.stringify([...response.headers])}\n${await response.text()}`;
}

async function readJson<T>(path: string): Promise<T> {
  return JSON.parse((await read(path)).split('\n').slice(1).join('\n')) as T;
}

/** Collects live events until the process ends. */
async function watch(): Promise<{ text: string }> {
  const seen = { text: '' };
  const response = await fetch(`${service.url}/flows/api/events/stream`, { headers: authorization });
  void (async () => {
    try {
      for await (const chunk of response.body ?? []) seen.text += Buffer.from(chunk).toString();
    } catch {
      // The service cuts the stream when it stops.
    }
  })();
  return seen;
}

async function everythingShown(): Promise<Record<string, string>> {
  const seen: Record<string, string> = {};
  const runs = await readJson<{ id: string }[]>('/flows/api/runs');
  const deliveries = await readJson<{ id: string }[]>('/flows/api/webhooks/recent');
  expect(runs).toHaveLength(4);
  expect(deliveries).toHaveLength(7);
  const changed = JSON.parse(await readFile(join(workspace.folder, 'manifests/literal.json'), 'utf8'));
  changed.triggers.github.inputs.webhookPublicUrl += '&more=1';
  const put = { method: 'PUT', body: JSON.stringify({ ...changed, version: '2' }) };
  seen.deploy = await read(`/flows/api/flows/${FLOW_ID}`, put);
  expect(seen.deploy).toContain('"revision":2');
  const flow = `flows/${FLOW_ID}`;
  const paths = [
    ...['flows', flow, `${flow}/revisions`, `${flow}/revisions/1`, `${flow}/revisions/1/diff/2`, `${flow}/mermaid`],
    ...[
      'runs',
      'handlers',
      'schemes',
      'schedules',
      'openapi.json',
      'docs',
      'webhooks/stats?hours=1',
      'webhooks/recent',
    ],
    ...runs.flatMap(({ id }) => ['', '/steps', '/events', '/control'].map((part) => `runs/${id}${part}`)),
    ...['webhooks/readiness', ...deliveries.map(({ id }) => `webhooks/${id}`)],
  ];
  for (const path of paths) seen[path] = await read(`/flows/api/${path}`);
  for (const { id } of deliveries) {
    seen[`redeliver ${id}`] = await read(`/flows/api/webhooks/${id}/redeliver`, { method: 'POST', body: '{}' });
  }
  const dryRun = JSON.stringify({ body: '{}', headers: { 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` } });
  seen.dryRun = await read('/flows/api/webhooks/dry-run/push', { method: 'POST', body: dryRun });
  seen.metrics = await read('/metrics');
  expect(Object.values(seen).join()).not.toMatch(/There is no (?:GET|POST) /);
  const output = runs.map((run) => seen[`runs/${run.id}`]).join();
  expect(output, 'the call was made and its answer kept').toContain('"authorization":"***"');
  const wrong = { headers: { authorization: 'Bearer wrong' } };
  seen.refused = await (await fetch(`${service.url}/flows/api/runs`, wrong)).text();
  return seen;
}

it('lets no secret out: not in an answer, a log line, a span, a metric, a live event or the database', async () => {
  const live = await watch();
  const answers = [
    [await deliver('push', SECRETS.literalKey), 200],
    [await deliver('push', SECRETS.previousKey), 200],
    [await deliver('from-env', SECRETS.envKey), 200],
    [await deliver('from-file', SECRETS.fileKey), 200],
    [await deliver('push', 'forged'), 401],
    [await deliver('twilio', 'forged'), 401],
    [await deliver('nowhere', 'forged'), 404],
  ] as const;
  for (const [{ status }, expected] of answers) expect(status).toBe(expected);
  await eventually(
    () => readJson<unknown[]>('/flows/api/runs/active'),
    (active) => active.length === 0,
  );

  const seen = await everythingShown();
  seen.answers = JSON.stringify(answers);
  const { code } = await service.stop('SIGTERM');
  expect(code).toBe(0);
  seen.log = service.output();
  seen.live = live.text;
  seen.spans = exported.join();
  expect(seen.live).toContain('event: step.completed');
  expect(seen.spans).toContain('flow.webhook.receive');
  seen.database = await storedText(workspace.folder);
  expect(seen.database).toContain('github');

  const hidden = Object.entries({ ...SECRETS, ...SENT, queryToken: QUERY_TOKEN });
  const leaks = Object.entries(seen).flatMap(([place, text]) =>
    hidden.flatMap(([name, secret]) =>
      traces(secret).flatMap((trace, index) => (text.includes(trace) ? [`${name} as ${index} in ${place}`] : [])),
    ),
  );
  expect(leaks).toEqual([]);
});

it('says in no error of a start what a credential is', async () => {
  const secret = plainCanary('refused');
  const env = {
    PATH: process.env.PATH ?? '',
    SLUICE_DATABASE_URL: `mysql://sluice:${secret}@db.example/sluice`,
    SLUICE_DATABASE_DIRECT_URL: `postgres://sluice:${secret}@[db.example/sluice`,
    SLUICE_PUBLIC_URL: `https://u:${secret}@hooks.example.com/?token=${secret}`,
    SLUICE_DASHBOARD_USER: secret,
    SLUICE_EGRESS_ALLOW: `https://u:${secret}@internal`,
    SLUICE_STORE_KEY: '',
    SLUICE_PORT: 'none',
  };
  const main = resolve(import.meta.dirname, '../../dist/main.js');
  const said = await new Promise<string>((done) =>
    execFile(process.execPath, [main], { env, cwd: workspace.folder }, (_error, stdout, stderr) =>
      done(stdout + stderr),
    ),
  );
  expect(said).toContain('SLUICE_DATABASE_URL: "mysql://***@db.example/sluice" is not accepted');
  expect(said).not.toContain(secret);
});
