import { createHmac } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { FLOW_ID, GITHUB_SECRET, githubManifest } from '../e2e/service.ts';
import { ask, push, useFolderApp } from '../folder-app.ts';

const PLAIN = { webhookNonceHeader: undefined, webhookReplayToleranceSeconds: 0 };
const HASHED = { webhookNonceHeader: undefined, webhookReplayToleranceSeconds: 300 };
const NAMED = { webhookNonceHeader: 'X-GitHub-Delivery', webhookReplayToleranceSeconds: 0 };
const RENAMED = { webhookNonceHeader: 'X-Request-Id', webhookReplayToleranceSeconds: 300 };

const withInputs = (inputs: object) => githubManifest({ inputs });
const withSlugs = (slugs: Readonly<Record<string, string>>) => ({
  triggers: Object.fromEntries(
    Object.entries(slugs).map(([key, webhookSlug]) => {
      const signed = { webhookSignatureScheme: 'GitHub', webhookHmacKey: GITHUB_SECRET };
      return [key, { type: 'webhook', inputs: { ...NAMED, ...signed, webhookSlug } }];
    }),
  ),
});

const workspace = useFolderApp({ listens: false });

/** A service with repeated deploys, and a publisher whose deliveries it verifies. */
async function aService() {
  const write = (change: object) => workspace.writeManifest('push.json', { ...githubManifest(), ...change });
  await write(withInputs(PLAIN));
  const app = await workspace.start();
  return {
    async deploy(change: object) {
      await write(change);
      expect((await ask(app, 'POST', '/flows/reload?allow=access,caution')).status).toBe(200);
    },
    async deployAll(flows: readonly { readonly name: string }[]) {
      const folder = join(workspace.folder, 'manifests');
      for (const file of await readdir(folder)) await rm(join(folder, file));
      for (const flow of flows) await workspace.writeManifest(`${flow.name}.json`, flow);
      const { status, answer } = await ask(app, 'POST', '/flows/reload?allow=access,caution,breaking');
      expect([status, JSON.stringify(answer)]).toEqual([200, expect.not.stringContaining('"action":"refused"')]);
    },
    deliver: async (body: string, id: string, slug = 'push', headers = {}) =>
      (await push(app, { slug, body, id, headers: { 'x-request-id': `r-${id}`, ...headers } })).status,
  };
}

it('no deploy that adds, renames or removes the nonce header or switches a tolerance makes a known delivery new', async () => {
  const { deploy, deliver } = await aService();
  const revisions = [PLAIN, HASHED, NAMED, RENAMED, HASHED, NAMED];
  for (const [n, revision] of revisions.entries()) {
    if (n > 0) await deploy(withInputs(revision));
    for (let sent = 0; sent < n; sent += 1) expect([n, await deliver(`{"n":${sent}}`, `id-${sent}`)]).toEqual([n, 409]);
    expect([n, await deliver(`{"n":${n}}`, `id-${n}`)]).toEqual([n, 200]);
  }
});

it('while the same header is named, equal bytes under another id are another delivery', async () => {
  const { deploy, deliver } = await aService();
  await deploy(withInputs(NAMED));
  expect([await deliver('{}', '1'), await deliver('{}', '2'), await deliver('{}', '2')]).toEqual([200, 200, 409]);
  await deploy(withInputs(RENAMED));
  expect(await deliver('{}', '3')).toBe(409);
});

it('while no rule changes, deliveries with one body and different digests are different deliveries', async () => {
  const { deploy, deliver } = await aService();
  const unsigned = { webhookSignatureScheme: undefined, webhookHmacKey: undefined };
  await deploy(withInputs({ ...HASHED, ...unsigned, webhookTimestampHeader: 'X-Time' }));
  const time = `${Math.floor(Date.now() / 1000)}`;
  const sent = [{}, { 'x-time': time }, { 'x-time': `${Number(time) - 1}` }];
  for (const headers of sent) expect([headers, await deliver('{}', '1', 'push', headers)]).toEqual([headers, 200]);
  for (const headers of sent) expect([headers, await deliver('{}', '1', 'push', headers)]).toEqual([headers, 409]);
});

it.each(['none', 'Stripe', 'Generic', 'Custom'] as const)(
  'no deploy that changes what is signed makes a delivery new that came under the scheme %s',
  async (first) => {
    const { deploy, deliver } = await aService();
    const key = GITHUB_SECRET;
    const tolerant = { ...HASHED, webhookHmacKey: key };
    const custom = { webhookSignatureHeader: 'X-Url', webhookSignedPayloadStrategy: 'UrlPlusBody' };
    const inputs = {
      none: { ...PLAIN, webhookSignatureScheme: undefined, webhookHmacKey: undefined },
      Stripe: { ...tolerant, webhookSignatureScheme: 'Stripe' },
      Generic: { ...tolerant, webhookSignatureScheme: 'Generic' },
      Custom: { ...tolerant, webhookSignatureScheme: 'Custom', webhookPublicUrl: 'https://h.example/', ...custom },
    };
    const body = '{"pay":1}';
    const time = Math.floor(Date.now() / 1000);
    const hmac = (text: string) => createHmac('sha256', key).update(text).digest('hex');
    const headers = {
      'stripe-signature': `t=${time},v1=${hmac(`${time}.${body}`)}`,
      'x-signature': `sha256=${hmac(body)}`,
      'x-url': hmac(`https://h.example/${body}`),
    };
    await deploy(withInputs(inputs[first]));
    expect(await deliver(body, '1', 'push', headers)).toBe(200);
    for (const next of ['Stripe', 'Generic', 'Custom', 'Stripe'] as const) {
      await deploy(withInputs(inputs[next]));
      expect([next, await deliver(body, '1', 'push', headers)]).toEqual([next, 409]);
    }
  },
);

it('no change of the key to another form of the scheme makes a known delivery new', async () => {
  const { deploy, deliver } = await aService();
  const body = '{"object_kind":"push"}';
  const key = Buffer.from('0123456789abcdef01234567');
  const time = `${Math.floor(Date.now() / 1000)}`;
  const headers = {
    'x-gitlab-token': 'a token of GitLab',
    'webhook-id': 'id-1',
    'webhook-timestamp': time,
    'webhook-signature': `v1,${createHmac('sha256', key).update(`id-1.${time}.${body}`).digest('base64')}`,
  };
  const token = { webhookHmacKey: headers['x-gitlab-token'] };
  const signed = { webhookHmacKey: `whsec_${key.toString('base64')}` };
  const both = { ...signed, webhookHmacKeyPrevious: token.webhookHmacKey };
  for (const [n, keys] of [token, both, signed, token].entries()) {
    await deploy(withInputs({ ...HASHED, webhookSignatureScheme: 'GitLab', ...keys }));
    expect([n, await deliver(body, '1', 'push', headers)]).toEqual([n, n === 0 ? 200 : 409]);
  }
});

it.each([
  [
    'two triggers change their slugs',
    [
      { a: 'one', b: 'two' },
      { a: 'two', b: 'one' },
    ],
    ['one', 'two'],
  ],
  [
    'and change them back',
    [
      { a: 'one', b: 'two' },
      { a: 'two', b: 'one' },
      { a: 'one', b: 'two' },
    ],
    ['one', 'two'],
  ],
  [
    'three go round',
    [
      { a: 'x', b: 'y', c: 'z' },
      { a: 'y', b: 'z', c: 'x' },
      { a: 'z', b: 'x', c: 'y' },
    ],
    ['x', 'y', 'z'],
  ],
  ['a renamed one leaves its name to another', [{ a: 'one' }, { b: 'one', a: 'new' }, { c: 'one', b: 'new' }], ['one']],
  [
    'another comes first',
    [
      { a: 'one', b: 'two' },
      { b: 'two', a: 'one' },
    ],
    [FLOW_ID],
  ],
])('a delivery stays known at the place where it was accepted when %s', async (_rule, revisions, places) => {
  const { deploy, deliver } = await aService();
  for (const [n, slugs] of revisions.entries()) {
    await deploy(withSlugs(slugs as Record<string, string>));
    for (const place of places) {
      for (let sent = 0; sent < n; sent += 1) {
        expect([n, place, await deliver(`{"${place}":${sent}}`, `${place}-${sent}`, place)]).toEqual([n, place, 409]);
      }
      expect([n, place, await deliver(`{"${place}":${n}}`, `${place}-${n}`, place)]).toEqual([n, place, 200]);
    }
  }
});

const OTHERS = {
  a: 'aaaaaaaa-0000-4000-8000-000000000001',
  b: 'bbbbbbbb-0000-4000-8000-000000000001',
  c: 'cccccccc-0000-4000-8000-000000000001',
};

/** Slugs of triggers, by flow; the folder lacks flows that are not named. */
type Flows = Readonly<Partial<Record<keyof typeof OTHERS, Readonly<Record<string, string>>>>>;

it.each<[string, readonly Flows[]]>([
  ['it moves to another flow', [{ a: { x: 'one' } }, { a: { x: 'two' }, b: { y: 'one' } }]],
  ['it was free in between', [{ a: { x: 'one' } }, { a: { x: 'two' } }, { a: { x: 'two' }, b: { y: 'one' } }]],
  ['another flow replaces its flow', [{ a: { x: 'one' } }, { b: { x: 'one' } }, { c: { y: 'one' } }]],
  [
    'it moves on and comes back',
    [
      { a: { x: 'one' } },
      { a: { x: 'two' }, b: { y: 'one' } },
      { a: { x: 'two' }, b: { y: 'six' }, c: { y: 'one' } },
      { a: { x: 'one' }, b: { y: 'six' }, c: { y: 'two' } },
    ],
  ],
])('a delivery stays known at its slug when %s', async (_rule, revisions) => {
  const { deliver, deployAll } = await aService();
  for (const [n, flows] of revisions.entries()) {
    await deployAll(
      Object.entries(flows).map(([name, slugs]) => ({
        ...githubManifest(),
        ...withSlugs(slugs),
        id: OTHERS[name as keyof typeof OTHERS],
        version: `${n}`,
        name,
      })),
    );
    const isThere = Object.values(flows).some((slugs) => Object.values(slugs).includes('one'));
    for (let sent = 0; isThere && sent < n; sent += 1) {
      const wasThere = Object.values(revisions[sent] ?? {}).some((slugs) => Object.values(slugs).includes('one'));
      if (wasThere) expect([n, sent, await deliver(`{"n":${sent}}`, `${sent}`, 'one')]).toEqual([n, sent, 409]);
    }
    if (isThere) expect([n, await deliver(`{"n":${n}}`, `${n}`, 'one')]).toEqual([n, 200]);
  }
});
