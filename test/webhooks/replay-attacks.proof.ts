import { createHmac } from 'node:crypto';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import type { SettingsInput } from '../../src/config/settings-schema.ts';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import { customSpec } from '../../src/webhooks/schemes/custom.ts';
import { type SigningRequest, signDelivery } from '../../src/webhooks/schemes/sign.ts';
import { buildApp } from '../database.ts';
import { createWorkspace, getJson } from '../e2e/service.ts';
import { builtIn, KEYS, lowerCase, SIGNING_KEYS } from './schemes/fixtures.ts';

/** A request exactly as sent; no client changes it. */
interface Wire {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const HOOK = '/flows/api/webhook/hook';
const CUSTOM_KEY = 'key of a custom scheme';
const PUBLIC = 'https://hooks.example.com';
const FORM = 'application/x-www-form-urlencoded';
const JSON_TYPE = 'application/json';

const cleanUps: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

/** A service under Enforce with one webhook trigger. */
async function open(inputs: WebhookInputs, settings: SettingsInput = {}) {
  const workspace = await createWorkspace();
  await workspace.writeManifest('hook.json', {
    id: '6c1b7a30-2a4e-4f7b-9d63-5f6f3c1f0a11',
    version: '1',
    triggers: { hook: { type: 'webhook', inputs: { webhookSlug: 'hook', ...inputs } } },
    steps: { only: { type: 'NoOp' } },
  });
  const app = await buildApp({
    settings: {
      port: 0,
      databaseUrl: 'sqlite::memory:',
      enforcementMode: 'Enforce',
      allowLegacySha1: true,
      ...settings,
    },
    folder: workspace.folder,
  });
  const url = await app.listen();
  cleanUps.push(async () => {});
  return {
    send: (wire: Wire) => send(url, wire),
    runs: async () => (await getJson<unknown[]>(`${url}/flows/api/runs`)).length,
  };
}

async function send(url: string, { path, headers, body }: Wire): Promise<number> {
  const { hostname, port } = new URL(url);
  const sent = request({
    hostname,
    port,
    path,
    method: 'POST',
    headers: { 'content-length': Buffer.byteLength(body), ...headers },
  });
  const answer = new Promise<number>((resolve, reject) => {
    sent.on('error', reject).on('response', (response) => {
      text(response).then(() => resolve(response.statusCode ?? 0), reject);
    });
  });
  sent.end(body);
  return await answer;
}

function capture(scheme: string, given: Partial<Omit<SigningRequest, 'body'>> & { body?: string } = {}): Wire {
  const { body = '{"event":"paid"}', ...others } = given;
  const signed = signDelivery({
    spec: builtIn(scheme),
    key: SIGNING_KEYS[scheme] ?? '',
    url: `${PUBLIC}${HOOK}`,
    timestampMs: Date.now(),
    deliveryId: 'msg-1',
    contentType: JSON_TYPE,
    ...others,
    body: Buffer.from(body),
  });
  return {
    path: signed.url.replace(/^https?:\/\/[^/]*/, ''),
    headers: lowerCase(signed.headers),
    body: signed.body.toString(),
  };
}

/** Sends the captured delivery, then all variants of it: whatever the answers, there is one run. */
async function expectOneRun(
  service: Awaited<ReturnType<typeof open>>,
  captured: Wire,
  forgeries: Readonly<Record<string, Wire>>,
): Promise<void> {
  expect(await service.send(captured), 'the honest delivery').toBe(200);
  for (const [how, forgery] of Object.entries({ 'as it was': captured, ...forgeries })) {
    expect(await service.send(forgery), how).not.toBe(200);
  }
  expect(await service.runs()).toBe(1);
}

function inputsOf(scheme: string, inputs: WebhookInputs = {}): WebhookInputs {
  return {
    webhookSignatureScheme: scheme,
    webhookHmacKey: KEYS[scheme],
    webhookReplayToleranceSeconds: 300,
    ...inputs,
  };
}

describe('a captured delivery of StandardWebhooks starts one run', () => {
  const asSvix = ({ headers, ...wire }: Wire): Wire => ({
    ...wire,
    headers: Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name.replace('webhook-', 'svix-'), value]),
    ),
  });
  const withHeaders = (wire: Wire, headers: Record<string, string>): Wire => ({
    ...wire,
    headers: { ...wire.headers, ...headers },
  });

  it.each([
    ['webhook-id', { webhookNonceHeader: 'webhook-id' }],
    ['svix-id', { webhookNonceHeader: 'Svix-Id' }],
    ['no nonce header, by the tolerance alone', {}],
    ['a nonce header without a tolerance', { webhookReplayToleranceSeconds: 0, webhookNonceHeader: 'webhook-id' }],
  ] as [string, WebhookInputs][])('told by %s, whatever family and ids it comes with', async (_how, inputs) => {
    const captured = capture('StandardWebhooks');
    const service = await open(inputsOf('StandardWebhooks', inputs));
    await expectOneRun(service, captured, {
      'under the other family': asSvix(captured),
      'under the other family with a free webhook-id': withHeaders(asSvix(captured), { 'webhook-id': 'free-1' }),
      'under the other family with another free webhook-id': withHeaders(asSvix(captured), { 'webhook-id': 'free-2' }),
      'with a free svix-id': withHeaders(captured, { 'svix-id': 'free-3' }),
      'with a second signature': withHeaders(captured, {
        'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')} ${captured.headers['webhook-signature']}`,
      }),
    });
  });
});

describe('a captured form of a scheme that signs sorted fields starts one run', () => {
  const body = 'Body=a+b&From=%2B1&MessageSid=SM1';
  const rewritten = (wire: Wire): Record<string, Wire> => ({
    'with its fields in another order': { ...wire, body: 'MessageSid=SM1&From=%2B1&Body=a+b' },
    'with %20 for +': { ...wire, body: 'Body=a%20b&From=%2B1&MessageSid=SM1' },
    'with a letter escaped': { ...wire, body: '%42ody=a+b&From=%2B1&MessageSid=SM1' },
    'with a field doubled': { ...wire, body: `${body}&From=%2B1` },
    'with empty fields': { ...wire, body: `&&${body}&` },
    'with a name that lends its end to the value': { ...wire, body: 'Bod=ya+b&From=%2B1&MessageSid=SM1' },
    'with two fields in one': { ...wire, body: 'Body=a+bFrom%2B1&MessageSid=SM1' },
  });

  it.each([
    ['a tolerance', {}],
    ['a nonce header that it does not bring', { webhookReplayToleranceSeconds: 0, webhookNonceHeader: 'X-Absent' }],
  ] as [string, WebhookInputs][])('Twilio, with %s', async (_how, inputs) => {
    const { 'i-twilio-idempotency-token': _id, ...headers } = capture('Twilio', { body, contentType: FORM }).headers;
    const captured = { ...capture('Twilio', { body, contentType: FORM }), headers };
    await expectOneRun(
      await open(inputsOf('Twilio', { webhookPublicUrl: `${PUBLIC}${HOOK}`, ...inputs })),
      captured,
      rewritten(captured),
    );
  });

  it('Twilio, whatever port the host names', async () => {
    const captured = capture('Twilio', { body, contentType: FORM, url: `http://hooks.example.com${HOOK}` });
    const at = (host: string): Wire => ({ ...captured, headers: { ...captured.headers, host } });
    const service = await open(inputsOf('Twilio'));
    await expectOneRun(service, at('hooks.example.com'), {
      'with the default port': at('hooks.example.com:80'),
      'with another port': at('hooks.example.com:8080'),
    });
  });

  it('Custom UrlPlusSortedForm', async () => {
    const inputs: WebhookInputs = {
      webhookSignatureScheme: 'Custom',
      webhookHmacKey: CUSTOM_KEY,
      webhookSignatureHeader: 'X-Sig',
      webhookSignedPayloadStrategy: 'UrlPlusSortedForm',
      webhookPublicUrl: `${PUBLIC}${HOOK}`,
      webhookReplayToleranceSeconds: 300,
    };
    const spec = customSpec(inputs, new Map());
    const captured = capture('Generic', { spec, key: CUSTOM_KEY, body, contentType: FORM });
    await expectOneRun(await open(inputs), captured, rewritten(captured));
  });
});

describe('a captured delivery whose parts stand without a separator starts one run', () => {
  const inputs = inputsOf('Twitch', {
    webhookReplayToleranceSeconds: 60,
    webhookNonceHeader: 'Twitch-Eventsub-Message-Id',
  });
  const ID = 'twitch-eventsub-message-id';
  const TIME = 'twitch-eventsub-message-timestamp';

  /** The same bytes with other boundaries around the timestamp. */
  function moved(wire: Wire, time: string): Wire {
    const all = `${wire.headers[ID]}${wire.headers[TIME]}${wire.body}`;
    const at = all.lastIndexOf(time);
    const headers = { ...wire.headers, 'content-type': 'text/plain', [ID]: all.slice(0, at), [TIME]: time };
    return { ...wire, headers, body: all.slice(at + time.length) };
  }

  it('Twitch, with the id and the timestamp cut anywhere', async () => {
    const other = new Date(Date.now() - 1000).toISOString();
    const captured = capture('Twitch', { body: `{"at":"${other}","event":1}` });
    const { [ID]: id = '', [TIME]: time = '' } = captured.headers;
    await expectOneRun(await open(inputs), captured, {
      'with the timestamp of the body': moved(captured, other),
      'with the end of the id in the timestamp': {
        ...captured,
        headers: { ...captured.headers, [ID]: id.slice(0, -1), [TIME]: `${id.slice(-1)}${time}` },
      },
      'with the front of the timestamp in the id': {
        ...captured,
        headers: { ...captured.headers, [ID]: `${id}${time.slice(0, 1)}`, [TIME]: time.slice(1) },
      },
    });
  });

  it('Twitch, and none when it is an hour old, although its body names a time of now', async () => {
    const time = new Date().toISOString();
    const captured = capture('Twitch', { body: `{"at":"${time}","event":1}`, timestampMs: Date.now() - 3_600_000 });
    const service = await open(inputs);
    expect(await service.send(captured)).toBe(401);
    expect(await service.send(moved(captured, time))).toBe(401);
    expect(await service.runs()).toBe(0);
  });

  it.each(['TimestampDotBody', 'ColonDelimited'] as const)('Custom %s without a delimiter', async (strategy) => {
    const custom: WebhookInputs = {
      webhookSignatureScheme: 'Custom',
      webhookHmacKey: CUSTOM_KEY,
      webhookSignatureHeader: 'X-Sig',
      webhookTimestampHeader: 'X-Time',
      webhookSignedPayloadStrategy: strategy,
      webhookSignedPayloadDelimiter: '',
      ...(strategy === 'ColonDelimited' ? { webhookSignedPayloadVersion: 'v0' } : {}),
      webhookReplayToleranceSeconds: 300,
    };
    const captured = capture('Generic', { spec: customSpec(custom, new Map()), key: CUSTOM_KEY });
    const time = captured.headers['x-time'] ?? '';
    const cut = (at: number): Wire => ({
      ...captured,
      headers: { ...captured.headers, 'x-time': time.slice(0, at) },
      body: `${time.slice(at)}${captured.body}`,
    });
    await expectOneRun(await open(custom), captured, { 'one digit shorter': cut(9), 'two digits shorter': cut(8) });
  });
});

describe('a captured delivery whose URL is signed starts one run', () => {
  const body = '{"event_id":"e1"}';

  it.each([
    ['a public URL of the trigger', inputsOf('Square', { webhookPublicUrl: `${PUBLIC}${HOOK}` }), {}],
    ['a public URL of the service', inputsOf('Square'), { publicUrl: PUBLIC }],
  ] as [string, WebhookInputs, SettingsInput][])(
    'Square with %s: its query stays in the URL',
    async (_how, inputs, settings) => {
      const captured = capture('Square', { body, url: `${PUBLIC}${HOOK}?src=shop` });
      const cut = (at: number): Wire => {
        const all = `?src=shop${body}`;
        const headers = { ...captured.headers, 'content-type': 'text/plain' };
        return { path: `${HOOK}${all.slice(0, at)}`, headers, body: all.slice(at) };
      };
      const service = await open(inputs, settings);
      await expectOneRun(service, captured, {
        'with the query in the body': cut(0),
        'with half of the query in the body': cut(5),
        'with the front of the body in the query': cut(10),
        'with all of the body in the query': cut(26),
      });
    },
  );

  it('Square, and none with the front of its body in the URL, even if the original never arrived', async () => {
    const captured = capture('Square', { body, url: `${PUBLIC}${HOOK}?src=shop` });
    const service = await open(inputsOf('Square', { webhookReplayToleranceSeconds: 0 }), { publicUrl: PUBLIC });
    const headers = { ...captured.headers, 'content-type': 'text/plain' };
    expect(await service.send({ headers, path: `${HOOK}?src=shop${body}`, body: '' })).toBe(401);
    expect(await service.send({ headers, path: `${HOOK}?src=sh`, body: `op${body}` })).toBe(401);
    expect(await service.runs()).toBe(0);
  });

  it('Square, whose body begins like a query', async () => {
    const captured = capture('Square', { body: `?src=shop${body}`, contentType: 'text/plain' });
    const service = await open(inputsOf('Square', { webhookPublicUrl: `${PUBLIC}${HOOK}` }));
    await expectOneRun(service, captured, { 'with a query': { ...captured, path: `${HOOK}?src=shop`, body } });
  });

  it.each([
    'hooks.example.com/x',
    'hooks.example.com"',
    "a'b",
    'a b',
    'a?b',
    'a#b',
    'a@b',
    'a{',
    'a:b',
    '[::1',
    'a:80:80',
  ])('answers 400 to a Host that is none: %s', async (host) => {
    const service = await open(inputsOf('Square'));
    const captured = capture('Square', { body });
    expect(await service.send({ ...captured, headers: { ...captured.headers, host } })).toBe(400);
    expect(await service.runs()).toBe(0);
  });

  it('takes no Host for the front of the body', async () => {
    // Signed: "http://a.example" + path + body, and the body contains the path once more.
    const path = HOOK;
    const honest = `{"link":"${path}","x":1}`;
    const signed = createHmac('sha256', KEYS.Square ?? '')
      .update(`http://a.example${path}${honest}`)
      .digest('base64');
    const headers = { 'content-type': 'text/plain', 'x-square-hmacsha256-signature': signed };
    const service = await open(inputsOf('Square'));
    const swallowed: Wire = { path, headers: { ...headers, host: `a.example${path}{"link":"` }, body: '","x":1}' };
    expect(await service.send(swallowed)).toBe(400);
    expect(await service.send({ path, headers: { ...headers, host: 'a.example' }, body: honest })).toBe(200);
    expect(await service.runs()).toBe(1);
  });

  it('reads no host out of what a trusted proxy forwards but a host', async () => {
    const captured = capture('Square', { body });
    const service = await open(inputsOf('Square'), { trustedProxies: ['127.0.0.1'] });
    const forwarded = (host: string): Wire => ({
      ...captured,
      headers: { ...captured.headers, 'x-forwarded-proto': 'https', 'x-forwarded-host': host },
    });
    expect(await service.send(forwarded('hooks.example.com/"'))).toBe(400);
    expect(await service.send(forwarded('hooks.example.com'))).toBe(200);
  });

  it('Trello: the body, which comes first, ends where the URL begins', async () => {
    const captured = capture('Trello', { body: '{"link":"https://a.example/"}', url: `${PUBLIC}${HOOK}?src=board` });
    const service = await open(inputsOf('Trello'), { publicUrl: PUBLIC });
    await expectOneRun(service, captured, {
      'without the query': { ...captured, path: HOOK },
      'with a URL inside the URL': { ...captured, path: `${HOOK}?x=https://a.example/` },
    });
  });

  it('Custom UrlPlusBody', async () => {
    const inputs: WebhookInputs = {
      webhookSignatureScheme: 'Custom',
      webhookHmacKey: CUSTOM_KEY,
      webhookSignatureHeader: 'X-Sig',
      webhookSignedPayloadStrategy: 'UrlPlusBody',
      webhookReplayToleranceSeconds: 300,
    };
    const spec = customSpec(inputs, new Map());
    const url = `${PUBLIC}${HOOK}?src=shop`;
    const captured = capture('Generic', { spec, key: CUSTOM_KEY, url, body });
    const service = await open(inputs, { publicUrl: PUBLIC });
    await expectOneRun(service, captured, {
      'with the query in the body': { ...captured, path: HOOK, body: `?src=shop${body}` },
      'with the body in the query': { ...captured, path: `${HOOK}?src=shop${body}`, body: '' },
    });
  });
});
