import { createHash, createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { compileBodySchema } from '../../src/manifest/body-schema.ts';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import type { JsonObject } from '../../src/model/json.ts';
import { gateChain, gatePreparer } from '../../src/webhooks/gates/index.ts';
import { prepareKeptBody } from '../../src/webhooks/kept-body.ts';
import { STANDARD_PUBLISHERS } from '../../src/webhooks/schemes/publishers/index.ts';
import { createSchemeRegistry, resolveScheme } from '../../src/webhooks/schemes/resolve.ts';
import { createKeySets } from '../../src/webhooks/schemes/standards/key-sets.ts';
import { deliveryOf, judge, NOW, settingsOf, triggerOf } from '../webhooks/schemes/fixtures.ts';
import { startGateway } from './gateway.ts';

const KEY = 'a secret of more than thirty-two bytes';
const SECONDS = NOW / 1000;
const URL_CALLED = 'https://hooks.example.com/flows/api/webhook/in';
const BODY = '{"event":{"type":"update_column_value"}}';
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const other = generateKeyPairSync('rsa', { modulusLength: 2048 });
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

function token(header: JsonObject, claims: unknown, key: string | KeyObject): string {
  const input = `${encode(header)}.${encode(claims)}`;
  const signed =
    typeof key === 'string'
      ? createHmac('sha256', key).update(input).digest()
      : sign('sha256', Buffer.from(input), key);
  return `${input}.${signed.toString('base64url')}`;
}
const hs256 = (claims: JsonObject, key = KEY) => token({ alg: 'HS256', typ: 'JWT' }, claims, key);
const rs256 = (claims: JsonObject, key = rsa.privateKey) => token({ alg: 'RS256', kid: 'k1' }, claims, key);

/** One key set for all publishers. */
function settings() {
  const jwk = { ...rsa.publicKey.export({ format: 'jwk' }), kid: 'k1', use: 'sig' };
  const fetch = () => Promise.resolve(JSON.stringify({ keys: [jwk] }));
  return settingsOf({}, { keySets: createKeySets({ fetch, clock: { now: () => NOW, monotonic: () => 0 } }) } as never);
}

interface Sent {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly inputs?: WebhookInputs;
}

async function outcome(scheme: string, { headers = {}, body = BODY, inputs = {} }: Sent): Promise<string> {
  const all = { webhookSignatureScheme: scheme, webhookPublicUrl: URL_CALLED, ...inputs };
  const isKeySet = scheme === 'Kinde' || scheme === 'ConstantContact';
  const given = { inputs: all, settings: settings(), ...(isKeySet ? {} : { key: KEY }) };
  const verdict = await judge(given, deliveryOf({ headers, body, path: '/flows/api/webhook/in' }));
  return verdict.passed ? 'passed' : verdict.reason;
}

describe('monday.com', () => {
  const claims = { accountId: 1, userId: 2, aud: URL_CALLED, exp: SECONDS + 300, iat: SECONDS };
  const said = (authorization: string, inputs: WebhookInputs = { webhookJwtAudience: URL_CALLED }) =>
    outcome('Monday', { headers: { authorization }, inputs });
  const { aud: _aud, ...noAudience } = claims;
  const { exp: _exp, ...endless } = claims;
  const { iat: _iat, ...timeless } = claims;

  it.each<[string, string, string]>([
    ['passes', hs256(claims), 'passed'],
    ['is for this URL', hs256({ ...claims, aud: `${URL_CALLED}/2` }), 'signature_mismatch'],
    ['is for some URL', hs256(noAudience), 'signature_mismatch'],
    ['ends', hs256(endless), 'signature_mismatch'],
    ['has not ended', hs256({ ...claims, exp: SECONDS - 1000 }), 'timestamp_skew'],
    ['says when it was made', hs256(timeless), 'signature_mismatch'],
    ['is of the key', hs256(claims, 'another secret of thirty-two bytes'), 'signature_mismatch'],
    ['is signed', `${encode({ alg: 'none' })}.${encode(claims)}.`, 'signature_malformed'],
    ['has an algorithm', token({ alg: 'none' }, claims, KEY), 'signature_malformed'],
    ['has no other word in front', `Bearer ${hs256(claims)}`, 'signature_malformed'],
    ['comes once', `${hs256(claims)}, ${hs256(claims)}`, 'signature_malformed'],
    ['is of a secret and no public key', rs256(claims), 'signature_mismatch'],
  ])('the token %s', async (_rule, text, expected) => {
    expect(await said(text)).toBe(expected);
  });

  it('is no scheme without the URL that its tokens are for', async () => {
    await expect(said(hs256(claims), {})).rejects.toMatchObject({ field: 'webhookJwtAudience' });
  });

  it('answers a challenge, and takes no event for one', async () => {
    const inputs = {
      webhookSignatureScheme: 'Monday',
      webhookHmacKey: KEY,
      webhookJwtAudience: URL_CALLED,
      webhookEnforcementMode: 'Enforce',
    } as const;
    const gateway = await startGateway({ triggers: { monday: inputs } });
    const send = (body: object, headers: Record<string, string> = {}) =>
      gateway.deliver('monday', {
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      });
    const challenge = 'YQIn0dCoBu2zspb4TpQTXz8WKRpZOjXi9r7_7__BBA9HoPDHPrzKBKXUIquIoNL0BiTJzobUQ2uQD0wq0yDYHg';
    const answer = await send({ challenge });
    expect([answer.status, answer.text]).toEqual([200, JSON.stringify({ challenge })]);
    for (const wrong of ['<script>alert(1)</script>', { a: 1 }, 5, '', 'a b'])
      expect((await send({ challenge: wrong })).status).toBe(401);
    expect((await send({ challenge, event: {} })).status).toBe(401);
    gateway.setNow(NOW);
    const authorization = hs256({ aud: URL_CALLED, exp: SECONDS + 300, iat: SECONDS });
    const accepted = await send({ event: { type: 'create_item', triggerUuid: 'u-1' } }, { authorization });
    expect([accepted.status, await gateway.countRuns()]).toEqual([200, 1]);
    expect(await gateway.latestDelivery()).toMatchObject({
      scheme: 'Monday',
      headers: { authorization: '[redacted]' },
      searchKeys: { event: 'create_item', id: 'u-1' },
    });
  });
});

describe('Kinde', () => {
  const event = {
    event_id: 'event_1',
    type: 'user.created',
    timestamp: '2026-11-02T09:14:03.000Z',
    data: { user: {} },
  };
  const inputs = { webhookJwksUrl: 'https://example.kinde.com/.well-known/jwks' };
  const { event_id: _id, ...noEvent } = event;
  const user = { iss: 'https://example.kinde.com', sub: 'kp_1', aud: [], exp: SECONDS + 3600, iat: SECONDS };
  const changed = (text: string) => text.replace(/\.([^.]+)\./, `.${encode({ ...event, type: 'x' })}.`);

  it.each<[string, string, string]>([
    ['passes', rs256(event), 'passed'],
    ['is of the set', rs256(event, other.privateKey), 'signature_mismatch'],
    ['is no token of a user', rs256(user), 'signature_mismatch'],
    ['has an id', rs256(noEvent), 'signature_mismatch'],
    ['has its claims', changed(rs256(event)), 'signature_mismatch'],
    ['is signed', `${encode({ alg: 'none' })}.${encode(event)}.`, 'signature_malformed'],
    [
      'is not signed with the public key as a secret',
      hs256(event, rsa.publicKey.export({ type: 'spki', format: 'pem' }).toString()),
      'signature_mismatch',
    ],
    ['is the whole body', `${rs256(event)}\n`, 'signature_malformed'],
    ['comes once', `${rs256(event)}${rs256(event)}`, 'signature_malformed'],
    ['is no JSON', JSON.stringify(event), 'signature_malformed'],
    ['is there', '', 'signature_malformed'],
  ])('the body %s', async (_rule, body, expected) => {
    expect(await outcome('Kinde', { body, inputs })).toBe(expected);
  });

  it('takes a token of any length that a body may have', async () => {
    const long = rs256({ ...event, data: { text: 'x'.repeat(100_000) } });
    expect(await outcome('Kinde', { body: long, inputs })).toBe('passed');
  });

  it('needs the URL of the keys', async () => {
    await expect(outcome('Kinde', { body: rs256(event) })).rejects.toMatchObject({ field: 'webhookJwksUrl' });
  });

  it('tells a delivery by what is signed, however its signature is written', async () => {
    const verdictOn = (body: string) =>
      judge(
        { inputs: { webhookSignatureScheme: 'Kinde', ...inputs }, settings: settings() },
        deliveryOf({ body, headers: { 'content-type': 'application/jwt' } }),
      );
    const text = rs256(event);
    const { evidence } = await verdictOn(text);
    expect(evidence?.signedBytesSha256).toBe(sha256(text.slice(0, text.lastIndexOf('.'))));
    // The last base64url character of 256 bytes has bits without meaning.
    const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const last = digits.indexOf(text.at(-1) ?? '');
    const alike = await verdictOn(`${text.slice(0, -1)}${digits[last ^ 1]}`);
    if (alike.passed) expect(alike.evidence?.signedBytesSha256).toBe(evidence?.signedBytesSha256);
  });

  it('has its claims judged by the schema of the body, and says once what the trigger lacks', async () => {
    const bodySchema = compileBodySchema({ required: ['type'], properties: { type: { const: 'user.created' } } });
    const prepare = (fields: WebhookInputs) =>
      gatePreparer(gateChain(), settings()).prepare({
        ...triggerOf({ webhookSignatureScheme: 'Kinde', ...fields }),
        bodySchema,
      });
    const gate = prepare(inputs).gates.find(({ name }) => name === 'bodySchema');
    expect(await gate?.check(deliveryOf({ body: rs256(event) }), {})).toMatchObject({ passed: true });
    const refused = await gate?.check(deliveryOf({ body: rs256({ ...event, type: 'user.deleted' }) }), {});
    expect(refused).toMatchObject({ passed: false, reason: 'body_schema' });
    expect(prepare({}).mistakes).toHaveLength(1);
  });

  it('lets a flow read the claims, and keeps no token', () => {
    const scheme = resolveScheme(createSchemeRegistry(), { webhookSignatureScheme: 'kinde', ...inputs });
    const keep = prepareKeptBody(scheme);
    expect(keep?.(Buffer.from(rs256(event))).toString()).toBe(JSON.stringify(event));
    for (const text of ['', '{}', 'a.b', 'a..b', 'a.b.c.d']) expect(keep?.(Buffer.from(text)).toString()).toBe(text);
  });
});

describe('Constant Contact', () => {
  const protectedHeader = { alg: 'RS256', ts: SECONDS, b64: false, crit: ['b64'] };
  function detached(header: JsonObject, body = BODY, key = rsa.privateKey): string {
    const first = encode(header);
    const signed = sign('sha256', Buffer.from(`${first}.${body}`), key);
    return `${first}..${signed.toString('base64url')}`;
  }
  const said = (text: string, body = BODY) =>
    outcome('ConstantContact', { headers: { 'x-ctct-webhook-sig': text }, body });
  const { ts: _ts, ...timeless } = protectedHeader;
  const encoded = () => {
    const first = encode({ alg: 'RS256', ts: SECONDS });
    return `${first}..${sign('sha256', Buffer.from(`${first}.${Buffer.from(BODY).toString('base64url')}`), rsa.privateKey).toString('base64url')}`;
  };

  it.each<[string, string, string]>([
    ['passes', detached(protectedHeader), 'passed'],
    ['is over the body', detached(protectedHeader, `${BODY} `), 'signature_mismatch'],
    ['is by a key of the set', detached(protectedHeader, BODY, other.privateKey), 'signature_mismatch'],
    ['says that the body is not encoded', detached({ ...protectedHeader, crit: [] }), 'signature_malformed'],
    [
      'says it in what has to be understood',
      detached({ alg: 'RS256', ts: SECONDS, b64: false }),
      'signature_malformed',
    ],
    ['asks for nothing else', detached({ ...protectedHeader, crit: ['b64', 'exp'], exp: 1 }), 'signature_malformed'],
    ['is not over the base64 of the body', encoded(), 'signature_malformed'],
    ['has a time', detached(timeless), 'timestamp_missing'],
    ['has a time that is a number', detached({ ...protectedHeader, ts: 'soon' }), 'timestamp_malformed'],
    ['is signed', detached({ ...protectedHeader, alg: 'none' }), 'signature_malformed'],
    ['has nothing between its dots', detached(protectedHeader).replace('..', `.${encode({})}.`), 'signature_malformed'],
    ['is no secret', detached({ ...protectedHeader, alg: 'HS256' }), 'signature_mismatch'],
  ])('the signature %s', async (_rule, text, expected) => {
    expect(await said(text)).toBe(expected);
  });

  it('takes no other keys than the publisher’s', async () => {
    const inputs = { webhookSignatureScheme: 'ConstantContact', webhookHmacKey: 'env:X' };
    await expect(judge({ inputs, key: KEY }, deliveryOf())).rejects.toThrow(/name two keys/);
    const moved = resolveScheme(createSchemeRegistry(), {
      webhookSignatureScheme: 'ConstantContact',
      webhookJwksUrl: 'https://evil.example/jwks',
      webhookRequireTimestamp: false,
    });
    expect(moved).toMatchObject({
      standard: {
        rule: { keySetUrl: expect.stringContaining('//developer.constantcontact.com/'), requiresTimestamp: true },
      },
    });
  });
});

describe('MessageBird', () => {
  /** lib/testdata/webhook-signature-jwt-reference.json of messagebird-nodejs, read 2026-11. */
  const KNOWN = {
    key: '36efdd1aace2e26cd490f0d951138253bef2f7c6d34d18981da781555cc4cebb',
    token:
      'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJNZXNzYWdlQmlyZCIsIm5iZiI6MTYyNTQ3OTIwMCwiZXhwIjoxNjI1NDc5MjYwLCJqdGkiOiI5M2U1NTAwNi1hMGU4LTQ1MjYtYTE5MC1mYTVmZjAwZWExMTYiLCJ1cmxfaGFzaCI6IjQxZjA1ZjBkZGQwYTIyYWIyMDlhYzQ2ZjQ3YzQ1NzJkOWNlZmEyNTdlZDc0YjI0MDA0YmFlNzUzZWNlNmMyNjAiLCJwYXlsb2FkX2hhc2giOiJkZmZkNjAyMWJiMmJkNWIwYWY2NzYyOTA4MDllYzNhNTMxOTFkZDgxYzdmNzBhNGIyODY4OGEzNjIxODI5ODZmIn0._H--TOuYFLpeEH39-rg5E3IHVkjHozBcaKVWPRC5m9I',
    body: 'Hello, World!',
    url: 'https://example.com/path?bar=1&foo=2',
    at: 1_625_479_200_000,
  };
  const judged = async (changes: Partial<typeof KNOWN>) => {
    const { key, token: text, body, url, at } = { ...KNOWN, ...changes };
    const { pathname, search } = new URL(url);
    const delivery = deliveryOf({ body, headers: { 'messagebird-signature-jwt': text }, path: `${pathname}${search}` });
    const inputs = { webhookSignatureScheme: 'messagebird', webhookPublicUrl: url };
    const verdict = await judge({ inputs, key }, { ...delivery, receivedAt: at });
    return verdict.passed ? 'passed' : verdict.reason;
  };

  it.each<[string, Partial<typeof KNOWN>, string]>([
    ['passes', {}, 'passed'],
    ['is for the URL', { url: 'https://example.com/path?bar=1&foo=3' }, 'signature_mismatch'],
    ['is for the host', { url: 'https://example.org/path?bar=1&foo=2' }, 'signature_mismatch'],
    ['is for the body', { body: 'Hello, World?' }, 'signature_mismatch'],
    ['is of the key', { key: `${KNOWN.key}0` }, 'signature_mismatch'],
    ['has not ended', { at: KNOWN.at + 200_000 }, 'timestamp_skew'],
    ['has begun', { at: KNOWN.at - 200_000 }, 'timestamp_skew'],
  ])('the known token %s', async (_rule, changes, expected) => {
    expect(await judged(changes)).toBe(expected);
  });

  it('is of the publisher, and hashes a body that is there', async () => {
    const claims = { iss: 'MessageBird', nbf: SECONDS, exp: SECONDS + 60, jti: '1', url_hash: sha256(URL_CALLED) };
    const said = (others: JsonObject, body = BODY) =>
      outcome('MessageBird', { headers: { 'messagebird-signature-jwt': hs256({ ...claims, ...others }) }, body });
    expect(await said({ payload_hash: sha256(BODY) })).toBe('passed');
    expect(await said({})).toBe('signature_malformed');
    expect(await said({ payload_hash: sha256(BODY), iss: 'Someone' })).toBe('signature_mismatch');
    expect(await said({ payload_hash: sha256(BODY), url_hash: [sha256(URL_CALLED)] })).toBe('signature_mismatch');
  });
});

describe('an Atlassian Connect app', () => {
  const claims = { iss: 'client-1', iat: SECONDS, exp: SECONDS + 180, qsh: sha256('POST&/webhook/in&') };
  const said = (others: JsonObject, inputs: WebhookInputs = {}) =>
    outcome('JiraConnect', {
      headers: { authorization: `JWT ${hs256({ ...claims, ...others })}` },
      inputs: { webhookJwtIssuer: 'client-1', ...inputs },
    });

  it.each<[string, JsonObject, string]>([
    ['is for the path behind that of the app', {}, 'passed'],
    ['is for the whole path', { qsh: sha256('POST&/flows/api/webhook/in&') }, 'passed'],
    ['is for no other path', { qsh: sha256('POST&/webhook/out&') }, 'signature_mismatch'],
    ['is for no other method', { qsh: sha256('GET&/webhook/in&') }, 'signature_mismatch'],
    ['is not one that a browser gets', { qsh: 'context-qsh' }, 'signature_mismatch'],
    ['is of this site', { iss: 'client-2' }, 'signature_mismatch'],
    ['is for a request', { qsh: undefined as never }, 'signature_mismatch'],
    ['has not ended', { exp: SECONDS - 1000 }, 'timestamp_skew'],
  ])('signs a token that %s', async (_rule, others, expected) => {
    expect(await said(others)).toBe(expected);
  });

  it('needs the site, and a URL without a query', async () => {
    await expect(outcome('JiraConnect', {})).rejects.toMatchObject({ field: 'webhookJwtIssuer' });
    expect(await said({}, { webhookPublicUrl: `${URL_CALLED}?a=1` })).toBe('signature_mismatch');
  });
});

const base64 = createHash('sha256').update(BODY).digest('base64');

describe.each<[string, string, string, JsonObject]>([
  ['FusionAuth', 'x-fusionauth-signature-jwt', '', { request_body_sha256: base64 }],
  ['Netlify', 'x-webhook-signature', '', { iss: 'netlify', sha256: sha256(BODY) }],
  ['Plaid', 'plaid-verification', '', { iat: SECONDS, request_body_sha256: sha256(BODY) }],
  ['Vonage', 'authorization', 'Bearer ', { iat: SECONDS, payload_hash: sha256(BODY) }],
])('%s', (scheme, header, prefix, claims) => {
  const said = (token: string, body = BODY) => outcome(scheme, { headers: { [header]: `${prefix}${token}` }, body });

  it('verifies the token in its header, with the hash of the body', async () => {
    expect(await said(hs256(claims))).toBe('passed');
    expect(await said(hs256(claims), `${BODY} `)).toBe('signature_mismatch');
    expect(await said(hs256(claims, 'another secret of thirty-two bytes'))).toBe('signature_mismatch');
    expect(await outcome(scheme, {})).toBe('signature_missing');
  });

  it.each(Object.keys(claims))('refuses a token without the claim %s', async (claim) => {
    const { [claim]: _, ...others } = claims;
    expect(await said(hs256(others))).not.toBe('passed');
  });
});

it('says of each from where it is known', () => {
  for (const { name, source, certainty, unconfirmed } of STANDARD_PUBLISHERS) {
    expect(source, name).toMatch(/20\d\d-\d\d$/);
    expect(unconfirmed !== undefined, name).toBe(certainty === 'unconfirmed');
  }
});
