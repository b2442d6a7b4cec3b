import { StoreUnavailableError } from '../../errors.ts';
import type { ArrivingBody } from '../../expressions/trigger-body.ts';
import { START_TRIES } from '../../flows/engine.ts';
import {
  DETAILS,
  type Delivery,
  type DeliveryRecord,
  isEdited,
  REASON_CODES,
  type Reason,
} from '../../model/delivery.ts';
import { logEvent } from '../../telemetry/events.ts';
import { acceptDelivery, acceptShared, judgeByExpressions } from '../../webhooks/acceptance.ts';
import { isOfGate, REASONS } from '../../webhooks/answers.ts';
import { readContent } from '../../webhooks/content.ts';
import { isHandshake } from '../../webhooks/handshakes.ts';
import type { Reception } from '../../webhooks/record.ts';
import { hasSameGates, isOpen, type PreparedTrigger } from '../../webhooks/triggers.ts';
import { type EditedBody, editedDelivery, judgeEdited } from './edited.ts';
import {
  isUnserved,
  judgeByCurrentTrigger,
  type ReviewServices,
  restore,
  sharingOf,
  triggerOf,
} from './judge-again.ts';
import { reviewStore } from './store.ts';

/** Result of judging a delivery again, or of sending it again with another body. */
export interface Redelivery {
  /** The original delivery. */
  readonly redeliveredFrom: string;
  readonly outcome: 'accepted' | 'would be accepted' | 'accepted before' | 'filtered' | 'refused' | 'not possible';
  readonly reason: Reason | null;
  readonly message: string;
  /** The new delivery and its run; null if there is none. */
  readonly deliveryId: string | null;
  readonly runId: string | null;
}

interface RedeliveryOptions {
  /** Accepts what the gates refuse, and marks the record; never accepts repetitions or bodies that no run can read. */
  readonly isForced: boolean;
  /** Only says what would happen. */
  readonly isPlan: boolean;
  /** Replaces the original body; also allowed for a delivery that has a run. */
  readonly edited?: EditedBody | undefined;
}

const FILTERED = 'the condition webhookWhen of its trigger is false for it, so no run starts';

/** Reasons of gates that a person may overrule. */
const OVERRULED: ReadonlySet<Reason> = new Set(
  REASON_CODES.filter((reason) => isOfGate(reason) && reason !== 'nonce_replayed'),
);

/**
 * Judges a refused or filtered delivery again with the current trigger, as of its arrival, and accepts it if it passes;
 * or any delivery with an edited body. A delivery becomes at most one more run, however often and by whomever asked.
 */
export async function redeliver(
  record: DeliveryRecord,
  options: RedeliveryOptions,
  services: ReviewServices,
): Promise<Redelivery> {
  const flows = new Set([record.flowId, ...(record.shares ?? []).map(({ flowId }) => flowId)]);
  for (let left = START_TRIES; left > 0; left -= 1) {
    // Another replica may have deployed the flow, or another flow that shares the slug.
    const slug = triggerOf(record, services.triggers())?.trigger.inputs.webhookSlug;
    await Promise.all([...flows, slug].map((name) => (name ? services.confirm?.(name) : undefined)));
    const redelivery = await judgeAndAccept(record, options, services);
    if (redelivery !== undefined) return redelivery;
    for (const flowId of flows) if (flowId !== null) await services.refresh(flowId);
  }
  throw new StoreUnavailableError(`the flow of the delivery ${record.id} kept changing while it was judged again`);
}

/** Undefined if a deploy came in between. */
async function judgeAndAccept(
  record: DeliveryRecord,
  options: RedeliveryOptions,
  services: ReviewServices,
): Promise<Redelivery | undefined> {
  const resultOf = resultsOf(record);
  const { edited } = options;
  // Under a lenient mode, a delivery that a gate marked may still have run.
  if (edited === undefined && record.runId !== null) {
    const message = 'the delivery was accepted when it arrived and has a run; re-run that run instead';
    return resultOf('not possible', { message, runId: record.runId });
  }
  if (edited === undefined && record.statusCode < 400 && record.outcome !== 'filtered') {
    return resultOf('not possible', { message: 'the delivery was not refused' });
  }
  const known = await services.store.of(reviewStore).findRedelivery(record.id);
  if (known !== undefined) return resultOf('accepted before', { message: 'it was already redelivered', ...known });
  const trigger = triggerOf(record, services.triggers());
  if (trigger === undefined) {
    return resultOf('refused', { reason: isUnserved(record, services) ? 'flow_unreadable' : 'unknown_flow' });
  }
  // An unchanged body was judged already; calling it edited must not bypass that.
  if (edited !== undefined && record.body !== null && edited.bytes.equals(record.body)) {
    return resultOf('not possible', {
      message: 'the body is the one that came; redeliver it without, or re-run its run',
    });
  }
  if (edited !== undefined && edited.bytes.byteLength > trigger.maxBodyBytes) {
    return resultOf('refused', { reason: 'body_too_large' });
  }
  const restored =
    edited === undefined
      ? restore(record, trigger)
      : {
          delivery: editedDelivery(record, edited, { trigger, receivedAt: services.clock.now() }),
          unjudgeable: null,
        };
  if ('problem' in restored) return resultOf('not possible', { message: restored.problem });
  const { delivery, unjudgeable } = restored;
  if (isHandshake(delivery, trigger)) {
    return resultOf('not possible', { message: 'it is a handshake of the publisher, which starts no run' });
  }
  const sharing = sharingOf(record, trigger, services.triggers());
  const judgedBy = sharing && services.triggers().judgedBy(trigger.trigger.inputs.webhookSlug ?? '');
  const current =
    edited === undefined
      ? await judgeByCurrentTrigger(delivery, { trigger, sharing }, services)
      : { ...(await judgeEdited(delivery, trigger)), replayedRunId: undefined };
  const triggerNow = triggerOf(record, services.triggers());
  if (triggerNow === undefined || !hasSameGates(triggerNow, trigger)) return undefined;
  const { replayedRunId } = current;
  const isTaken = (each: PreparedTrigger) => {
    const flow = services.catalog.find(each.trigger.flowId);
    return flow !== undefined && isOpen(each, flow.record);
  };
  const refusal = (sharing ?? [trigger]).some(isTaken) ? current.refusal : 'flow_disabled';
  // A replay stays a replay, even if the record of the first delivery is gone by now.
  const isReplay =
    edited === undefined && (replayedRunId !== undefined || record.violations.includes('nonce_replayed'));
  if (isReplay && trigger.mode === 'Enforce') {
    return resultOf('refused', { reason: 'nonce_replayed', runId: replayedRunId });
  }
  const isOverruled = options.isForced && refusal !== null && OVERRULED.has(refusal);
  if (refusal !== null && !isOverruled) {
    // A closed flow has nothing to do with the results of the gates.
    const isClosed = refusal === 'flow_disabled';
    const message = isClosed ? undefined : (unjudgeable ?? current.judgement.detail ?? undefined);
    return resultOf('refused', { reason: refusal, message });
  }
  // The body is read after the gates, so forcing a gate must not hide errors that cannot be forced.
  const body = await readContent(delivery, trigger);
  if ('reason' in body) return resultOf('refused', { reason: body.reason, message: body.message });
  if (body.isMalformed()) return resultOf('refused', { reason: 'invalid_json' });
  if (options.isPlan) {
    const isFiltered = (each: PreparedTrigger) =>
      judgeByExpressions({ delivery, trigger: each, judgement: current.judgement, body })?.filteredBy !== undefined;
    if ((sharing ?? [trigger]).every(isFiltered)) return resultOf('filtered', { message: FILTERED });
    const message = isOverruled ? 'only by force: its gates refuse it' : 'it passes every gate';
    return resultOf('would be accepted', { reason: refusal, message });
  }
  const how =
    edited === undefined
      ? `redelivered${isOverruled ? ' by force' : ''}`
      : `${DETAILS.edited} by ${edited.by}${isOverruled ? ', by force' : ''}`;
  return accept(record, { current, delivery, body, sharing, judgedBy, how, isForced: isOverruled }, services);
}

async function accept(
  record: DeliveryRecord,
  {
    current,
    delivery,
    body,
    sharing,
    judgedBy,
    how,
    isForced,
  }: {
    current: Awaited<ReturnType<typeof judgeByCurrentTrigger>>;
    delivery: Delivery;
    body: ArrivingBody;
    sharing: readonly PreparedTrigger[] | undefined;
    judgedBy: Reception['judgedBy'];
    /** The text for the record. */
    how: string;
    isForced: boolean;
  },
  services: ReviewServices,
): Promise<Redelivery | undefined> {
  const { trigger, judgement } = current;
  const deliveryId = services.newId();
  const detail = judgement.detail === null ? how : `${how}: ${judgement.detail}`;
  const redelivery = { receivedAt: services.clock.now(), redeliveredFrom: record.id, detail };
  const reception = {
    delivery: { ...delivery, id: deliveryId },
    body,
    trigger,
    judgement,
    span: undefined,
    startedAt: services.clock.monotonic(),
    redelivery,
    judgedBy,
  };
  const result =
    sharing === undefined
      ? await acceptDelivery(reception, services)
      : await acceptAtAll({ ...reception, sharing }, services);
  const resultOf = resultsOf(record);
  if (result.kind === 'outdated') return undefined;
  if (result.kind === 'replayed') return resultOf('refused', { reason: 'nonce_replayed', runId: result.runId });
  if (result.kind === 'conflict') return resultOf('refused', { reason: 'idempotency_conflict', runId: result.runId });
  if (result.kind === 'filtered') return resultOf('filtered', { message: FILTERED });
  const kept = await services.store.of(reviewStore).findRedelivery(record.id);
  if (result.kind === 'duplicate') {
    const message =
      isEdited(redelivery) && kept?.deliveryId === deliveryId
        ? 'a run was already started for this event; give the body another event id, or re-run that run'
        : 'a run was already started for it';
    return resultOf('accepted before', { message, runId: result.runId, ...kept });
  }
  const { flowId, triggerKey } = trigger.trigger;
  logEvent(services.logger, 'WebhookDeliveryAccepted', {
    deliveryId,
    flowId,
    triggerKey,
    clientIp: delivery.clientIp,
    mode: trigger.mode,
    scheme: trigger.schemeName,
    runId: result.runId,
    bodyBytes: delivery.body.byteLength,
    redeliveredFrom: record.id,
    isForced,
  });
  return resultOf('accepted', { reason: judgement.reason, message: detail, deliveryId, runId: result.runId });
}

/** The outcome at the trigger whose run the record has. */
async function acceptAtAll(...given: Parameters<typeof acceptShared>) {
  const result = await acceptShared(...given);
  if (result.kind === 'repeated') return { kind: 'duplicate', runId: result.runId } as const;
  if (result.kind !== 'shared') return result;
  const lead = result.outcomes[result.lead];
  const { runId } = result;
  const { kind = 'filtered' } = lead ?? {};
  if (runId === null || kind === 'filtered' || kind === 'closed') return { kind: 'filtered' } as const;
  return { kind: kind === 'duplicate' ? 'duplicate' : 'accepted', runId } as const;
}

type Particulars = { readonly [Name in 'reason' | 'message' | 'deliveryId' | 'runId']?: Redelivery[Name] | undefined };

function resultsOf({ id }: DeliveryRecord) {
  return (outcome: Redelivery['outcome'], { reason, message, deliveryId, runId }: Particulars): Redelivery => ({
    redeliveredFrom: id,
    outcome,
    reason: reason ?? null,
    message: message ?? (reason === undefined || reason === null ? outcome : REASONS[reason].message),
    deliveryId: deliveryId ?? null,
    runId: runId ?? null,
  });
}
