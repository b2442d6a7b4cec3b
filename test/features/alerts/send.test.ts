import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { inspect } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type AlertMessage, chatBody, printableMessage } from '../../../src/features/alerts/message.ts';
import { createAlertSender, createSendAlertHandler } from '../../../src/features/alerts/send.ts';
import { readAlerts } from '../../../src/features/alerts/targets.ts';
import type { StepContext } from '../../../src/flows/handlers/handler.ts';
import { secretReader } from '../../../src/manifest/read-secret.ts';
import { createIdSource } from '../../../src/model/ids.ts';
import { Webhook } from '../../oracles/standard-webhooks.ts';
import { mailServer } from './mail-server.ts';

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const message: AlertMessage = {
  text: 'Sluice: 14 problems need attention',
  link: 'https://ops.example.com/flows',
  lines: [
    { text: 'A run of A & B failed at book: <!channel> *no* @everyone', link: 'https://ops.example.com/flows/runs/1' },
    { text: 'The disk is full', link: null },
  ],
  more: 12,
};

interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A receiver on this machine; returns its URL and the requests it got. */
async function receiver(answer = (response: ServerResponse) => void response.end('ok')) {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (piece) => {
      body += piece;
    });
    request.on('end', () => {
      received.push({ path: request.url ?? '', headers: request.headers, body });
      answer(response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    received,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/services/T0/canary-path-0123456789`,
  };
}

/** Sends one message to a target. */
async function send(
  target: object,
  { egressAllow = ['127.0.0.1'], env = {} as Record<string, string>, id = 'run:send', given = message } = {},
) {
  const readSecret = secretReader({ env, baseFolder: '/' });
  const read = readAlerts({ targets: { ops: target } }, readSecret);
  if ('lines' in read) throw new Error(read.lines.join());
  const sender = createAlertSender({
    targets: () => read.alerts.targets,
    service: 'shop-prod',
    readSecret,
    egressAllow,
  });
  const { signal } = new AbortController();
  const result = await sender({ target: 'ops', message: given, idempotencyKey: id, now: Date.now, signal });
  expect(JSON.stringify(result)).not.toContain('canary');
  return result;
}

describe('a message to a chat', () => {
  it('of Slack escapes what it is told, and links', async () => {
    const { received, url } = await receiver();
    expect(await send({ type: 'slack', url })).toEqual({ kind: 'succeeded', output: { status: 200, answer: 'ok' } });
    expect(JSON.parse(received[0]?.body ?? '')).toEqual({
      text: [
        'Sluice: 14 problems need attention <https://ops.example.com/flows|open>',
        '• A run of A &amp; B failed at book: &lt;!channel&gt; *no* @everyone <https://ops.example.com/flows/runs/1|open>',
        '• The disk is full',
        '… and 12 more',
      ].join('\n'),
    });
    expect(received[0]?.headers['content-type']).toBe('application/json');
  });

  it('of Discord rings nobody and fits in', async () => {
    const { received, url } = await receiver();
    await send({ type: 'discord', url });
    const { content, allowed_mentions: mentions } = JSON.parse(received[0]?.body ?? '');
    expect(content).toContain('\\<!channel\\> \\*no\\* @everyone');
    expect(content.length).toBeLessThanOrEqual(2000);
    expect(mentions).toEqual({ parse: [] });
  });

  it('of Teams is an Adaptive Card', async () => {
    const { received, url } = await receiver();
    await send({ type: 'teams', url });
    const { type, attachments } = JSON.parse(received[0]?.body ?? '');
    expect(type).toBe('message');
    expect(attachments).toMatchObject([
      {
        contentType: 'application/vnd.microsoft.card.adaptive',
        content: {
          type: 'AdaptiveCard',
          body: [
            { text: 'Sluice: 14 problems need attention' },
            {},
            { text: '- The disk is full' },
            { text: '… and 12 more' },
          ],
          actions: [{ type: 'Action.OpenUrl', url: 'https://ops.example.com/flows' }],
        },
      },
    ]);
  });
});

describe('a message to a program', () => {
  it('is signed as Standard Webhooks has it, with the same id for each try', async () => {
    const { received, url } = await receiver();
    const env = { URL: url, SECRET };
    await send({ type: 'json', url: 'env:URL', secret: 'env:SECRET' }, { env });
    await send({ type: 'json', url: 'env:URL', secret: 'env:SECRET' }, { env });
    for (const { body, headers } of received) {
      const verified = new Webhook(SECRET).verify(body, headers as Record<string, string>);
      expect(verified).toMatchObject({
        type: 'sluice.alert',
        data: {
          service: 'shop-prod',
          text: message.text,
          more: 12,
          lines: [{ link: 'https://ops.example.com/flows/runs/1' }, { link: null }],
        },
      });
    }
    expect(received.map(({ headers }) => headers['webhook-id'])).toEqual(['run:send', 'run:send']);
    expect(received.map(({ path }) => path)).toEqual(Array(2).fill('/services/T0/canary-path-0123456789'));
  });
});

describe('a message to a pager', () => {
  const about: AlertMessage['alert'] = {
    status: 'firing',
    kind: 'run.failed',
    severity: 'error',
    flow: { id: '6f2b1c1e-1111-4222-8333-444455556666', name: 'Orders' },
    trigger: 'shop',
    since: '2026-11-27T03:00:00.000Z',
    dedupKey: 'run.failed:0123456789abcdef',
  };
  const fires: AlertMessage = {
    text: 'A run of Orders failed',
    link: 'https://ops.example.com/x',
    lines: [],
    more: 0,
    alert: about,
  };
  const ends: AlertMessage = { ...fires, alert: { ...about, status: 'resolved' } };
  const env = { KEY: 'canary-key-0123456789abcdef012345' };

  it('is an event of PagerDuty that opens an incident, and one that closes it', async () => {
    const { received, url } = await receiver((response) => void response.writeHead(202).end('{"status":"success"}'));
    const target = { type: 'pagerduty', url, routingKey: 'env:KEY' };
    expect(await send(target, { env, given: fires })).toMatchObject({ kind: 'succeeded', output: { status: 202 } });
    await send(target, { env, given: ends });
    const [trigger, resolve] = received.map(({ body }) => JSON.parse(body));
    expect(trigger).toEqual({
      routing_key: env.KEY,
      event_action: 'trigger',
      dedup_key: about.dedupKey,
      client: 'Sluice',
      payload: {
        summary: 'shop-prod: A run of Orders failed',
        source: 'shop-prod',
        severity: 'error',
        timestamp: about.since,
        component: 'Orders',
        group: 'shop',
        class: 'run.failed',
        custom_details: { service: 'shop-prod', ...about, lines: [] },
      },
      links: [{ href: fires.link, text: 'Open in Sluice' }],
    });
    expect(resolve).toEqual({ routing_key: env.KEY, event_action: 'resolve', dedup_key: about.dedupKey });
  });

  it('is an alert of Opsgenie, which its alias closes', async () => {
    const { received, url } = await receiver((response) => void response.writeHead(202).end('{}'));
    const target = { type: 'opsgenie', url, apiKey: 'env:KEY' };
    const long = { ...fires, text: `A run of Orders failed: ${'x'.repeat(300)}` };
    expect(await send(target, { env, given: long })).toMatchObject({ kind: 'succeeded' });
    await send(target, { env, given: ends });
    const path = new URL(url).pathname;
    expect(received.map(({ path: called, headers }) => [called, headers.authorization])).toEqual([
      [path, `GenieKey ${env.KEY}`],
      [`${path}/run.failed%3A0123456789abcdef/close?identifierType=alias`, `GenieKey ${env.KEY}`],
    ]);
    const [created, closed] = received.map(({ body }) => JSON.parse(body));
    expect(created).toMatchObject({
      alias: about.dedupKey,
      entity: 'Orders/shop',
      source: 'shop-prod',
      priority: 'P1',
      tags: ['error', 'run.failed'],
      description: expect.stringContaining('https://ops.example.com/x'),
    });
    expect(created.message).toHaveLength(130);
    expect(closed).toEqual({ source: 'shop-prod', note: 'A run of Orders failed' });
  });

  it('of a step of a flow opens an incident of its own', async () => {
    const { received, url } = await receiver();
    await send({ type: 'pagerduty', url, routingKey: 'env:KEY' }, { env });
    expect(JSON.parse(received[0]?.body ?? '')).toMatchObject({
      event_action: 'trigger',
      dedup_key: 'run:send',
      payload: { summary: `shop-prod: ${message.text}`, custom_details: { lines: { length: 3 } } },
    });
  });

  it.each(['pagerduty', 'opsgenie'])('keeps its key to itself if %s echoes it', async (type) => {
    const { url } = await receiver((response) => void response.writeHead(400).end(`no ${env.KEY}`));
    const key = type === 'pagerduty' ? { routingKey: 'env:KEY' } : { apiKey: 'env:KEY' };
    expect(await send({ type, url, ...key }, { env, given: fires })).toMatchObject({
      kind: 'failed',
      retryable: false,
      output: { answer: 'no ***' },
    });
  });
});

/** Sends a message that was queued in 2023 twice, an hour apart, as its step does. */
async function sendTwice(target: object, env: Record<string, string> = {}): Promise<void> {
  const readSecret = secretReader({ env, baseFolder: '/' });
  const read = readAlerts({ targets: { ops: target } }, readSecret);
  if ('lines' in read) throw new Error(read.lines.join());
  const sender = createAlertSender({
    targets: () => read.alerts.targets,
    service: 'shop-prod',
    readSecret,
    egressAllow: ['127.0.0.1'],
  });
  const handler = createSendAlertHandler(sender);
  const runId = createIdSource(() => 1_700_000_000_123)();
  for (const at of [1_790_000_000_000, 1_790_003_600_000]) {
    const context = { inputs: { target: 'ops', ...message }, runId, idempotencyKey: `${runId}:send`, now: () => at };
    const result = await handler.run({ ...context, signal: new AbortController().signal } as unknown as StepContext);
    expect(result.kind).toBe('succeeded');
  }
}

describe('a message that is tried again', () => {
  it.each(['slack', 'discord', 'teams', 'json'])('keeps its bytes: to %s', async (type) => {
    const { received, url } = await receiver();
    const secret = type === 'json' ? { secret: 'env:SECRET' } : {};
    await sendTwice({ type, url: 'env:URL', ...secret }, { URL: url, SECRET });
    expect(received).toHaveLength(2);
    expect(new Set(received.map(({ body }) => body)).size).toBe(1);
  });

  it('has the time at which it was queued, signed anew for a program', async () => {
    const { received, url } = await receiver();
    await sendTwice({ type: 'json', url: 'env:URL', secret: 'env:SECRET' }, { URL: url, SECRET });
    expect(JSON.parse(received[0]?.body ?? '')).toMatchObject({ timestamp: '2023-11-14T22:13:20.123Z' });
    expect(new Set(received.map(({ headers }) => headers['webhook-timestamp'])).size).toBe(2);
  });

  it('keeps its bytes: as a mail, whose date is that at which it was queued', async () => {
    const { mails, target } = await mailServer();
    await sendTwice({ ...target, security: 'none' });
    expect(mails).toHaveLength(2);
    expect(new Set(mails.map(({ text }) => text)).size).toBe(1);
    expect(mails[0]?.text).toContain('Date: Tue, 14 Nov 2023 22:13:20 +0000');
  });
});

describe('what a sender put into a message', () => {
  it.each(['slack', 'teams', 'discord'] as const)('does not steer what shows it: %s', (type) => {
    const hostile = { ...message, text: 'a\u001b[31m\u009b\u202eb\u2066c', lines: [{ text: '\u0007\u200fd' }] };
    const shown = String(inspect(chatBody(type, printableMessage(hostile)), { depth: 9, breakLength: 1_000_000 }));
    expect(shown).not.toMatch(/[\u0080-\u009f\u200e-\u200f\u202a-\u202e\u2066-\u2069]|\\x[01]|\\x7F/);
    expect(shown).toContain('u202e');
  });

  it('is escaped where people read it, and left to programs', async () => {
    const { received, url } = await receiver();
    const hostile = { ...message, text: 'a\u202eb' };
    for (const target of [
      { type: 'slack', url: 'env:URL' },
      { type: 'json', url: 'env:URL', secret: 'env:SECRET' },
    ]) {
      await send(target, { env: { URL: url, SECRET }, given: hostile });
    }
    expect(received.map(({ body }) => body.includes('\u202e'))).toEqual([false, true]);
  });
});

describe('a receiver that does not take it', () => {
  it.each<[number, boolean]>([
    [500, true],
    [429, true],
    [404, false],
    [403, false],
  ])('with %i is tried again: %s', async (status, retryable) => {
    const { url } = await receiver((response) => void response.writeHead(status).end('no canary-path-0123456789'));
    expect(await send({ type: 'slack', url })).toMatchObject({
      kind: 'failed',
      code: 'unexpected_status',
      retryable,
      output: { status, answer: 'no ***' },
    });
  });

  it('with a redirect is not followed, wherever it leads', async () => {
    const { url, received } = await receiver(
      (response) => void response.writeHead(302, { location: 'http://10.0.0.1/' }).end(),
    );
    expect(await send({ type: 'slack', url })).toMatchObject({
      kind: 'failed',
      code: 'redirect_refused',
      retryable: false,
    });
    expect(received).toHaveLength(1);
  });

  it('is not called at a private address that the settings do not allow', async () => {
    const { url, received } = await receiver();
    expect(await send({ type: 'slack', url }, { egressAllow: [] })).toMatchObject({
      code: 'egress_refused',
      retryable: false,
    });
    const mail = { type: 'smtp', host: '127.0.0.1', port: 9, from: 'a@example.com', to: ['b@example.com'] };
    expect(await send(mail, { egressAllow: [] })).toMatchObject({ code: 'egress_refused', retryable: false });
    expect(received).toEqual([]);
  });

  it('because nobody listens is tried again', async () => {
    const mail = { type: 'smtp', host: '127.0.0.1', port: 9, from: 'a@example.com', to: ['b@example.com'] };
    expect(await send(mail)).toMatchObject({ kind: 'failed', code: 'network_error', retryable: true });
    expect(await send({ type: 'slack', url: 'http://127.0.0.1:9/' })).toMatchObject({
      code: 'network_error',
      retryable: true,
    });
  });
});

describe('a mail', () => {
  it('has a subject of one line, the text, and the same id for each try', async () => {
    const { mails, target } = await mailServer();
    expect(await send({ ...target, security: 'none' })).toMatchObject({ kind: 'succeeded', output: { status: null } });
    await send({ ...target, security: 'none' });
    expect(mails).toMatchObject(Array(2).fill({ from: 'sluice@example.com', to: ['a@example.com', 'b@example.com'] }));
    for (const { text } of mails) {
      expect(text).toContain('Subject: Sluice: 14 problems need attention');
      expect(text).toContain('Message-ID: <run.send@sluice>');
      expect(text.replaceAll('=\r\n', '')).toContain('12 more');
    }
  });

  it('gets no header and no direction of text from what a sender chose', async () => {
    const { mails, target } = await mailServer();
    const given = { ...message, text: 'a\r\nBcc: everybody@example.com\u202eb', lines: [{ text: '\u001b[2Jc\u2066' }] };
    expect(await send({ ...target, security: 'none' }, { given })).toMatchObject({ kind: 'succeeded' });
    const [{ to, text = '' } = {}] = mails;
    expect(to).toEqual(['a@example.com', 'b@example.com']);
    const [headers = ''] = text.split('\r\n\r\n');
    expect(headers).not.toMatch(/^Bcc:/m);
    expect(text.replaceAll('=\r\n', '')).toContain('\\u202eb');
    expect(text).toContain('\\u001b[2Jc\\u2066');
  });

  it('is not sent in plain text where the file asks for TLS', async () => {
    const { mails, target } = await mailServer();
    expect(await send({ ...target, security: 'starttls' })).toMatchObject({ kind: 'failed', retryable: false });
    expect(mails).toEqual([]);
  });

  it('is not sent over TLS whose certificate nobody vouches for', async () => {
    const { mails, target } = await mailServer({ disabledCommands: [] });
    const signed = { ...target, user: 'me', password: 'env:PASSWORD' };
    expect(await send(signed, { env: { PASSWORD: 'canary-password' } })).toMatchObject({ kind: 'failed' });
    expect(mails).toEqual([]);
  });

  it.each<[number, boolean]>([
    [450, true],
    [550, false],
  ])('that the server refuses with %i is tried again: %s', async (responseCode, retryable) => {
    const { target } = await mailServer({
      onMailFrom: (_address, _session, done) => done(Object.assign(new Error('go away'), { responseCode })),
    });
    const result = await send({ ...target, security: 'none' });
    expect(result).toMatchObject({
      kind: 'failed',
      code: 'unexpected_status',
      retryable,
      message: expect.stringContaining('go away'),
    });
  });
});
