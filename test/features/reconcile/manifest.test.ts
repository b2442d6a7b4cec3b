import { describe, expect, it } from 'vitest';
import { accessOf, entranceOf } from '../../../src/features/deploy-rules/entrance.ts';
import { parseManifest } from '../../../src/manifest/load.ts';
import { storedFlow } from '../../../src/manifest/stored.ts';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import type { Json } from '../../../src/model/json.ts';
import { webhookChecks } from '../../../src/webhooks/checks.ts';
import { gateChain, gatePreparer } from '../../../src/webhooks/gates/index.ts';
import { type GoodManifest, goodManifest, issuesAfter, rules } from '../../manifest/rules.ts';
import { sampleSettings, sampleTrigger } from '../../webhooks/samples.ts';

const LOG = { from: 'github', repo: 'octo/shop', hook: 7, token: 'env:API_TOKEN', lookback: 'P2D' };
const AT = 'error flow.json triggers.github.reconcile';
const preparer = gatePreparer(gateChain(), sampleSettings());
const checked = { ...rules, checks: [webhookChecks(preparer, 'Enforce')] };

const withLog =
  (reconcile: object | undefined, inputs: WebhookInputs = {}) =>
  (manifest: GoodManifest) => {
    const { github } = manifest.triggers;
    if (github === undefined) return;
    github.inputs = { ...(github.inputs as object), webhookReplayToleranceSeconds: 0, ...inputs } as Json;
    if (reconcile !== undefined) github.reconcile = reconcile as Json;
  };
const told = (reconcile: object, inputs: WebhookInputs = {}) =>
  issuesAfter(withLog({ ...LOG, ...reconcile }, inputs), checked).filter((line) => line.includes('.reconcile'));

describe('a trigger with reconcile', () => {
  it.each<[rule: string, change: object, line: string | undefined, inputs?: WebhookInputs]>([
    ['takes what is needed, and has the rest by default', { lookback: undefined, every: undefined }, undefined],
    ['takes an organization instead of a repository', { repo: undefined, org: 'octo' }, undefined],
    ['takes keys in any case', { ACCEPTUNSIGNED: false }, undefined],
    ['has one owner', { org: 'octo' }, `${AT}.org: is set next to repo; a webhook belongs to one of them`],
    ['names its owner', { repo: undefined }, `${AT}.repo: is missing; a repository as owner/name, or org`],
    ['names a repository as it is', { repo: 'https://github.com/o/r' }, `${AT}.repo: is not owner/name`],
    ['knows no other log', { from: 'nobody' }, `${AT}.from:`],
    ['has no other field', { lookBehind: 'P1D' }, `${AT}.lookBehind: is not known`],
    ['looks once a second at most', { every: 'PT0S' }, `${AT}.every: is not an ISO 8601 duration from PT1S to P31D`],
    ['looks often enough', { every: 'P3D' }, `${AT}.lookback: is P2D, shorter than every, P3D`],
    ['has no credential in its URL', { baseUrl: 'https://a:b@example.com' }, `${AT}.baseUrl: is not an absolute`],
    ['has its own events', {}, `${AT}: needs webhookEventId`, { webhookEventId: 'off' }],
    [
      'knows events for as long as it looks back',
      { lookback: 'P2D' },
      `${AT}.lookback: is P2D, but an event is known for 1 days`,
      { webhookEventIdDays: 1 },
    ],
    ['shares no slug', {}, `${AT}: is not accepted together with webhookShared`, { webhookShared: true }],
    [
      'has a token that can be read',
      { token: 'env:NO_SUCH' },
      `${AT}.token: the environment variable NO_SUCH is not set`,
    ],
    [
      'is warned of a token in plain text',
      { token: 'ghp_plain' },
      'warning flow.json triggers.github.reconcile.token: contains a secret in plain text',
    ],
    [
      'is warned of a log that anyone on the way can write',
      { baseUrl: 'http://github.example.com/api/v3' },
      'warning flow.json triggers.github.reconcile.baseUrl: is not https',
    ],
    [
      'is warned of what needs no signature',
      { acceptUnsigned: true },
      'warning flow.json triggers.github.reconcile.acceptUnsigned: takes what the log holds',
    ],
  ])('%s', (_, change, line, inputs) => {
    const given = Object.fromEntries(Object.entries({ ...LOG, ...change }).filter(([, value]) => value !== undefined));
    const lines = issuesAfter(withLog(given, inputs), checked).filter((each) => each.includes('reconcile'));
    expect(lines.map((each) => each.slice(0, line?.length))).toEqual(line === undefined ? [] : [line]);
  });

  it('is refused where the trigger has no deliveries', () => {
    const lines = issuesAfter((manifest) => {
      if (manifest.triggers.byHand !== undefined) manifest.triggers.byHand.reconcile = LOG;
    });
    expect(lines).toEqual([
      'error flow.json triggers.byHand.reconcile: is not accepted on a manual trigger: it has no deliveries',
    ]);
  });

  it('tells the events of GitHub apart, and says no more of that', () => {
    expect(told({})).toEqual([]);
    const trigger = sampleTrigger({ webhookSignatureScheme: 'GitHub', webhookHmacKey: 'a key of enough bytes' });
    const reconcile = { ...LOG, from: 'github' as const, every: 'PT15M' };
    expect(entranceOf({ ...trigger, reconcile }, { preparer, defaultMode: 'Enforce' }).gates?.eventId).toMatchObject({
      expression: 'headers["x-github-delivery"]',
      days: 30,
    });
  });
});

describe('the token of a log', () => {
  const parsed = (token: string) => {
    const manifest = goodManifest();
    withLog({ ...LOG, token })(manifest);
    const { flow } = parseManifest(JSON.stringify(manifest), 'flow.json', rules);
    if (flow === undefined) throw new Error('the manifest does not load');
    return flow;
  };

  it('is read for the trigger, and stays a reference where the manifest is stored', () => {
    const { webhooks, snapshot } = parsed('env:API_TOKEN');
    expect(webhooks[0]?.reconcile).toMatchObject({ token: 'Bearer token-of-the-environment' });
    expect(JSON.stringify(snapshot)).toContain('"token":"env:API_TOKEN"');
  });

  it('is masked where it is written out, and its mask is never sent', () => {
    const { snapshot, hash, webhooks } = parsed('ghp_plain');
    expect(webhooks[0]?.reconcile).toMatchObject({ token: 'ghp_plain' });
    expect(JSON.stringify(snapshot)).not.toContain('ghp_plain');
    const opened = { files: {}, literals: new Map(), lost: [], signed: undefined };
    const { flow, problems } = storedFlow({ name: 'Orders', snapshot, hash, source: 'folder' }, rules, opened);
    expect(flow.webhooks[0]?.reconcile).toMatchObject({ token: '' });
    expect(problems).toEqual([expect.stringMatching(/triggers\.github\.reconcile\.token: was in plain text/)]);
  });
});

describe('access', () => {
  const SIGNED: WebhookInputs = { webhookSignatureScheme: 'GitHub', webhookHmacKey: 'a key of enough bytes' };
  const log = (change: object) => ({ ...LOG, from: 'github' as const, every: 'PT15M', ...change });
  const accessBetween = (before: object | undefined, after: object | undefined, inputs = SIGNED) => {
    const [one, other] = [before, after].map((change) => {
      const reconcile = change === undefined ? {} : { reconcile: log(change) };
      return entranceOf({ ...sampleTrigger(inputs), ...reconcile }, { preparer, defaultMode: 'Enforce' });
    });
    if (one === undefined || other === undefined) throw new Error('there is no entrance');
    return accessOf(one, other).access;
  };

  it.each([
    ['is wider where what is unsigned is taken', {}, { acceptUnsigned: true }, 'wider'],
    [
      'is wider where it is taken from another log',
      { acceptUnsigned: true },
      { acceptUnsigned: true, hook: 8 },
      'wider',
    ],
    ['is narrower where it is no longer taken', { acceptUnsigned: true }, {}, 'narrower'],
    [
      'is the same for another rhythm or token',
      { acceptUnsigned: true },
      { acceptUnsigned: true, every: 'PT1S', token: 'x' },
      'same',
    ],
    ['is the same where all has to be signed', {}, { hook: 8 }, 'same'],
  ])('%s', (_, before, after, access) => {
    expect(accessBetween(before, after)).toBe(access);
  });

  it('is wider where nothing was fetched before', () => {
    expect(accessBetween(undefined, { acceptUnsigned: true }, { ...SIGNED, webhookEventId: 'body.id' })).toBe('wider');
  });

  it('is wider where a log opens a way around the addresses that alone let in', () => {
    const addresses = { webhookIpAllowList: ['192.0.2.1'], webhookEventId: 'body.id' };
    expect(accessBetween(undefined, {}, addresses)).toBe('wider');
    expect(accessBetween({}, { hook: 8 }, addresses)).toBe('wider');
    expect(accessBetween({}, { acceptUnsigned: true }, addresses)).toBe('same');
    expect(accessBetween({}, undefined, addresses)).toBe('narrower');
    expect(accessBetween(undefined, {}, { webhookEventId: 'body.id' })).toBe('same');
  });
});
