import { describe, expect, it } from 'vitest';
import { createHttpRequestHandler } from '../../../src/features/http-request/http-request.ts';
import { call } from '../../flows/handlers/call.ts';
import { serve } from '../../flows/handlers/loopback-server.ts';

const open = createHttpRequestHandler({ egressAllow: ['127.0.0.0/8'] });
const closed = createHttpRequestHandler({ egressAllow: [] });

describe('egress', () => {
  it.each([
    'http://127.0.0.1:PORT',
    'http://2130706433:PORT',
    'http://[::ffff:127.0.0.1]:PORT',
    'http://localhost:PORT',
  ])('refuses %s without connecting', async (template) => {
    const { origin, received } = await serve((_request, response) => response.end());
    const result = await call(closed, { url: template.replace('PORT', new URL(origin).port) });
    expect(result).toMatchObject({ kind: 'failed', code: 'egress_refused', retryable: false });
    expect(JSON.stringify(result)).toContain('SLUICE_EGRESS_ALLOW');
    expect(received).toEqual([]);
  });

  it('reaches a host name that is allowed', async () => {
    const handler = createHttpRequestHandler({ egressAllow: ['localhost'] });
    const { origin } = await serve((_request, response) => response.end());
    const url = origin.replace('127.0.0.1', 'localhost');
    expect(await call(handler, { url })).toMatchObject({ kind: 'succeeded' });
    expect(await call(handler, { url: origin })).toMatchObject({ code: 'egress_refused' });
  });

  it('refuses to start with an allow list it cannot read', () => {
    expect(() => createHttpRequestHandler({ egressAllow: ['10.0.0.0/99'] })).toThrow('10.0.0.0/99');
  });
});

describe('redirects', () => {
  const SECRETS = { authorization: 'Bearer secret', cookie: 'a=secret', 'x-api-key': 'secret' };
  const BODY = { url: '', method: 'POST', body: { a: 1 } };

  it('are followed within an origin, with all headers', async () => {
    const { origin, received } = await serve((request, response) =>
      request.url === '/' ? response.writeHead(302, { location: '/there?x=1' }).end() : response.end('done'),
    );
    expect(await call(open, { url: origin, headers: SECRETS })).toMatchObject({
      output: { status: 200, body: 'done' },
    });
    expect(received.map(({ url }) => url)).toEqual(['/', '/there?x=1']);
    expect(received[1]?.headers).toMatchObject(SECRETS);
  });

  it('carry no header that could hold a credential to another origin', async () => {
    const other = await serve((_request, response) => response.end());
    const { origin } = await serve((_request, response) => response.writeHead(307, { location: other.origin }).end());
    await call(open, { ...BODY, url: origin, headers: SECRETS });
    expect(other.received[0]).toMatchObject({ method: 'POST', headers: { 'idempotency-key': 'run:step' } });
    expect(other.received[0]?.body.toString()).toBe('{"a":1}');
    expect(JSON.stringify(other.received[0]?.headers)).not.toContain('secret');
  });

  it.each([
    [301, 'POST', 'GET'],
    [302, 'POST', 'GET'],
    [303, 'POST', 'GET'],
    [303, 'PUT', 'GET'],
    [301, 'PUT', 'PUT'],
    [307, 'POST', 'POST'],
    [308, 'DELETE', 'DELETE'],
  ])('of status %i turn a %s into a %s', async (status, method, next) => {
    const { origin, received } = await serve((request, response) =>
      request.url === '/' ? response.writeHead(status, { location: '/next' }).end() : response.end(),
    );
    await call(open, { ...BODY, url: origin, method });
    expect(received[1]?.method).toBe(next);
    expect(received[1]?.body.length).toBe(next === 'GET' ? 0 : 7);
    expect('content-type' in (received[1]?.headers ?? {})).toBe(next !== 'GET');
  });

  it.each(['http://127.0.0.2:1/', 'http://[::1]:1/', 'http://localhost:1/', 'http://169.254.169.254/latest/meta-data'])(
    'to %s are refused where only the first host is allowed',
    async (location) => {
      const handler = createHttpRequestHandler({ egressAllow: ['127.0.0.1'] });
      const { origin } = await serve((_request, response) => response.writeHead(302, { location }).end());
      const result = await call(handler, { url: origin });
      // The name "localhost" also has the allowed address, where no server listens on port 1.
      expect(result).toMatchObject({ code: location.includes('localhost') ? 'network_error' : 'egress_refused' });
    },
  );

  it.each([
    ['another scheme', 'file:///etc/passwd'],
    ['a URL that is none', 'http://['],
    ['a URL with credentials', 'http://a:b@127.0.0.1/'],
  ])('to %s are refused', async (_what, location) => {
    const { origin } = await serve((_request, response) => response.writeHead(302, { location }).end());
    expect(await call(open, { url: origin })).toMatchObject({ code: 'redirect_refused', retryable: false });
  });

  it('are followed five times and no more', async () => {
    const { origin, received } = await serve((request, response) =>
      response.writeHead(302, { location: `${request.url}x` }).end(),
    );
    expect(await call(open, { url: origin })).toMatchObject({ code: 'redirect_refused' });
    expect(received).toHaveLength(6);
  });

  it('without a location are an answer', async () => {
    const { origin } = await serve((_request, response) => response.writeHead(302).end());
    expect(await call(open, { url: origin })).toMatchObject({ code: 'unexpected_status', output: { status: 302 } });
  });
});
