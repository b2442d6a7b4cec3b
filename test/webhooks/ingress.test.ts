import { createHmac, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import type { SettingsInput } from '../../src/config/settings-schema.ts';
import { buildApp, isOnPostgres } from '../database.ts';
import { createWorkspace, FLOW_ID, GITHUB_SECRET, getJson, githubManifest, type Workspace } from '../e2e/service.ts';

const CAP = 4096;

interface Running {
  readonly app: SluiceApp;
  readonly url: string;
  readonly hook: string;
  readonly workspace: Workspace;
}

async function open(settings: SettingsInput = {}, manifest = githubManifest()): Promise<Running> {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', manifest);
  const app = await buildApp({
    settings: { port: 0, databaseUrl: 'sqlite::memory:', maxBodyBytes: CAP, ...settings },
    folder: workspace.folder,
  });
  const url = await app.listen();
  return { app, url, hook: `${url}/flows/api/webhook/push`, workspace };
}

const sign = (body: string | Buffer) => `sha256=${createHmac('sha256', GITHUB_SECRET).update(body).digest('hex')}`;

function signedHeaders(body: string | Buffer): Record<string, string> {
  return { 'x-hub-signature-256': sign(body), 'x-github-delivery': randomUUID() };
}

/** Writes exact bytes to the socket and returns the whole answer; no client changes the headers. */
async function raw(url: string, request: (string | Buffer)[]): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  let answer = '';
  socket.setEncoding('utf8').on('data', (chunk) => {
    answer += chunk;
  });
  for (const part of request) socket.write(part);
  await once(socket, 'close');
  return answer;
}

function post(path: string, headers: Record<string, string>): string {
  const lines = Object.entries({ host: 'localhost', connection: 'close', ...headers });
  return `POST ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
}

interface Refused {
  statusCode: number;
  error: string;
  message: string;
  reason: string;
}

describe('a body', () => {
  let service: Running;
  beforeAll(async () => {
    service = await open({ enforcementMode: 'Enforce' });
  });

  it.each([
    'application/json; charset=utf-8',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'text/plain',
    'application/octet-stream',
    'nonsense',
    '/',
    ';;;',
    'application/',
    '',
  ])('under content type "%s" reaches the signature gate byte for byte', async (contentType) => {
    const body = Buffer.from('{"a": "%C3%A9+é", "b":  1}\n');
    const headers = { ...signedHeaders(body), 'content-type': contentType, 'content-length': `${body.length}` };
    expect(await raw(service.url, [post('/flows/api/webhook/push', headers), body])).toMatch(/^HTTP\/1.1 200 /);
  });

  it('without a content type is taken too', async () => {
    const body = Buffer.from([0x7b, 0xff, 0xfe, 0x00, 0x80, 0x7d]);
    const headers = { ...signedHeaders(body), 'content-length': `${body.length}` };
    expect(await raw(service.url, [post('/flows/api/webhook/push', headers), body])).toMatch(/^HTTP\/1.1 200 /);
  });

  it('that comes in chunks is the same body', async () => {
    const body = '{"chunked":true}';
    const headers = { ...signedHeaders(body), 'transfer-encoding': 'chunked', 'content-type': 'application/json' };
    const chunks = ['3\r\n{"c\r\n', 'd\r\nhunked":true}\r\n', '0\r\n\r\n'];
    expect(await raw(service.url, [post('/flows/api/webhook/push', headers), ...chunks])).toMatch(/^HTTP\/1.1 200 /);
  });

  it('that is missing altogether is an empty one', async () => {
    const headers = { ...signedHeaders(''), 'content-type': 'application/json' };
    expect(await raw(service.url, [post('/flows/api/webhook/push', headers)])).toMatch(/^HTTP\/1.1 200 /);
  });

  it('as large as the cap is taken, one byte more is refused and its connection closed', async () => {
    const fits = Buffer.alloc(CAP, 'a');
    const accepted = await fetch(service.hook, { method: 'POST', headers: signedHeaders(fits), body: fits });
    expect(accepted.status).toBe(200);
    const tooLarge = Buffer.alloc(CAP + 1, 'a');
    const refused = await fetch(service.hook, { method: 'POST', headers: signedHeaders(tooLarge), body: tooLarge });
    expect(refused.status).toBe(413);
    expect(refused.headers.get('connection')).toBe('close');
  });

  it('that calls itself JSON and is not is refused, and its nonce stays free', async () => {
    const broken = '{"a":';
    const headers = { ...signedHeaders(broken), 'content-type': 'application/json' };
    const refused = await fetch(service.hook, { method: 'POST', headers, body: broken });
    expect([refused.status, ((await refused.json()) as Refused).reason]).toEqual([400, 'invalid_json']);
    const mended = '{"a":1}';
    const again = { ...headers, 'x-hub-signature-256': sign(mended) };
    expect((await fetch(service.hook, { method: 'POST', headers: again, body: mended })).status).toBe(200);
  });
});

describe.each(['Off', 'Audit', 'Enforce'] as const)('under %s', (mode) => {
  let service: Running;
  beforeAll(async () => {
    service = await open({ enforcementMode: mode });
  });

  it.each([
    ['of announced length', [post('/flows/api/webhook/push', { 'content-length': `${CAP + 1}` })]],
    [
      'in chunks of unknown length',
      [
        post('/flows/api/webhook/push', { 'transfer-encoding': 'chunked' }),
        `${(CAP + 1).toString(16)}\r\n${'a'.repeat(CAP + 1)}\r\n0\r\n\r\n`,
      ],
    ],
  ])('a body over the cap %s is refused before any gate and recorded', async (_length, request) => {
    const answer = await raw(service.url, request);
    expect(answer).toMatch(/^HTTP\/1.1 413 [\s\S]*"reason":"body_too_large"\}$/);
    const [latest] = await getJson<Refused[]>(`${service.url}/flows/api/webhooks/recent`);
    expect(latest).toMatchObject({ reason: 'body_too_large', statusCode: 413, violations: ['body_too_large'] });
  });

  it.each(['nowhere', randomUUID(), '%20'])('an unknown webhook is 404: %s', async (idOrSlug) => {
    const response = await fetch(`${service.url}/flows/api/webhook/${idOrSlug}`, { method: 'POST', body: '{}' });
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ statusCode: 404, error: 'Not Found', reason: 'unknown_flow' });
  });

  it.each(['push', 'PUSH', 'Push', FLOW_ID, FLOW_ID.toUpperCase()])('a webhook is found as %s', async (idOrSlug) => {
    const body = '{}';
    const headers = signedHeaders(body);
    const response = await fetch(`${service.url}/flows/api/webhook/${idOrSlug}`, { method: 'POST', headers, body });
    expect(response.status).toBe(200);
  });

  it.each(['push/', `${FLOW_ID}/`, 'push/?a=1'])(
    'a slash at the end leads to the same webhook: %s',
    async (address) => {
      const body = '{}';
      const response = await fetch(`${service.url}/flows/api/webhook/${address}`, {
        method: 'POST',
        headers: signedHeaders(body),
        body,
      });
      expect(response.status).toBe(200);
    },
  );

  it.each(['', '/', '/push/more', '/push//', '/push/more/', `/${'x'.repeat(300)}`, '/push%2Fmore'])(
    'what is below the receive endpoint and no webhook is an unknown one: %s',
    async (path) => {
      const response = await fetch(`${service.url}/flows/api/webhook${path}`, { method: 'POST', body: '{}' });
      expect(response.status).toBe(404);
      expect(await response.json()).toMatchObject({ reason: 'unknown_flow' });
    },
  );

  it('an Expect header that asks for nothing is ignored, one that cannot be met is 417 and counted', async () => {
    const body = '{}';
    const { 'x-hub-signature-256': signature = '', 'x-github-delivery': id = '' } = signedHeaders(body);
    const head = { 'content-length': '2', 'x-hub-signature-256': signature, 'x-github-delivery': id };
    expect(await raw(service.url, [post('/flows/api/webhook/push', { ...head, expect: '' }), body])).toMatch(
      /^HTTP\/1.1 200 /,
    );
    expect(await raw(service.url, [post('/flows/api/webhook/push', { ...head, expect: 'a' }), body])).toMatch(
      /^HTTP\/1.1 417 /,
    );
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    expect(metrics).toContain('sluice_requests_unreadable_total{status="417"} 1');
  });

  it('a disabled flow refuses with 403, and takes deliveries again once it is enabled', async () => {
    const control = `${service.url}/flows/api/flows/${FLOW_ID}`;
    await fetch(`${control}/disable`, { method: 'POST' });
    const body = '{}';
    const refused = await fetch(service.hook, { method: 'POST', headers: signedHeaders(body), body });
    expect([refused.status, ((await refused.json()) as Refused).reason]).toEqual([403, 'flow_disabled']);
    await fetch(`${control}/enable`, { method: 'POST' });
    const accepted = await fetch(service.hook, { method: 'POST', headers: signedHeaders(body), body });
    expect(accepted.status).toBe(200);
  });

  it('a URL that cannot be read is refused in the shape of every error', async () => {
    const answer = await raw(service.url, [post('/flows/api/webhook/%zz', { 'content-length': '0' })]);
    expect(answer).toMatch(/^HTTP\/1.1 400 [\s\S]*\{"statusCode":400,"error":"Bad Request","message":"[^"]+"\}$/);
  });

  it('a GET is told to POST and does not count as a delivery', async () => {
    const response = await fetch(service.hook);
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST']);
  });
});

describe('no answer of the receive endpoint is active content', () => {
  let service: Running;
  beforeAll(async () => {
    service = await open({ enforcementMode: 'Enforce' });
  });

  const request = (line: string, headers = 'host: localhost\r\n') =>
    `${line} HTTP/1.1\r\n${headers}connection: close\r\n\r\n`;
  it.each<[string, number, string | string[]]>([
    ['a refusal', 401, post('/flows/api/webhook/push', { 'content-length': '0' })],
    ['an unknown slug', 404, post('/flows/api/webhook/nobody', { 'content-length': '0' })],
    ['no slug', 404, post('/flows/api/webhook', { 'content-length': '0' })],
    ['an empty slug', 404, request('GET /flows/api/webhook/')],
    ['more than a slug', 404, request('GET /flows/api/webhook/push/more?a')],
    ['a slug that is too long', 404, request(`GET /flows/api/webhook/${'x'.repeat(300)}`)],
    ['a body above the cap', 413, post('/flows/api/webhook/push', { 'content-length': '9999' })],
    ['a body for another path above the cap', 413, post('/flows/api/webhook/a/b', { 'content-length': '9999999' })],
    ['GET', 405, request('GET /flows/api/webhook/push')],
    ['HEAD', 405, request('HEAD /flows/api/webhook/push')],
    ['OPTIONS', 405, request('OPTIONS /flows/api/webhook/push')],
    ['OPTIONS that asks', 200, request('OPTIONS /flows/api/webhook/push', 'host: a\r\nwebhook-request-origin: a\r\n')],
    ['PUT', 405, request('PUT /flows/api/webhook/push')],
    ['TRACE', 405, request('TRACE /flows/api/webhook/push')],
    ['PROPFIND', 404, request('PROPFIND /flows/api/webhook/push')],
    ['a host that is none', 400, request('POST /flows/api/webhook/push', 'host: a b\r\n')],
    ['a path that cannot be read', 400, request('GET /flows/api/webhook/%zz')],
    ['an absolute URL', 405, request('GET http://localhost/flows/api/webhook/push')],
    ['an escaped path', 405, request('GET /flows/api/%77ebhook/push')],
    ['a line that cannot be read', 400, 'POST /flows/api/webhook/push HTTP\r\n\r\n'],
    ['a method that nobody knows', 400, request('NOTHING /flows/api/webhook/push')],
    ['a header that cannot be read', 400, request('GET /flows/api/webhook/push', 'host: a\r\n b c\r\n: d\r\n')],
    ['a URL that is too long', 431, request(`GET /flows/api/webhook/push?${'x'.repeat(20_000)}`)],
  ])('%s: %s', async (_, status, sent) => {
    const [head = ''] = (await raw(service.url, [sent].flat())).toLowerCase().split('\r\n\r\n');
    expect(head).toMatch(new RegExp(`^http/1.1 ${status} `));
    const headers = head.split('\r\n').filter((line) => /^content-sec|^x-content/.test(line));
    expect(headers.sort()).toEqual([
      "content-security-policy: default-src 'none'; sandbox",
      'x-content-type-options: nosniff',
    ]);
  });
});

// Skipped on PostgreSQL: it changes SQLite's file.
it.skipIf(isOnPostgres())(
  'answers 503 when the store cannot take a delivery, and accepts the retry with the same nonce',
  async () => {
    const service = await open({ enforcementMode: 'Enforce', databaseUrl: 'sqlite:own.db' });
    const body = '{}';
    const headers = signedHeaders(body);
    const blocker = new (await import('better-sqlite3')).default(`${service.workspace.folder}/own.db`);
    // Another connection renames a table of the acceptance, so that the statement fails, as on a damaged or full disk.
    blocker.exec('ALTER TABLE runs RENAME TO runs_away');
    const refused = await fetch(service.hook, { method: 'POST', headers, body });
    expect([refused.status, ((await refused.json()) as Refused).reason]).toEqual([503, 'store_unavailable']);
    blocker.exec('ALTER TABLE runs_away RENAME TO runs');
    blocker.close();
    const accepted = await fetch(service.hook, { method: 'POST', headers, body });
    expect(accepted.status).toBe(200);
  },
);

async function sendWithKey(service: Running, body: string, change: Record<string, string> = {}) {
  const headers = { 'idempotency-key': 'order-1', ...signedHeaders(body), ...change };
  const response = await fetch(service.hook, { method: 'POST', headers, body });
  const answer = (await response.json()) as { runId: string; duplicate?: true; reason?: string };
  return { status: response.status, ...answer };
}

it('knows an Idempotency-Key: the first run answers for all', async () => {
  const service = await open();
  const first = await sendWithKey(service, '{"n":1}');
  const second = await sendWithKey(service, '{"n":1}');
  expect(first.duplicate).toBeUndefined();
  expect(second).toMatchObject({ runId: first.runId, duplicate: true });
  expect(await getJson<unknown[]>(`${service.url}/flows/api/runs`)).toHaveLength(1);
  expect(await getJson(`${service.url}/flows/api/runs/${first.runId}/control`)).toMatchObject({
    idempotencyKey: 'order-1',
  });
});

it.each(['Off', 'Audit', 'Enforce'] as const)(
  'refuses a known Idempotency-Key with another body under %s',
  async (mode) => {
    const service = await open({ enforcementMode: mode });
    const first = await sendWithKey(service, '{"n":1}');
    const other = await sendWithKey(service, '{"n":2}');
    expect(other).toMatchObject({ status: 409, reason: 'idempotency_conflict' });
    expect(await getJson<{ id: string }[]>(`${service.url}/flows/api/runs`)).toMatchObject([{ id: first.runId }]);
    expect(await getJson(`${service.url}/flows/api/webhooks/recent`)).toMatchObject([
      { reason: 'idempotency_conflict', statusCode: 409, enforced: true, runId: null },
      { reason: null, runId: first.runId },
    ]);
    expect(await sendWithKey(service, '{"n":1}')).toMatchObject({ runId: first.runId, duplicate: true });
  },
);

it.each(['Off', 'Audit'] as const)(
  'under %s an unverified Idempotency-Key takes no place and asks for none',
  async (mode) => {
    const service = await open({ enforcementMode: mode });
    const unsigned = { 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` };
    const forged = await sendWithKey(service, '{"n":0}', unsigned);
    const honest = await sendWithKey(service, '{"n":1}');
    expect(honest).toMatchObject({ status: 200 });
    expect(honest.duplicate).toBeUndefined();
    const forgedAgain = await sendWithKey(service, '{"n":2}', unsigned);
    expect(forgedAgain).toMatchObject({ status: 200 });
    expect(new Set([forged, honest, forgedAgain].map(({ runId }) => runId)).size).toBe(3);
  },
);

it('believes what a trusted proxy says about the client, and no other sender', async () => {
  const manifest = githubManifest({ inputs: { webhookIpAllowList: ['203.0.113.7'] } });
  const body = '{}';
  const forwarded = { ...signedHeaders(body), 'x-forwarded-for': '203.0.113.7' };
  const direct = await open({ enforcementMode: 'Enforce' }, manifest);
  expect((await fetch(direct.hook, { method: 'POST', headers: forwarded, body })).status).toBe(403);
  const proxied = await open({ enforcementMode: 'Enforce', trustedProxies: ['127.0.0.1'] }, manifest);
  expect((await fetch(proxied.hook, { method: 'POST', headers: forwarded, body })).status).toBe(200);
});

/** Opens a socket and writes the text; returns the socket and, once the other side closed it, the whole answer. */
async function hold(url: string, text: string): Promise<{ socket: Socket; answer: Promise<string> }> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  let received = '';
  socket.setEncoding('utf8').on('data', (chunk) => {
    received += chunk;
  });
  socket.on('error', () => {});
  const answer = new Promise<string>((done) => socket.on('close', () => done(received)));
  await once(socket, 'connect');
  socket.write(text);
  onTestFinished(() => void socket.destroy());
  return { socket, answer };
}

it.each([
  ['of announced length', { 'content-length': '1048576' }],
  ['in chunks', { 'transfer-encoding': 'chunked' }],
])('takes deliveries while hundreds of sockets announce bodies %s and send none', async (_kind, headers) => {
  const service = await open({ enforcementMode: 'Enforce', maxBodyBytes: 1_048_576 });
  const request = post('/flows/api/webhook/push', headers);
  await Promise.all(Array.from({ length: 300 }, () => hold(service.url, request)));
  // Sockets are read in the order of opening: once this request is answered, all others have been read.
  const first = await fetch(service.hook, { method: 'POST', headers: signedHeaders('{}'), body: '{}' });
  const second = await fetch(service.hook, { method: 'POST', headers: signedHeaders('{}'), body: '{}' });
  expect([first.status, second.status]).toEqual([200, 200]);
});

describe('what is no POST', () => {
  const limited = { webhookRateLimitPermitsPerSecond: 0.001, webhookRateLimitBurstSize: 1 };
  const scheme = (name: string) => ({ webhookSignatureScheme: name, webhookHmacKey: 'a key', ...limited });

  it('is 405 before any gate, uses up no permit and is not recorded', async () => {
    const service = await open({ enforcementMode: 'Enforce' }, githubManifest({ inputs: limited }));
    for (const method of ['GET', 'HEAD', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'GET']) {
      const response = await fetch(service.hook, { method });
      expect([method, response.status, response.headers.get('allow')]).toEqual([method, 405, 'POST']);
    }
    expect(await getJson<unknown[]>(`${service.url}/flows/api/webhooks/recent`)).toEqual([]);
    expect((await fetch(service.hook, { method: 'POST', headers: signedHeaders('{}'), body: '{}' })).status).toBe(200);
  });

  it('is answered where a publisher of CloudEvents asks whether it may deliver: in every state, and nothing is kept', async () => {
    const service = await open({ enforcementMode: 'Enforce' }, githubManifest({ inputs: limited }));
    const ask = (url: string, headers: Record<string, string> = {}) =>
      fetch(url, { method: 'OPTIONS', headers: { 'webhook-request-origin': 'events.example.com', ...headers } });
    const plain = await ask(service.hook);
    expect([plain.status, plain.headers.get('webhook-allowed-origin'), plain.headers.get('allow')]).toEqual([
      200,
      '*',
      'POST',
    ]);
    expect([await plain.text(), plain.headers.get('webhook-allowed-rate')]).toEqual(['', null]);
    const rate = await ask(service.hook, { 'webhook-request-rate': '120' });
    expect(rate.headers.get('webhook-allowed-rate')).toBe('*');
    expect((await ask(`${service.hook}-of-nobody`)).status).toBe(404);
    expect(await getJson<unknown[]>(`${service.url}/flows/api/webhooks/recent`)).toEqual([]);
    expect((await fetch(service.hook, { method: 'POST', headers: signedHeaders('{}'), body: '{}' })).status).toBe(200);
  });

  it('is answered where it is a handshake of the publisher, and uses up no permit then', async () => {
    const service = await open({ enforcementMode: 'Enforce' }, githubManifest({ inputs: scheme('Dropbox') }));
    for (let count = 0; count < 5; count += 1) {
      expect(await (await fetch(`${service.hook}?challenge=${count}`)).text()).toBe(`${count}`);
    }
    const other = await fetch(service.hook);
    expect([other.status, other.headers.get('allow')]).toEqual([405, 'POST, GET']);
    const body = '{}';
    const signature = createHmac('sha256', 'a key').update(body).digest('hex');
    const delivered = await fetch(service.hook, {
      method: 'POST',
      headers: { 'x-dropbox-signature': signature },
      body,
    });
    expect(delivered.status).toBe(200);
  });

  it('leaves a bounded trace in the log for a handshake that anyone may send', async () => {
    const service = await open({ enforcementMode: 'Enforce' }, githubManifest({ inputs: scheme('Dropbox') }));
    for (let count = 0; count < 50; count += 1) await fetch(`${service.hook}?challenge=${count}`);
    const kept = await getJson<unknown[]>(`${service.url}/flows/api/webhooks/recent?take=100`);
    expect(kept).toHaveLength(10);
  });

  it('is refused by the address list where it is a handshake, too', async () => {
    const inputs = { ...scheme('Dropbox'), webhookIpDenyList: ['127.0.0.1'] };
    const service = await open({ enforcementMode: 'Enforce' }, githubManifest({ inputs }));
    expect((await fetch(`${service.hook}?challenge=1`)).status).toBe(403);
  });
});

describe('a stop', () => {
  // Skipped on PostgreSQL: it reads SQLite's file.
  it.skipIf(isOnPostgres())('answers 503 with a reason to what arrives meanwhile, and records a delivery', async () => {
    const service = await open({ enforcementMode: 'Enforce', databaseUrl: 'sqlite:own.db' });
    const body = '{"a":1}';
    const finishing = post('/flows/api/webhook/push', { 'content-length': '2', ...signedHeaders('{}') });
    const inFlight = await hold(service.url, `${finishing.replace('connection: close\r\n', '')}{`);
    const late = await hold(service.url, 'POST /flows/api/webhook/push HTTP/1.1\r\nhost: localhost\r\n');
    const page = await hold(service.url, 'GET /flows/api/runs HTTP/1.1\r\nhost: localhost\r\n');
    await fetch(`${service.url}/health/live`);
    const closed = service.app.close();
    late.socket.write(`content-length: ${body.length}\r\nx-mark: late\r\n\r\n${body}`);
    page.socket.write('\r\n');
    inFlight.socket.write('}');
    expect(await late.answer).toMatch(/^HTTP\/1\.1 503 [\s\S]*"reason":"store_unavailable"\}$/);
    expect(await page.answer).toMatch(/^HTTP\/1\.1 503 [\s\S]*"reason":"stopping"\}$/);
    expect(await inFlight.answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*"runId"/);
    await closed;
    const file = new (await import('better-sqlite3')).default(`${service.workspace.folder}/own.db`);
    onTestFinished(() => void file.close());
    const rows = file.prepare('SELECT status_code, reason, headers FROM deliveries ORDER BY status_code').all();
    expect(rows).toMatchObject([{ status_code: 200 }, { status_code: 503, reason: 'store_unavailable' }]);
  });

  it('ends requests that never arrive whole with 503, and does not wait for them', async () => {
    const service = await open({ enforcementMode: 'Enforce' });
    const head = 'POST /flows/api/webhook/push HTTP/1.1\r\nhost: localhost\r\n';
    const halves = await Promise.all([
      hold(service.url, head),
      hold(service.url, `${head}content-length: 10\r\n\r\nabc`),
      hold(service.url, `${head}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n`),
      hold(service.url, 'PUT /flows/api/flows/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nabc'),
    ]);
    await fetch(`${service.url}/health/live`);
    await service.app.close();
    for (const { answer } of halves) {
      expect(await answer).toMatch(/^HTTP\/1\.1 503 [\s\S]*default-src 'none'; sandbox[\s\S]*"reason":/);
    }
  });
});
