// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.

import { beforeAll, describe, expect, it } from 'vitest';
import { issuesOf } from '../../manifest/rules.ts';
import { type Gateway, type Sent, startGateway } from '../../publishers/gateway.ts';

const SIGNED = { webhookSignatureScheme: 'GitHub', webhookHmacKey: 'a key of the test' } as const;
const EVENT_GRID = [{ eventType: 'Microsoft.EventGrid.SubscriptionValidationEvent', data: { validationCode: 'C-1' } }];

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway({
    keepsAll: true,
    triggers: {
      open: { webhookEnforcementMode: 'Off' },
      token: { webhookSignatureScheme: 'Token', webhookHmacKey: 'a key of the test' },
      signed: { ...SIGNED },
      probed: {
        ...SIGNED,
        webhookHandshake: [
          {
            method: 'GET',
            when: 'has(query.challenge)',
            answer: { headers: { 'X-Word': '${query.challenge}' }, body: '${query.challenge}' },
          },
          { method: 'GET', answer: { body: { ok: true, agent: '${headers["x-agent"]}' } } },
          { method: 'HEAD', answer: {} },
          { method: 'OPTIONS', answer: { headers: { 'WebHook-Allowed-Rate': '120' } } },
          {
            method: 'POST',
            when: 'body.test == true',
            answer: { status: '${body.status}', body: { sent: '${body}' } },
          },
          {
            method: 'POST',
            when: 'body.markup == true',
            answer: { headers: { 'Content-Type': '${body.type}' }, body: 'b' },
          },
        ],
      },
      bitbucket: { webhookSignatureScheme: 'Bitbucket', webhookHmacKey: 'a key of the test' },
    },
  });
});

const json = (body: unknown): Sent => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
});

/** Returns the answer after checking that no run started. */
async function probe(slug: string, sent: Sent) {
  const before = await gateway.countRuns();
  const answer = await gateway.deliver(slug, sent);
  expect(await gateway.countRuns()).toBe(before);
  return answer;
}

describe('a handshake of the manifest', () => {
  it('is answered with what query, headers and body bring', async () => {
    expect(await probe('probed', { method: 'GET', query: '?challenge=abc&challenge=no' })).toMatchObject({
      status: 200,
      text: 'abc',
      headers: { 'content-type': 'text/plain; charset=utf-8', 'x-word': 'abc' },
    });
    const agent = await probe('probed', { method: 'GET', headers: { 'x-agent': 'meter' } });
    expect(JSON.parse(agent.text)).toEqual({ ok: true, agent: 'meter' });
    const posted = await probe('probed', json({ test: true, status: 202 }));
    expect(posted.status).toBe(202);
    expect(JSON.parse(posted.text)).toEqual({ sent: { test: true, status: 202 } });
    expect(await probe('probed', { method: 'HEAD' })).toMatchObject({ status: 200, text: '' });
    expect((await probe('probed', { method: 'OPTIONS' })).headers['webhook-allowed-rate']).toBe('120');
  });

  it('is no active content, whatever it repeats', async () => {
    const answers = [
      await probe('probed', { method: 'GET', query: '?challenge=%3Cscript%3Ealert(1)%3C/script%3E' }),
      await probe('probed', json({ markup: true, type: 'application/json' })),
    ];
    for (const { headers } of answers) {
      expect(headers['content-security-policy']).toBe("default-src 'none'; sandbox");
      expect(headers['x-content-type-options']).toBe('nosniff');
      expect(headers['content-type']).toMatch(/^(text\/plain|application\/json)/);
    }
  });

  it.each([
    ['a part that is not there', { method: 'GET' }],
    ['a header of two lines', { method: 'GET', query: '?challenge=a%0D%0ASet-Cookie:x' }],
    ['a status that leads elsewhere', json({ test: true, status: 302 })],
    ['a text as status', json({ test: true, status: '200' })],
    ['a type that browsers run', json({ markup: true, type: 'text/html' })],
    ['more than an answer holds', json({ test: true, status: 200, fill: 'x'.repeat(17_000) })],
  ] satisfies [string, Sent][])('is refused with 400, and the record says why, for %s', async (_what, sent) => {
    const answer = await probe('probed', sent);
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.text).message).toBe('The request lacks what the answer of this webhook to it is made of');
    expect((await gateway.latestDelivery()).detail).toMatch(/^handshake webhookHandshake\[\d\]: answer/);
  });

  it('leaves what its condition does not hold for to the gates', async () => {
    for (const body of [{}, { test: 'true' }, [], 'test', { test: false }]) {
      expect((await probe('probed', json(body))).status).toBe(401);
    }
    const large = json({ test: true, fill: 'x'.repeat(70_000) });
    expect((await probe('probed', large)).status).toBe(401);
  });
});

it('answers no GET and no HEAD of a trigger without a handshake', async () => {
  for (const slug of ['open', 'signed']) {
    for (const method of ['GET', 'HEAD']) expect((await probe(slug, { method })).status).toBe(405);
  }
});

it.each(['open', 'token'])('answers the validation of Event Grid, and starts no run: %s', async (slug) => {
  const answer = await probe(slug, json(EVENT_GRID));
  expect(answer).toMatchObject({ status: 200, text: '{"validationResponse":"C-1"}' });
});

it('takes what only looks like that validation for a delivery', async () => {
  expect((await probe('signed', json(EVENT_GRID))).status).toBe(401);
  const before = await gateway.countRuns();
  for (const body of [[...EVENT_GRID, ...EVENT_GRID], EVENT_GRID[0], { text: EVENT_GRID[0]?.eventType }]) {
    expect((await gateway.deliver('open', json(body))).status).toBe(200);
  }
  expect(await gateway.countRuns()).toBe(before + 3);
});

it('lets a publisher of CloudEvents ask, and says the rate where it asks for one', async () => {
  const asked = { method: 'OPTIONS', headers: { 'webhook-request-origin': 'eventgrid.azure.net' } };
  const { status, headers } = await probe('signed', asked);
  expect({ status, allowed: headers['webhook-allowed-origin'] }).toEqual({ status: 200, allowed: '*' });
  expect(headers).not.toHaveProperty('webhook-allowed-rate');
  const rated = await probe('open', { ...asked, headers: { ...asked.headers, 'webhook-request-rate': '120' } });
  expect(rated.headers['webhook-allowed-rate']).toBe('*');
  expect((await probe('open', { method: 'OPTIONS' })).status).toBe(405);
});

it('answers the test of Bitbucket Data Center, and no event that says test', async () => {
  expect(await probe('bitbucket', json({ test: true }))).toMatchObject({ status: 200, text: '' });
  expect((await probe('bitbucket', json({ test: true, eventKey: 'repo:refs_changed' }))).status).toBe(401);
});

describe('a manifest', () => {
  const inputs = (webhookHandshake: unknown) => ({
    id: '0f8fad5b-d9cb-469f-a165-70867728950e',
    name: 'probes',
    version: '1',
    triggers: { hook: { type: 'webhook', inputs: { webhookSlug: 'in', ...SIGNED, webhookHandshake } } },
    steps: { a: { type: 'NoOp' } },
  });
  const mistakes = (given: unknown) =>
    issuesOf(JSON.stringify(inputs(given))).filter((issue) => issue.startsWith('error') && !issue.includes('HmacKey'));
  const get = (answer: object) => ({ method: 'GET', answer });

  it.each([
    ['one', { method: 'get', answer: { status: 204 } }],
    ['a list', [get({ body: 'hello' }), { method: 'HEAD', answer: {} }]],
    ['a body of JSON', get({ body: { a: ['${query.b}', 1, null] } })],
    ['a template in a longer text', get({ body: 'confirmation=${query.code}' })],
  ])('may have %s', (_what, given) => {
    expect(mistakes(given)).toEqual([]);
  });

  it.each([
    ['set-cookie', 'Set-Cookie'],
    ['a redirect', 'location'],
    ['the policy', 'Content-Security-Policy'],
    ['an encoding', 'content-encoding'],
    ['the transfer', 'Transfer-Encoding'],
    ['the connection', 'connection'],
    ['access of other origins', 'Access-Control-Allow-Origin'],
    ['a proxy', 'X-Accel-Redirect'],
    ['a refresh', 'Refresh'],
    ['the id of the delivery', 'Sluice-Delivery'],
  ])('is refused for a header that is %s', (_what, name) => {
    expect(mistakes(get({ headers: { [name]: 'x' } }))).toEqual([
      expect.stringMatching(
        `webhookHandshake.*${name}.*: is a header that a browser, a proxy or the connection would act on`,
      ),
    ]);
  });

  it.each([
    ['no list', [], /webhookHandshake/],
    ['too long a list', Array.from({ length: 11 }, () => get({})), /webhookHandshake/],
    ['another method', { method: 'PUT', answer: {} }, /method/],
    ['a POST without a condition', { method: 'POST', answer: {} }, /when: is required for POST/],
    ['a condition that does not parse', { ...get({}), when: 'query.' }, /when/],
    ['a condition that is a template', { ...get({}), when: '${query.a == 1}' }, /leave out/],
    ['a condition that is no condition', { ...get({}), when: '1 + 1' }, /a condition gives true or false/],
    ['an unknown root', get({ body: '${trigger.body}' }), /handshake read query, headers and body/],
    ['a header in capitals', get({ body: '${headers["X-A"]}' }), /header names are lower-case/],
    ['an open placeholder', get({ body: '${query.a' }), /not closed/],
    ['an expression without a placeholder', get({ body: 'query.challenge' }), /write \$\{query\.challenge\}/],
    ['the same in a header', get({ headers: { 'x-a': 'headers["x-b"]' } }), /write \$\{/],
    ['a status of another kind', get({ status: 302 }), /status/],
    ['a status as text', get({ status: '200' }), /is a text; write a number/],
    ['a page', get({ headers: { 'content-type': 'text/html' }, body: '<p>' }), /browsers may run/],
    ['a field more', { ...get({}), path: '/' }, /path/],
    ['no answer', { method: 'GET' }, /answer/],
    ['one that is never reached', [get({}), { ...get({}), when: 'has(query.a)' }], /never reached/],
    ['too long an answer', get({ body: 'x'.repeat(17_000) }), /more than 16384 characters/],
    [
      'too many headers',
      get({ headers: Object.fromEntries(Array.from({ length: 11 }, (_, n) => [`x-${n}`, 'v'])) }),
      /more than 10/,
    ],
    ['a name that is none', get({ headers: { 'x y': 'v' } }), /header name/],
  ])('is refused for %s', (_what, given, message) => {
    expect(mistakes(given).join('\n')).toMatch(message);
  });
});
