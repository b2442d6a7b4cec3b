import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { eventually } from '../../e2e/service.ts';
import { type Gateway, NOW, type Sent, startGateway } from '../../publishers/gateway.ts';

const KEY = 'a key of enough bytes';
const HOOK: WebhookInputs = { webhookSignatureScheme: 'GitHub', webhookHmacKey: KEY };
const LIMITS = { key: 'body.sku', quietSeconds: 20, maxSeconds: 60, collect: 3 };
const read = (expression: string) => `\${${expression}}`;
const steps = {
  all: {
    type: 'Transform',
    inputs: {
      value: {
        newest: read('trigger.body.n'),
        type: read('trigger.headers["x-github-event"]'),
        count: read('size(trigger.deliveries)'),
        all: read('trigger.deliveries'),
        ns: read('trigger.deliveries.map(d, d.body.n)'),
      },
    },
  },
};

async function open(hook: WebhookInputs = {}, limits: object = {}): Promise<Gateway> {
  return startGateway({
    triggers: { hook: { ...HOOK, ...hook } },
    coalesce: { ...LIMITS, ...limits },
    steps,
  });
}

function push(value: unknown, { event = 'push', key = KEY, type = 'application/json' } = {}): Sent {
  const body = typeof value === 'string' ? value : JSON.stringify(value);
  const signature = `sha256=${createHmac('sha256', key).update(body).digest('hex')}`;
  const headers = { 'x-hub-signature-256': signature, 'x-github-event': event, authorization: 'Bearer secret' };
  return { headers: { ...headers, 'content-type': type }, body };
}

const sendTo = async ({ deliver }: Gateway, sent: Sent) => {
  const { status, text } = await deliver('hook', sent);
  return { status, ...JSON.parse(text) };
};

const json = async <Value>({ get }: Gateway, path: string) => JSON.parse(await get(path)) as Value;

/** The output of the run's step, made from all of its deliveries. */
async function outputOf(gateway: Gateway, runId: string) {
  type Steps = { status: string; output: Record<string, unknown> }[];
  const [step] = await eventually(
    () => json<Steps>(gateway, `/flows/api/runs/${runId}/steps`),
    ([first]) => first !== undefined && first.status !== 'Pending' && first.status !== 'Running',
  );
  expect(step?.status).toBe('Succeeded');
  return step?.output;
}

describe('deliveries of one key', () => {
  it('get 200 with the id of the run that they share, which reads all of them', async () => {
    const gateway = await open();
    const first = await sendTo(gateway, push({ sku: 'a', n: 1 }));
    expect(first).toEqual({ status: 200, runId: expect.any(String), deliveryId: expect.any(String) });
    const { runId } = first;
    const second = await sendTo(gateway, push({ sku: 'a', n: 2 }));
    expect(second).toEqual({ status: 200, runId, deliveryId: expect.any(String), coalesced: true });
    expect(await gateway.latestDelivery()).toMatchObject({ outcome: 'coalesced', runId, rejected: false });
    const active = await json<{ waitingFor: object[] }[]>(gateway, '/flows/api/runs?waiting=coalesce');
    const until = new Date(NOW + 20_000).toISOString();
    expect(active).toMatchObject([{ id: runId, waitingFor: [{ for: 'coalesce', stepKey: 'all', until }] }]);
    gateway.setNow(NOW + 5);
    const third = await sendTo(gateway, push({ sku: 'a', n: 3 }, { event: 'last' }));
    expect(third).toMatchObject({ runId, coalesced: true });
    const at = (ms: number) => new Date(NOW + ms).toISOString();
    const headers = { authorization: '[redacted]', 'x-github-event': 'push' };
    expect(await outputOf(gateway, runId)).toMatchObject({
      newest: 3,
      type: 'last',
      count: 3,
      ns: [1, 2, 3],
      all: [
        { id: first.deliveryId, receivedAt: at(0), body: { sku: 'a', n: 1 }, headers },
        { id: second.deliveryId, receivedAt: at(0), body: { sku: 'a', n: 2 }, headers },
        { id: third.deliveryId, receivedAt: at(5), body: { sku: 'a', n: 3 } },
      ],
    });
    expect(await json(gateway, '/flows/api/books')).toMatchObject({
      accepted: 3,
      runs: 1,
      coalesced: 2,
      unaccounted: 0,
    });
    expect(await json(gateway, `/flows/api/runs/${runId}/control`)).toMatchObject({ deliveries: 3 });
    expect(await json(gateway, `/flows/api/runs/${runId}`)).toMatchObject({ triggerBody: { n: 3 } });
    expect(await json(gateway, `/flows/api/webhooks/${second.deliveryId}`)).toMatchObject({
      body: '{"sku":"a","n":2}',
    });
  });

  it('have a run of their own where the key fails, as record and attention say', async () => {
    const gateway = await open();
    const [one, other] = [await sendTo(gateway, push({ n: 1 })), await sendTo(gateway, push({ n: 2 }))];
    expect(other.runId).not.toBe(one.runId);
    expect(other).not.toHaveProperty('coalesced');
    const record = await gateway.latestDelivery();
    expect(record).toMatchObject({ outcome: 'unevaluated' });
    const { gateResults } = await json<{ gateResults: object[] }>(gateway, `/flows/api/webhooks/${record.id}`);
    expect(gateResults).toContainEqual(
      expect.objectContaining({ gate: 'coalesce.key', detail: expect.stringMatching(/; the run starts$/) }),
    );
    const attention = await json<{ kind: string }[]>(gateway, '/flows/api/attention');
    expect(attention.map(({ kind }) => kind)).toContain('expression_failed');
    expect(await outputOf(gateway, one.runId)).toMatchObject({ count: 1, ns: [1] });
  });

  it('tell exact numbers apart', async () => {
    const gateway = await open();
    const runOf = async (sku: string) => (await sendTo(gateway, push(`{"sku":${sku},"n":1}`))).runId;
    expect(await runOf('9007199254740993')).not.toBe(await runOf('9007199254740992'));
  });

  it('of strangers share no run with verified ones, whatever key they name', async () => {
    const gateway = await open({ webhookEnforcementMode: 'Audit' });
    const body = { sku: 'a', n: 1 };
    const forged = await sendTo(gateway, push(body, { key: 'a wrong key' }));
    const honest = await sendTo(gateway, push({ ...body, n: 2 }));
    expect(honest).not.toHaveProperty('coalesced');
    const again = await sendTo(gateway, push({ ...body, n: 3 }, { key: 'another wrong key' }));
    expect(again).toMatchObject({ runId: forged.runId, coalesced: true });
    expect(await sendTo(gateway, push({ ...body, n: 4 }))).toMatchObject({ runId: honest.runId, coalesced: true });
    await sendTo(gateway, push({ ...body, n: 5 }));
    expect(await outputOf(gateway, honest.runId)).toMatchObject({ ns: [2, 4, 5] });
  });

  it('that repeat one, or are filtered, join nothing', async () => {
    const gateway = await open({ webhookEventId: 'body.id', webhookWhen: 'body.n < 9' });
    const { runId } = await sendTo(gateway, push({ sku: 'a', n: 1, id: 'x' }));
    expect(await sendTo(gateway, push({ sku: 'a', n: 2, id: 'x' }))).toMatchObject({ runId, duplicate: true });
    expect(await sendTo(gateway, push({ sku: 'a', n: 9, id: 'y' }))).toMatchObject({ filtered: true });
    expect(await sendTo(gateway, push({ sku: 'a', n: 3, id: 'z' }))).toMatchObject({ runId, coalesced: true });
    expect(await sendTo(gateway, push({ sku: 'a', n: 4, id: 'z' }))).toMatchObject({ runId, duplicate: true });
    await sendTo(gateway, push({ sku: 'a', n: 5, id: 'w' }));
    expect(await outputOf(gateway, runId)).toMatchObject({ ns: [1, 3, 5] });
  });

  it('are read each by its own content type', async () => {
    const gateway = await open({}, { key: 'headers["x-github-event"]', collect: 2 });
    const { runId } = await sendTo(gateway, push('n=1&m=2', { type: 'application/x-www-form-urlencoded' }));
    await sendTo(gateway, push({ n: 2 }));
    expect(await outputOf(gateway, runId)).toMatchObject({ ns: ['1', 2] });
  });

  it('make a run that can be repeated with all of them', async () => {
    const gateway = await open({}, { collect: 2 });
    const { runId } = await sendTo(gateway, push({ sku: 'a', n: 1 }));
    await sendTo(gateway, push({ sku: 'a', n: 2 }));
    await outputOf(gateway, runId);
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${gateway.url}/flows/api/runs/${runId}/rerun`, { method: 'POST', headers, body: '{}' });
    const { runId: again } = (await answer.json()) as { runId: string };
    expect(await outputOf(gateway, again)).toMatchObject({ newest: 2, ns: [1, 2] });
  });

  it('start no run that was cancelled while it waited; the next opens another', async () => {
    const gateway = await open();
    const { runId } = await sendTo(gateway, push({ sku: 'a', n: 1 }));
    const headers = { 'content-type': 'application/json' };
    await fetch(`${gateway.url}/flows/api/runs/${runId}/cancel`, { method: 'POST', headers, body: '{}' });
    const next = await sendTo(gateway, push({ sku: 'a', n: 2 }));
    expect(next.runId).not.toBe(runId);
    expect(await json(gateway, `/flows/api/runs/${runId}`)).toMatchObject({ status: 'Cancelled' });
  });
});
