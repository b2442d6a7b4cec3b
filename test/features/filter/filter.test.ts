import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { type Hook, type Sent, sharedGateways, startGateway } from '../../publishers/gateway.ts';

const KEY = 'a key of enough bytes';
const OPENED = "body.action == 'opened'";
const HOOK: WebhookInputs = { webhookSignatureScheme: 'GitHub', webhookHmacKey: KEY, webhookWhen: OPENED };

const share = sharedGateways();
const open = (hook: WebhookInputs = {}): Promise<Hook> => share({ ...HOOK, ...hook });

function push(value: unknown, id = 'id-1'): Sent {
  const body = typeof value === 'string' ? value : JSON.stringify(value);
  const signature = `sha256=${createHmac('sha256', KEY).update(body).digest('hex')}`;
  const headers = { 'content-type': 'application/json', 'x-hub-signature-256': signature, 'x-github-delivery': id };
  return { headers, body };
}

const sendTo = async ({ send }: Pick<Hook, 'send'>, sent: Sent) => {
  const { status, text } = await send(sent);
  return { status, ...JSON.parse(text) };
};

const toldBy = async ({ get }: Hook, id: string) => {
  const { gateResults } = JSON.parse(await get(`/flows/api/webhooks/${id}`));
  return gateResults.find(({ gate }: { gate: string }) => gate === 'webhookWhen');
};

describe('a delivery for which webhookWhen is false', () => {
  it('gets 200, is recorded as filtered with the reason, and starts no run', async () => {
    const gateway = await open();
    const answer = await sendTo(gateway, push({ action: 'closed' }));
    const record = await gateway.latestDelivery();
    expect(answer).toEqual({ status: 200, deliveryId: record.id, filtered: true });
    expect(record).toMatchObject({ outcome: 'filtered', runId: null, rejected: false, reason: null });
    expect(await gateway.countRuns()).toBe(0);
    expect(await toldBy(gateway, record.id)).toMatchObject({
      gate: 'webhookWhen',
      detail: `it is false, so no run starts: ${OPENED}`,
    });
    expect(await gateway.get('/metrics')).toContain(`\nwebhook_filtered_total{flow="${gateway.flowId}"} 1\n`);
  });

  it('does not hinder one for which it is true', async () => {
    const gateway = await open();
    expect(await sendTo(gateway, push({ action: 'opened' }))).toMatchObject({ status: 200, runId: expect.any(String) });
    expect(await gateway.countRuns()).toBe(1);
    expect(await gateway.latestDelivery()).toMatchObject({ outcome: null });
  });

  it('keeps its nonce: its replay gets 409, or 200 where the trigger acknowledges', async () => {
    const nonce = { webhookNonceHeader: 'X-GitHub-Delivery' };
    const gateway = await open(nonce);
    const closed = push({ action: 'closed' });
    await sendTo(gateway, closed);
    expect(await sendTo(gateway, closed)).toMatchObject({ status: 409, reason: 'nonce_replayed' });
    const kind = await open({ ...nonce, webhookDuplicateResponse: 'acknowledge' });
    await sendTo(kind, closed);
    const again = await sendTo(kind, closed);
    expect(again).toEqual({ status: 200, deliveryId: expect.any(String), filtered: true });
    expect(await kind.latestDelivery()).toMatchObject({ outcome: 'filtered', reason: 'nonce_replayed', body: null });
  });

  it('is in the books as filtered, and its acknowledged replay too', async () => {
    const inputs = {
      ...HOOK,
      webhookNonceHeader: 'X-GitHub-Delivery',
      webhookDuplicateResponse: 'acknowledge',
    } as const;
    const gateway = await startGateway({ triggers: { hook: inputs } });
    for (const _time of [1, 2]) await gateway.deliver('hook', push({ action: 'closed' }));
    const books = JSON.parse(await gateway.get('/flows/api/books'));
    expect(books).toMatchObject({ accepted: 2, runs: 0, filtered: 2, unaccounted: 0 });
  });

  it('is asked of under every mode, for verified and unverified alike', async () => {
    const gateway = await open({ webhookEnforcementMode: 'Off' });
    expect(await sendTo(gateway, { body: '{"action":"closed"}' })).toMatchObject({ filtered: true });
    expect(await sendTo(gateway, push({ action: 'closed' }))).toMatchObject({ filtered: true });
    expect(await gateway.countRuns()).toBe(0);
  });

  it('is refused by its gates first', async () => {
    const gateway = await open();
    expect(await sendTo(gateway, { body: '{"action":"closed"}' })).toMatchObject({ status: 401 });
  });

  it('has the answer that its trigger names', async () => {
    const gateway = await open({ webhookResponse: { contentType: 'text/plain', body: 'fine' } });
    expect((await gateway.send(push({ action: 'closed' }))).text).toBe('fine');
  });
});

describe('webhookWhen that gives neither true nor false', () => {
  it.each([
    ['fails', OPENED, {}],
    ['gives a text', 'body.action', { action: 'closed' }],
    ['gives null', 'body.action', { action: null }],
    [
      'costs too much',
      'body.n.exists(a, body.n.exists(b, a + b < 0))',
      { n: Array.from({ length: 400 }, (_, n) => n) },
    ],
    ['reads a body that is no object', OPENED, 'null'],
    ['reads a body that is nested too deeply', OPENED, `${'['.repeat(5000)}${']'.repeat(5000)}`],
  ])('never drops: where it %s the run starts, and record and attention say so', async (_, webhookWhen, body) => {
    const gateway = await open({ webhookWhen });
    expect(await sendTo(gateway, push(body))).toMatchObject({ status: 200, runId: expect.any(String) });
    const detail = expect.stringMatching(/; the run starts$/);
    const record = await gateway.latestDelivery();
    expect(record).toMatchObject({ outcome: 'unevaluated', rejected: false });
    expect(await toldBy(gateway, record.id)).toMatchObject({ gate: 'webhookWhen', outcome: 'not evaluated', detail });
    const attention = JSON.parse(await gateway.get('/flows/api/attention'));
    const isOwn = ({ kind, flowId }: { kind: string; flowId: string }) =>
      kind === 'expression_failed' && flowId === gateway.flowId;
    const item = attention.find(isOwn);
    expect(item.message).toContain('publishers/hook could not be evaluated for 1 delivery');
  });

  it('reads a large body of any type whole and exactly', async () => {
    const gateway = await open({ webhookWhen: 'body.id == 9007199254740993' });
    const large = (id: string) => `{"pad":"${'x'.repeat(100_000)}","id":${id}}`;
    const plain = (sent: Sent): Sent => ({ ...sent, headers: { ...sent.headers, 'content-type': 'text/plain' } });
    for (const change of [plain, (sent: Sent) => sent]) {
      expect(await sendTo(gateway, change(push(large('9007199254740993'))))).toHaveProperty('runId');
      expect(await sendTo(gateway, change(push(large('9007199254740992'))))).toMatchObject({ filtered: true });
    }
  });
});

describe('a manifest', () => {
  it.each([
    ['is empty', '', 'webhookWhen: is empty'],
    ['does not parse', 'body.', 'webhookWhen'],
    ['gives a number', '1 + 1', 'gives int; a condition gives true or false'],
    ['reads what a step reads', 'trigger.body.n > 1', 'expressions of a trigger read body and headers'],
    ['is written as a template', `\${${OPENED}}`, 'is an expression already'],
  ])('whose webhookWhen %s is refused', async (_, webhookWhen, message) => {
    await expect(open({ webhookWhen })).rejects.toThrow(message);
  });
});
