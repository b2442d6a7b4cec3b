import { createHash } from 'node:crypto';
import { type Catalog, startsRuns } from '../flows/catalog.ts';
import type { Engine } from '../flows/engine.ts';
import type { Clock } from '../model/clock.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import type { Acceptance, AcceptResult, HoldResult, NonceClaim, Store } from '../store/store.ts';
import { inSpan, traceparentOf } from '../telemetry/tracing.ts';
import { runHeaders } from './headers.ts';
import { recordOf, type TriggeredReception } from './outcome.ts';
import type { PreparedTrigger } from './triggers.ts';

/** The deliveries that wait until their flow may start runs again; deploys/holding.ts releases them. */
export interface HeldDeliveries {
  /** Held deliveries of a flow. While there are any, the next one waits behind them. */
  count(flowId: string): number;
  /** Called once a delivery is stored as held. */
  held(flowId: string): void;
}

export interface AcceptanceServices {
  readonly store: Pick<Store, 'accept' | 'holdDelivery'>;
  readonly engine: Engine;
  readonly catalog: Pick<Catalog, 'find'>;
  readonly holding: HeldDeliveries;
  readonly clock: Clock;
  readonly defaultMode: EnforcementMode;
  readonly newId: () => string;
}

/**
 * What becomes of a delivery that passes the gates: its run starts, or starts later, or the delivery is refused. To be
 * asked each time: the flow may have been disabled or drained since its triggers were prepared.
 */
export function admissionTo(
  prepared: PreparedTrigger,
  { catalog, holding }: { catalog: Pick<Catalog, 'find'>; holding: Pick<HeldDeliveries, 'count'> },
): 'open' | 'held' | 'disabled' {
  const { flowId } = prepared.trigger;
  const flow = catalog.find(flowId);
  if (flow === undefined) return 'disabled';
  if (!startsRuns(flow.record)) return prepared.holdsDeliveries ? 'held' : 'disabled';
  return prepared.holdsDeliveries && holding.count(flowId) > 0 ? 'held' : 'open';
}

/** What the store says where the run may not start yet. */
type Held = Exclude<HoldResult, { kind: 'open' }>;

/**
 * Commits an accepted delivery: nonce, idempotency key, record, run and entry steps, all of it or nothing; where its flow
 * starts no runs now, what starts the run later. What the store says is durable when the promise resolves, and only then
 * may a 200 leave. 'outdated' where the flow has changed on the way: then the gates may have too, and are to be looked at.
 */
export function acceptDelivery(
  reception: TriggeredReception,
  services: AcceptanceServices,
): Promise<AcceptResult | Held> {
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
  services: AcceptanceServices,
): Promise<Held | undefined> {
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
