import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import pino from 'pino';
import { beforeEach, describe, expect, it } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import type { EnforcementMode } from '../../src/model/manifest.ts';
import { EVENTS, type EventName, logEvent } from '../../src/telemetry/events.ts';
import { buildApp } from '../database.ts';
import { createWorkspace, type Workspace } from '../e2e/service.ts';

const operate = readFileSync(join(import.meta.dirname, '../../docs/operate.md'), 'utf8');
const rowsOf = (first: RegExp) =>
  operate.split('\n').flatMap((line) => {
    const cells = line.split('|').map((cell) => cell.trim().replaceAll('`', ''));
    // A row has four cells and the two ends; the table of step error codes has fewer.
    return cells.length === 6 && first.test(cells[1] ?? '') ? [cells.slice(1, -1)] : [];
  });

describe('an event', () => {
  const logged: { level: number; eventId: number; eventName: string }[] = [];
  const logger = pino({ level: 'debug' }, { write: (line) => logged.push(JSON.parse(line)) });

  it.each<[EventName, number, string]>([
    ['RunStarted', 1000, 'info'],
    ['RunCompleted', 1001, 'info'],
    ['TriggerRejectedDisabledFlow', 1010, 'warn'],
    ['FailureFlowNotStarted', 1011, 'error'],
    ['StepStarted', 2000, 'debug'],
    ['StepCompleted', 2001, 'debug'],
    ['StepFailed', 2002, 'warn'],
    ['StepSkipped', 2003, 'info'],
    ['WhenEvaluationFailed', 2005, 'warn'],
    ['DispatchEnqueued', 3000, 'debug'],
    ['WebhookSignatureRejected', 4001, 'warn'],
    ['WebhookReplayRejected', 4002, 'warn'],
    ['WebhookRateLimited', 4003, 'warn'],
    ['WebhookIpDenied', 4005, 'warn'],
    ['WebhookDeliveryAccepted', 4007, 'info'],
    ['WebhookRejectionStoreFailed', 4008, 'error'],
    ['WebhookSecretRotationUsedPrevious', 4010, 'warn'],
    ['WebhookConflictingKeyFields', 4011, 'warn'],
    ['Intervention', 5000, 'info'],
  ])('%s has the id %i and the level %s', (eventName, eventId, level) => {
    logEvent(logger, eventName, {});
    expect(logged.at(-1)).toMatchObject({ eventId, eventName, level: pino.levels.values[level] });
  });

  it('is in the docs as it is logged, and so is every other', () => {
    const documented = rowsOf(/^\d{4}$/).map(([eventId, name, level]) => [name, { eventId: Number(eventId), level }]);
    expect(Object.fromEntries(documented)).toEqual(EVENTS);
  });
});

describe.each(['Off', 'Audit', 'Enforce'] satisfies EnforcementMode[])('under %s', (mode) => {
  const flowId = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10';
  const key = 'the previous key, long enough to be one';
  const logged: { eventId?: number }[] = [];
  let workspace: Workspace;
  let app: SluiceApp;
  beforeEach(async () => {
    logged.length = 0;
    workspace = await createWorkspace();
    const keys = { webhookHmacKey: 'the present key, long enough to be one', webhookHmacKeyPrevious: key };
    const inputs = { webhookSlug: 'hook', webhookSignatureScheme: 'Slack', webhookSecret: 'legacy', ...keys };
    const manifest = { id: flowId, version: '1', triggers: { hook: { type: 'webhook', inputs } }, steps: {} };
    await workspace.writeManifest('hook.json', manifest);
    app = await buildApp({
      settings: { enforcementMode: mode, databaseUrl: 'sqlite::memory:' },
      folder: workspace.folder,
      logger: pino({}, { write: (line) => logged.push(JSON.parse(line)) }),
    });
    await app.fastify.ready();
  });
  const webhookEvents = () => logged.flatMap(({ eventId = 0 }) => (eventId >= 4000 ? [eventId] : []));
  const send = (body: string, signingKey: string) => {
    const time = String(Math.trunc(Date.now() / 1000));
    const digest = createHmac('sha256', signingKey).update(`v0:${time}:${body}`).digest('hex');
    const headers = { 'x-slack-request-timestamp': time, 'x-slack-signature': `v0=${digest}` };
    return app.fastify.inject({
      method: 'POST',
      url: '/flows/api/webhook/hook',
      body,
      headers: { 'content-type': 'application/json', ...headers },
    });
  };

  it('two key fields, a previous key and an accepted delivery are logged', async () => {
    expect((await send('{}', key)).statusCode).toBe(200);
    expect(webhookEvents()).toEqual([4011, 4010, 4007]);
  });

  it('a handshake that is refused is logged unless the mode is Off', async () => {
    const before = webhookEvents().length;
    expect((await send('{"type":"url_verification","challenge":"c"}', 'another key')).statusCode).toBe(401);
    expect(webhookEvents().slice(before)).toEqual(mode === 'Off' ? [] : [4001]);
  });
});
