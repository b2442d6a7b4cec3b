import { createHmac } from 'node:crypto';
import pino from 'pino';
import { beforeAll, describe, expect, it } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import type { EnforcementMode } from '../../src/model/manifest.ts';
import { buildApp } from '../database.ts';
import { createWorkspace, type Workspace } from '../e2e/service.ts';

const KEY = 'key of the publisher';
const hex = (text: string) => createHmac('sha256', KEY).update(text).digest('hex');
const LINEAR_BODY = '{"webhookTimestamp":"soon"}';

interface Row {
  readonly scheme: string;
  readonly inputs?: WebhookInputs;
  readonly body?: string;
  readonly headers?: Record<string, string>;
  readonly violations: readonly string[];
  readonly events: readonly number[];
}

const strict: WebhookInputs = { webhookRequireTimestamp: true };
const ROWS: Record<string, Row> = {
  'a signed timestamp that is none': {
    scheme: 'Slack',
    headers: { 'x-slack-request-timestamp': 'soon', 'x-slack-signature': `v0=${hex('v0:soon:{}')}` },
    violations: ['timestamp_malformed'],
    events: [4002],
  },
  'a signed timestamp of a list that is none': {
    scheme: 'Stripe',
    headers: { 'stripe-signature': `t=soon,v1=${hex('soon.{}')}` },
    violations: ['timestamp_malformed'],
    events: [4002],
  },
  'a signed timestamp of the body that is none': {
    scheme: 'Linear',
    body: LINEAR_BODY,
    headers: { 'linear-signature': hex(LINEAR_BODY) },
    violations: ['timestamp_malformed'],
    events: [4002],
  },
  'a signed timestamp that is absent': {
    scheme: 'Slack',
    inputs: strict,
    headers: { 'x-slack-signature': `v0=${hex('v0:1:{}')}` },
    violations: ['timestamp_missing'],
    events: [4002],
  },
  'a timestamp of the body that is absent': {
    scheme: 'Linear',
    inputs: strict,
    headers: { 'linear-signature': hex('{}') },
    violations: ['timestamp_missing'],
    events: [4002],
  },
  'a header that would hold signature and timestamp': {
    scheme: 'Stripe',
    inputs: strict,
    violations: ['signature_missing'],
    events: [4001],
  },
  'two headers that are absent': {
    scheme: 'Slack',
    inputs: strict,
    violations: ['signature_missing', 'timestamp_missing'],
    events: [4001, 4002],
  },
  'a wrong signature and an unsigned timestamp that is absent': {
    scheme: 'GitHub',
    inputs: { ...strict, webhookTimestampHeader: 'X-Time' },
    headers: { 'x-hub-signature-256': `sha256=${hex('another body')}` },
    violations: ['signature_mismatch', 'timestamp_missing'],
    events: [4001, 4002],
  },
  'a wrong signature of what is no JSON': {
    scheme: 'GitHub',
    body: '{',
    headers: { 'x-hub-signature-256': `sha256=${hex('another body')}`, 'content-type': 'application/json' },
    violations: ['signature_mismatch', 'invalid_json'],
    events: [4001],
  },
};

describe.each(['Off', 'Audit', 'Enforce'] satisfies EnforcementMode[])('under %s', (mode) => {
  let workspace: Workspace;
  let app: SluiceApp;
  const logged: { eventId?: number; level?: number }[] = [];
  beforeAll(async () => {
    workspace = await createWorkspace();
    const triggers = Object.entries(ROWS).map(([name, { scheme, inputs }], at) => [
      name,
      {
        type: 'webhook',
        inputs: {
          webhookSlug: `hook-${at}`,
          webhookSignatureScheme: scheme,
          webhookHmacKey: KEY,
          webhookReplayToleranceSeconds: 300,
          ...inputs,
        },
      },
    ]);
    const manifest = {
      id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10',
      version: '1',
      triggers: Object.fromEntries(triggers),
    };
    await workspace.writeManifest('hook.json', manifest);
    app = await buildApp({
      settings: { enforcementMode: mode, databaseUrl: 'sqlite::memory:' },
      folder: workspace.folder,
      logger: pino({}, { write: (line) => logged.push(JSON.parse(line)) }),
    });
    await app.fastify.ready();
  });
  it.each(Object.entries(ROWS).map(([name, row], at) => [name, row, at] as const))(
    '%s is listed once, logged once and failed by one gate',
    async (_, { headers = {}, body = '{}', violations, events }, at) => {
      const before = logged.length;
      const url = `/flows/api/webhook/hook-${at}`;
      const answer = await app.fastify.inject({
        method: 'POST',
        url,
        body,
        headers: { 'content-type': 'text/plain', ...headers },
      });
      const isEnforced = mode === 'Enforce';
      const expected = isEnforced ? violations.slice(0, 1) : violations;
      const [{ id }] = (await app.fastify.inject('/flows/api/webhooks/recent?take=1')).json();
      const delivery = (await app.fastify.inject(`/flows/api/webhooks/${id}`)).json();
      expect(delivery.violations).toEqual(expected);
      const failed = delivery.gateResults.filter(({ outcome }: { outcome: string }) => outcome === 'failed');
      expect(failed.map(({ reason }: { reason: string }) => reason)).toEqual(expected);
      const heard = logged.slice(before).flatMap(({ eventId = 0 }) => (eventId >= 4000 ? [eventId] : []));
      const refusals = mode === 'Off' ? [] : isEnforced ? events.slice(0, 1) : events;
      expect(heard).toEqual([...refusals, ...(answer.statusCode === 200 ? [4007] : [])]);
    },
  );
});
