import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import type { Extensions } from '../../src/config/api.ts';
import type { Store } from '../../src/store/store.ts';
import { openEmptyStore } from '../database.ts';
import { FLOW_ID } from '../e2e/service.ts';
import { useFolderApp } from '../folder-app.ts';

const workspace = useFolderApp({ listens: false });
const { ask } = workspace;
let store: Store;
let app: SluiceApp;
beforeEach(async () => {
  store = await openEmptyStore();
  onTestFinished(() => store.close());
});

const acme = { name: 'Acme', verify: () => ({ outcome: 'verified' as const }) };
const hook = (webhookSlug: string, inputs: object = {}) => ({
  type: 'webhook',
  inputs: { webhookSlug, webhookEnforcementMode: 'Enforce', ...inputs },
});
const manifest = {
  id: FLOW_ID,
  name: 'orders',
  version: '1',
  triggers: { own: hook('own', { webhookSignatureScheme: 'Acme' }), open: hook('open') },
  steps: { first: { type: 'NoOp' } },
};

/** Starts a service on the store after the previous one has stopped. */
async function start(extensions: Extensions): Promise<void> {
  app = await workspace.start({}, { store: { ...store, close: async () => {} }, extensions });
}

const deliver = (name: string) => ask('POST', `/webhook/${name}`, { order: 7 });
const attention = async () =>
  (await ask('GET', '/attention')).answer.filter(({ kind }: { kind: string }) => kind === 'manifest_unreadable');

async function startWithoutAcme(): Promise<void> {
  await start({ verifiers: [acme] });
  expect((await ask('PUT', `/flows/${FLOW_ID}`, manifest)).answer.refusal).toBeNull();
  expect((await deliver('own')).status).toBe(200);
  expect(await attention()).toEqual([]);
  await start({});
}

describe('a deployed trigger whose verifier has gone', () => {
  it.each(['own', 'OWN', FLOW_ID])('answers 503 at %s, so that its publisher sends again', async (name) => {
    await startWithoutAcme();
    expect(await deliver(name)).toMatchObject({ status: 503, answer: { reason: 'flow_unreadable' } });
    const [record] = (await store.listDeliveries({ skip: 0, take: 1 })).items;
    expect(record).toMatchObject({
      flowId: FLOW_ID,
      triggerKey: 'own',
      reason: 'flow_unreadable',
      rejected: true,
      enforced: false,
      runId: null,
      detail: expect.stringContaining('"Acme" is not a known scheme'),
    });
  });

  it('is named as an error that needs attention', async () => {
    await startWithoutAcme();
    expect(await attention()).toEqual([
      {
        flowId: FLOW_ID,
        triggerKey: 'own',
        kind: 'manifest_unreadable',
        severity: 'error',
        message: expect.stringMatching(/^orders\/own answers every delivery with 503: "Acme" is not a known scheme/),
        link: `/flows/flows/${FLOW_ID}`,
      },
    ]);
  });

  it('leaves the other triggers as they are, and does not make the service unready', async () => {
    await startWithoutAcme();
    expect((await deliver('open')).status).toBe(200);
    expect((await app.fastify.inject('/health/ready')).statusCode).toBe(200);
  });

  it('has its deliveries delivered again once the verifier is back', async () => {
    await startWithoutAcme();
    await deliver('own');
    const [{ id } = { id: '' }] = (await store.listDeliveries({ skip: 0, take: 1 })).items;
    expect((await ask('POST', `/webhooks/${id}/redeliver`)).answer).toMatchObject({
      outcome: 'refused',
      reason: 'flow_unreadable',
    });
    expect((await ask('GET', `/webhooks/${id}`)).answer.hints).toEqual([expect.stringContaining('not served here')]);
    await app.close();
    await start({ verifiers: [acme] });
    expect(await attention()).toEqual([]);
    expect((await ask('POST', `/webhooks/${id}/redeliver`)).answer).toMatchObject({ outcome: 'accepted' });
    expect((await deliver('own')).status).toBe(200);
  });

  it('keeps its name: no other flow gets its deliveries', async () => {
    await startWithoutAcme();
    const other = { ...manifest, id: '11111111-6c1d-4f0e-9a51-3f0f8d1c2a10', triggers: { own: hook('own') } };
    expect((await ask('PUT', `/flows/${other.id}`, other)).answer.refusal).not.toBeNull();
    expect((await deliver('own')).answer.reason).toBe('flow_unreadable');
  });
});

describe('a flow that was never deployed, because its manifest cannot be read', () => {
  const brokenId = '0b000000-0000-4000-8000-000000000002';
  const shared = hook('both', { webhookShared: true });
  const broken = {
    id: brokenId,
    name: 'broken',
    version: '1',
    triggers: { ours: shared, mine: hook('mine') },
    steps: { call: { type: 'HttpRequest', inputs: { url: 'https://example.com', headers: { a: 'env:MISSING' } } } },
  };

  it('is reported without the deliveries that the other flows of a shared slug get', async () => {
    await workspace.writeManifest('orders.json', { ...manifest, triggers: { theirs: shared } });
    await workspace.writeManifest('broken.json', broken);
    await start({});
    expect((await deliver('both')).status).toBe(200);
    for (const name of ['mine', brokenId]) expect((await deliver(name)).answer.reason).toBe('flow_unreadable');
    const message =
      'broken gets no delivery to both, which other flows answer; it answers all others with 503, and starts no run by ' +
      'hand or by a schedule: ';
    expect(await attention()).toEqual([expect.objectContaining({ message: expect.stringContaining(message) })]);
    expect(app.warnings).toContainEqual(expect.stringContaining(`error ${message}`));
    expect(workspace.logged.filter((line) => line.includes(message))).toHaveLength(1);
  });

  it('is reported to answer 503 where no other flow answers', async () => {
    await workspace.writeManifest('broken.json', broken);
    await start({});
    expect((await deliver('both')).answer.reason).toBe('flow_unreadable');
    const message = 'broken answers every delivery with 503, and starts no run by hand or by a schedule: ';
    expect(await attention()).toEqual([expect.objectContaining({ message: expect.stringContaining(message) })]);
  });
});
