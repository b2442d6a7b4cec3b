import type { FastifyRequest } from 'fastify';
import { StoreUnavailableError } from '../errors.ts';
import { isMalformedJson } from '../expressions/trigger-body.ts';
import { startsRuns } from '../flows/catalog.ts';
import { START_TRIES } from '../flows/engine.ts';
import { type Delivery, type DeliveryRecord, REASON_CODES, type Reason } from '../model/delivery.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import type { DeliveryGroup } from '../store/store.ts';
import { type EventName, logEvent } from '../telemetry/events.ts';
import { isHandshake } from '../webhooks/handshakes.ts';
import { missingKey } from '../webhooks/learned-keys.ts';
import { isOfGate, REASONS } from '../webhooks/outcome.ts';
import { type DeliveryReading, toDelivery } from '../webhooks/read-delivery.ts';
import { acceptDelivery } from '../webhooks/receive.ts';
import { hasSameGates, type PreparedTrigger } from '../webhooks/triggers.ts';
import {
  dryRun,
  findRepeated,
  judgeByCurrentTrigger,
  type ReviewServices,
  restore,
  reviewDelivery,
  triggerOf,
} from './review.ts';

/** Queries about deliveries, and actions on refused ones. */
export function createReviewer(services: ReviewServices & DeliveryReading) {
  return {
    review: (record: DeliveryRecord) => reviewDelivery(record, services),
    findRepeated: (record: DeliveryRecord) => findRepeated(record, services),
    /** The request as the delivery that it would be at the receive endpoint. */
    read: (request: FastifyRequest, idOrSlug: string): Delivery => {
      const query = /\?.*$/.exec(request.raw.url ?? '')?.[0] ?? '';
      return toDelivery(request, services, { path: `/flows/api/webhook/${encodeURIComponent(idOrSlug)}${query}` });
    },
    /** What would become of a delivery that came now. */
    dryRun: (delivery: Delivery, idOrSlug: string) => dryRun(delivery, idOrSlug, services),
    redeliver: (record: DeliveryRecord, options: Parameters<typeof redeliver>[1]) =>
      redeliver(record, options, services),
    /** What Enforce would have done since, trigger by trigger. */
    async readiness({
      since,
      flowId,
    }: {
      readonly since: number;
      readonly flowId: string | undefined;
    }): Promise<Readiness[]> {
      const groups = await services.store.summariseDeliveries({ since, flowId });
      const triggers = services
        .triggers()
        .list()
        .filter(({ trigger }) => flowId === undefined || trigger.flowId === flowId);
      return triggers.map((trigger) => judgeReadiness(trigger, groups));
    },
  };
}

/** Whether a trigger's publishers would notice the switch to Enforce. */
export interface Readiness {
  readonly flowId: string;
  readonly flowName: string;
  readonly triggerKey: string;
  readonly mode: EnforcementMode;
  /** When the first delivery came that was looked at, milliseconds; null where none came. */
  readonly watchedSince: number | null;
  readonly total: number;
  readonly clean: number;
  /** What Enforce would have refused, or did. */
  readonly refused: number;
  readonly gates: readonly GateReadiness[];
  readonly safeToEnforce: boolean;
  /** Why, in a sentence. */
  readonly reason: string;
}

interface GateReadiness {
  readonly gate: string;
  readonly isConfigured: boolean;
  readonly refused: number;
  readonly reasons: readonly {
    readonly reason: Reason;
    readonly count: number;
    readonly examples: readonly string[];
  }[];
}

const MAX_EXAMPLES = 5;

const GATE_BY_EVENT: Readonly<Partial<Record<EventName, string>>> = {
  WebhookIpDenied: 'ip',
  WebhookRateLimited: 'rateLimit',
  WebhookSignatureRejected: 'signature',
  WebhookReplayRejected: 'replay',
  WebhookBodyRejected: 'bodySchema',
};

/** Under Enforce a delivery stops at the first failure; what later gates would have said is then not known. */
function judgeReadiness(prepared: PreparedTrigger, groups: readonly DeliveryGroup[]): Readiness {
  const { trigger, mode } = prepared;
  const own = groups.filter(({ flowId, triggerKey }) => flowId === trigger.flowId && triggerKey === trigger.triggerKey);
  // Reasons of the receive endpoint itself refuse in every mode: Enforce changes nothing about them.
  const failed = own.filter(({ violations }) => violations.some(isOfGate));
  const total = sum(own);
  const refused = sum(failed);
  const known = {
    flowId: trigger.flowId,
    flowName: trigger.flowName,
    triggerKey: trigger.triggerKey,
    mode,
    watchedSince: own.length === 0 ? null : Math.min(...own.map(({ firstAt }) => firstAt)),
    total,
    clean: sum(own.filter(({ violations }) => violations.length === 0)),
    refused,
    gates: prepared.chain.map((gate) => gateReadiness(gate, prepared, failed)),
  };
  return { ...known, ...verdict(prepared, total, refused) };
}

function verdict(
  { gates, mode, lacksKey, keySlot }: PreparedTrigger,
  total: number,
  refused: number,
): Pick<Readiness, 'safeToEnforce' | 'reason'> {
  if (gates.length === 0) return no('no gate is configured: there is nothing to enforce');
  if (lacksKey) return no(`the scheme has ${missingKey(keySlot)}: Enforce would refuse everything`);
  if (mode === 'Enforce') return { safeToEnforce: true, reason: 'it is already enforced' };
  if (total === 0) return no('no delivery arrived in this time, so there is no data');
  if (refused > 0) return no(`Enforce would have refused ${refused} of ${total} deliveries`);
  return { safeToEnforce: true, reason: `Enforce would have refused none of ${total} deliveries` };
}

function no(reason: string) {
  return { safeToEnforce: false, reason };
}

function gateReadiness(gate: string, { gates }: PreparedTrigger, failed: readonly DeliveryGroup[]): GateReadiness {
  const reasons = [...new Set(failed.flatMap(({ violations }) => violations))].filter((it) => gateOf(it) === gate);
  const ofGate = failed.filter(({ violations }) => violations.some((reason) => gateOf(reason) === gate));
  return {
    gate,
    isConfigured: gates.some(({ name }) => name === gate),
    refused: sum(ofGate),
    reasons: reasons.map((reason) => {
      const groups = failed.filter(({ violations }) => violations.includes(reason));
      const examples = groups.flatMap(({ firstId, lastId }) => [lastId, firstId]);
      return { reason, count: sum(groups), examples: [...new Set(examples)].slice(0, MAX_EXAMPLES) };
    }),
  };
}

/** The gate that gives the reason; one of the operator's own counts as the gate whose reason it gives. */
function gateOf(reason: Reason): string | undefined {
  if (reason === 'unverified_rate_limited') return 'unverifiedRateLimit';
  const { event } = REASONS[reason];
  return event === undefined ? undefined : GATE_BY_EVENT[event];
}

function sum(groups: readonly DeliveryGroup[]): number {
  return groups.reduce((total, { count }) => total + count, 0);
}

/** What became of a refused delivery that was judged again. */
interface Redelivery {
  /** The refused one. */
  readonly redeliveredFrom: string;
  readonly outcome: 'accepted' | 'would be accepted' | 'accepted before' | 'refused' | 'not possible';
  readonly reason: Reason | null;
  readonly message: string;
  /** The delivery and the run that it became; null where it became none. */
  readonly deliveryId: string | null;
  readonly runId: string | null;
}

interface RedeliveryOptions {
  /** Accepts what the gates refuse, and says so in the record; never what was accepted before, nor what no run can read. */
  readonly isForced: boolean;
  /** Says what would happen and does nothing. */
  readonly isPlan: boolean;
}

/** Reasons of gates: those that a person may overrule. */
const OVERRULED: ReadonlySet<Reason> = new Set(
  REASON_CODES.filter((reason) => isOfGate(reason) && reason !== 'nonce_replayed'),
);

/**
 * Judges a refused delivery again, as of the time at which it came, by today's trigger, and accepts it if it passes. One
 * refused delivery becomes one run at most, however often and by how many it is asked for.
 */
async function redeliver(
  record: DeliveryRecord,
  options: RedeliveryOptions,
  services: ReviewServices,
): Promise<Redelivery> {
  for (let left = START_TRIES; left > 0; left -= 1) {
    const redelivery = await judgeAndAccept(record, options, services);
    if (redelivery !== undefined) return redelivery;
    if (record.flowId !== null) await services.refresh(record.flowId);
  }
  throw new StoreUnavailableError(`the flow of the delivery ${record.id} kept changing while it was judged again`);
}

/** Undefined where a deploy came in between. */
async function judgeAndAccept(
  record: DeliveryRecord,
  options: RedeliveryOptions,
  services: ReviewServices,
): Promise<Redelivery | undefined> {
  const resultOf = resultsOf(record);
  // Under a lenient mode a gate may have marked it, and it ran nevertheless.
  if (record.runId !== null) {
    const message = 'the delivery was accepted when it arrived and has a run; re-run that run instead';
    return resultOf('not possible', { message, runId: record.runId });
  }
  if (record.statusCode < 400) return resultOf('not possible', { message: 'the delivery was not refused' });
  const known = await services.store.findRedelivery(record.id);
  if (known !== undefined) return resultOf('accepted before', { message: 'it was already redelivered', ...known });
  const trigger = triggerOf(record, services.triggers());
  if (trigger === undefined) return resultOf('refused', { reason: 'unknown_flow' });
  const restored = restore(record, trigger);
  if ('problem' in restored) return resultOf('not possible', { message: restored.problem });
  const { delivery, unjudgeable } = restored;
  if (isHandshake(delivery, trigger)) {
    return resultOf('not possible', { message: 'it is a handshake of the publisher, which starts no run' });
  }
  const current = await judgeByCurrentTrigger(delivery, trigger, services);
  const triggerNow = triggerOf(record, services.triggers());
  if (triggerNow === undefined || !hasSameGates(triggerNow, trigger)) return undefined;
  const { replayedRunId } = current;
  const flow = services.catalog.find(trigger.trigger.flowId);
  const refusal = flow !== undefined && startsRuns(flow.record) ? current.refusal : 'flow_disabled';
  // What was a replay stays one, even when the record of the first has gone by now.
  const isReplay = replayedRunId !== undefined || record.violations.includes('nonce_replayed');
  if (isReplay && trigger.mode === 'Enforce') {
    return resultOf('refused', { reason: 'nonce_replayed', runId: replayedRunId });
  }
  const isOverruled = options.isForced && refusal !== null && OVERRULED.has(refusal);
  if (refusal !== null && !isOverruled) {
    const message = unjudgeable ?? current.judgement.detail ?? undefined;
    return resultOf('refused', { reason: refusal, message });
  }
  // What force overrules must not hide what no force may: the body is read behind the gates.
  if (isMalformedJson(delivery.body, delivery.headers['content-type'])) {
    return resultOf('refused', { reason: 'invalid_json' });
  }
  if (options.isPlan) return resultOf('would be accepted', { reason: refusal, message: 'it passes every gate' });
  return accept(record, { current, delivery, isForced: isOverruled }, services);
}

async function accept(
  record: DeliveryRecord,
  {
    current,
    delivery,
    isForced,
  }: { current: Awaited<ReturnType<typeof judgeByCurrentTrigger>>; delivery: Delivery; isForced: boolean },
  services: ReviewServices,
): Promise<Redelivery | undefined> {
  const { trigger, judgement } = current;
  const deliveryId = services.newId();
  const how = isForced ? 'redelivered by force' : 'redelivered';
  const detail = judgement.detail === null ? how : `${how}: ${judgement.detail}`;
  const redelivery = { receivedAt: services.clock.now(), redeliveredFrom: record.id, detail };
  const result = await acceptDelivery(
    {
      delivery: { ...delivery, id: deliveryId },
      trigger,
      judgement,
      span: undefined,
      startedAt: services.clock.monotonic(),
      redelivery,
    },
    services,
  );
  const resultOf = resultsOf(record);
  if (result.kind === 'outdated') return undefined;
  if (result.kind === 'replayed') return resultOf('refused', { reason: 'nonce_replayed', runId: result.runId });
  const kept = await services.store.findRedelivery(record.id);
  if (result.kind === 'duplicate') {
    return resultOf('accepted before', { message: 'a run was already started for it', runId: result.runId, ...kept });
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
