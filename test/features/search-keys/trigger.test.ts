import { describe, expect, it } from 'vitest';
import type { Json } from '../../../src/model/json.ts';
import { webhookChecks } from '../../../src/webhooks/checks.ts';
import { gateChain, gatePreparer } from '../../../src/webhooks/gates/index.ts';
import { issuesAfter, rules } from '../../manifest/rules.ts';
import { sampleSettings } from '../../webhooks/samples.ts';

const checks = [webhookChecks(gatePreparer(gateChain(), sampleSettings({})), 'Enforce')];

/** The issues of a trigger with these keys. */
function issues(searchKeys: Json, { trigger = 'github', inputs = {} }: { trigger?: string; inputs?: object } = {}) {
  const found = issuesAfter(
    (manifest) => {
      const edited = manifest.triggers[trigger];
      if (edited === undefined) throw new Error('no such trigger');
      Object.assign(edited, { searchKeys });
      Object.assign(edited.inputs ?? {}, inputs);
    },
    { ...rules, checks },
  );
  return found.filter((issue) => issue.includes('searchKeys'));
}

describe('search keys in a manifest', () => {
  it('are accepted on webhook and manual triggers', () => {
    expect(issues({ order: 'body.name', event: 'headers.x-github-event' })).toEqual([]);
    expect(issues({ order: 'body.name' }, { trigger: 'byHand' })).toEqual([]);
    expect(issues({})).toEqual([]);
  });

  it.each<[Json, string]>([
    [{ order: 'body.' }, 'error flow.json triggers.github.searchKeys.order: expression "body."'],
    [{ 'a b': 'body.x' }, 'error flow.json triggers.github.searchKeys["a b"]: is not the name of a search key'],
    [{ order: 7 }, 'error flow.json triggers.github.searchKeys.order: is not an expression'],
    [['body.x'], 'error flow.json triggers.github.searchKeys: is an array'],
    [
      { key: 'headers.authorization' },
      'triggers.github.searchKeys.key: reads the header authorization, which may hold',
    ],
    [{ key: 'headers.cookie' }, 'error flow.json triggers.github.searchKeys.key: reads the header cookie'],
    [
      { key: 'headers["x-hub-signature-256"]' },
      'error flow.json triggers.github.searchKeys.key: reads the header x-hub',
    ],
    [{ key: 'headers["paypal-transmission-sig"] + headers.x-api-key' }, 'error'],
    [
      { key: 'body.card.token' },
      'warning flow.json triggers.github.searchKeys.key: reads "token", which looks like a secret',
    ],
    [
      { key: 'envelope.card.token' },
      'warning flow.json triggers.github.searchKeys.key: reads "token", which looks like a secret',
    ],
  ])('%j is refused or told, naming the field', (searchKeys, expected) => {
    expect(issues(searchKeys)[0]).toContain(expected);
  });

  it('never hold a signature of the trigger’s own scheme', () => {
    const custom = { webhookSignatureScheme: 'Custom', webhookSignatureHeader: 'X-Seal' };
    expect(issues({ seal: 'headers["x-seal"]' })).toEqual([]);
    expect(issues({ seal: 'headers["x-seal"]' }, { inputs: custom })).toEqual([
      expect.stringContaining('error flow.json triggers.github.searchKeys.seal: reads the header x-seal'),
    ]);
    const mailgun = { webhookSignatureScheme: 'Mailgun' };
    expect(issues({ a: 'body.signature.signature' }, { inputs: mailgun }).join('\n')).toContain('reads a signature');
  });

  it('are not accepted on cron triggers', () => {
    expect(issues({ order: 'body.name' }, { trigger: 'nightly' })).toEqual([
      'error flow.json triggers.nightly.searchKeys: is not accepted on a cron trigger: its runs have no body and no headers',
    ]);
  });
});
