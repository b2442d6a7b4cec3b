import { createHash, createHmac } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { issuesAfter } from '../../manifest/rules.ts';
import { type Gateway, NOW, startGateway } from '../../publishers/gateway.ts';

const [FIRST, SECOND, THIRD, PREVIOUS] = ['first', 'second', 'third', 'previous'].map(
  (name) => `the ${name} key of the test, long enough`,
) as [string, string, string, string];
const BODY = '{"type":"account.updated"}';
const LIST = { webhookHmacKey: [FIRST, SECOND, THIRD], webhookHmacKeyPrevious: PREVIOUS };

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway({
    keepsAll: true,
    triggers: {
      stripe: { webhookSignatureScheme: 'Stripe', ...LIST },
      github: { webhookSignatureScheme: 'GitHub', ...LIST },
      token: { webhookSignatureScheme: 'Token', ...LIST },
      code: { webhookSignatureScheme: 'Acme', ...LIST },
      message: { webhookSignatureScheme: 'HttpMessageSignatures', webhookReplayToleranceSeconds: 300, ...LIST },
      x: { webhookSignatureScheme: 'Zoom', webhookHmacKey: [FIRST, SECOND] },
    },
    extensions: {
      verifiers: [
        {
          name: 'Acme',
          headers: ['x-acme'],
          verify: ({ delivery, keys }) => {
            if (delivery.headers['x-acme'] === keys.current) return { outcome: 'verified' };
            if (delivery.headers['x-acme'] === keys.previous) return { outcome: 'verifiedWithPreviousKey' };
            return { outcome: 'refused', reason: 'not signed by Acme' };
          },
        },
      ],
    },
  });
});

let deliveries = 0;
/** A new body each time, so that no delivery repeats another. */
const nextBody = () => {
  deliveries += 1;
  return `${BODY.slice(0, -1)},"n":${deliveries}}`;
};
const hmac = (key: string, text: string) => createHmac('sha256', key).update(text).digest('hex');
const SIGNED: Readonly<Record<string, (key: string, body: string) => Record<string, string>>> = {
  stripe: (key, body) => ({ 'stripe-signature': `t=${NOW / 1000},v1=${hmac(key, `${NOW / 1000}.${body}`)}` }),
  github: (key, body) => ({ 'x-hub-signature-256': `sha256=${hmac(key, body)}` }),
  token: (key) => ({ authorization: `Bearer ${key}` }),
  code: (key) => ({ 'x-acme': key }),
};

async function deliver(slug: string, key: string) {
  const [body, since] = [nextBody(), gateway.logged.length];
  const headers = { 'content-type': 'application/json', ...SIGNED[slug]?.(key, body) };
  const { status } = await gateway.deliver(slug, { method: 'POST', headers, body });
  const told = gateway.logged.slice(since).filter((line) => line.includes('"eventId":4010,')).length;
  return { status, told, usedPreviousKey: (await gateway.latestDelivery()).usedPreviousKey };
}

describe.each(Object.keys(SIGNED))('a list of keys of %s', (slug) => {
  it.each([FIRST, SECOND, THIRD])('lets each of its keys verify, and tells of no rotation: %s', async (key) => {
    expect(await deliver(slug, key)).toEqual({ status: 200, told: 0, usedPreviousKey: false });
  });

  it('tells of the previous key, and of no other', async () => {
    expect(await deliver(slug, PREVIOUS)).toEqual({ status: 200, told: 1, usedPreviousKey: true });
    expect((await deliver(slug, 'a key of a stranger, long enough')).status).toBe(401);
  });
});

it('counts a delivery that a key in force and the previous one signed for the one in force', async () => {
  const [body, at] = [nextBody(), NOW / 1000];
  const signature = [PREVIOUS, SECOND].map((key) => `v1=${hmac(key, `${at}.${body}`)}`).join(',');
  const headers = { 'content-type': 'application/json', 'stripe-signature': `t=${at},${signature}` };
  expect((await gateway.deliver('stripe', { method: 'POST', headers, body })).status).toBe(200);
  expect((await gateway.latestDelivery()).usedPreviousKey).toBe(false);
});

describe('message signatures by several keys', () => {
  const send = (signatures: readonly (readonly [key: string, at: number])[]) => {
    const digest = `sha-256=:${createHash('sha256').update(BODY).digest('base64')}:`;
    const lists = signatures.map(([key, at], number) => {
      const input = `("@method" "@path" "content-digest");created=${at}`;
      const path = '/flows/api/webhook/message';
      const base = `"@method": POST\n"@path": ${path}\n"content-digest": ${digest}\n"@signature-params": ${input}`;
      const signature = createHmac('sha256', key).update(base).digest('base64');
      return { input: `sig${number}=${input}`, signature: `sig${number}=:${signature}:` };
    });
    const headers = {
      'content-type': 'application/json',
      'content-digest': digest,
      'signature-input': lists.map(({ input }) => input).join(', '),
      signature: lists.map(({ signature }) => signature).join(', '),
    };
    return gateway.deliver('message', { method: 'POST', headers, body: BODY });
  };
  const at = NOW / 1000;

  it.each([
    [FIRST, SECOND],
    [SECOND, THIRD],
    [PREVIOUS, SECOND],
  ])('are one delivery if they are of one time, and refused otherwise: %s, %s', async (one, other) => {
    const apart = await send([
      [one, at - 1],
      [other, at - 2],
    ]);
    expect([apart.status, (await gateway.latestDelivery()).reason]).toEqual([401, 'signature_malformed']);
    const time = at - 10 - [FIRST, SECOND, PREVIOUS].indexOf(one);
    const both = await send([
      [one, time],
      [other, time],
    ]);
    expect(both.status).toBe(200);
    for (const key of [one, other]) expect((await send([[key, time]])).status).toBe(409);
  });

  it('do not count if no key of the trigger made them', async () => {
    const { status } = await send([
      [FIRST, at - 20],
      ['a key of a proxy, long enough', at - 30],
    ]);
    expect(status).toBe(200);
  });
});

it('answers a handshake with the key that signed it', async () => {
  const body = JSON.stringify({ event: 'endpoint.url_validation', payload: { plainToken: 'abc' } });
  const time = String(NOW / 1000);
  const headers = {
    'content-type': 'application/json',
    'x-zm-request-timestamp': time,
    'x-zm-signature': `v0=${hmac(SECOND, `v0:${time}:${body}`)}`,
  };
  const { text } = await gateway.deliver('x', { method: 'POST', headers, body });
  expect(JSON.parse(text)).toEqual({ plainToken: 'abc', encryptedToken: hmac(SECOND, 'abc') });
});

it('counts deliveries for the key that verified them, and shows no key', async () => {
  await deliver('github', THIRD);
  const keys = JSON.parse(await gateway.get('/flows/api/keys')) as Record<string, unknown>[];
  const own = keys.filter(({ triggerKey }) => triggerKey === 'github');
  expect(own.map(({ role }) => role)).toEqual(['current', 'current', 'current', 'previous']);
  expect(new Set(own.map(({ fingerprint }) => fingerprint)).size).toBe(4);
  expect(Number(own[2]?.count)).toBeGreaterThan(0);
  const [{ id }] = JSON.parse(await gateway.get('/flows/api/flows')) as [{ id: string }];
  const paths = ['flows', `flows/${id}`, `flows/${id}/revisions/1`, 'keys'];
  const shown = (await Promise.all(paths.map((path) => gateway.get(`/flows/api/${path}`)))).join('');
  expect(shown).toContain('"webhookHmacKey":["***","***","***"]');
  for (const key of [FIRST, SECOND, THIRD, PREVIOUS]) expect(shown + gateway.logged.join('')).not.toContain(key);
});

describe('a manifest', () => {
  const issues = (inputs: object) =>
    issuesAfter((manifest) => Object.assign(manifest.triggers.github?.inputs ?? {}, inputs))
      .filter((issue) => issue.startsWith('error'))
      .join('\n');

  it.each([
    [[], /webhookHmacKey/],
    [['env:API_TOKEN', 'env:API_TOKEN'], /names a key twice/],
    [['one and the same key', 'env:MISSING_KEY'], /webhookHmacKey\[1\]: .*MISSING_KEY is not set/],
    [['env:API_TOKEN', ''], /webhookHmacKey\[1\]/],
    [['env:API_TOKEN', '***'], /webhookHmacKey\[1\]: is the mask/],
    [['env:GITHUB_KEY', 'a key of the environment'], /webhookHmacKey\[1\]: is a key that the list has already/],
    [['env:API_TOKEN', 7], /webhookHmacKey\[1\]/],
    [Array.from({ length: 11 }, (_, at) => `key number ${at} of the test`), /webhookHmacKey/],
    [{ key: 'env:API_TOKEN' }, /webhookHmacKey/],
  ])('is refused for the keys %j', (webhookHmacKey, message) => {
    expect(issues({ webhookHmacKey })).toMatch(message);
  });
});
