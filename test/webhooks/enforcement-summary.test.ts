import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import type { EnforcementMode } from '../../src/model/manifest.ts';
import { gateChain, gatePreparer } from '../../src/webhooks/gates/index.ts';
import { createTriggerTable } from '../../src/webhooks/triggers.ts';
import { enforcementSummary } from '../../src/webhooks/webhook-lines.ts';
import { deployedFlow, sampleSettings, sampleTrigger } from './samples.ts';

const KEY = { webhookHmacKey: '7d5e0c9f41a86b23' };

describe('enforcementSummary', () => {
  const summary = (inputs: WebhookInputs[], defaultMode: EnforcementMode = 'Enforce') => {
    const webhooks = inputs.map((each, index) => sampleTrigger(each, { triggerKey: `hook${index}` }));
    const table = createTriggerTable({
      flows: [deployedFlow({ webhooks })],
      defaultMode,
      preparer: gatePreparer(gateChain(), sampleSettings()),
    });
    return enforcementSummary(table.list());
  };
  const good = { ...KEY, webhookSignatureScheme: 'GitHub' };

  it('is one line, that all is well', () => {
    const another = { ...good, webhookHmacKey: '0c1d2e3f40516273' };
    expect(summary([good, another])).toEqual(['All webhook triggers are enforced (2)']);
    expect(summary([])).toEqual(['There are no webhook triggers']);
  });

  it.each([
    [good, 'Off', 'mode Off'],
    [good, 'Audit', 'mode Audit'],
    [{ ...good, webhookEnforcementMode: 'Audit' }, 'Enforce', 'mode Audit'],
    [{}, 'Enforce', 'no signature scheme'],
    [{ webhookIpAllowListPreset: 'private' }, 'Enforce', 'no signature scheme'],
    [{ ...KEY, webhookSignatureScheme: 'GitHob' }, 'Enforce', 'unrecognised scheme "GitHob"'],
    [{ webhookSignatureScheme: 'GitHub' }, 'Enforce', 'no key'],
    [{ webhookSignatureScheme: 'GitHub' }, 'Off', 'mode Off, no key'],
  ] as [WebhookInputs, EnforcementMode, string][])('says of %o under %s: %s', (inputs, mode, why) => {
    expect(summary([inputs], mode)).toEqual([`Webhook triggers that are not enforced (1 of 1): Orders/hook0: ${why}`]);
  });

  it('names triggers that share a key, where the scheme does not sign the URL that tells them apart', () => {
    const square = { ...KEY, webhookSignatureScheme: 'Square' };
    expect(summary([good, square, good, square])).toEqual([
      'All webhook triggers are enforced (4)',
      'Webhook triggers that share a key: Orders/hook0 and Orders/hook2; ' +
        'a delivery captured at one of them is valid once at each of the others',
      'One run for each event, by its id: Orders/hook1 (body.event_id), Orders/hook3 (body.event_id)',
    ]);
  });

  it.each([
    ['body.id', '; a number and a text with the same digits are one id'],
    ['envelope.id', '; a number and a text with the same digits are one id'],
    ["has(body.id) ? body.id : 'none'", '; a number and a text with the same digits are one id'],
    ["'order:' + string(body.id)", ''],
    ['headers["x-id"]', ''],
  ])('says of the event id %s whether 7 and "7" may be one', (webhookEventId, more) => {
    expect(summary([{ ...good, webhookEventId }])).toEqual([
      'All webhook triggers are enforced (1)',
      `One run for each event, by its id: Orders/hook0 (${webhookEventId})${more}`,
    ]);
  });

  it('names those that are open and not the others', () => {
    expect(summary([good, {}, { webhookSignatureScheme: 'GitHub' }])).toEqual([
      'Webhook triggers that are not enforced (2 of 3): Orders/hook1: no signature scheme; Orders/hook2: no key',
    ]);
  });
});
