import { beforeEach, describe, expect, it } from 'vitest';
import type { VerificationResult } from '../../src/config/api.ts';
import { FLOW_ID } from '../e2e/service.ts';
import { useFolderApp } from '../folder-app.ts';

const workspace = useFolderApp();
const { ask } = workspace;
/** One for each call of the verifier that is not answered yet. */
let asked: { answer: (isValid: boolean) => void }[];
let waiting: (() => void) | undefined;

beforeEach(() => {
  asked = [];
});

const slow = {
  name: 'Slow',
  verify: () =>
    new Promise<VerificationResult>((resolve) => {
      asked.push({
        answer: (isValid) => resolve(isValid ? { outcome: 'verified' } : { outcome: 'refused', reason: 'forged' }),
      });
      waiting?.();
    }),
};

/** Resolves once the verifier was called so many times and its last call is still open. */
async function verifierAsked(times: number): Promise<{ answer: (isValid: boolean) => void }> {
  while (asked.length < times) {
    await new Promise<void>((resolve) => {
      waiting = resolve;
    });
  }
  const last = asked[times - 1];
  if (last === undefined) throw new Error('the verifier was not asked');
  return last;
}

function manifest({ version = '1', inputs = {}, triggers = {}, steps = {} } = {}) {
  const hook = {
    type: 'webhook',
    inputs: { webhookSlug: 'slow', webhookSignatureScheme: 'Slow', webhookEnforcementMode: 'Enforce', ...inputs },
  };
  const first = { type: 'WaitForSignal', inputs: { signalName: 'go' } };
  return {
    id: FLOW_ID,
    name: 'slow',
    version,
    triggers: { byHand: { type: 'manual' }, hook, ...triggers },
    steps: { first, ...steps },
  };
}
/** A change that is deployed only while no run is in flight. */
const cautious = { first: { type: 'NoOp' } };
const withoutHook = () => {
  const { triggers, ...rest } = manifest({ version: '2' });
  return { ...rest, triggers: { byHand: triggers.byHand } };
};

async function start(deployed: object = manifest()): Promise<void> {
  await workspace.writeManifest('slow.json', deployed);
  await workspace.start({}, { extensions: { verifiers: [slow] } });
}

const deliver = (slug = 'slow') => ask('POST', `/webhook/${slug}`, { order: 7 });
const deploy = async (next: object, query = '') => {
  const { status, answer } = await ask('PUT', `/flows/${FLOW_ID}${query}`, next);
  expect({ status, refusal: answer.refusal }).toEqual({ status: 200, refusal: null });
};
const runs = async () => (await ask('GET', `/runs?flowId=${FLOW_ID}`)).answer;

describe('a deploy while a verifier works', () => {
  it('leads to a run of the new revision, without a second verification if the gates are the same', async () => {
    await start();
    const delivery = deliver();
    const question = await verifierAsked(1);
    await deploy(manifest({ version: '2', steps: cautious }));
    question.answer(true);
    expect(await delivery).toMatchObject({ status: 200 });
    expect(await runs()).toMatchObject([{ revision: 2, flowVersion: '2' }]);
    expect(asked).toHaveLength(1);
  });

  it('refuses the delivery if it removes the trigger', async () => {
    await start();
    const delivery = deliver();
    const question = await verifierAsked(1);
    await deploy(withoutHook());
    question.answer(true);
    expect(await delivery).toMatchObject({ status: 404, answer: { reason: 'unknown_flow' } });
    expect(await runs()).toEqual([]);
  });

  it('has the delivery judged by the new gates if it changes them', async () => {
    await start();
    const delivery = deliver();
    const question = await verifierAsked(1);
    await deploy(manifest({ version: '2', inputs: { webhookIpDenyList: ['127.0.0.0/8'] } }));
    question.answer(true);
    expect(await delivery).toMatchObject({ status: 403, answer: { reason: 'ip_denied' } });
    expect(await runs()).toEqual([]);
  });

  it('lets the new gates accept what the old ones refused', async () => {
    await start();
    const delivery = deliver();
    const question = await verifierAsked(1);
    await deploy(manifest({ version: '2', inputs: { webhookRateLimitPermitsPerSecond: 100 } }));
    question.answer(false);
    (await verifierAsked(2)).answer(true);
    expect(await delivery).toMatchObject({ status: 200 });
    expect(await runs()).toMatchObject([{ revision: 2 }]);
  });

  it('leads to a 503 if deploys follow each other, so that the sender tries later', async () => {
    await start();
    const delivery = deliver();
    for (let times = 1; times <= 3; times += 1) {
      const question = await verifierAsked(times);
      await deploy(manifest({ version: `${times + 1}`, inputs: { webhookRateLimitPermitsPerSecond: 100 - times } }));
      question.answer(true);
    }
    expect(await delivery).toMatchObject({ status: 503, answer: { reason: 'store_unavailable' } });
    expect(await runs()).toEqual([]);
    const [record] = (await ask('GET', '/webhooks/recent')).answer;
    expect(record).toMatchObject({ reason: 'store_unavailable', statusCode: 503, bodyBytes: 11 });
  });

  it('verifies again with a key that was rotated without a new revision', async () => {
    await start(manifest({ inputs: { webhookHmacKey: 'first key' } }));
    const delivery = deliver();
    const question = await verifierAsked(1);
    await deploy(manifest({ inputs: { webhookHmacKey: 'second key' } }), '?allow=access');
    question.answer(true);
    (await verifierAsked(2)).answer(false);
    expect(await delivery).toMatchObject({ status: 401 });
    expect(await runs()).toEqual([]);
  });

  it('sends the delivery to the gates of the new flow if it moves the slug', async () => {
    const other = '11111111-6c1d-4f0e-9a51-3f0f8d1c2a10';
    await start();
    const delivery = deliver();
    const question = await verifierAsked(1);
    await deploy(manifest({ version: '2', inputs: { webhookSlug: 'former' } }));
    const next = { ...manifest(), id: other, name: 'other' };
    expect((await ask('PUT', `/flows/${other}`, next)).answer).toMatchObject({ action: 'created' });
    question.answer(true);
    (await verifierAsked(2)).answer(true);
    expect(await delivery).toMatchObject({ status: 200 });
    expect(await runs()).toEqual([]);
    expect((await ask('GET', `/runs?flowId=${other}`)).answer).toHaveLength(1);
  });

  it('does not keep a redelivery from being judged by the new gates', async () => {
    await start();
    const refused = deliver();
    (await verifierAsked(1)).answer(false);
    expect((await refused).status).toBe(401);
    const [record] = (await ask('GET', '/webhooks/recent')).answer;
    const redelivery = ask('POST', `/webhooks/${record.id}/redeliver`);
    const question = await verifierAsked(2);
    await deploy(withoutHook());
    question.answer(true);
    expect((await redelivery).answer).toMatchObject({ reason: 'unknown_flow' });
    expect(await runs()).toEqual([]);
  });
});

describe('a flow that is disabled or drained while a verifier works', () => {
  it.each(['disable', 'drain'])('starts no run: %s', async (verb) => {
    await start();
    const delivery = deliver();
    const question = await verifierAsked(1);
    expect((await ask('POST', `/flows/${FLOW_ID}/${verb}`)).status).toBe(200);
    question.answer(true);
    expect(await delivery).toMatchObject({ status: 403, answer: { reason: 'flow_disabled' } });
    expect(await runs()).toEqual([]);
  });

  it('keeps what the gates said of the delivery, and asks them once', async () => {
    await start(manifest({ inputs: { webhookEnforcementMode: 'Audit' } }));
    const delivery = deliver();
    const question = await verifierAsked(1);
    expect((await ask('POST', `/flows/${FLOW_ID}/disable`)).status).toBe(200);
    question.answer(false);
    expect(await delivery).toMatchObject({ status: 403, answer: { reason: 'flow_disabled' } });
    const [record] = (await ask('GET', '/webhooks/recent')).answer;
    const violations = ['signature_mismatch', 'flow_disabled'];
    expect(record).toMatchObject({ statusCode: 403, reason: 'signature_mismatch', violations });
    expect(asked).toHaveLength(1);
  });
});
