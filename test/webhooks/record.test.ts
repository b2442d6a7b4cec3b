import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import type { Reason } from '../../src/model/delivery.ts';
import { gateChain, gatePreparer } from '../../src/webhooks/gates/index.ts';
import { type Judgement, refusedFor, withViolation } from '../../src/webhooks/pipeline.ts';
import { type Reception, recordOf } from '../../src/webhooks/record.ts';
import { createTriggerTable } from '../../src/webhooks/triggers.ts';
import { deployedFlow, FakeClock, FLOW_ID, NOW, sampleDelivery, sampleSettings, sampleTrigger } from './samples.ts';

const CLEAN: Judgement = { refusal: null, reason: null, violations: [], detail: null, evidence: {}, gateResults: [] };
const ACCEPTED = { statusCode: 200, runId: 'run-1' };

const triggerWith = (inputs: WebhookInputs) =>
  createTriggerTable({
    flows: [deployedFlow({ webhooks: [sampleTrigger(inputs)] })],
    defaultMode: 'Enforce',
    preparer: gatePreparer(gateChain(), sampleSettings()),
  }).list()[0];
const trigger = triggerWith({ webhookSignatureScheme: 'github', webhookHmacKey: 'k' });

function record(given: Partial<Reception> = {}, answer: Partial<Parameters<typeof recordOf>[1]> = {}) {
  const clock = new FakeClock();
  clock.advance(12.5);
  const source = { delivery: sampleDelivery(), trigger, judgement: CLEAN, startedAt: 10, ...given };
  return recordOf(source, { ...ACCEPTED, ...answer }, { clock, defaultMode: 'Off' });
}

const violated = (...violations: Reason[]): Judgement => ({
  ...CLEAN,
  reason: violations[0] ?? null,
  violations,
  detail: 'why',
});

describe('recordOf', () => {
  it('of a clean delivery holds no body: the run has it', () => {
    const delivery = sampleDelivery({ headers: { authorization: 'Basic x', 'x-event': 'push' } });
    const judgement = { ...CLEAN, evidence: { usedPreviousKey: true } };
    expect(record({ delivery, judgement })).toEqual({
      id: delivery.id,
      flowId: FLOW_ID,
      triggerKey: 'webhook',
      receivedAt: NOW,
      clientIp: '203.0.113.9',
      mode: 'Enforce',
      scheme: 'GitHub',
      rejected: false,
      enforced: false,
      statusCode: 200,
      reason: null,
      violations: [],
      detail: null,
      bodyBytes: 8,
      body: null,
      headers: { authorization: '[redacted]', 'x-event': 'push' },
      processingMs: 2.5,
      runId: 'run-1',
      usedPreviousKey: true,
      gateResults: ['ip', 'rateLimit', 'signature', 'replay'].map((gate) => ({
        gate,
        outcome: gate === 'signature' ? 'not evaluated' : 'not configured',
        reason: null,
        detail: null,
        facts: {},
      })),
      requestUrl: undefined,
    });
  });

  it.each([
    {
      is: 'refused by a gate',
      judgement: violated('signature_mismatch'),
      answer: { statusCode: 401, runId: null },
      expected: { rejected: true, enforced: true, reason: 'signature_mismatch', violations: ['signature_mismatch'] },
    },
    {
      is: 'let pass by Audit',
      judgement: violated('ip_denied', 'signature_missing'),
      answer: { statusCode: 200, runId: 'run-1' },
      expected: {
        rejected: true,
        enforced: false,
        reason: 'ip_denied',
        violations: ['ip_denied', 'signature_missing'],
      },
    },
    {
      is: 'let pass by Audit and refused for its body',
      judgement: refusedFor(violated('ip_denied'), 'invalid_json'),
      answer: { statusCode: 400, runId: null },
      expected: { rejected: true, enforced: true, reason: 'ip_denied', violations: ['ip_denied', 'invalid_json'] },
    },
    {
      is: 'refused before any gate',
      judgement: refusedFor(CLEAN, 'flow_disabled'),
      answer: { statusCode: 403, runId: null },
      expected: { rejected: true, enforced: true, reason: 'flow_disabled', violations: ['flow_disabled'] },
    },
    {
      is: 'acknowledged as a repetition',
      judgement: withViolation(CLEAN, 'nonce_replayed'),
      answer: { statusCode: 200, runId: 'run-0', isDuplicate: true },
      expected: { rejected: false, enforced: false, reason: 'nonce_replayed', runId: 'run-0' },
    },
    {
      is: 'not stored',
      judgement: refusedFor(CLEAN, 'store_unavailable'),
      answer: { statusCode: 503, runId: null },
      expected: { rejected: true, enforced: false, reason: 'store_unavailable' },
    },
  ] as const)('of a delivery that was $is', ({ judgement, answer, expected }) => {
    expect(record({ judgement }, answer)).toMatchObject(expected);
  });

  it('of a delivery to an unknown address has no flow, and the default mode', () => {
    expect(
      record({ trigger: undefined, judgement: refusedFor(CLEAN, 'unknown_flow') }, { statusCode: 404, runId: null }),
    ).toMatchObject({
      flowId: null,
      triggerKey: null,
      scheme: null,
      mode: 'Off',
    });
  });

  it('keeps every byte of a refused body and the URL that was called, to judge it again', () => {
    const refused = { statusCode: 401, runId: null };
    for (const body of [Buffer.from([0, 255, 13, 10]), Buffer.alloc(100_001, 'ab')]) {
      const delivery = sampleDelivery({ body });
      const kept = record({ delivery }, refused);
      expect(kept).toMatchObject({ bodyBytes: body.byteLength, requestUrl: delivery.requestUrl });
      expect(body.equals(kept.body ?? Buffer.alloc(0))).toBe(true);
    }
  });

  it.each([
    [{}, 'https://hooks.example.com/in?a=***&***'],
    [{ webhookSignatureScheme: 'github' }, 'https://hooks.example.com/in?a=***&***'],
    [{ webhookSignatureScheme: 'twilio' }, 'https://hooks.example.com/in?token=***&bodySHA256=ab&a=1'],
  ] as const)('masks the query of a refused delivery to %o, but for what the scheme signs', (inputs, expected) => {
    const query = 'webhookSignatureScheme' in inputs && inputs.webhookSignatureScheme === 'twilio';
    const requestUrl = `https://hooks.example.com/in?${query ? 'token=hunter2&bodySHA256=ab&a=1' : 'a=1&hunter2'}`;
    const delivery = sampleDelivery({ requestUrl });
    const refused = { statusCode: 401, runId: null };
    expect(record({ delivery, trigger: triggerWith(inputs) }, refused).requestUrl).toBe(expected);
    expect(record({ delivery, trigger: undefined }, refused).requestUrl).not.toContain('hunter2');
  });

  it('keeps of headers that nothing is known of the names alone, unless the trigger reads them', () => {
    const delivery = sampleDelivery({
      headers: { 'x-acme-sum': 'ab', 'x-acme-at': '1', 'x-acme-pass-code': 'hunter2' },
    });
    const custom = { webhookSignatureScheme: 'custom', webhookSignatureHeader: 'X-Acme-Sum', webhookHmacKey: 'k' };
    const inputs = { ...custom, webhookTimestampHeader: 'X-Acme-At' };
    const { headers } = record({ delivery, trigger: triggerWith(inputs) });
    expect(headers).toEqual({ 'x-acme-sum': 'ab', 'x-acme-at': '1', 'x-acme-pass-code': '[redacted]' });
    expect(Object.values(record({ delivery }).headers)).toEqual(Array(3).fill('[redacted]'));
  });

  it.each([
    ['1048577', 1_048_577],
    ['1e9', 0],
    ['', 0],
  ])(
    'of a body that did not fit, with the announced length "%s", holds %i bytes and nothing else',
    (announced, bodyBytes) => {
      const delivery = sampleDelivery({ body: Buffer.alloc(0), headers: { 'content-length': announced } });
      const judgement = refusedFor(CLEAN, 'body_too_large');
      expect(record({ delivery, judgement }, { statusCode: 413, runId: null })).toMatchObject({
        bodyBytes,
        body: null,
      });
    },
  );
});
