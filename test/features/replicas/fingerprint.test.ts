import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { prepareExtensions } from '../../../src/config/extensions.ts';
import { readSettings } from '../../../src/config/settings.ts';
import { describeSettings, type SettingName } from '../../../src/config/settings-schema.ts';
import {
  createFingerprint,
  differencesOf,
  haveStepType,
  unreadableIn,
} from '../../../src/features/replicas/fingerprint.ts';
import { defineHandler } from '../../../src/flows/handlers/handler.ts';
import { parseManifest } from '../../../src/manifest/load.ts';
import { bodySealer, newKey } from '../../../src/store/sealed-body.ts';

const manifest = {
  id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10',
  name: 'orders',
  version: '1',
  triggers: {
    push: { type: 'webhook', inputs: { webhookSignatureScheme: 'GitHub', webhookHmacKey: 'env:PUSH_KEY' } },
  },
  steps: {
    call: {
      type: 'HttpRequest',
      inputs: { url: 'https://example.com', headers: { authorization: 'env:CALL_KEY' } },
    },
  },
};
const SECRETS = { PUSH_KEY: 'canary-push', CALL_KEY: 'canary-call' };
const sealers = { one: bodySealer(newKey()), another: bodySealer(newKey()) };
const charge = defineHandler({
  type: 'Charge',
  inputs: z.unknown(),
  run: () => ({ kind: 'succeeded', output: null }),
});

interface Given {
  readonly environment?: Record<string, string>;
  readonly settings?: Parameters<typeof readSettings>[1];
  readonly key?: keyof typeof sealers;
  readonly handlers?: readonly (typeof charge)[];
}

/** A replica's fingerprint, as other replicas read it. */
function replica(name: string, { environment = {}, settings: given = {}, key, handlers = [] }: Given = {}) {
  const settings = readSettings({}, given);
  const clock = { now: () => 0, monotonic: () => 0 };
  const env = { ...SECRETS };
  const extensions = prepareExtensions({ settings, extensions: { handlers }, environment: env, clock, folder: '/' });
  const { flow } = parseManifest(JSON.stringify(manifest), 'orders.json', {
    ...extensions.rules.folder,
    strict: false,
  });
  if (flow === undefined) throw new Error('no flow');
  // A manifest with unreadable secrets is not loaded, unless another replica deployed it.
  Object.assign(env, environment);
  const catalog = { list: () => [{ loaded: flow }] };
  const tell = createFingerprint({
    settings,
    inForce: () => settings,
    extensions,
    catalog,
    sealer: key && sealers[key],
  });
  return { name, fingerprint: JSON.parse(JSON.stringify(tell())) };
}

const proxies = { trustedProxies: ['10.0.0.0/8'] };

it.each<[rule: string, one: Given, two: Given, messages: string[]]>([
  ['the same', {}, {}, []],
  ['the same under the same store key', { key: 'one' }, { key: 'one' }, []],
  [
    'a secret with another value',
    { key: 'one' },
    { key: 'one', environment: { CALL_KEY: 'canary-rotated' } },
    ['env:CALL_KEY differs between replicas: one / two'],
  ],
  ['a secret with another value, without a store key', {}, { environment: { CALL_KEY: 'canary-rotated' } }, []],
  ['a secret that only one can read', {}, { environment: { CALL_KEY: '' } }, ['env:CALL_KEY cannot be read by two']],
  [
    'a store key of its own, so that no secret can be compared',
    { key: 'one' },
    { key: 'another', environment: { CALL_KEY: 'canary-rotated' } },
    ['SLUICE_STORE_KEY differs between replicas: one / two'],
  ],
  ['a store key that one lacks', { key: 'one' }, {}, ['SLUICE_STORE_KEY differs between replicas: one / two']],
  [
    'another setting that gates read',
    { settings: proxies },
    {},
    ['SLUICE_TRUSTED_PROXIES differs between replicas: one / two'],
  ],
  [
    'a public URL that differs in its password alone',
    { settings: { publicUrl: 'https://a:canary-one@example.com' } },
    { settings: { publicUrl: 'https://a:canary-two@example.com' } },
    [],
  ],
  ['an extension that one lacks', { handlers: [charge] }, {}, ['The step type Charge is missing in two']],
])('two replicas with %s', (_, one, two, messages) => {
  const replicas = [replica('one', one), replica('two', two)];
  expect(differencesOf(replicas).map(({ message }) => message)).toEqual(messages);
  expect(JSON.stringify(replicas)).not.toContain('canary');
});

/** A non-default value for each setting in which replicas must agree; `null` for the others. */
const ANOTHER: Readonly<Record<SettingName, unknown>> = {
  enforcementMode: 'Enforce',
  maxBodyBytes: 1,
  forwardedHeaderDepth: 1,
  trustedProxies: ['10.0.0.0/8'],
  publicUrl: 'https://hooks.example.com',
  replayToleranceSeconds: 60,
  nonceTtlSeconds: 60,
  rateLimitPermitsPerSecond: 1,
  rateLimitBurstSize: 1,
  rateLimitPerIp: true,
  allowLegacySha1: true,
  holdDeliveries: true,
  egressAllow: ['10.0.0.0/8'],
  outgoingHosts: ['example.com=1/s'],
  circuitFailures: 1,
  manifestSecrets: ['env:OTHER_*'],
  dashboardAuth: 'none',
  dashboardUser: 'canary-user',
  dashboardPassword: 'canary-password',
  dashboardToken: 'canary-dashboard-token',
  tokens: [{ name: 'ann', token: 'canary-token-of-ann', scopes: ['read'] }],
  authUserHeader: 'x-user',
  authGroupsHeader: 'x-groups',
  strictManifests: true,
  deliveryRetentionDays: 1,
  runRetentionDays: 1,
  serviceName: 'shop',
  alerts: { targets: { chat: { type: 'slack', url: 'https://hooks.slack.com/services/canary' } } },
  evidenceKey: generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  storeKey: null,
  host: null,
  port: null,
  replicaName: null,
  databaseUrl: null,
  databaseDirectUrl: null,
  databaseSchema: null,
  manifests: null,
  refusedDeploys: null,
  stepConcurrency: null,
  logLevel: null,
  drainSeconds: null,
  shutdownGraceSeconds: null,
  deliveryStore: null,
  deliveryRingSize: null,
  vars: { REGION: 'eu' },
};
/** Valid only together with another setting. */
const USER = { dashboardUser: 'ann', dashboardPassword: 'canary of ann' };
const SIGN_ON = {
  authUserHeader: 'remote-user',
  authGroupsHeader: 'remote-groups',
  trustedProxies: ['10.0.0.0/8'],
  tokens: [{ group: 'canary-of-a-group', scopes: ['read'] }],
};
const TOGETHER: Readonly<Partial<Record<SettingName, Readonly<Record<string, unknown>>>>> = {
  dashboardUser: USER,
  dashboardPassword: USER,
  authUserHeader: SIGN_ON,
  authGroupsHeader: SIGN_ON,
};

describe('a setting in which replicas must agree', () => {
  const compared = describeSettings().filter(({ name }) => ANOTHER[name] !== null);

  it.each(compared)('$variable is told where it differs', ({ name, variable }) => {
    const settings = TOGETHER[name] ?? {};
    const one = replica('one', { key: 'one', settings });
    const two = replica('two', { key: 'one', settings: { ...settings, [name]: ANOTHER[name] } });
    expect(differencesOf([one, two]).map(({ what }) => what)).toEqual([variable]);
    expect(JSON.stringify([one, two])).not.toContain('canary');
  });

  it('is the same for all but those that each replica has of its own', () => {
    const { fingerprint } = replica('one', { key: 'one' });
    const told = Object.keys({ ...fingerprint.settings, ...fingerprint.secrets });
    const variables = told.filter((what) => what.startsWith('SLUICE_'));
    expect(variables.sort()).toEqual(compared.map(({ variable }) => variable).sort());
  });
});

it('notices credentials that one replica lacks without a store key too', () => {
  const replicas = [replica('one', { settings: { dashboardToken: 'canary-dashboard-token' } }), replica('two')];
  expect(differencesOf(replicas).map(({ what }) => what)).toEqual(['SLUICE_DASHBOARD_TOKEN']);
  expect(unreadableIn('two', replicas)).toEqual([]);
});

it('names those that agree together', () => {
  const replicas = [replica('a', { settings: proxies }), replica('b'), replica('c', { settings: proxies })];
  expect(differencesOf(replicas)).toEqual([
    { what: 'SLUICE_TRUSTED_PROXIES', message: 'SLUICE_TRUSTED_PROXIES differs between replicas: a, c / b' },
  ]);
});

it('compares nothing with a replica that has told nothing yet, or something else', () => {
  const silent = [null, 'x', { secrets: 1 }].map((fingerprint, n) => ({ name: `silent ${n}`, fingerprint }));
  expect(differencesOf([replica('one'), ...silent])).toEqual([]);
});

it('tells equal secrets under different names apart, so that no reader learns that they are equal', () => {
  const { fingerprint } = replica('one', { key: 'one', environment: { PUSH_KEY: 'canary', CALL_KEY: 'canary' } });
  const digests = ['env:PUSH_KEY', 'env:CALL_KEY'].map((reference) => fingerprint.secrets[reference]);
  expect(digests).toEqual([expect.stringMatching(/^[0-9a-f]{16}$/), expect.stringMatching(/^[0-9a-f]{16}$/)]);
  expect(new Set(digests).size).toBe(2);
});

it('tells no digest of a secret without a store key: a reader of the database could guess it', () => {
  const digests = Object.values(replica('one', { settings: USER }).fingerprint.secrets);
  expect(new Set(digests)).toEqual(new Set(['readable', 'not set']));
});

it('says whether another replica has a step type', () => {
  const [plain, charging] = [replica('one'), replica('two', { handlers: [charge] })];
  const unheard = { name: 'three', fingerprint: null };
  const has = (stepType: string, besides: string) => haveStepType([unheard, plain, charging], { stepType, besides });
  expect(has('Charge', 'one')).toBe(true);
  expect(has('Charge', 'two')).toBe(false);
  expect(has('HttpRequest', 'two')).toBe(true);
  expect(has('Refund', 'one')).toBe(false);
});
