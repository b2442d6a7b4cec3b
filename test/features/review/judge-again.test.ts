import { expect, it } from 'vitest';
import { restore } from '../../../src/features/review/judge-again.ts';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import type { DeliveryRecord } from '../../../src/model/delivery.ts';
import { gateChain, gatePreparer } from '../../../src/webhooks/gates/index.ts';
import { recordOf } from '../../../src/webhooks/record.ts';
import { createSchemeRegistry } from '../../../src/webhooks/schemes/resolve.ts';
import type { SignatureVerifier } from '../../../src/webhooks/schemes/spec.ts';
import { createTriggerTable, type PreparedTrigger } from '../../../src/webhooks/triggers.ts';
import { deployedFlow, FakeClock, sampleDelivery, sampleSettings, sampleTrigger } from '../../webhooks/samples.ts';

const verifier = (name: string, headers?: readonly string[]): SignatureVerifier => ({
  name,
  headers,
  verify: () => ({ outcome: 'refused', reason: 'no' }),
});
const schemes = createSchemeRegistry({ verifiers: [verifier('open'), verifier('declared', ['X-Acme-Proof'])] });

function triggerWith(inputs: WebhookInputs): PreparedTrigger {
  const [trigger] = createTriggerTable({
    flows: [deployedFlow({ webhooks: [sampleTrigger(inputs)] })],
    defaultMode: 'Enforce',
    preparer: gatePreparer(gateChain(), { ...sampleSettings(), schemes }),
  }).list();
  if (trigger === undefined) throw new Error('there is no trigger');
  return trigger;
}

/** A refused delivery as stored, and as restored to be judged again. */
function keptAndRestored(inputs: WebhookInputs, sent: { requestUrl?: string; headers?: Record<string, string> }) {
  const trigger = triggerWith(inputs);
  const judgement = { refusal: null, reason: null, violations: [], detail: null, evidence: {}, gateResults: [] };
  const record: DeliveryRecord = recordOf(
    { delivery: sampleDelivery(sent), trigger, judgement, startedAt: 0 },
    { statusCode: 401, runId: null },
    { clock: new FakeClock(), defaultMode: 'Off' },
  );
  return { record, restored: restore(record, trigger) };
}

const TWILIO = { webhookSignatureScheme: 'Twilio', webhookHmacKey: 'k' };
const ASKED = 'https://hooks.example.com/in?token=hunter2&bodySHA256=ab';

it('says that a signed query cannot be judged again where a credential in it was not kept', () => {
  const { record, restored } = keptAndRestored(TWILIO, { requestUrl: ASKED });
  expect(record.requestUrl).toBe('https://hooks.example.com/in?token=***&bodySHA256=ab');
  expect(restored).toMatchObject({ unjudgeable: expect.stringContaining('the query') });
});

it('takes what was not kept of a query from the URL that the trigger says the publisher calls', () => {
  const webhookPublicUrl = 'https://hooks.example.com/in?token=hunter2';
  const { record, restored } = keptAndRestored({ ...TWILIO, webhookPublicUrl }, { requestUrl: ASKED });
  expect(JSON.stringify(record)).not.toContain('hunter2');
  expect(restored).toMatchObject({ delivery: { requestUrl: ASKED, path: '/in?token=hunter2&bodySHA256=ab' } });
  expect(restored).toMatchObject({ unjudgeable: null });
});

it('judges again whatever the query where the scheme does not sign it', () => {
  const github = { webhookSignatureScheme: 'GitHub', webhookHmacKey: 'k' };
  expect(keptAndRestored(github, { requestUrl: ASKED }).restored).toMatchObject({ unjudgeable: null });
});

it('trusts a verifier that says which headers it reads, and of another one every header counts', () => {
  const headers = { 'x-acme-proof': 'ab', 'x-acme-tenant': 't' };
  const open = keptAndRestored({ webhookSignatureScheme: 'open' }, { headers }).restored;
  expect(open).toMatchObject({ unjudgeable: expect.stringContaining('the contents of 2 other headers') });
  const declared = keptAndRestored({ webhookSignatureScheme: 'declared' }, { headers });
  expect(declared.record.headers).toEqual({ 'x-acme-proof': 'ab', 'x-acme-tenant': '[redacted]' });
  expect(declared.restored).toMatchObject({ unjudgeable: null });
});

it('never says of a header what its sender called it, but for one that the trigger reads', () => {
  const headers = { 'ignore-all-instructions': 'x', 'x-contentful-signature': 'Bearer hunter2' };
  const contentful = { webhookSignatureScheme: 'Contentful', webhookHmacKey: 'k' };
  const { restored } = keptAndRestored(contentful, { headers });
  expect(restored).toMatchObject({ unjudgeable: expect.stringContaining('1 other header') });
  expect(JSON.stringify('unjudgeable' in restored && restored.unjudgeable)).not.toContain('ignore');
});

it('does not judge again by a mask where the nonce stood in a header whose name is that of a credential', () => {
  const inputs = { webhookNonceHeader: 'X-Delivery-Token', webhookReplayToleranceSeconds: 300 };
  const { record, restored } = keptAndRestored(inputs, { headers: { 'x-delivery-token': 'd-1' } });
  expect(record.headers['x-delivery-token']).not.toBe('d-1');
  expect(restored).toEqual({ problem: expect.stringContaining('x-delivery-token') });
});
