import { expect, it } from 'vitest';
import { parseManifest } from '../../../src/manifest/load.ts';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import type { Json } from '../../../src/model/json.ts';
import type { EnforcementMode } from '../../../src/model/manifest.ts';
import { webhookChecks } from '../../../src/webhooks/checks.ts';
import { gateChain, gatePreparer } from '../../../src/webhooks/gates/index.ts';
import { type GoodManifest, goodManifest, issuesAfter, rules } from '../../manifest/rules.ts';
import { sampleSettings } from '../../webhooks/samples.ts';

const STRIPE = { from: 'stripe', token: 'env:API_TOKEN' };
const LIST = {
  from: 'list',
  url: 'https://api.example.com/sent?after={since}',
  requestHeaders: { Authorization: 'env:API_TOKEN', Accept: 'application/json', 'X-Own': 'env:API_TOKEN' },
  requestQuery: { api_key: 'a plain key' },
  items: 'response.body',
  id: 'item.id',
  time: 'item.at',
};
const preparer = gatePreparer(gateChain(), sampleSettings());

const withLog =
  (reconcile: object, inputs: WebhookInputs = {}) =>
  ({ triggers: { github } }: GoodManifest) => {
    if (github === undefined) return;
    const { webhookNonceHeader: _, ...others } = github.inputs as { webhookNonceHeader?: string };
    github.inputs = { ...others, webhookReplayToleranceSeconds: 0, ...inputs } as Json;
    github.reconcile = reconcile as Json;
  };
const told = (reconcile: object, inputs: WebhookInputs = {}, mode: EnforcementMode = 'Enforce') =>
  issuesAfter(withLog(reconcile, inputs), { ...rules, checks: [webhookChecks(preparer, mode)] }).filter((line) =>
    line.includes('.reconcile'),
  );
const ownEvents = { webhookEventId: 'body.id' };

it.each<[string, object, WebhookInputs, EnforcementMode, readonly string[]]>([
  [
    'says that an Enforce trigger takes nothing of a log without signatures',
    STRIPE,
    ownEvents,
    'Enforce',
    ['acceptUnsigned: is not set'],
  ],
  ['takes it in Audit without a word', STRIPE, ownEvents, 'Audit', []],
  [
    'needs to know the events of a list',
    LIST,
    {},
    'Enforce',
    ['needs webhookEventId', 'api_key: contains a secret in plain text'],
  ],
  ['takes a list whose events are known', { ...LIST, requestQuery: {} }, ownEvents, 'Enforce', []],
  [
    'says that a list is not asked over https',
    { ...LIST, requestQuery: {}, url: 'http://a.example/' },
    ownEvents,
    'Enforce',
    ['url: is not https'],
  ],
])('%s', (_, reconcile, inputs, mode, expected) => {
  const lines = told(reconcile, inputs, mode);
  expect(lines).toHaveLength(expected.length);
  for (const each of expected) expect(lines.join('\n')).toContain(each);
});

it('reads the credentials of a list, and stores none of them', () => {
  const manifest = goodManifest();
  withLog(LIST, ownEvents)(manifest);
  const { flow } = parseManifest(JSON.stringify(manifest), 'flow.json', rules);
  const token = 'Bearer token-of-the-environment';
  expect(flow?.webhooks[0]?.reconcile).toMatchObject({
    requestHeaders: { Authorization: token, Accept: 'application/json', 'X-Own': token },
    requestQuery: { api_key: 'a plain key' },
  });
  const stored = JSON.stringify(flow?.snapshot);
  expect(stored).toContain('"X-Own":"env:API_TOKEN"');
  expect(stored).toContain('"Accept":"application/json"');
  expect(stored).not.toContain('a plain key');
});
