import { createHmac } from 'node:crypto';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { SettingsInput } from '../../src/config/settings-schema.ts';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import { openForFile } from '../ending.ts';
import { eventually } from '../eventually.ts';
import { type Gateway, type Sent, startGateway } from '../publishers/gateway.ts';

const KEY = 'a key of enough bytes';
const TEXT = '{"a":1,"ref":"refs/heads/main"}';
const CAP = 64 * 1024;

let common: Promise<Gateway> | undefined;

/** One for all tests that need no special trigger. */
function plain(): Promise<Gateway> {
  common ??= openForFile(open);
  return common;
}

function open(hook: WebhookInputs = {}, settings: SettingsInput = {}): Promise<Gateway> {
  return startGateway({
    triggers: { signed: { webhookSignatureScheme: 'GitHub', webhookHmacKey: KEY, ...hook }, open: hook },
    steps: { read: { type: 'Transform', inputs: { value: `\${trigger.body}` } } },
    settings: { maxBodyBytes: CAP, ...settings },
  });
}

const JSON_TYPE = { 'content-type': 'application/json' };

function signed(body: Uint8Array, over: Uint8Array | string = body): Sent {
  const signature = `sha256=${createHmac('sha256', KEY).update(over).digest('hex')}`;
  return { body, headers: { ...JSON_TYPE, 'x-hub-signature-256': signature } };
}

const encoded = (sent: Sent, encoding: string): Sent => ({
  ...sent,
  headers: { ...sent.headers, 'content-encoding': encoding },
});

/** The status and, for an accepted delivery, the data that its flow read. */
async function outcome({ deliver, get }: Gateway, slug: string, sent: Sent) {
  const { status, text } = await deliver(slug, sent);
  const answer = JSON.parse(text);
  if (status !== 200) return { status, ...answer };
  const url = `/flows/api/runs/${answer.runId}`;
  const isDone = (run: { status: string }) => run.status === 'Succeeded';
  await eventually(async (): Promise<{ status: string }> => JSON.parse(await get(url)), isDone);
  return { status, read: JSON.parse(await get(`${url}/steps/read/output`)) };
}

describe('a content-encoding', () => {
  it.each([
    ['gzip', gzipSync(TEXT)],
    ['x-gzip', gzipSync(TEXT)],
    ['GZip', gzipSync(TEXT)],
    ['deflate', deflateSync(TEXT)],
    ['deflate', deflateRawSync(TEXT)],
    ['br', brotliCompressSync(TEXT)],
    ['identity', Buffer.from(TEXT)],
    ['deflate, gzip', gzipSync(deflateSync(TEXT))],
    [' br ,identity,GZIP', gzipSync(brotliCompressSync(TEXT))],
  ])('%s is decoded after the signature of the bytes as sent', async (encoding, body) => {
    const gateway = await plain();
    expect(await outcome(gateway, 'signed', encoded(signed(body), encoding))).toEqual({
      status: 200,
      read: JSON.parse(TEXT),
    });
    const record = await gateway.latestDelivery();
    expect(record).toMatchObject({ bodyBytes: body.byteLength, headers: { 'content-encoding': encoding.trim() } });
  });

  it('is named in the answer where the body is not in it', async () => {
    const gateway = await plain();
    for (const [encoding, body] of [
      ['gzip', Buffer.from(TEXT)],
      ['gzip', gzipSync(TEXT).subarray(0, -4)],
      ['deflate, gzip', gzipSync(TEXT)],
      ['br', Buffer.from('no brotli')],
    ] as const) {
      const answer = await outcome(gateway, 'signed', encoded(signed(body), encoding));
      const named = encoding.split(', ')[0];
      expect(answer).toMatchObject({
        status: 400,
        reason: 'invalid_encoding',
        message: expect.stringContaining(named ?? ''),
      });
    }
    expect(await gateway.latestDelivery()).toMatchObject({ runId: null, rejected: true });
  });

  it.each(['Off', 'Audit', 'Enforce'] as const)(
    'that is unknown is refused under %s with what is known',
    async (mode) => {
      const gateway = await open({ webhookEnforcementMode: mode });
      const answer = await outcome(gateway, 'open', encoded({ body: TEXT, headers: JSON_TYPE }, 'x-own'));
      expect(answer).toMatchObject({
        status: 415,
        reason: 'encoding_not_supported',
        message: expect.stringMatching(/"x-own" is not known; gzip, deflate, br/),
      });
      expect(await gateway.latestDelivery()).toMatchObject({
        reason: 'encoding_not_supported',
        rejected: true,
        runId: null,
      });
      expect(await gateway.countRuns()).toBe(0);
    },
  );

  it('is decoded in four layers, and in more refused', async () => {
    const gateway = await plain();
    const four = [1, 2, 3, 4].reduce<Buffer>((bytes) => gzipSync(bytes), Buffer.from(TEXT));
    expect(await outcome(gateway, 'open', encoded({ body: four }, 'gzip,gzip,gzip,gzip'))).toMatchObject({
      status: 200,
    });
    const answer = await outcome(gateway, 'open', encoded({ body: gzipSync(four) }, 'gzip,gzip,gzip,gzip,gzip'));
    expect(answer).toMatchObject({ status: 415, reason: 'encoding_not_supported' });
  });

  it('of a body that unpacks beyond the cap is 413, at whatever layer', async () => {
    const gateway = await plain();
    const bomb = gzipSync(Buffer.alloc(CAP + 1, 0x20));
    const within = gzipSync(Buffer.concat([Buffer.from(TEXT), Buffer.alloc(CAP - TEXT.length, 0x20)]));
    expect(await outcome(gateway, 'open', encoded({ body: within, headers: JSON_TYPE }, 'gzip'))).toMatchObject({
      status: 200,
    });
    const nested = gzipSync(gzipSync(Buffer.alloc(400 * CAP, 0x20), { level: 1 }));
    for (const [encoding, body] of [
      ['gzip', bomb],
      ['gzip, gzip', nested],
    ] as const) {
      expect(await outcome(gateway, 'open', encoded({ body }, encoding))).toMatchObject({
        status: 413,
        reason: 'body_too_large',
      });
    }
    expect(await gateway.latestDelivery()).toMatchObject({ reason: 'body_too_large', runId: null });
  });

  it('makes no second name for the same bytes', async () => {
    const gateway = await open({ webhookNonceHeader: 'x-none', webhookReplayToleranceSeconds: 0 });
    const sent = encoded(signed(gzipSync(TEXT)), 'gzip');
    expect(await outcome(gateway, 'signed', sent)).toMatchObject({ status: 200 });
    expect(await outcome(gateway, 'signed', sent)).toMatchObject({ status: 409, reason: 'nonce_replayed' });
    expect(await outcome(gateway, 'signed', encoded(sent, 'br'))).toMatchObject({ status: 400 });
  });

  it('is read by the filter, the event id and the schema of the trigger', async () => {
    const gateway = await open({
      webhookWhen: "body.ref == 'refs/heads/main'",
      webhookEventId: 'body.a',
      webhookBodySchema: { type: 'object', required: ['a'], properties: { a: { type: 'integer' } } },
    });
    const gz = (value: unknown) => encoded(signed(gzipSync(JSON.stringify(value))), 'gzip');
    expect(await outcome(gateway, 'signed', gz({ a: 1, ref: 'refs/heads/main' }))).toMatchObject({ status: 200 });
    const again = await gateway.deliver('signed', gz({ ref: 'refs/heads/main', a: 1 }));
    expect(JSON.parse(again.text)).toMatchObject({ duplicate: true });
    const other = await gateway.deliver('signed', gz({ a: 2, ref: 'refs/heads/other' }));
    expect(JSON.parse(other.text)).toMatchObject({ filtered: true });
    expect(await outcome(gateway, 'signed', gz({ a: 'x' }))).toMatchObject({ status: 422, reason: 'body_schema' });
    expect(await outcome(gateway, 'signed', encoded(signed(Buffer.from(TEXT)), 'gzip'))).toMatchObject({ status: 400 });
  });

  it('that was applied after signing is told to the operator alone', async () => {
    const gateway = await plain();
    const { status, text } = await gateway.deliver('signed', encoded(signed(gzipSync(TEXT), TEXT), 'gzip'));
    expect(status).toBe(401);
    expect(text).not.toContain('compress');
    const record = await gateway.latestDelivery();
    expect(record).toMatchObject({
      reason: 'signature_mismatch',
      detail: expect.stringContaining('signed before compression'),
    });
    await gateway.deliver('signed', encoded(signed(gzipSync(TEXT), 'something else'), 'gzip'));
    expect((await gateway.latestDelivery()).detail).not.toContain('compression');
  });

  it('is decoded first where the body carries the signature, so that compressing it anew makes no new delivery', async () => {
    const timestamp = '1700000000';
    const token = 'a'.repeat(50);
    const signature = createHmac('sha256', KEY).update(`${timestamp}${token}`).digest('hex');
    const body = JSON.stringify({ signature: { timestamp, token, signature }, 'event-data': { id: 'e-1' } });
    const gateway = await open({ webhookSignatureScheme: 'Mailgun', webhookNonceHeader: 'x-none' });
    const send = (bytes: Uint8Array) =>
      outcome(gateway, 'signed', encoded({ body: bytes, headers: JSON_TYPE }, 'gzip'));
    expect(await send(gzipSync(body, { level: 1 }))).toEqual({ status: 200, read: JSON.parse(body) });
    expect(await send(gzipSync(body, { level: 9 }))).toMatchObject({ status: 409 });
  });

  it('hides no token that is in the body from what keeps it out of the log', async () => {
    const gateway = await open({ webhookSignatureScheme: 'GitHub' });
    const body = gzipSync(JSON.stringify({ value: [{ clientState: 'planted-token' }] }));
    await gateway.deliver('no-such-slug', encoded({ body, headers: JSON_TYPE }, 'gzip'));
    const { id, headers } = await gateway.latestDelivery();
    expect(headers).not.toHaveProperty('content-encoding');
    expect(await gateway.get(`/flows/api/webhooks/${id}/body`)).toBe(
      JSON.stringify({ value: [{ clientState: '[redacted]' }] }),
    );
  });
});

describe('a charset', () => {
  const FORM = 'application/x-www-form-urlencoded';
  it.each([
    [`${FORM}; charset=windows-1252`, Buffer.from('name=caf%E9&price=5%80'), { name: 'café', price: '5€' }],
    [`${FORM};charset="ISO-8859-1"`, Buffer.from('name=caf\u00e9', 'latin1'), { name: 'café' }],
    [`${FORM}; charset=utf-8`, Buffer.from('name=caf%C3%A9'), { name: 'café' }],
    ['application/json; charset=utf-16le', Buffer.from('{"a":"é"}', 'utf16le'), { a: 'é' }],
    ['application/json; charset=UTF-16', Buffer.from('\uFEFF{"a":"é"}', 'utf16le').swap16(), { a: 'é' }],
    ['application/json; charset=latin1', Buffer.from('{"a":"\u00e9"}', 'latin1'), { a: 'é' }],
    ['text/plain; charset=shift_jis', Buffer.from([0x93, 0xfa, 0x96, 0x7b]), '日本'],
    ['application/octet-stream; charset=binary', Buffer.from([0xff, 0x00]), { base64: '/wA=' }],
  ])('is applied: %s', async (type, body, read) => {
    const gateway = await plain();
    expect(await outcome(gateway, 'open', { body, headers: { 'content-type': type } })).toEqual({ status: 200, read });
  });

  it.each(['application/json', FORM, 'text/plain', 'application/soap+xml'])(
    'that is unknown is refused by name for %s',
    async (type) => {
      const gateway = await plain();
      const headers = { 'content-type': `${type}; charset=x-own` };
      expect(await outcome(gateway, 'open', { body: '{}', headers })).toMatchObject({
        status: 415,
        reason: 'encoding_not_supported',
        message: expect.stringContaining('"x-own"'),
      });
    },
  );

  it('that the bytes of JSON do not have makes it no JSON', async () => {
    const gateway = await plain();
    const headers = { 'content-type': 'application/json; charset=utf-16le' };
    expect(await outcome(gateway, 'open', { body: '{"a":1}', headers })).toMatchObject({
      status: 400,
      reason: 'invalid_json',
    });
  });
});
