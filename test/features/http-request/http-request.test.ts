import { describe, expect, it } from 'vitest';
import { StoreUnavailableError } from '../../../src/errors.ts';
import { createHttpRequestHandler, retryAfterMs } from '../../../src/features/http-request/http-request.ts';
import { call } from '../../flows/handlers/call.ts';
import { serve } from '../../flows/handlers/loopback-server.ts';

const NOW = Date.parse('2026-03-01T12:00:00Z');
const open = createHttpRequestHandler({ egressAllow: ['127.0.0.0/8'], now: () => NOW });

describe('the request', () => {
  it('is a GET with the idempotency key of the step', async () => {
    const { origin, received } = await serve((_request, response) => response.end());
    await call(open, { url: `${origin}/path?a=1%20b` });
    expect(received).toMatchObject([
      { method: 'GET', url: '/path?a=1%20b', headers: { 'idempotency-key': 'run:step', 'user-agent': 'sluice' } },
    ]);
    expect(received[0]?.body.length).toBe(0);
  });

  it('adds the query to that of the URL and leaves the URL as it was written', async () => {
    const { origin, received } = await serve((_request, response) => response.end());
    await call(open, { url: `${origin}/?sig=a%20b`, query: { n: 1, tag: ['x', 'y&z'], flag: true, none: null } });
    expect(received[0]?.url).toBe('/?sig=a%20b&n=1&tag=x&tag=y%26z&flag=true');
  });

  it('sends a body as JSON', async () => {
    const { origin, received } = await serve((_request, response) => response.end());
    await call(open, { url: origin, method: 'post', body: { a: [1, null] }, headers: { 'X-Count': 3 } });
    expect(received[0]).toMatchObject({
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-count': '3' },
    });
    expect(received[0]?.body.toString()).toBe('{"a":[1,null]}');
  });

  it.each([
    ['a text as JSON too', {}, '"a=b"'],
    ['a text as it is under another content type', { 'content-type': 'application/x-www-form-urlencoded' }, 'a=b'],
  ])('sends %s', async (_what, headers, sent) => {
    const { origin, received } = await serve((_request, response) => response.end());
    await call(open, { url: origin, method: 'POST', body: 'a=b', headers });
    expect(received[0]?.body.toString()).toBe(sent);
  });

  it('forwards the exact bytes, the content type and the content encoding of the trigger', async () => {
    const { origin, received } = await serve((_request, response) => response.end());
    const body = Buffer.from([0x7b, 0x20, 0xff, 0x00, 0x7d]);
    const trigger = {
      key: 'hook',
      body,
      contentType: 'application/x-odd; v=1',
      headers: { 'content-encoding': 'x-odd' },
    };
    await call(open, { url: origin, method: 'POST', forwardBody: true }, { trigger: async () => trigger });
    expect(received[0]?.headers['content-type']).toBe('application/x-odd; v=1');
    expect(received[0]?.headers['content-encoding']).toBe('x-odd');
    expect(received[0]?.body.equals(body)).toBe(true);
  });

  it('is not sent, and no failure of the other side, where the trigger cannot be read', async () => {
    const error = new StoreUnavailableError('the disk is full');
    const inputs = { url: 'http://127.0.0.1:1', method: 'POST', forwardBody: true };
    await expect(call(open, inputs, { trigger: () => Promise.reject(error) })).rejects.toBe(error);
  });

  it('lets the author set the idempotency key and the user agent', async () => {
    const { origin, received } = await serve((_request, response) => response.end());
    await call(open, { url: origin, headers: { 'Idempotency-Key': 'mine', 'User-Agent': 'me' } });
    expect(received[0]?.headers).toMatchObject({ 'idempotency-key': 'mine', 'user-agent': 'me' });
  });
});

describe('inputs', () => {
  it.each([
    ['no URL', { url: 'api.example.com' }, 'url'],
    ['a scheme other than http and https', { url: 'file:///etc/passwd' }, 'url'],
    ['credentials in the URL', { url: 'https://me:secret@example.com' }, 'url'],
    ['a method that opens a tunnel', { method: 'CONNECT' }, 'method'],
    ['a header that frames the message', { headers: { 'Transfer-Encoding': 'chunked' } }, 'headers.Transfer-Encoding'],
    ['a header value with a line break', { headers: { a: 'secret\r\nb: c' } }, 'headers.a'],
    ['a header given twice', { headers: { a: '1', A: '2' } }, 'headers.A'],
    ['a body without a method for it', { body: {} }, 'method'],
    ['two bodies', { method: 'POST', body: {}, forwardBody: true }, 'forwardBody'],
    ['a status that is none', { expectedStatuses: [999] }, 'expectedStatuses'],
    ['a range that runs backwards', { expectedStatuses: '299-200' }, 'expectedStatuses'],
    ['no time at all', { timeoutSeconds: 0 }, 'timeoutSeconds'],
    ['a misspelt name', { mehtod: 'POST' }, ''],
  ])('refuse %s', (_what, inputs, path) => {
    const parsed = open.inputs.safeParse({ url: 'https://example.com', ...inputs });
    expect(parsed.success).toBe(false);
    expect(parsed.error?.issues[0]?.path.join('.')).toContain(path);
    expect(JSON.stringify(parsed.error?.issues)).not.toContain('secret');
  });
});

describe('the answer', () => {
  it.each([
    ['JSON', 'application/json; charset=utf-8', '{"ok":true}', { ok: true }],
    ['JSON of a vendor', 'application/vnd.api+json', '[1]', [1]],
    ['text where JSON does not parse', 'application/json', '{', '{'],
    ['text', 'text/plain', 'ü', 'ü'],
    ['text in its own charset', 'text/plain; charset=iso-8859-1', Buffer.from([0xfc]), 'ü'],
    ['text without a content type', undefined, '{"a":1}', '{"a":1}'],
    ['base64 of what is no text', 'image/png', Buffer.from([0x89, 0x50, 0xff]), 'iVD/'],
    ['null for no bytes', 'application/json', '', null],
  ])('is %s', async (_what, contentType, sent, body) => {
    const { origin } = await serve((_request, response) => {
      if (contentType !== undefined) response.setHeader('Content-Type', contentType);
      response.setHeader('X-Twice', ['a', 'b']);
      response.end(sent);
    });
    const result = await call(open, { url: origin });
    expect(result).toMatchObject({
      kind: 'succeeded',
      output: { status: 200, body, headers: { 'x-twice': 'a, b' } },
    });
  });

  it.each([
    [404, undefined, false],
    [400, undefined, false],
    [408, undefined, true],
    [425, undefined, true],
    [429, undefined, true],
    [500, undefined, true],
    [503, undefined, true],
    [204, '200', false],
    [201, '200-200', false],
  ])('fails with an unexpected %i where %s is expected; retryable: %s', async (status, expectedStatuses, retryable) => {
    const { origin } = await serve((_request, response) => response.writeHead(status).end());
    const result = await call(open, { url: origin, ...(expectedStatuses && { expectedStatuses }) });
    expect(result).toMatchObject({ kind: 'failed', code: 'unexpected_status', retryable, output: { status } });
    expect(result).not.toHaveProperty('retryAfterMs');
  });

  it.each([
    [404, [404]],
    [404, '4xx'],
    [503, ['2xx', '500-599']],
    [302, [302]],
  ])('succeeds with %i where %j is expected', async (status, expectedStatuses) => {
    const { origin } = await serve((_request, response) => response.writeHead(status, { location: '/x' }).end());
    expect(await call(open, { url: origin, expectedStatuses })).toMatchObject({
      kind: 'succeeded',
      output: { status },
    });
  });

  it.each([
    ['seconds', '120', 120_000],
    ['a date', 'Sun, 01 Mar 2026 12:00:30 GMT', 30_000],
    ['a date that has passed', 'Sun, 01 Mar 2026 11:00:00 GMT', 0],
  ])('passes on a Retry-After of %s', async (_what, header, retryAfterMs) => {
    const { origin } = await serve((_request, response) => response.writeHead(429, { 'retry-after': header }).end());
    expect(await call(open, { url: origin })).toMatchObject({ kind: 'failed', retryable: true, retryAfterMs });
  });

  it.each([
    'Sun, 06 Nov 1994 08:49:37 GMT',
    'Sunday, 06-Nov-94 08:49:37 GMT',
    'Sun Nov  6 08:49:37 1994',
    '1994-11-06T09:49:37+01:00',
  ])('reads %s alike in each time zone', (header) => {
    const usual = process.env.TZ;
    process.env.TZ = 'Asia/Tokyo';
    try {
      expect(retryAfterMs(header, Date.UTC(1994, 10, 6, 8, 49, 36))).toBe(1000);
    } finally {
      if (usual === undefined) delete process.env.TZ;
      else process.env.TZ = usual;
    }
  });

  it('is no Retry-After where the header says neither', async () => {
    const { origin } = await serve((_request, response) => response.writeHead(503, { 'retry-after': '-1' }).end());
    expect(await call(open, { url: origin })).not.toHaveProperty('retryAfterMs');
  });

  it.each([
    ['announced', { 'content-length': 1_048_577 }],
    ['not announced', {}],
  ])('fails where it is larger than 1 MiB, %s', async (_what, headers) => {
    const { origin } = await serve((_request, response) =>
      response.writeHead(200, headers).end(Buffer.alloc(1_048_577, 'a')),
    );
    expect(await call(open, { url: origin })).toMatchObject({
      kind: 'failed',
      code: 'response_too_large',
      retryable: false,
    });
  });

  it('passes with exactly 1 MiB', async () => {
    const { origin } = await serve((_request, response) => response.end(Buffer.alloc(1_048_576, 'a')));
    expect(await call(open, { url: origin })).toMatchObject({ kind: 'succeeded' });
  });

  it('fails retryably where none comes in time', async () => {
    const { origin } = await serve(() => {});
    const result = await call(open, { url: `${origin}/?token=secret`, timeoutSeconds: 0.0505 });
    expect(result).toMatchObject({ kind: 'failed', code: 'timeout', retryable: true });
    expect(JSON.stringify(result)).not.toContain('secret');
  });

  it('fails retryably where its body stops coming', async () => {
    const { origin } = await serve((_request, response) =>
      response.writeHead(200, { 'content-length': 10 }).write('a'),
    );
    expect(await call(open, { url: origin, timeoutSeconds: 0.05 })).toMatchObject({ code: 'timeout', retryable: true });
  });

  it('fails retryably if nothing listens, and shows neither path nor query', async () => {
    const { origin } = await serve((request) => request.socket.destroy());
    const result = await call(open, { url: `${origin}/hidden?token=secret` });
    expect(result).toMatchObject({ kind: 'failed', code: 'network_error', retryable: true });
    expect(JSON.stringify(result)).not.toMatch(/hidden|secret/);
  });

  it('is not waited for when the step is aborted', async () => {
    const aborted = new AbortController();
    const { origin } = await serve(() => aborted.abort());
    expect(await call(open, { url: origin }, { signal: aborted.signal })).toMatchObject({ kind: 'failed' });
  });
});
