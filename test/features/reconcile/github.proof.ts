import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { reconcileStore } from '../../../src/features/reconcile/store.ts';
import { eventually } from '../../e2e/service.ts';
import { type FakeGithub, fakeGithub } from './github.ts';
import { FLOW_ID, manifestOf, reconcilingFolder, SECRET, startReconciling } from './reconciling.ts';

let github: FakeGithub;
const ends: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  github = await fakeGithub({ secret: SECRET, target: undefined });
  ends.push(() => github.close());
});
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** A service that has looked at the log once, so that it handles all later deliveries. */
async function started(given: Parameters<typeof manifestOf>[1] = {}, from = github) {
  const place = await reconcilingFolder(manifestOf(from.baseUrl, given));
  ends.push(place.remove);
  const service = await startReconciling(place.folder);
  ends.push(service.close);
  await service.looks(from, 1);
  return { ...service, ...place };
}

const details = (asked: readonly string[]) => asked.filter((each) => /deliveries\/\d/.test(each));
const oneRun = ({ length }: readonly unknown[]) => length > 0;

interface Attention {
  readonly kind: string;
  readonly severity: string;
  readonly message: string;
}
type Service = Awaited<ReturnType<typeof started>>;
const attentionOf = async ({ get }: Pick<Service, 'get'>) =>
  (await get<Attention[]>('/flows/api/attention')).filter(({ kind }) => /missed|reconcile/.test(kind));

describe('a delivery that GitHub sent in vain', () => {
  it('is fetched, verified by its own signature, and starts a run', async () => {
    const service = await started();
    const payload = { zen: 'Ünï <b> & 1', amount: 1.5, list: [], nested: { n: null } };
    const { guid } = await github.deliver(payload);
    const [run] = await eventually(service.runs, oneRun);
    const [record] = await service.deliveries();
    expect(record).toMatchObject({ runId: run?.id, reason: null, detail: 'reconciled from github, verified' });
    expect(record?.headers).toMatchObject({ 'x-github-delivery': guid, 'x-github-event': 'push' });
    await service.looks(github);
    expect(await service.runs()).toHaveLength(1);
  });

  it('is verified as a form too', async () => {
    const form = await fakeGithub({
      secret: SECRET,
      target: undefined,
      contentType: 'application/x-www-form-urlencoded',
    });
    ends.push(() => form.close());
    const service = await started({}, form);
    await form.deliver({ text: "it's 100 % ~ * (ä)" });
    await eventually(service.runs, oneRun);
    expect(await service.deliveries()).toMatchObject([{ detail: 'reconciled from github, verified' }]);
  });

  it.each([
    ['409 by its nonce', { webhookNonceHeader: 'X-GitHub-Delivery' }, 409],
    ['200 by its event', {}, 200],
  ])('gets %s when it comes late, and nothing is fetched of what came', async (_, inputs, status) => {
    const service = await started({ inputs });
    const lost = await github.deliver({ n: 1 });
    await eventually(service.runs, oneRun);
    github.target = service.hook;
    expect(await github.redeliver(lost)).toBe(status);
    await github.deliver({ n: 2 });
    const before = github.asked.length;
    await service.looks(github);
    expect(await service.runs()).toHaveLength(2);
    expect(details(github.asked.slice(before))).toEqual([]);
  });

  it('passes gates that ask who sends and how often, and no other', async () => {
    const service = await started({
      inputs: {
        webhookIpAllowList: ['192.0.2.1'],
        webhookRateLimitPermitsPerSecond: 0.001,
        webhookBodySchema: { required: ['n'] },
      },
    });
    for (const payload of [{ n: 1 }, { m: 2 }, { n: 3 }]) await github.deliver(payload);
    await eventually(service.deliveries, ({ length }) => length >= 3);
    await service.looks(github);
    expect(await service.runs()).toHaveLength(2);
    const refused = (await service.deliveries()).filter(({ runId }) => runId === null);
    expect(refused).toMatchObject([
      { reason: 'body_schema', detail: expect.stringMatching(/^reconciled from github/) },
    ]);
  });

  it('is fetched after a deploy that names events in another way, too', async () => {
    const service = await started();
    const inputs = { webhookEventId: "headers['x-github-delivery'] + '!'" };
    await service.write(manifestOf(github.baseUrl, { inputs, more: { version: '2' } }));
    await service.app.reload();
    await service.looks(github);
    await github.deliver({ n: 1 });
    await eventually(service.runs, oneRun);
    await service.looks(github);
    expect(await service.runs()).toHaveLength(1);
  });

  it('is held while its flow starts no runs', async () => {
    const service = await started({ inputs: { webhookHoldDeliveries: true } });
    await fetch(`${service.url}/flows/api/flows/${FLOW_ID}/disable`, { method: 'POST' });
    await github.deliver({ n: 1 });
    await eventually(service.deliveries, oneRun);
    expect(await service.runs()).toEqual([]);
    await fetch(`${service.url}/flows/api/flows/${FLOW_ID}/enable`, { method: 'POST' });
    await eventually(service.runs, oneRun);
    await service.looks(github);
    expect(await service.runs()).toHaveLength(1);
  });
});

describe('what cannot be verified', () => {
  const changed = (payload: unknown) => ({ ...(payload as object), n: 2 });

  it('is refused under Enforce, once, and an alert says so', async () => {
    const service = await started();
    github.tamper(changed);
    await github.deliver({ n: 1 });
    await eventually(service.deliveries, oneRun);
    await service.looks(github);
    const record = { runId: null, reason: 'signature_mismatch', detail: expect.stringMatching(/, not verified/) };
    expect(await service.deliveries()).toMatchObject([record]);
    expect(details(github.asked)).toHaveLength(1);
    expect(await attentionOf(service)).toMatchObject([
      { kind: 'deliveries_missed', severity: 'error', message: expect.stringContaining('signature_mismatch') },
    ]);
  });

  it.each([
    ['acceptUnsigned', { reconcile: { acceptUnsigned: true } }],
    ['a mode that refuses nothing', { inputs: { webhookEnforcementMode: 'Audit' as const } }],
  ])('is accepted by %s, and its original is known then', async (_, given) => {
    const service = await started(given);
    github.tamper(changed);
    const lost = await github.deliver({ n: 1 });
    await eventually(service.runs, oneRun);
    expect(await service.deliveries()).toMatchObject([{ detail: 'reconciled from github, not verified' }]);
    github.target = service.hook;
    await github.redeliver(lost);
    await service.looks(github);
    expect(await service.runs()).toHaveLength(1);
  });

  it.each([[{}], [{ webhookNonceHeader: 'X-GitHub-Delivery' }]])(
    'starts no second run where a lenient mode accepted it unverified when it came: %j',
    async (nonce) => {
      const inputs = { webhookEnforcementMode: 'Audit' as const, webhookHmacKey: 'another key of enough bytes' };
      const service = await started({ inputs: { ...inputs, ...nonce } });
      github.target = service.hook;
      await github.deliver({ n: 1 });
      await service.looks(github);
      expect(await service.runs()).toHaveLength(1);
    },
  );
});

describe('a gap', () => {
  it('is fetched at the start, told once with count, span and cause, and in the books', async () => {
    const first = await started();
    await first.close();
    const lost = [];
    for (let n = 0; n < 35; n += 1) lost.push(await github.deliver({ n }));
    const service = await startReconciling(first.folder);
    ends.push(service.close);
    await eventually(service.runs, ({ length }) => length >= 35);
    await service.looks(github);
    expect(await service.runs()).toHaveLength(35);
    const order = (await service.deliveries()).map(({ headers }) => headers['x-github-delivery']);
    expect(order.toReversed()).toEqual(lost.map(({ guid }) => guid));
    const [item, ...others] = await attentionOf(service);
    expect(others).toEqual([]);
    expect(item).toMatchObject({ kind: 'deliveries_missed', severity: 'warning' });
    expect(item?.message).toMatch(/^35 deliveries to shop\/github did not arrive \(sent from 20\S+Z to 20\S+Z: /);
    expect(item?.message).toContain('35 failed to connect to host');
    expect(await service.get('/flows/api/books')).toMatchObject({ runs: 35, reconciled: 35, unaccounted: 0 });
  });

  it('is nothing of the time before the trigger asked for it', async () => {
    const old = await fakeGithub({ secret: SECRET, target: undefined, now: () => Date.now() - 2000 });
    ends.push(() => old.close());
    await old.deliver({ n: 1 });
    const service = await started({}, old);
    await service.looks(old);
    expect(await service.deliveries()).toEqual([]);
  });
});

describe('a log that cannot be asked', () => {
  const lastLook = async ({ app }: Pick<Service, 'app'>) =>
    (await app.store.of(reconcileStore).listReconciliations())[0]?.lastAt ?? Number.POSITIVE_INFINITY;

  it('needs attention until it can be, and the token is nowhere in it', async () => {
    const service = await started({ reconcile: { token: 'ghp_wrong_token' } });
    github.answers.push({ status: 401, body: '{"message":"Bad credentials: ghp_wrong_token"}' });
    const [item] = await eventually(() => attentionOf(service), oneRun);
    expect(item).toMatchObject({ kind: 'reconcile_failing', severity: 'warning' });
    expect(item?.message).toMatch(/github cannot be asked for lost deliveries to shop\/github .*answered 401: Bad/);
    expect(`${JSON.stringify(await attentionOf(service))}${service.logged.join()}`).not.toContain('ghp_wrong_token');
    await service.write(manifestOf(github.baseUrl, { more: { version: '2' } }));
    await service.app.reload();
    await eventually(
      () => attentionOf(service),
      ({ length }) => length === 0,
    );
  });

  it.each([
    ['in seconds', () => '3600'],
    ['in more seconds than make sense', () => '99999999'],
    ['as a date', () => new Date(Date.now() + 3_600_000).toUTCString()],
  ])('is not asked before the time that it names %s, nor by the next process', async (_, retryAfter) => {
    const service = await started();
    github.answers.push({ status: 429, headers: { 'retry-after': retryAfter() } });
    await service.looks(github, 1);
    await eventually(
      async () => (await service.app.store.of(reconcileStore).listReconciliations())[0]?.state,
      (state) => (state as { notBefore: number | null }).notBefore !== null,
    );
    const [asked, lastAt] = [github.asked.length, await lastLook(service)];
    await service.close();
    const again = await startReconciling(service.folder);
    ends.push(again.close);
    await eventually(
      () => lastLook(again),
      (looked) => looked > lastAt,
    );
    expect(github.asked).toHaveLength(asked);
  });
});
