import { createHmac, randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import type { Delivery, HostileFlow, Target } from './hostile-service.ts';

/** A row proves what it claims. */
export interface Attack {
  readonly title: string;
  readonly run: (target: Target) => Promise<void>;
}

const STANDARD_KEY = Buffer.from('thirty-two bytes of a shared key').toString('base64');
const TWITCH_KEY = 'a twitch secret of some length';
const SQUARE_KEY = 'a square signature key';
const TWILIO_KEY = '12345678901234567890123456789012';
const PUBLIC_URL = 'https://hooks.example.com/flows/api/webhook';

export const sign = (algorithm: string, key: string | Buffer, bytes: string) =>
  createHmac(algorithm, key).update(bytes);
export const JSON_TYPE = { 'content-type': 'application/json' };
export const FORM_TYPE = { 'content-type': 'application/x-www-form-urlencoded' };

/** What the attacks are made on. */
export const REPLAY_FLOWS: readonly HostileFlow[] = [
  {
    slug: 'standard',
    inputs: {
      webhookSignatureScheme: 'StandardWebhooks',
      webhookHmacKey: `whsec_${STANDARD_KEY}`,
      webhookNonceHeader: 'webhook-id',
      webhookReplayToleranceSeconds: 300,
    },
  },
  {
    slug: 'twilio',
    inputs: {
      webhookSignatureScheme: 'Twilio',
      webhookHmacKey: TWILIO_KEY,
      webhookPublicUrl: `${PUBLIC_URL}/twilio`,
      webhookReplayToleranceSeconds: 300,
    },
  },
  {
    slug: 'twitch',
    inputs: {
      webhookSignatureScheme: 'Twitch',
      webhookHmacKey: TWITCH_KEY,
      webhookNonceHeader: 'Twitch-Eventsub-Message-Id',
      webhookReplayToleranceSeconds: 60,
    },
  },
  {
    slug: 'square',
    inputs: {
      webhookSignatureScheme: 'Square',
      webhookHmacKey: SQUARE_KEY,
      webhookPublicUrl: `${PUBLIC_URL}/square`,
      webhookReplayToleranceSeconds: 300,
    },
  },
  { slug: 'square-by-host', inputs: { webhookSignatureScheme: 'Square', webhookHmacKey: SQUARE_KEY } },
];

/** Sends the genuine delivery, then everything that was made of it: one run, whatever is sent. */
async function onlyOnce(target: Target, genuine: Delivery, forged: readonly Delivery[]): Promise<void> {
  const before = await target.runsOf(genuine.slug);
  expect(await target.send(genuine)).toMatchObject({ statusCode: 200 });
  for (const delivery of forged) {
    const { statusCode } = await target.send(delivery);
    expect(statusCode, `${delivery.query ?? ''} ${JSON.stringify(delivery.headers)} ${delivery.body}`).not.toBe(200);
  }
  expect(await target.runsOf(genuine.slug)).toBe(before + 1);
}

/**
 * One captured delivery sent again in every other way that its signature allows. Times are those of the machine, whose clock
 * the service has.
 */
export const REPLAYS: readonly Attack[] = [
  {
    title: 'a StandardWebhooks delivery under the other family of headers, or with a further id beside them',
    async run(target) {
      const [id, at, body] = [`msg_${randomUUID()}`, String(Math.floor(Date.now() / 1000)), '{"type":"invoice.paid"}'];
      const digest = sign('sha256', Buffer.from(STANDARD_KEY, 'base64'), `${id}.${at}.${body}`).digest('base64');
      const family = (name: string) => ({
        [`${name}-id`]: id,
        [`${name}-timestamp`]: at,
        [`${name}-signature`]: `v1,${digest}`,
      });
      const send = (headers: Record<string, string>): Delivery => ({
        slug: 'standard',
        body,
        headers: { ...JSON_TYPE, ...headers },
      });
      await onlyOnce(target, send(family('webhook')), [
        send(family('webhook')),
        send(family('svix')),
        ...[1, 2, 3].map(() => send({ ...family('svix'), 'webhook-id': randomUUID() })),
        send({ ...family('webhook'), 'svix-id': randomUUID() }),
      ]);
    },
  },
  {
    title: 'a Twilio form written in another way',
    async run(target) {
      const url = `${PUBLIC_URL}/twilio`;
      const digest = sign('sha1', TWILIO_KEY, `${url}Aa bBodyhi thereFrom+1555`).digest('base64');
      const send = (body: string): Delivery => ({
        slug: 'twilio',
        body,
        headers: { ...FORM_TYPE, 'x-twilio-signature': digest },
      });
      await onlyOnce(
        target,
        send('A=a+b&Body=hi+there&From=%2B1555'),
        [
          'From=%2B1555&A=a+b&Body=hi+there',
          'A=a%20b&Body=hi%20there&From=%2B1555',
          'A=a+b&A=a+b&Body=hi+there&From=%2B1555',
          'A=a+b&&Body=hi+there&From=%2B1555',
          'Aa=+b&Body=hi+there&From=%2B1555',
          'A=a+b&Body=hi+there&From=%2b1555',
          'A=a+b&Body=hi+there&From=%2B1555&',
        ].map(send),
      );
    },
  },
  {
    title: 'a Twitch delivery whose boundaries between id, timestamp and body are moved',
    async run(target) {
      const [id, at, body] = [randomUUID(), new Date().toISOString(), '{"subscription":{}}'];
      const digest = sign('sha256', TWITCH_KEY, `${id}${at}${body}`).digest('hex');
      const send = (parts: { id: string; at: string; body: string }): Delivery => ({
        slug: 'twitch',
        body: parts.body,
        headers: {
          'twitch-eventsub-message-id': parts.id,
          'twitch-eventsub-message-timestamp': parts.at,
          'twitch-eventsub-message-type': 'notification',
          'twitch-eventsub-message-signature': `sha256=${digest}`,
        },
      });
      const all = `${id}${at}${body}`;
      const cut = (first: number, second: number) => ({
        id: all.slice(0, first),
        at: all.slice(first, second),
        body: all.slice(second),
      });
      const [endOfId, endOfTime] = [id.length, id.length + at.length];
      const moved = [-4, -3, -2, -1, 1, 2, 3, 4].flatMap((by) => [
        cut(endOfId + by, endOfTime),
        cut(endOfId, endOfTime + by),
        cut(endOfId + by, endOfTime + by),
      ]);
      await onlyOnce(target, send({ id, at, body }), moved.map(send));
    },
  },
  {
    title: 'a Twitch delivery of an hour ago whose body names a time of now',
    async run(target) {
      const [id, at, now] = [randomUUID(), new Date(Date.now() - 3_600_000).toISOString(), new Date().toISOString()];
      const body = `{"at":"${now}"}`;
      const digest = sign('sha256', TWITCH_KEY, `${id}${at}${body}`).digest('hex');
      const send = (idSent: string, time: string, rest: string) =>
        target.send({
          slug: 'twitch',
          body: rest,
          headers: {
            'twitch-eventsub-message-id': idSent,
            'twitch-eventsub-message-timestamp': time,
            'twitch-eventsub-message-signature': `sha256=${digest}`,
          },
        });
      const before = await target.runsOf('twitch');
      expect(await send(id, at, body)).toMatchObject({ statusCode: 401, reason: 'timestamp_skew' });
      expect(await send(`${id}${at}{"at":"`, now, '"}')).toMatchObject({ statusCode: 401 });
      expect(await target.runsOf('twitch')).toBe(before);
    },
  },
  {
    title: 'a Host that holds the front of a Square body, where no public URL is configured',
    async run(target) {
      const path = '/flows/api/webhook/square-by-host';
      const digest = sign('sha256', SQUARE_KEY, `http://a${path}{"link":"${path}","x":1}`).digest('base64');
      const body = '","x":1}';
      const answer = await target.wire(
        `POST ${path} HTTP/1.1\r\nhost: a${path}{"link":"\r\nconnection: close\r\ncontent-length: ${body.length}\r\n` +
          `x-square-hmacsha256-signature: ${digest}\r\n\r\n${body}`,
      );
      expect(answer).toMatch(/^HTTP\/1\.1 400 /);
      expect(await target.runsOf('square-by-host')).toBe(0);
    },
  },
  {
    title: 'a Square delivery with a piece moved between URL and body',
    async run(target) {
      const body = '?src=a{"event_id":"1"}';
      const digest = sign('sha256', SQUARE_KEY, `${PUBLIC_URL}/square${body}`).digest('base64');
      const send = (query: string, rest: string): Delivery => ({
        slug: 'square',
        query,
        body: rest,
        headers: { 'x-square-hmacsha256-signature': digest },
      });
      await onlyOnce(target, send('', body), [
        send('?src=a', '{"event_id":"1"}'),
        send('?src=', 'a{"event_id":"1"}'),
        send('?', 'src=a{"event_id":"1"}'),
      ]);
    },
  },
];
