import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { SpanKind } from '@opentelemetry/api';
import pino from 'pino';
import { beforeAll, describe, expect, it } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import type { Reason } from '../../src/model/delivery.ts';
import type { EnforcementMode } from '../../src/model/manifest.ts';
import { buildApp } from '../database.ts';
import { createWorkspace, getJson, type Workspace } from '../e2e/service.ts';
import { keepSpans } from '../spans.ts';

const KEY = 'key of the publisher';
const BODY = '{"order":1}';
const MODES: EnforcementMode[] = ['Off', 'Audit', 'Enforce'];
const sign = (key: string) => ({
  'x-hub-signature-256': `sha256=${createHmac('sha256', key).update(BODY).digest('hex')}`,
});
const time = (offsetSeconds: number) => ({ 'x-time': String(Math.trunc(Date.now() / 1000) + offsetSeconds) });

interface Row {
  readonly gate: string;
  readonly passing: WebhookInputs;
  /** Inputs that make the same gate refuse; the passing inputs by default. */
  readonly failing?: WebhookInputs;
  readonly good?: Record<string, string>;
  readonly bad?: Record<string, string>;
  /** Whether a similar delivery comes first. */
  readonly isSecond?: boolean;
  readonly reason: Reason;
  readonly statusCode: number;
  readonly eventId: number;
}

const signature = { webhookSignatureScheme: 'GitHub', webhookHmacKey: KEY };
const skew = { webhookReplayToleranceSeconds: 300, webhookTimestampHeader: 'X-Time' };
const ROWS: Row[] = [
  {
    gate: 'ip, allow list',
    passing: { webhookIpAllowList: ['127.0.0.0/8'] },
    failing: { webhookIpAllowList: ['192.0.2.1'] },
    reason: 'ip_not_allowed',
    statusCode: 403,
    eventId: 4005,
  },
  {
    gate: 'ip, deny list',
    passing: { webhookIpDenyList: ['192.0.2.1'] },
    failing: { webhookIpDenyList: ['127.0.0.1'] },
    reason: 'ip_denied',
    statusCode: 403,
    eventId: 4005,
  },
  {
    gate: 'rate limit',
    passing: { webhookRateLimitPermitsPerSecond: 1000 },
    failing: { webhookRateLimitPermitsPerSecond: 0.001 },
    isSecond: true,
    reason: 'rate_limited',
    statusCode: 429,
    eventId: 4003,
  },
  {
    gate: 'signature, wrong key',
    passing: signature,
    good: sign(KEY),
    bad: sign('another key'),
    reason: 'signature_mismatch',
    statusCode: 401,
    eventId: 4001,
  },
  {
    gate: 'signature, absent',
    passing: signature,
    good: sign(KEY),
    reason: 'signature_missing',
    statusCode: 401,
    eventId: 4001,
  },
  {
    gate: 'signature, no key',
    passing: signature,
    failing: { webhookSignatureScheme: 'GitHub' },
    good: sign(KEY),
    bad: sign(KEY),
    reason: 'key_not_configured',
    statusCode: 401,
    eventId: 4001,
  },
  {
    gate: 'replay, skew',
    passing: skew,
    good: time(0),
    bad: time(-3600),
    reason: 'timestamp_skew',
    statusCode: 401,
    eventId: 4002,
  },
  {
    gate: 'replay, no timestamp',
    passing: { ...skew, webhookRequireTimestamp: true },
    good: time(0),
    reason: 'timestamp_missing',
    statusCode: 401,
    eventId: 4002,
  },
  {
    gate: 'replay, nonce',
    passing: { webhookNonceHeader: 'X-Id' },
    good: { 'x-id': 'fresh' },
    bad: { 'x-id': 'used' },
    isSecond: true,
    reason: 'nonce_replayed',
    statusCode: 409,
    eventId: 4002,
  },
];

const CASES = ['passes', 'fails', 'is not configured'] as const;

interface Case {
  readonly row: Row;
  readonly is: (typeof CASES)[number];
  readonly flowId: string;
  readonly inputs: WebhookInputs;
  readonly headers: Record<string, string>;
}

const TABLE: Case[] = ROWS.flatMap((row) =>
  CASES.map((is) => ({
    row,
    is,
    flowId: randomUUID(),
    inputs: is === 'is not configured' ? {} : is === 'fails' ? (row.failing ?? row.passing) : row.passing,
    headers: (is === 'passes' ? row.good : row.bad) ?? {},
  })),
);

const spans = keepSpans();

describe.each(MODES)('under %s', (mode) => {
  let workspace: Workspace;
  let app: SluiceApp;
  let url: string;
  const logged: { eventId?: number; flowId?: string; deliveryId?: string }[] = [];

  beforeAll(async () => {
    workspace = await createWorkspace();
    for (const [at, { flowId, inputs }] of TABLE.entries()) {
      const triggers = { hook: { type: 'webhook', inputs: { webhookSlug: `hook-${at}`, ...inputs } } };
      await workspace.writeManifest(`${at}.json`, { id: flowId, version: '1', triggers, steps: {} });
    }
    app = await buildApp({
      settings: { port: 0, databaseUrl: 'sqlite::memory:', enforcementMode: mode },
      folder: workspace.folder,
      logger: pino({}, { write: (line) => logged.push(JSON.parse(line)) }),
    });
    url = await app.listen();
  });
  const send = async ({ flowId, headers }: Case) => {
    const traceId = randomBytes(16).toString('hex');
    const traceparent = `00-${traceId}-${randomBytes(8).toString('hex')}-01`;
    const response = await fetch(`${url}/flows/api/webhook/${flowId}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', traceparent, ...headers },
      body: BODY,
    });
    return { traceId, response, answer: (await response.json()) as Record<string, unknown> };
  };
  const counted = async (flowId: string) => {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    return metrics
      .split('\n')
      .filter((line) => /^webhook_(received|rejected)_total/.test(line) && line.includes(flowId));
  };
  const stats = () =>
    getJson<{ counts: Record<string, number>; accepted: number; rejected: number }>(`${url}/flows/api/webhooks/stats`);

  it.each(TABLE.map((entry) => [entry.row.gate, entry.is, entry] as const))(
    'the gate "%s" that %s',
    async (_gate, is, entry) => {
      const { row, flowId } = entry;
      if (row.isSecond === true && is !== 'passes') expect((await send(entry)).response.status).toBe(200);
      const [before, eventsBefore, countedBefore] = [await stats(), logged.length, await counted(flowId)];
      const { traceId, response, answer } = await send(entry);

      const hasFailed = is === 'fails';
      const isRefused = hasFailed && mode === 'Enforce';
      const isHeard = hasFailed && mode !== 'Off';
      expect(response.status).toBe(isRefused ? row.statusCode : 200);
      expect(response.headers.get('retry-after')).toBeNull();
      if (isRefused) expect(answer).toMatchObject({ statusCode: row.statusCode, reason: row.reason });
      else expect(Object.keys(answer)).toEqual(['runId', 'deliveryId']);

      const [record] = await getJson<object[]>(`${url}/flows/api/webhooks/recent?flowId=${flowId}&take=1`);
      expect(record).toMatchObject({
        mode,
        rejected: hasFailed,
        enforced: isRefused,
        statusCode: response.status,
        reason: hasFailed ? row.reason : null,
        violations: hasFailed ? [row.reason] : [],
        body: BODY,
        runId: isRefused ? null : answer.runId,
      });

      const after = await stats();
      const added = (reason: string) => (after.counts[reason] ?? 0) - (before.counts[reason] ?? 0);
      expect(added(row.reason)).toBe(hasFailed ? 1 : 0);
      expect([after.accepted - before.accepted, after.rejected - before.rejected]).toEqual(hasFailed ? [0, 1] : [1, 0]);

      const events = logged.slice(eventsBefore).flatMap(({ eventId = 0 }) => (eventId >= 4000 ? [eventId] : []));
      expect(events).toEqual([...(isHeard ? [row.eventId] : []), ...(isRefused ? [] : [4007])]);

      const lines = await counted(flowId);
      const scheme = entry.inputs.webhookSignatureScheme ?? 'none';
      const result = isRefused ? 'rejected' : 'accepted';
      expect(lines.some((line) => line.includes(`result="${result}",scheme="${scheme}"`))).toBe(true);
      const rejections = (all: string[]) => all.filter((line) => line.startsWith('webhook_rejected_total'));
      expect(rejections(countedBefore)).toEqual([]);
      expect(rejections(lines)).toEqual(
        isHeard ? [`webhook_rejected_total{flow="${flowId}",reason="${row.reason}"} 1`] : [],
      );

      const span = spans().find((it) => it.spanContext().traceId === traceId && it.kind === SpanKind.SERVER);
      expect(span?.name).toBe('flow.webhook.receive');
      const { 'flow.webhook.replay_skew_ms': skewMs, ...tags } = span?.attributes ?? {};
      const retryAfter = { 'flow.webhook.rate_limit.retry_after_ms': expect.any(Number) };
      expect(tags).toEqual({
        'flow.webhook.scheme': scheme,
        'flow.webhook.client_ip': '127.0.0.1',
        'flow.webhook.result': result,
        'http.request.method': 'POST',
        'http.route': '/flows/api/webhook/{idOrSlug}',
        'http.response.status_code': response.status,
        'url.scheme': 'http',
        'url.path': `/flows/api/webhook/${flowId}`,
        'server.address': '127.0.0.1',
        'server.port': Number(new URL(url).port),
        'client.address': '127.0.0.1',
        'network.peer.address': '127.0.0.1',
        ...(isHeard ? { 'flow.webhook.reject_reason': row.reason } : {}),
        ...(isHeard && row.reason === 'rate_limited' ? retryAfter : {}),
      });
      const hasTime = entry.inputs.webhookTimestampHeader !== undefined && 'x-time' in entry.headers;
      expect(typeof skewMs).toBe(hasTime ? 'number' : 'undefined');
    },
  );
});
