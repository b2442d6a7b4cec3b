import { createHash } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { BODIES, BODY_FLOWS, JSON_TYPE } from './hostile-bodies.ts';
import { type HostileFlow, startTarget, type Target } from './hostile-service.ts';
import { getJson } from './service.ts';

const FLOWS: readonly HostileFlow[] = [
  ...BODY_FLOWS,
  { slug: 'limited', inputs: { webhookRateLimitPermitsPerSecond: 0.001, webhookRateLimitBurstSize: 2 } },
];

/** A row proves what it claims. */
interface Attack {
  readonly title: string;
  readonly run: (target: Target) => Promise<void>;
}

/** The run of each hostile body ends and can be viewed. Where it would cost too much, the named limit stops it. */
const FREEZES: readonly Attack[] = BODIES.map(([title, delivery, limit = '']) => ({
  title,
  async run(target) {
    const { statusCode, runId } = await target.send(delivery);
    expect(statusCode).toBe(200);
    await target.endedRuns(delivery.slug);
    const { steps } = await getJson<{ steps: { error: { message: string } | null }[] }>(
      `${target.service.url}/flows/api/runs/${runId}`,
    );
    expect(steps.map(({ error }) => error?.message ?? '').join()).toContain(limit);
  },
}));

const POST = (headers: string, body = '') => `POST /flows/api/webhook/push HTTP/1.1\r\n${headers}\r\n${body}`;
const CLOSE = 'host: localhost\r\nconnection: close\r\n';

/** Requests that no client library would send: each is answered with 4xx or cut, never accepted. */
const WIRE: readonly (readonly [string, string])[] = [
  ['two lengths that differ', POST(`${CLOSE}content-length: 2\r\ncontent-length: 4\r\n`, '{}{}')],
  ['a length and chunks', POST(`${CLOSE}content-length: 5\r\ntransfer-encoding: chunked\r\n`, '0\r\n\r\n')],
  ['a negative length', POST(`${CLOSE}content-length: -1\r\n`)],
  ['a length that is no number', POST(`${CLOSE}content-length: 0x10\r\n`)],
  ['chunks of an odd size', POST(`${CLOSE}transfer-encoding: chunked\r\n`, 'ZZ\r\nabc\r\n0\r\n\r\n')],
  ['a host with a path', POST('host: a/../b?c=d\r\nconnection: close\r\ncontent-length: 2\r\n', '{}')],
  ['a host in quotes', POST('host: "evil"\r\nconnection: close\r\ncontent-length: 2\r\n', '{}')],
  ['no host', POST('connection: close\r\ncontent-length: 2\r\n', '{}')],
  ['a header with a line feed', POST(`${CLOSE}x-a: b\n x-c: d\r\ncontent-length: 2\r\n`, '{}')],
  ['a header with a NUL', POST(`${CLOSE}x-a: b\0c\r\ncontent-length: 2\r\n`, '{}')],
  ['100 KiB of headers', POST(`${CLOSE}x-a: ${'b'.repeat(100_000)}\r\ncontent-length: 2\r\n`, '{}')],
  ['5 000 headers', POST(`${CLOSE}${'x: y\r\n'.repeat(5000)}content-length: 2\r\n`, '{}')],
  ['a path of dots', 'POST /flows/api/webhook/%2e%2e%2fflows HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n'],
  ['a path with a NUL', 'POST /flows/api/webhook/%00 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n'],
  ['a broken escape', 'POST /flows/api/webhook/%zz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n'],
  [
    'a path of 10 KiB',
    `POST /flows/api/webhook/${'a'.repeat(10_240)} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`,
  ],
  ['no HTTP at all', `${createHash('sha512').update('noise').digest('base64')}\r\n\r\n`],
  ['TLS where none is spoken', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
];

const REQUESTS: readonly Attack[] = WIRE.map(([title, text]) => ({
  title,
  async run(target) {
    const before = await target.runsOf('push');
    const answer = await target.wire(text);
    expect(answer).toMatch(/^(HTTP\/1\.1 4\d\d .*|)$/m);
    expect(answer).not.toMatch(/^HTTP\/1\.1 200/m);
    expect(await target.runsOf('push')).toBe(before);
  },
}));

const EXHAUSTION: readonly Attack[] = [
  {
    title: '256 sockets that announce a body and send none',
    async run(target) {
      for (let count = 0; count < 256; count += 1) await target.hold(POST('host: a\r\ncontent-length: 1048576\r\n'));
      expect(await target.send(target.honest())).toMatchObject({ statusCode: 200 });
    },
  },
  {
    title: '256 sockets that announce chunks and send none',
    async run(target) {
      for (let count = 0; count < 256; count += 1) await target.hold(POST('host: a\r\ntransfer-encoding: chunked\r\n'));
      expect(await target.send(target.honest())).toMatchObject({ statusCode: 200 });
    },
  },
  {
    title: '300 sockets that send nothing, and 300 that stop within their headers',
    async run(target) {
      for (let count = 0; count < 300; count += 1) {
        await target.hold('');
        await target.hold('POST /flows/api/webhook/push HTTP/1.1\r\nhost: a\r\nx-a: ');
      }
      expect(await target.send(target.honest())).toMatchObject({ statusCode: 200 });
    },
  },
  {
    title: 'one client that holds 80 bodies of 1 MiB each without their last byte',
    async run(target) {
      const head = POST('host: a\r\nx-forwarded-for: 203.0.113.9\r\ncontent-length: 1048576\r\n');
      for (let count = 0; count < 80; count += 1) await target.hold(`${head}${'x'.repeat(1_048_575)}`);
      expect(await target.send(target.honest())).toMatchObject({ statusCode: 200 });
    },
  },
  {
    title: 'GET and HEAD of a stranger before the publisher comes',
    async run(target) {
      const about = { slug: 'limited', headers: JSON_TYPE, body: '{}' };
      for (const method of ['GET', 'HEAD', 'GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS']) {
        expect((await target.send({ ...about, method })).statusCode).not.toBe(200);
      }
      expect(await target.send(about)).toMatchObject({ statusCode: 200 });
    },
  },
];

/**
 * Attacks by strangers, one per row, over real sockets against the built service under Enforce. A row proves its claim;
 * after each one the suite proves that the process lives and still accepts an honest delivery. `npm run bench:hostile`
 * measures the processor time of its bodies.
 */
const ATTACKS = { FREEZES, REQUESTS, EXHAUSTION };

let target: Awaited<ReturnType<typeof startTarget>>;
beforeAll(async () => {
  // Each address in the X-Forwarded-For of a row counts as a separate sender.
  target = await startTarget(FLOWS, { SLUICE_TRUSTED_PROXIES: '127.0.0.1' });
});
afterEach(() => target.releaseSockets());
afterAll(() => target.close());

describe.each(Object.entries(ATTACKS))('%s', (_, attacks) => {
  it.each(attacks)('withstands $title', async ({ run }) => {
    await run(target);
    expect(await target.send(target.honest())).toMatchObject({ statusCode: 200 });
    expect(target.service.child.exitCode).toBe(null);
  });
});
