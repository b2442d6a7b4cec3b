import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import { BUILT_IN_SCHEMES } from '../../src/webhooks/schemes/publishers/index.ts';
import {
  type Gateway,
  type Hook,
  NOW as NOW_MS,
  type Sent,
  sharedGateways,
  startGateway,
} from '../publishers/gateway.ts';

const KEY = 'a key of enough bytes';
const NOW = NOW_MS / 1000;
const STRIPE: WebhookInputs = { webhookSignatureScheme: 'Stripe', webhookHmacKey: KEY };
const GITHUB: WebhookInputs = { webhookSignatureScheme: 'GitHub', webhookHmacKey: KEY };
const hex = (text: string) => createHmac('sha256', KEY).update(text).digest('hex');

const open = sharedGateways();

/** A service for one test. */
async function start(triggers: Record<string, WebhookInputs>): Promise<Gateway> {
  return startGateway({ triggers });
}

/** Signed again for each attempt, as the publisher does. */
function stripe(value: unknown, second = NOW): Sent {
  const body = typeof value === 'string' ? value : JSON.stringify(value);
  const signature = `t=${second},v1=${hex(`${second}.${body}`)}`;
  return { headers: { 'content-type': 'application/json', 'stripe-signature': signature }, body };
}

function github(value: unknown, headers: Record<string, string> = {}): Sent {
  const body = JSON.stringify(value);
  const type = { 'content-type': 'application/json' };
  return { headers: { ...type, 'x-hub-signature-256': `sha256=${hex(body)}`, ...headers }, body };
}

const sendTo = async ({ send }: Pick<Hook, 'send'>, sent: Sent) => {
  const { status, text } = await send(sent);
  return { status, ...JSON.parse(text) };
};

describe('an event that its publisher signs three times', () => {
  it('starts one run: each retry gets 200 with the run of the first', async () => {
    const gateway = await open({ ...STRIPE, webhookReplayToleranceSeconds: 300 });
    const { runId } = await sendTo(gateway, stripe({ id: 'evt_1', n: 1 }));
    for (const second of [NOW + 1, NOW + 60]) {
      const again = await sendTo(gateway, stripe({ id: 'evt_1', n: 1 }, second));
      expect(again).toEqual({ status: 200, runId, deliveryId: expect.any(String), duplicate: true });
      expect(await gateway.latestDelivery()).toMatchObject({ outcome: 'duplicate', runId, rejected: false });
    }
    expect(await sendTo(gateway, stripe({ id: 'evt_2', n: 1 }))).not.toHaveProperty('duplicate');
    expect(await gateway.countRuns()).toBe(2);
    expect(await gateway.get('/metrics')).toContain(`\nwebhook_duplicate_total{flow="${gateway.flowId}"} 2\n`);
  });

  it('is in the books as one run and duplicates', async () => {
    const { deliver, get } = await start({ hook: STRIPE });
    for (const second of [NOW, NOW + 1]) await deliver('hook', stripe({ id: 'evt_1' }, second));
    await deliver('hook', stripe({ id: 'evt_2' }));
    const books = JSON.parse(await get('/flows/api/books'));
    expect(books).toMatchObject({ accepted: 3, runs: 2, duplicates: 1, unaccounted: 0 });
  });

  it('and repeated byte by byte is a replay first: 409', async () => {
    const gateway = await open({ ...STRIPE, webhookReplayToleranceSeconds: 300 });
    const sent = stripe({ id: 'evt_1' });
    await sendTo(gateway, sent);
    expect(await sendTo(gateway, sent)).toMatchObject({ status: 409, reason: 'nonce_replayed' });
  });

  it('starts a run each time where the trigger says off', async () => {
    const gateway = await open({ ...STRIPE, webhookEventId: 'off' });
    for (const second of [NOW, NOW + 1]) await sendTo(gateway, stripe({ id: 'evt_1' }, second));
    expect(await gateway.countRuns()).toBe(2);
  });

  it('starts another one once it is no longer known', async () => {
    const gateway = await open({ ...STRIPE, webhookEventIdDays: 1 });
    await sendTo(gateway, stripe({ id: 'evt_1' }));
    gateway.setNow((NOW + 86_399) * 1000);
    expect(await sendTo(gateway, stripe({ id: 'evt_1' }, NOW + 86_399))).toMatchObject({ duplicate: true });
  });

  it('starts one run among many at once', async () => {
    const gateway = await open(STRIPE);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => sendTo(gateway, stripe({ id: 'evt_1' }, NOW + n))),
    );
    expect(new Set(answers.map(({ runId }) => runId)).size).toBe(1);
    expect(answers.filter(({ duplicate }) => duplicate === true)).toHaveLength(19);
    expect(await gateway.countRuns()).toBe(1);
  });
});

describe('an unverified delivery', () => {
  it('under a lenient mode neither takes an event nor is told of one', async () => {
    const gateway = await open({ ...STRIPE, webhookEnforcementMode: 'Off' });
    const forged = (id: string): Sent => ({ ...stripe({ id }), headers: { 'content-type': 'application/json' } });
    const stranger = await sendTo(gateway, forged('evt_1'));
    expect(stranger).not.toHaveProperty('duplicate');
    const first = await sendTo(gateway, stripe({ id: 'evt_1' }));
    expect(first).not.toHaveProperty('duplicate');
    expect(first.runId).not.toBe(stranger.runId);
    expect(await sendTo(gateway, forged('evt_1'))).not.toHaveProperty('duplicate');
    expect(await sendTo(gateway, stripe({ id: 'evt_1' }, NOW + 1))).toMatchObject({ duplicate: true });
    await sendTo(gateway, { ...forged('x'), body: '{"id":{}}' });
    expect(await gateway.latestDelivery()).toMatchObject({ outcome: null });
  });
});

describe('a header that names the message', () => {
  const secret = Buffer.alloc(32, 7);
  const hook: WebhookInputs = {
    webhookSignatureScheme: 'StandardWebhooks',
    webhookHmacKey: `whsec_${secret.toString('base64')}`,
  };
  const message = (family: string, id: string, more: Record<string, string> = {}): Sent => {
    const signature = createHmac('sha256', secret).update(`${id}.${NOW}.{}`).digest('base64');
    const headers = {
      [`${family}-id`]: id,
      [`${family}-timestamp`]: `${NOW}`,
      [`${family}-signature`]: `v1,${signature}`,
    };
    return { headers: { 'content-type': 'application/json', ...headers, ...more }, body: '{}' };
  };

  it('counts from the family that verified, whatever an unsigned one beside it says', async () => {
    const gateway = await open(hook);
    const { runId } = await sendTo(gateway, message('svix', 'msg_1'));
    const other = { 'webhook-id': 'msg_2' };
    expect(await sendTo(gateway, message('svix', 'msg_1', other))).toMatchObject({ duplicate: true, runId });
    expect(await sendTo(gateway, message('svix', 'msg_2'))).not.toHaveProperty('duplicate');
  });

  it('does so for an expression of the trigger too', async () => {
    const gateway = await open({ ...hook, webhookEventId: 'headers["webhook-id"]' });
    const { runId } = await sendTo(gateway, message('svix', 'msg_1'));
    const other = { 'webhook-id': 'msg_2' };
    expect(await sendTo(gateway, message('svix', 'msg_1', other))).toMatchObject({ duplicate: true, runId });
  });
});

describe('webhookEventId', () => {
  it('names events by an expression over body and headers', async () => {
    const gateway = await open({ ...GITHUB, webhookEventId: "body.order.id + ':' + body.status" });
    const order = (id: string, status: string, n: number) => github({ order: { id }, status, n });
    const { runId } = await sendTo(gateway, order('o-1', 'paid', 1));
    expect(await sendTo(gateway, order('o-1', 'paid', 2))).toMatchObject({ duplicate: true, runId });
    expect(await sendTo(gateway, order('o-1', 'sent', 3))).not.toHaveProperty('duplicate');
  });

  it('tells numbers apart that a double would not, in a large body too', async () => {
    const gateway = await open({ ...GITHUB, webhookEventId: 'body.id' });
    const large = (id: string): Sent => {
      const body = `{"pad":"${'x'.repeat(100_000)}","id":${id}}`;
      return { ...github({}, { 'x-hub-signature-256': `sha256=${hex(body)}` }), body };
    };
    for (const id of ['9007199254740992', '9007199254740993']) {
      expect(await sendTo(gateway, large(id))).not.toHaveProperty('duplicate');
      expect(await sendTo(gateway, large(id))).toHaveProperty('duplicate');
    }
  });

  it.each([
    ['is absent', 'body.id', {}],
    ['is null', 'body.id', { id: null }],
    ['is empty', 'body.id', { id: ' ' }],
    ['is a boolean', 'body.id', { id: true }],
    ['is an object', 'body.id', { id: {} }],
    ['costs too much', "body.n.map(a, body.n.map(b, a + b)).size() > 0 ? 'x' : 'y'", { n: Array(600).fill(1) }],
  ])('that %s names no event: the run starts, and record and attention say so', async (_, webhookEventId, body) => {
    const gateway = await open({ ...GITHUB, webhookEventId });
    for (const _time of [1, 2]) {
      expect(await sendTo(gateway, github(body))).not.toHaveProperty('duplicate');
    }
    const record = await gateway.latestDelivery();
    expect(record).toMatchObject({ outcome: 'unevaluated' });
    const { gateResults } = JSON.parse(await gateway.get(`/flows/api/webhooks/${record.id}`));
    const told = gateResults.find(({ gate }: { gate: string }) => gate === 'webhookEventId');
    expect(told).toMatchObject({ outcome: 'not evaluated', detail: expect.stringMatching(/; the run starts$/) });
    const attention = JSON.parse(await gateway.get('/flows/api/attention'));
    expect(attention).toContainEqual(expect.objectContaining({ kind: 'expression_failed', flowId: gateway.flowId }));
  });

  it('that the scheme has and this form of delivery lacks is no failure', async () => {
    const gateway = await open(STRIPE);
    await sendTo(gateway, stripe({ object: 'event' }));
    expect(await gateway.latestDelivery()).toMatchObject({ outcome: null });
  });

  it('of unsigned parts gets a warning, of signed parts none', async () => {
    const warned = async (inputs: WebhookInputs) =>
      (await open(inputs)).warnings.filter((line) => line.includes('webhookEventId'));
    expect(await warned({ ...GITHUB, webhookEventId: 'body.id' })).toEqual([]);
    expect(await warned(STRIPE)).toEqual([]);
    const header = await warned({ ...GITHUB, webhookEventId: 'headers["x-github-delivery"]' });
    expect(header.join()).toContain('reads the header x-github-delivery: GitHub does not sign that');
    expect((await warned({ webhookEventId: 'body.id' })).join()).toContain('without a scheme nothing is signed');
    const days = await warned({ ...GITHUB, webhookEventIdDays: 5 });
    expect(days.join()).toContain('webhookEventIdDays: is ignored: no webhookEventId names the event');
  });

  it.each([
    ['does not parse', 'body.', 'webhookEventId'],
    ['gives a list', '[body.id]', 'an event id is a text or a number'],
    ['gives a boolean', 'body.id == 1', 'an event id is a text or a number'],
    ['reads a credential', 'headers.authorization', 'may hold a secret or a signature'],
    ['reads a header that it does not name', 'headers[body.name]', 'has to name the header'],
  ])('that %s is refused', async (_, webhookEventId, message) => {
    await expect(open({ ...GITHUB, webhookEventId })).rejects.toThrow(message);
  });
});

describe('a scheme', () => {
  it('names events by default only where its publisher documents an id and signs it', async () => {
    const named = BUILT_IN_SCHEMES.filter(({ eventIdSource }) => eventIdSource !== undefined);
    expect(named.map(({ name }) => name).sort()).toEqual([
      'Airwallex',
      'CircleCI',
      'Paddle',
      'Slack',
      'Square',
      'Squarespace',
      'StandardWebhooks',
      'Stripe',
      'Twitch',
    ]);
    const gateway = await start(
      Object.fromEntries(
        named.map(({ name }) => [
          name,
          { webhookSignatureScheme: name, webhookPublicUrl: 'https://hooks.example.com/' },
        ]),
      ),
    );
    const [flow] = JSON.parse(await gateway.get('/flows/api/flows'));
    const expressions = flow.triggers.map(({ key, eventId }: { key: string; eventId: object }) => [key, eventId]);
    const of = (expression: string) => ({ expression, by: 'scheme', days: 30, unsigned: [] });
    expect(Object.fromEntries(expressions)).toEqual({
      Airwallex: of('body.id'),
      CircleCI: of('body.id'),
      Paddle: of('body.event_id'),
      Slack: of('body.event_id'),
      Square: of('body.event_id'),
      Squarespace: of('body.id'),
      StandardWebhooks: of('headers["webhook-id"]'),
      Stripe: of('body.id'),
      Twitch: of('headers["twitch-eventsub-message-id"]'),
    });
  });
});
