import { describe, expect, it } from 'vitest';
import type { SluiceApp } from '../../../src/app.ts';
import { GITHUB_SECRET } from '../../e2e/service.ts';
import { push, useFolderApp } from '../../folder-app.ts';
import { ended, stepsOf, waiting } from '../waits.ts';

const FLOW = '5d0c1f7e-91a4-4b0b-8f0d-6a2f6f0c7e98';
const KEY = `\${trigger.body.sha}`;
const GATES = {
  webhookSignatureScheme: 'GitHub',
  webhookHmacKey: GITHUB_SECRET,
  webhookNonceHeader: 'X-GitHub-Delivery',
};

const folder = useFolderApp();
const behind = (key: string) => ({ runAfter: { [key]: ['Succeeded'] } });
const approval = (inputs: object = {}) => ({ type: 'WaitForSignal', inputs: { key: KEY, ...inputs } });
const review = (given: object = {}, inputs: object = {}) => ({
  type: 'webhook',
  inputs: { webhookSlug: 'review', ...GATES, ...inputs },
  signals: { step: 'approval', key: 'body.sha' },
  ...given,
});

async function start(steps: object = { approval: approval() }, triggers: object = { review: review() }) {
  const manifest = {
    id: FLOW,
    name: 'Deploy',
    version: '1',
    triggers: { byHand: { type: 'manual' }, ...triggers },
    steps,
  };
  await folder.writeManifest('deploy.json', manifest);
  return folder.start();
}

async function begin(body: object = { sha: 'a1' }): Promise<string> {
  return String((await folder.ask('POST', `/flows/${FLOW}/trigger`, body)).answer.runId);
}

const answer = (app: SluiceApp, body: object = { sha: 'a1' }, given: Parameters<typeof push>[1] = {}) =>
  push(app, { slug: 'review', body: JSON.stringify(body), ...given });

const outputOf = async (app: SluiceApp, runId: string, stepKey = 'approval') =>
  (await stepsOf(app, runId))[stepKey]?.output;

describe('a delivery to a trigger that signals', () => {
  it('answers every run that waits for its key, no other, and starts none', async () => {
    const app = await start();
    const [one, two, other] = [await begin(), await begin(), await begin({ sha: 'b2' })];
    for (const runId of [one, two, other]) await waiting(app, runId);
    const { status, answer: told } = await answer(app, { sha: 'a1', choice: 'approve' });
    expect([status, told]).toEqual([200, { answered: 2, deliveryId: expect.any(String) }]);
    for (const runId of [one, two]) {
      expect(await ended(app, runId)).toMatchObject({ status: 'Succeeded' });
      expect(await outputOf(app, runId)).toEqual({
        choice: 'approve',
        answeredAt: expect.any(String),
        by: 'webhook',
        trigger: 'review',
        deliveryId: told.deliveryId,
        headers: expect.objectContaining({ 'content-type': 'application/json' }),
        body: { sha: 'a1', choice: 'approve' },
      });
    }
    expect((await stepsOf(app, other)).approval?.status).toBe('Pending');
    const { answer: record } = await folder.ask('GET', `/webhooks/${told.deliveryId}`);
    expect(record).toMatchObject({ outcome: 'answered', runId: null, statusCode: 200, rejected: false });
    const { answer: books } = await folder.ask('GET', '/books');
    expect(books).toMatchObject({ accepted: 1, answered: 1, unaccounted: 0 });
    expect((await folder.ask('GET', '/runs')).answer.length ?? 3).toBe(3);
  });

  it('that comes again is refused as a replay, or answered as a duplicate, and answers nothing', async () => {
    const app = await start();
    const runId = await begin();
    await waiting(app, runId);
    expect((await answer(app, undefined, { id: 'one' })).answer.answered).toBe(1);
    await ended(app, runId);
    const again = await begin();
    await waiting(app, again);
    expect(await answer(app, undefined, { id: 'one' })).toMatchObject({
      status: 409,
      answer: { reason: 'nonce_replayed' },
    });
    expect((await stepsOf(app, again)).approval?.status).toBe('Pending');
  });

  it.each([
    ['acknowledge', { webhookDuplicateResponse: 'acknowledge' }, { id: 'one' }],
    ['of an event', { webhookEventId: 'body.event' }, {}],
    ['of an idempotency key', {}, { headers: { 'idempotency-key': 'k' } }],
  ])('that repeats another answers nothing: %s', async (_what, inputs, given) => {
    const app = await start(undefined, { review: review({}, inputs) });
    const [body, runId] = [{ sha: 'a1', event: 'e' }, await begin()];
    await waiting(app, runId);
    expect((await answer(app, body, given)).answer).toEqual({ answered: 1, deliveryId: expect.any(String) });
    const later = await begin();
    await waiting(app, later);
    const { status, answer: told } = await answer(app, body, given);
    expect([status, told]).toEqual([200, { deliveryId: expect.any(String), duplicate: true }]);
    expect((await stepsOf(app, later)).approval?.status).toBe('Pending');
    const { answer: books } = await folder.ask('GET', '/books');
    expect(books).toMatchObject({ accepted: 2, answered: 1, duplicates: 1, unaccounted: 0 });
  });

  it('is kept for a run that started before and waits later, and for the first that ever waits', async () => {
    const app = await start({ gate: { type: 'WaitForSignal' }, approval: { ...approval(), ...behind('gate') } });
    expect((await answer(app)).answer.answered).toBe(0);
    const [first, second] = [await begin(), await begin()];
    const open = (runId: string) => folder.ask('POST', `/runs/${runId}/signals/gate`, {});
    await open(first);
    expect(await ended(app, first)).toMatchObject({ status: 'Succeeded' });
    await open(second);
    await waiting(app, second);
    expect((await answer(app)).answer.answered).toBe(1);
    // For a run that started before a delivery which answered others.
    const third = await begin();
    expect((await answer(app)).answer.answered).toBe(0);
    await open(third);
    expect(await ended(app, third)).toMatchObject({ status: 'Succeeded' });
  });

  it('that comes too late, or twice, answers no later run', async () => {
    const app = await start({ approval: approval({ timeoutSeconds: 0.05 }) });
    const late = await begin();
    expect(await ended(app, late)).toMatchObject({ status: 'Failed' });
    expect((await answer(app)).answer.answered).toBe(0);
    const next = await begin();
    expect(await ended(app, next)).toMatchObject({ status: 'Failed' });
    expect((await stepsOf(app, next)).approval?.error).toMatchObject({ code: 'signal_timeout' });
  });

  it('answers no run that was cancelled, and no step that has other choices', async () => {
    const app = await start({ approval: approval({ choices: ['yes', 'no'] }) });
    const [cancelled, open] = [await begin(), await begin()];
    for (const runId of [cancelled, open]) await waiting(app, runId);
    await folder.ask('POST', `/runs/${cancelled}/cancel`, {});
    await ended(app, cancelled);
    expect((await answer(app, { sha: 'a1', choice: 'maybe' })).answer.answered).toBe(0);
    expect((await answer(app, { sha: 'a1', choice: 'no' })).answer.answered).toBe(1);
    await ended(app, open);
    expect(await outputOf(app, open)).toMatchObject({ choice: 'no' });
  });

  it('answers each round of a loop by its own key, and what one round took is no answer to the next', async () => {
    const app = await start(
      {
        each: {
          type: 'ForEach',
          forEach: `\${trigger.body.orders}`,
          steps: { approval: { type: 'WaitForSignal', inputs: { key: `\${loop.item}` } } },
        },
      },
      { review: review({ signals: { step: 'each.approval', key: 'body.order' } }) },
    );
    const runId = await begin({ orders: [7, 7] });
    await waiting(app, runId, 'each.0.approval');
    expect((await answer(app, { order: 8 })).answer.answered).toBe(0);
    expect((await answer(app, { order: 7, n: 1 })).answer.answered).toBe(1);
    await waiting(app, runId, 'each.1.approval');
    expect((await answer(app, { order: 7, n: 2 })).answer.answered).toBe(1);
    await ended(app, runId);
    expect(await outputOf(app, runId, 'each.1.approval')).toMatchObject({ body: { n: 2 } });
  });

  it('answers runs of a flow that drains, and none of a flow that is disabled', async () => {
    const app = await start();
    const [one, two] = [await begin(), await begin({ sha: 'b2' })];
    for (const runId of [one, two]) await waiting(app, runId);
    expect((await folder.ask('POST', `/flows/${FLOW}/drain`, {})).status).toBe(200);
    expect(await answer(app)).toMatchObject({ status: 200, answer: { answered: 1 } });
    await ended(app, one);
    await folder.ask('POST', `/flows/${FLOW}/disable`, {});
    expect(await answer(app, { sha: 'b2' })).toMatchObject({ status: 403, answer: { reason: 'flow_disabled' } });
  });

  it('that was refused answers when it is redelivered, also while its flow drains', async () => {
    const app = await start();
    const runId = await begin();
    await waiting(app, runId);
    await folder.ask('POST', `/flows/${FLOW}/drain`, {});
    expect(await answer(app, undefined, { key: 'wrong' })).toMatchObject({ status: 401 });
    const refused = (await folder.ask('GET', '/webhooks/recent')).answer[0].id;
    const { answer: told } = await folder.ask('POST', `/webhooks/${refused}/redeliver`, { force: true });
    expect(told).toMatchObject({ outcome: 'accepted', runId: null });
    expect(await ended(app, runId)).toMatchObject({ status: 'Succeeded' });
    expect((await folder.ask('GET', '/books')).answer).toMatchObject({ answered: 1, unaccounted: 0 });
  });

  it('is shown with the flow, and a rehearsal tells it from one that starts a run', async () => {
    const app = await start();
    const { answer: flow } = await folder.ask('GET', `/flows/${FLOW}`);
    expect(flow.triggers).toMatchObject([
      { key: 'byHand' },
      { key: 'review', signals: { step: 'approval', key: 'body.sha' } },
    ]);
    expect((await answer(app)).status).toBe(200);
    const triggers = { review: review({ signals: undefined }) };
    const manifest = { id: FLOW, name: 'Deploy', version: '2', triggers, steps: { approval: approval() } };
    const { answer: rehearsed } = await folder.ask('POST', '/flows/rehearse', { manifests: [manifest] });
    expect(rehearsed.flows).toMatchObject([{ groups: [{ kind: 'gates', what: ['answers approval -> accepted'] }] }]);
  });

  it('answers nothing that its gates refuse, its filter leaves out, or an expression of it does not understand', async () => {
    const app = await start(undefined, { review: review({}, { webhookWhen: `body.state == 'approved'` }) });
    const runId = await begin();
    await waiting(app, runId);
    const approved = { sha: 'a1', state: 'approved' };
    expect(await answer(app, approved, { key: 'wrong' })).toMatchObject({ status: 401 });
    expect((await answer(app, { sha: 'a1', state: 'rejected' })).answer).toMatchObject({ filtered: true });
    expect((await answer(app, { sha: 'a1' })).answer).toMatchObject({ answered: 0 });
    expect((await answer(app, { state: 'approved' })).answer).toMatchObject({ answered: 0 });
    const { answer: unevaluated } = await folder.ask('GET', '/webhooks/recent?outcome=unevaluated');
    expect(unevaluated).toMatchObject([{ outcome: 'unevaluated' }, { outcome: 'unevaluated' }]);
    expect((await stepsOf(app, runId)).approval?.status).toBe('Pending');
    expect((await folder.ask('GET', '/books')).answer).toMatchObject({ accepted: 3, unaccounted: 0 });
    expect((await answer(app, approved)).answer.answered).toBe(1);
  });

  it('answers and starts where its slug leads to both', async () => {
    const shared = { webhookShared: true };
    const deploy = { type: 'webhook', inputs: { webhookSlug: 'review', ...GATES, ...shared } };
    await folder.writeManifest('other.json', {
      id: FLOW.replace('5d', '6d'),
      name: 'Other',
      version: '1',
      triggers: { deploy },
      steps: { done: { type: 'NoOp' } },
    });
    const app = await start(undefined, { review: review({}, shared) });
    const runId = await begin();
    await waiting(app, runId);
    const { answer: told } = await answer(app);
    expect(told).toMatchObject({ runId: expect.any(String), answered: 1, runs: [{ triggerKey: 'deploy' }] });
    expect(await ended(app, runId)).toMatchObject({ status: 'Succeeded' });
    const { answer: record } = await folder.ask('GET', `/webhooks/${told.deliveryId}`);
    expect(record.runs).toMatchObject([{ outcome: null }, { triggerKey: 'review', outcome: 'answered' }]);
    expect((await folder.ask('GET', '/books')).answer).toMatchObject({ runs: 1, unaccounted: 0 });
  });

  it('is wider access where a deploy changes what it answers, or lets it answer', async () => {
    await start();
    const deploy = (triggers: object) =>
      folder.ask('PUT', `/flows/${FLOW}`, {
        id: FLOW,
        name: 'Deploy',
        version: '2',
        triggers,
        steps: { approval: approval() },
      });
    const { status, answer: refused } = await deploy({
      review: review({ signals: { step: 'approval', key: 'body.other' } }),
    });
    expect([status, JSON.stringify(refused)]).toEqual([
      409,
      expect.stringContaining('Whoever gets in answers the step approval of runs that wait for body.other'),
    ]);
    expect((await deploy({ review: review({ signals: undefined }) })).status).toBe(409);
    const another = review({}, { webhookSlug: 'another' });
    const { status: deployed, answer: told } = await deploy({ review: review(), another });
    expect([deployed, JSON.stringify(told)]).toEqual([200, expect.stringContaining('Whoever gets in answers')]);
  });
});
