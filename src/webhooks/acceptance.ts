import { createHash } from 'node:crypto';
import type { Acceptance, AcceptResult, HoldResult, NonceClaim } from '../store/store.ts';
import { inSpan, traceparentOf } from '../telemetry/tracing.ts';
import { admissionTo } from './admission.ts';
import { recordOf } from './delivery-record.ts';
import { runHeaders } from './headers.ts';
import type { ReceiverServices, TriggeredReception } from './receive.ts';

type Committed = AcceptResult | Exclude<HoldResult, { kind: 'open' }>;

/**
 * Commits an accepted delivery: nonce, idempotency key, record, run and entry steps, all of it or nothing; where its flow
 * starts no runs now, what starts the run later. What the store says is durable when the promise resolves, and only then
 * may a 200 leave. 'outdated' where the flow has changed on the way: then the gates may have too, and are to be looked at.
 */
export function acceptDelivery(reception: TriggeredReception, services: ReceiverServices): Promise<Committed> {
  const { delivery, trigger, judgement, span } = reception;
  const { trigger: definition } = trigger;
  // The newest, whatever was deployed when the gates were asked.
  const flow = services.catalog.find(definition.flowId) ?? trigger.flow;
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
        headers: runHeaders(delivery.headers),
      },
      deliveryId: delivery.id,
      sourceRunId: null,
      traceparent: traceparentOf(triggerSpan),
      at: services.clock.now(),
    });
    const acceptance: Acceptance = {
      delivery: { ...record, ...reception.redelivery },
      nonce: nonceClaim(reception),
      idempotencyKey: idempotencyKey(delivery.headers['idempotency-key']),
      run,
    };
    const held = await hold(acceptance, reception, services);
    if (held !== undefined) return held;
    const result = await services.store.accept(acceptance);
    if (result.kind === 'accepted') services.engine.announce(run);
    return result;
  });
}

/** Undefined where the run is to start at once. */
async function hold(
  acceptance: Acceptance,
  { trigger, redelivery }: TriggeredReception,
  services: ReceiverServices,
): Promise<Exclude<HoldResult, { kind: 'open' }> | undefined> {
  if (redelivery !== undefined || admissionTo(trigger, services) !== 'held') return undefined;
  const result = await services.store.holdDelivery(acceptance);
  if (result.kind === 'open') return undefined;
  if (result.kind === 'held') services.holding.held(trigger.trigger.flowId);
  return result;
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
