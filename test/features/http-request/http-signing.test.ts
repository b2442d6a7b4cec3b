import { createHmac } from 'node:crypto';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createHttpRequestHandler } from '../../../src/features/http-request/http-request.ts';
import { call } from '../../flows/handlers/call.ts';
import { serve } from '../../flows/handlers/loopback-server.ts';
import { Webhook } from '../../oracles/standard-webhooks.ts';

const handler = createHttpRequestHandler({ egressAllow: ['127.0.0.0/8', 'localhost'] });
const KEY = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

describe('a signed request', () => {
  it('is accepted by the verifier of Standard Webhooks, with the id that all attempts share', async () => {
    const { origin, received } = await serve((_request, response) => response.end());
    const signing = { scheme: 'StandardWebhooks', key: KEY };
    await call(handler, { url: origin, method: 'POST', body: { order: 'ü' }, signing });
    const [request] = received;
    const verified = new Webhook(KEY).verify(
      request?.body.toString() ?? '',
      request?.headers as Record<string, string>,
    );
    expect(verified).toEqual({ order: 'ü' });
    expect(request?.headers['webhook-id']).toBe('run:step');
  });

  it('signs the exact bytes that are forwarded, as the receiver of an HMAC expects them', async () => {
    const { origin, received } = await serve((_request, response) => response.end());
    const body = Buffer.from([0xff, 0x00, 0x41]);
    const trigger = { key: 'hook', body, contentType: null, headers: {} };
    const signing = {
      scheme: 'Hmac',
      key: 'k',
      header: 'X-Sig',
      algorithm: 'sha512',
      encoding: 'base64',
      prefix: 'v1=',
    };
    const inputs = { url: origin, method: 'POST', forwardBody: true, signing, headers: { 'x-sig': 'forged' } };
    await call(handler, inputs, { trigger: async () => trigger });
    const digest = createHmac('sha512', 'k').update(body).digest('base64');
    expect(received[0]?.headers['x-sig']).toBe(`v1=${digest}`);
  });

  it('without a body signs no bytes', async () => {
    const { origin, received } = await serve((_request, response) => response.end());
    await call(handler, { url: origin, signing: { scheme: 'Hmac', key: 'k' } });
    expect(received[0]?.headers['x-signature']).toBe(`sha256=${createHmac('sha256', 'k').digest('hex')}`);
  });

  it('takes its signature to no other origin', async () => {
    const other = await serve((_request, response) => response.end());
    const { origin } = await serve((_request, response) => {
      response.writeHead(307, { location: other.origin }).end();
    });
    await call(handler, { url: origin, method: 'POST', body: 1, signing: { scheme: 'StandardWebhooks', key: KEY } });
    expect(other.received[0]?.headers).not.toHaveProperty('webhook-signature');
  });

  it.each(['', 'whsec_', 'whsec_c2hvcnQ=', 'sw0rdfish'])(
    'is not sent with the key %j, which is not quoted',
    async (key) => {
      const { origin, received } = await serve((_request, response) => response.end());
      const failed = await call(handler, { url: origin, signing: { scheme: 'StandardWebhooks', key } });
      expect(failed).toMatchObject({ kind: 'failed', code: 'invalid_input', retryable: false });
      expect(JSON.stringify(failed)).not.toContain('sw0rdfish');
      expect(received).toEqual([]);
    },
  );
});

/** Self-signed for localhost, until 2126: `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256`. */
const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUX1Y07lAArkTqgMKred0hjuNttZgwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMjE2MDczNloYDzIxMjYxMDI5
MTYwNzM2WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAR2qnDQ3xnxxufRbjs7F2KYssarJbcCKNM5gA1ZFWtXRCjuTF12NHyr
AJzhq84j2ufl8Mg8Q674KbtDDjUbpZm1o28wbTAdBgNVHQ4EFgQU6Y69ZQXUHXKq
c0iNEA/SmmnQvhYwHwYDVR0jBBgwFoAU6Y69ZQXUHXKqc0iNEA/SmmnQvhYwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSAAwRQIhAPeZDCG2oAsGT2z/Kl94loLFZTfmhylP45J1edQZdxuLAiAo
/gJ+9v0QXkjzr63IdaMpd/1hARMbmkwsp3ixsQ21PQ==
-----END CERTIFICATE-----
`;
const CERTIFICATE_KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg5shn+4tziRDMXqgj
DlJ7YwmeqPU/FbF1SXET9O1sXZqhRANCAAR2qnDQ3xnxxufRbjs7F2KYssarJbcC
KNM5gA1ZFWtXRCjuTF12NHyrAJzhq84j2ufl8Mg8Q674KbtDDjUbpZm1
-----END PRIVATE KEY-----
`;

describe('a client certificate', () => {
  async function serveTls() {
    const asked: boolean[] = [];
    const tls = {
      cert: CERTIFICATE,
      key: CERTIFICATE_KEY,
      ca: CERTIFICATE,
      requestCert: true,
      rejectUnauthorized: false,
    };
    const server = createServer(tls, (request, response) => {
      asked.push((request.socket as TLSSocket).authorized);
      response.end();
    });
    await new Promise<void>((listening) => void server.listen(0, '127.0.0.1', listening));
    onTestFinished(() => void server.close());
    return { url: `https://localhost:${(server.address() as AddressInfo).port}/`, asked };
  }

  it('is shown to the receiver, whose own certificate is judged by the CA given', async () => {
    const { url, asked } = await serveTls();
    const tls = { cert: CERTIFICATE, key: CERTIFICATE_KEY, ca: CERTIFICATE };
    expect(await call(handler, { url, tls })).toMatchObject({ kind: 'succeeded' });
    expect(asked).toEqual([true]);
  });

  it('trusts no receiver that the public CAs do not know, without a CA', async () => {
    const { url, asked } = await serveTls();
    const failed = await call(handler, { url, tls: { cert: CERTIFICATE, key: CERTIFICATE_KEY } });
    expect(failed).toMatchObject({ kind: 'failed', code: 'network_error' });
    expect(asked).toEqual([]);
  });

  it('that cannot be used fails the step for good, without its text', async () => {
    const { url } = await serveTls();
    const failed = await call(handler, { url, tls: { cert: CERTIFICATE, key: 'sw0rdfish' } });
    expect(failed).toMatchObject({ kind: 'failed', code: 'invalid_input', retryable: false });
    expect(JSON.stringify(failed)).not.toContain('sw0rdfish');
  });
});
