import { createHash } from 'node:crypto';
import type { AcceptResult, NonceClaim } from '../store/store.ts';
import { inSpan, traceparentOf } from '../telemetry/tracing.ts';
import { recordOf } from './deliveries.ts';
import type { ReceiverServices, TriggeredReception } from './receive.ts';

/**
 * Commits an accepted delivery: nonce, idempotency key, record, run and entry steps, all of it or nothing. What the
 * store says is durable when the promise resolves, and only then may a 200 leave.
 */
export function acceptDelivery(reception: TriggeredReception, services: ReceiverServices): Promise<AcceptResult> {
  const { delivery, trigger, judgement, span } = reception;
  const { flow, trigger: definition } = trigger;
  const parent = span === undefined ? null : traceparentOf(span);
  const attributes = { 'flow.id': flow.record.id, 'flow.trigger': definition.triggerKey };
  return inSpan({ name: 'flow.trigger', parent, attributes }, async (triggerSpan) => {
    const runId = services.newId();
    const record = recordOf(reception, { statusCode: 200, reason: judgement.reason, runId }, services);
    const run = services.engine.planRun({
      runId,
      flow,
      triggerType: 'webhook',
      trigger: {
        key: definition.triggerKey,
        body: delivery.body,
        contentType: delivery.headers['content-type'] ?? null,
        headers: record.headers,
      },
      deliveryId: delivery.id,
      sourceRunId: null,
      traceparent: traceparentOf(triggerSpan),
      at: services.clock.now(),
    });
    const result = await services.store.accept({
      delivery: { ...record, ...reception.redelivery },
      nonce: nonceClaim(reception),
      idempotencyKey: idempotencyKey(delivery.headers['idempotency-key']),
      run,
    });
    if (result.kind === 'accepted') services.engine.announce(run);
    return result;
  });
}

function nonceClaim({ delivery, trigger, judgement, redelivery }: TriggeredReception): NonceClaim | undefined {
  const { nonce } = judgement.evidence;
  if (nonce === undefined) return undefined;
  const bodySha256 = createHash('sha256').update(delivery.body).digest('hex');
  // One that was received long ago lives as long from now on as it would have from then on.
  const lateMs = redelivery === undefined ? 0 : redelivery.receivedAt - delivery.receivedAt;
  return { ...nonce, expiresAt: nonce.expiresAt + lateMs, bodySha256, isEnforced: trigger.mode === 'Enforce' };
}

// A key of any length is honoured; a very long one is kept as its digest.
function idempotencyKey(sent: string | undefined): string | undefined {
  if (sent === undefined || sent.trim() === '') return undefined;
  const key = sent.trim();
  return key.length <= 255 ? key : `sha256:${createHash('sha256').update(key).digest('hex')}`;
}
