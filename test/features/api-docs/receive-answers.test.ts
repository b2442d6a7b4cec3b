import { createHmac } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { SluiceApp } from '../../../src/app.ts';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import type { Reason } from '../../../src/model/delivery.ts';
import { REASONS } from '../../../src/webhooks/answers.ts';
import { buildApp } from '../../database.ts';
import { createWorkspace, type Workspace } from '../../e2e/service.ts';

/* The receive endpoint answers as the OpenAPI document says: one row for each reason to refuse a delivery. */

const KEY = 'a key of the publisher, long enough';
const FLOW_ID = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10';
const PATH = '/flows/api/webhook/{idOrSlug}';
const BODY = '{"order":1}';
const hex = (text: string, algorithm = 'sha256') => createHmac(algorithm, KEY).update(text).digest('hex');
const slack = (time: string): Record<string, string> => ({
  'x-slack-request-timestamp': time,
  'x-slack-signature': `v0=${hex(`v0:${time}:${BODY}`)}`,
});
const github = (body = BODY) => ({ 'x-hub-signature-256': `sha256=${hex(body)}` });

interface Row {
  readonly status: number;
  readonly reason?: Reason;
  readonly inputs?: WebhookInputs;
  readonly headers?: Record<string, string>;
  readonly body?: string;
  readonly method?: 'GET' | 'POST';
  readonly slug?: string;
  /** Whether the same delivery was sent before. */
  readonly isSecond?: boolean;
}

const signed = (scheme: string, inputs: WebhookInputs = {}): WebhookInputs => ({
  webhookSignatureScheme: scheme,
  webhookHmacKey: KEY,
  ...inputs,
});

const ROWS: Record<string, Row> = {
  'is accepted': { status: 200 },
  'would be held': { status: 200, inputs: { webhookHoldDeliveries: true } },
  'is known by its key': { status: 200, headers: { 'idempotency-key': 'k' }, isSecond: true },
  'is filtered': { status: 200, inputs: { webhookWhen: 'body.order > 1' } },
  'is acknowledged again': {
    status: 200,
    inputs: { webhookNonceHeader: 'X-Id', webhookDuplicateResponse: 'acknowledge' },
    headers: { 'x-id': '1' },
    isSecond: true,
  },
  'is larger than the cap': { status: 413, reason: 'body_too_large', body: 'x'.repeat(2000) },
  'has no trigger': { status: 404, reason: 'unknown_flow', slug: 'nobody' },
  'is no JSON': { status: 400, reason: 'invalid_json', body: '{' },
  'is a GET': { status: 405, method: 'GET' },
  'names no host': { status: 400, headers: { host: 'a host' } },
  'comes from elsewhere': { status: 403, reason: 'ip_not_allowed', inputs: { webhookIpAllowList: ['192.0.2.1'] } },
  'comes from a denied address': { status: 403, reason: 'ip_denied', inputs: { webhookIpDenyList: ['127.0.0.1'] } },
  'comes too soon': {
    status: 429,
    reason: 'rate_limited',
    inputs: { webhookRateLimitPermitsPerSecond: 0.001 },
    isSecond: true,
  },
  'is not signed': { status: 401, reason: 'signature_missing', inputs: signed('GitHub') },
  'has no signature in form': {
    status: 401,
    reason: 'signature_malformed',
    inputs: signed('GitHub'),
    headers: { 'x-hub-signature-256': 'sha256=zz' },
  },
  'is signed with another key': {
    status: 401,
    reason: 'signature_mismatch',
    inputs: signed('GitHub'),
    headers: github('another body'),
  },
  'cannot be verified for want of a key': {
    status: 401,
    reason: 'key_not_configured',
    headers: github(),
    inputs: { webhookSignatureScheme: 'GitHub' },
  },
  'is signed with SHA-1': {
    status: 401,
    reason: 'sha1_not_allowed',
    inputs: signed('GitHubLegacy'),
    headers: { 'x-hub-signature': `sha1=${hex(BODY, 'sha1')}` },
  },
  'meets a verifier that fails': { status: 401, reason: 'verifier_error', inputs: signed('Partner') },
  'has no time': {
    status: 401,
    reason: 'timestamp_missing',
    inputs: signed('Slack', { webhookRequireTimestamp: true }),
    headers: { 'x-slack-signature': `v0=${hex(BODY)}` },
  },
  'has a time that is none': {
    status: 401,
    reason: 'timestamp_malformed',
    inputs: signed('Slack', { webhookRequireTimestamp: true }),
    headers: slack('soon'),
  },
  'is too old': {
    status: 401,
    reason: 'timestamp_skew',
    inputs: signed('Slack', { webhookReplayToleranceSeconds: 300 }),
    headers: slack('1000000000'),
  },
  'was accepted before': {
    status: 409,
    reason: 'nonce_replayed',
    inputs: { webhookNonceHeader: 'X-Id' },
    headers: { 'x-id': '1' },
    isSecond: true,
  },
};

interface Response {
  readonly description: string;
  readonly content?: Record<string, { schema: { anyOf?: object[]; properties?: { reason?: { enum: string[] } } } }>;
}

let workspace: Workspace;
let app: SluiceApp;
let operation: { security: unknown[]; responses: Record<string, Response> };

beforeAll(async () => {
  workspace = await createWorkspace();
  const triggers = Object.values(ROWS).map(({ inputs }, at) => [
    `hook${at}`,
    { type: 'webhook', inputs: { webhookSlug: `hook-${at}`, ...inputs } },
  ]);
  const manifest = { id: FLOW_ID, version: '1', triggers: Object.fromEntries(triggers), steps: {} };
  await workspace.writeManifest('hooks.json', manifest);
  app = await buildApp({
    settings: { enforcementMode: 'Enforce', maxBodyBytes: 1000, databaseUrl: 'sqlite::memory:' },
    folder: workspace.folder,
    extensions: { verifiers: [{ name: 'Partner', verify: () => Promise.reject(new Error('out of order')) }] },
  });
  await app.fastify.ready();
  operation = (await app.fastify.inject('/flows/api/openapi.json')).json().paths[PATH].post;
});

function fits(status: number, answer: unknown): void {
  const schema = operation.responses[status]?.content?.['application/json']?.schema;
  if (schema === undefined) throw new Error(`the document has no answer ${status}`);
  // The last of several shapes allows any answer that a publisher wants.
  const shapes = schema.anyOf?.slice(0, -1) ?? [schema];
  const wrong = shapes.map(
    (shape) => z.fromJSONSchema(shape as Parameters<typeof z.fromJSONSchema>[0]).safeParse(answer).error,
  );
  expect(
    wrong.some((error) => error === undefined),
    JSON.stringify(answer),
  ).toBe(true);
}

async function send({ method = 'POST', headers, body = BODY, slug }: Row, at: number) {
  return app.fastify.inject({
    method,
    url: `/flows/api/webhook/${slug ?? `hook-${at}`}`,
    headers: { 'content-type': 'application/json', ...headers },
    ...(method === 'POST' && { body }),
  });
}

describe('a delivery that', () => {
  it.each(Object.entries(ROWS).map(([name, row], at) => [name, row, at] as const))('%s', async (_, row, at) => {
    if (row.isSecond === true) expect((await send(row, at)).statusCode).toBe(200);
    const response = await send(row, at);
    expect(response.statusCode).toBe(row.status);
    if (row.reason !== undefined) expect(response.json().reason).toBe(row.reason);
    expect(response.headers).toMatchObject({
      'content-security-policy': "default-src 'none'; sandbox",
      'x-content-type-options': 'nosniff',
    });
    fits(row.status, response.json());
  });

  it.each(Object.entries(ROWS).map(([name, row], at) => [name, row, at] as const))(
    '%s is found under the id in the header of its answer',
    async (_, row, at) => {
      const { 'sluice-delivery': id } = (await send(row, at)).headers;
      // Neither is stored as a delivery.
      if (row.method === 'GET' || row.headers?.host !== undefined) return expect(id).toBeUndefined();
      const found = await app.fastify.inject(`/flows/api/webhooks/${id}`);
      expect(found.json()).toMatchObject({ id, statusCode: row.status });
    },
  );

  it('comes to a disabled flow, or is held by it', async () => {
    const flow = `/flows/api/flows/${FLOW_ID}`;
    await app.fastify.inject({ method: 'POST', url: `${flow}/disable` });
    const refused = await send({ status: 403 }, 0);
    expect(refused.json()).toMatchObject({ statusCode: 403, reason: 'flow_disabled' });
    fits(403, refused.json());
    const held = await send({ status: 200 }, Object.keys(ROWS).indexOf('would be held'));
    expect(held.json()).toMatchObject({ held: true });
    fits(200, held.json());
    await app.fastify.inject({ method: 'POST', url: `${flow}/enable` });
  });
});

describe('the document of the receive endpoint', () => {
  it('asks for no credentials', () => {
    expect(operation.security).toEqual([]);
  });

  it('has every reason at its status, and no other', () => {
    const described = Object.entries(operation.responses).flatMap(([status, { content }]) =>
      (content?.['application/json']?.schema.properties?.reason?.enum ?? []).map((reason) => [reason, Number(status)]),
    );
    const known = Object.entries(REASONS).map(([reason, { statusCode }]) => [reason, statusCode]);
    expect(described.sort()).toEqual(known.sort());
    expect(Object.keys(operation.responses)).toEqual(
      expect.arrayContaining(['200', '400', '401', '403', '404', '405', '408', '409', '413', '429', '503']),
    );
  });

  it('is shown on the page, with its reasons and a command without credentials', async () => {
    const page = (await app.fastify.inject('/flows/api/docs')).body;
    expect(page).toContain('<section id="receiveDelivery">');
    for (const reason of Object.keys(REASONS)) expect(page).toContain(reason);
  });
});
