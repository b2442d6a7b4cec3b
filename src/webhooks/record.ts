import type { Span } from '@opentelemetry/api';
import type { Logger } from 'pino';
import { ArrivingBody } from '../expressions/trigger-body.ts';
import { maskCredentials, maskUrl } from '../manifest/mask.ts';
import type { Clock } from '../model/clock.ts';
import type { ContentProblem } from '../model/content.ts';
import { DETAILS, type Delivery, type DeliveryRecord, type GateResult, type Reason } from '../model/delivery.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import type { SearchKeys } from '../model/search-keys.ts';
import type { Store } from '../store/store.ts';
import { type LiveEvents, logEvent } from '../telemetry/events.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { isOfGate, REASONS, refused, type WebhookAnswer } from './answers.ts';
import { headerKeys, type KeptHeaders, shownHeaders } from './headers.ts';
import { type Judgement, refusedFor, withUnasked } from './pipeline.ts';
import type { ExpressionResults } from './trigger-expressions.ts';
import type { PreparedTrigger, TriggerTable, UnservedAddress } from './triggers.ts';

/** One delivery in progress, with its trigger and the gates' judgement so far. */
export interface Reception {
  readonly delivery: Delivery;
  readonly trigger: PreparedTrigger | undefined;
  /** Set if it was sent to a trigger that is not served here. */
  readonly unserved?: UnservedAddress | undefined;
  /** What the table that found its triggers knows of the flows; absent if no other process uses the store. */
  readonly judgedBy?: ReturnType<TriggerTable['judgedBy']> | undefined;
  /** All triggers that share the slug, including `trigger`; absent if only one trigger gets the delivery. */
  readonly sharing?: readonly PreparedTrigger[] | undefined;
  readonly judgement: Judgement;
  readonly span: Span | undefined;
  /** Monotonic milliseconds. */
  readonly startedAt: number;
  /** Set for a redelivery by a person: fields that replace those of the record. */
  readonly redelivery?: Pick<DeliveryRecord, 'receivedAt' | 'redeliveredFrom' | 'detail'> | undefined;
  /** Set if it is the late original of a fetched delivery: the run of the fetched one. */
  readonly lateFor?: string | undefined;
  /** Set if it was fetched from the publisher's own log: the name of that log. */
  readonly reconciledFrom?: string | undefined;
  /** Results of the trigger's expressions; absent if it has none, or if they were not evaluated. */
  readonly expressions?: ExpressionResults | undefined;
  /** The body as far as it was read; absent if it was not read at all. */
  readonly body?: ArrivingBody | undefined;
  /** Its headers as they are shown; absent if these are not computed yet. */
  readonly shown?: KeptHeaders['shown'] | undefined;
}

/** A reception whose delivery found its trigger. */
export type TriggeredReception = Reception & { readonly trigger: PreparedTrigger };

/** The status of the answer, and the run that holds the body. */
interface Answered extends Pick<DeliveryRecord, 'statusCode' | 'runId'> {
  /** An honest retry that the trigger acknowledges: it repeats a nonce and is not refused. */
  readonly isDuplicate?: boolean;
}

/**
 * The record of a delivery: everything needed to judge it again, except a body that its run holds. Its reason is the
 * first failure in pipeline order, even if the answer had another cause.
 */
export function recordOf(
  reception: Omit<Reception, 'span'>,
  { statusCode, runId, isDuplicate = false }: Answered,
  { clock, defaultMode }: { readonly clock: Clock; readonly defaultMode: EnforcementMode },
): DeliveryRecord {
  const { delivery, trigger, unserved, sharing, judgement, startedAt, reconciledFrom, expressions, body } = reception;
  const { refusal, reason, violations } = judgement;
  const mode = trigger?.mode ?? defaultMode;
  // A lenient mode accepts replays, and only the store can recognise them.
  const mayBeReplay = mode !== 'Enforce' && judgement.evidence.nonce !== undefined;
  const mayBeMarked = runId === null || violations.length > 0 || mayBeReplay || expressions?.filteredBy !== undefined;
  // Only POST requests can be judged again; the query of a handshake may hold a token.
  const mayBeJudgedAgain = mayBeMarked && delivery.method === 'POST';
  const { searchKeys, notice } = searchKeysOf({ delivery, trigger, body }, refusal);
  const gateResults = trigger === undefined ? undefined : withUnasked(trigger, judgement.gateResults);
  const further = [...(expressions?.notices ?? []), ...(notice === undefined ? [] : [notice])];
  return {
    id: delivery.id,
    ...addressOf({ trigger, unserved }),
    receivedAt: delivery.receivedAt,
    clientIp: delivery.clientIp,
    mode,
    scheme: trigger?.schemeName ?? null,
    rejected: violations.length > 0 && !isDuplicate,
    enforced: statusCode >= 400 && statusCode < 500,
    statusCode,
    reason,
    violations,
    detail: reconciledFrom === undefined ? judgement.detail : reconciledDetail(reconciledFrom, judgement),
    bodyBytes: refusal === 'body_too_large' ? announcedBytes(delivery) : delivery.body.byteLength,
    // Someone with a captured delivery can repeat it for ever, and must not fill the disk.
    body: runId === null && refusal !== 'body_too_large' && !isDuplicate ? delivery.body : null,
    headers: reception.shown ?? shownHeaders(delivery.headers, trigger?.headersRead.names, trigger?.headersRead.secret),
    processingMs: clock.monotonic() - startedAt,
    runId,
    usedPreviousKey: judgement.evidence.usedPreviousKey ?? false,
    gateResults: further.length === 0 ? gateResults : [...(gateResults ?? []), ...further],
    requestUrl: mayBeJudgedAgain ? keptUrl(delivery.requestUrl, trigger) : undefined,
    outcome: outcomeOf({ runId, isDuplicate }, reception),
    searchKeys,
    shares: sharesOf(trigger, sharing),
  };
}

function reconciledDetail(from: string, { evidence, detail }: Judgement): string {
  const how = `${DETAILS.reconciled}${from}, ${evidence.isVerified === true ? 'verified' : 'not verified'}`;
  return detail === null ? how : `${how}: ${detail}`;
}

/** The shares of a delivery that starts no run; the store fills in the outcomes of an accepted one. */
function sharesOf(trigger: PreparedTrigger | undefined, sharing: Reception['sharing']): DeliveryRecord['shares'] {
  if (trigger === undefined || sharing === undefined) return undefined;
  const ordered = [trigger, ...sharing.filter((other) => other !== trigger)];
  return ordered.map(({ trigger: { flowId, triggerKey } }) => ({ flowId, triggerKey, runId: null, outcome: null }));
}

/** The outcome as far as it is known here; the store may find another one. */
function outcomeOf({ runId, isDuplicate }: Partial<Answered>, { expressions, trigger }: Omit<Reception, 'span'>) {
  if (isDuplicate === true) return runId === null && trigger?.signals === undefined ? 'filtered' : 'duplicate';
  return expressions?.isUnevaluated === true ? 'unevaluated' : undefined;
}

/** The trigger that the delivery was sent to, if there is one. */
function addressOf({ trigger, unserved }: Pick<Reception, 'trigger' | 'unserved'>) {
  const { flowId = null, triggerKey = null } = trigger?.trigger ?? unserved ?? {};
  return { flowId, triggerKey };
}

/** Refusals that stop a flood: the bodies of such deliveries are not read. */
const CHEAP: ReadonlySet<Reason | null> = new Set<Reason>([
  'ip_not_allowed',
  'ip_denied',
  'rate_limited',
  'unverified_rate_limited',
]);

/** The delivery's search keys, and a result that reports keys without a value. */
function searchKeysOf(
  { delivery: { headers, body: bytes }, trigger, body }: Pick<Reception, 'delivery' | 'trigger' | 'body'>,
  refusal: Reason | null,
): { readonly searchKeys?: SearchKeys; readonly notice?: GateResult | undefined } {
  const keys = trigger?.searchKeys;
  if (trigger === undefined || keys === undefined) return {};
  const searchKeys = headerKeys(headers, keys.headers);
  // Not decoded, because no gate vouches for this body.
  const declared = { contentType: headers['content-type'], document: trigger.documentIn(headers) };
  const notice = CHEAP.has(refusal)
    ? undefined
    : keys.readOthers?.(headers, body ?? new ArrivingBody(bytes, declared), searchKeys);
  return Object.keys(searchKeys).length === 0 ? { notice } : { searchKeys, notice };
}

/**
 * The URL with the values of its query masked. If the signature may cover the query, only values that look like
 * credentials are masked, so that the delivery can be judged again.
 */
function keptUrl(requestUrl: string, trigger: PreparedTrigger | undefined): string {
  return trigger?.mayReadQuery === true ? maskCredentials(requestUrl) : maskUrl(requestUrl);
}

/** The size that the sender announced; nothing of the body was read. */
function announcedBytes({ headers }: Delivery): number {
  const announced = headers['content-length'] ?? '';
  return /^\d{1,15}$/.test(announced) ? Number(announced) : 0;
}

export interface OutcomeServices {
  readonly store: Pick<Store, 'recordDelivery'>;
  readonly clock: Clock;
  /** The mode of deliveries without a trigger. */
  readonly defaultMode: EnforcementMode;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Absent if live events cannot be watched. */
  readonly live?: Pick<LiveEvents, 'emit' | 'isHeard'> | undefined;
}

/** Refuses a delivery: keeps it, reports it and yields the answer. Record and answer say why content cannot be read. */
export function refuse(
  reception: Reception,
  why: Reason | ContentProblem,
  services: OutcomeServices,
): Promise<WebhookAnswer> {
  const { reason, message } = typeof why === 'string' ? { reason: why } : why;
  const detail = [reception.judgement.detail, message].filter((told) => told != null).join('; ') || null;
  const judgement = refusedFor({ ...reception.judgement, detail }, reason);
  return endWithoutRun({ ...reception, judgement }, refused(reason, { message }), services);
}

/** Keeps and reports a delivery that starts no run; yields the answer given. */
export async function endWithoutRun(
  reception: Reception,
  answer: WebhookAnswer,
  services: OutcomeServices,
): Promise<WebhookAnswer> {
  const { lateFor } = reception;
  const ofFirst = { runId: lateFor ?? null, isDuplicate: lateFor !== undefined };
  await keepDelivery(reception, { statusCode: answer.statusCode, ...ofFirst }, services);
  reportDelivery(reception, null, services);
  return { ...answer, deliveryId: reception.delivery.id };
}

/** 503, not 4xx: the publisher did nothing wrong, and its retry with the same nonce is accepted. */
export function notStored(reception: Reception, error: unknown, services: OutcomeServices): WebhookAnswer {
  services.logger.error({ err: error, deliveryId: reception.delivery.id }, 'a delivery could not be stored');
  const judgement = refusedFor(reception.judgement, 'store_unavailable');
  reportDelivery({ ...reception, judgement }, null, services);
  return { ...refused('store_unavailable'), deliveryId: reception.delivery.id };
}

/** Keeps a delivery that started no run. If the log cannot be written, the answer stays: refusing needs no disk. */
export async function keepDelivery(
  reception: Reception,
  answered: Parameters<typeof recordOf>[1],
  services: Pick<OutcomeServices, 'store' | 'clock' | 'defaultMode' | 'logger'>,
): Promise<void> {
  try {
    await services.store.recordDelivery(recordOf(reception, answered, services));
  } catch (error) {
    const about = {
      deliveryId: reception.delivery.id,
      reason: reception.judgement.refusal ?? reception.judgement.reason,
    };
    logEvent(services.logger, 'WebhookRejectionStoreFailed', { err: error, ...about });
  }
}

/**
 * Counts, logs and tags one delivery. Under Off a failed gate leaves no trace here but only in the delivery log, so
 * that observing causes no alerts.
 */
export function reportDelivery(
  reception: Reception,
  runId: string | null,
  services: Omit<OutcomeServices, 'store'>,
): void {
  const { delivery, trigger, judgement, startedAt } = reception;
  const { refusal, violations } = judgement;
  const { metrics, live, clock } = services;
  const { flowId, triggerKey } = addressOf(reception);
  const flow = flowId ?? 'none';
  const mode = trigger?.mode ?? services.defaultMode;
  const result = refusal === null ? 'accepted' : 'rejected';
  metrics.webhookReceived.inc({ flow, result, scheme: trigger?.schemeName ?? 'none' });
  metrics.webhookBodyBytes.observe(delivery.body.byteLength);
  metrics.webhookProcessingMs.observe({ flow, result }, clock.monotonic() - startedAt);
  const counted = refusal ?? (mode === 'Off' ? undefined : violations[0]);
  if (counted !== undefined) metrics.webhookRejected.inc({ flow, reason: counted });
  if (live?.isHeard === true) {
    const told = { deliveryId: delivery.id, flowId, triggerKey, runId, result, reason: refusal };
    const receivedAt = new Date(delivery.receivedAt).toISOString();
    live.emit({ type: 'delivery.received', runId, flowId, data: { ...told, receivedAt } });
  }
  tag(reception, result, counted);
  log(reception, { mode, runId, reasons: mode === 'Off' ? loggedUnderOff(refusal) : violations }, services.logger);
}

/** Leaves out reasons of gates, even for a handshake that every mode refuses: the delivery log has them. */
function loggedUnderOff(refusal: Reason | null): Reason[] {
  return refusal === null || isOfGate(refusal) ? [] : [refusal];
}

function tag({ span, delivery, trigger, judgement }: Reception, result: string, reason: Reason | undefined): void {
  if (span === undefined || !span.isRecording()) return;
  const { replaySkewMs, retryAfterMs } = judgement.evidence;
  span.setAttribute('flow.webhook.scheme', trigger?.schemeName ?? 'none');
  span.setAttribute('flow.webhook.client_ip', delivery.clientIp);
  span.setAttribute('flow.webhook.result', result);
  if (replaySkewMs !== undefined) span.setAttribute('flow.webhook.replay_skew_ms', replaySkewMs);
  if (reason === undefined) return;
  span.setAttribute('flow.webhook.reject_reason', reason);
  if (retryAfterMs !== undefined) span.setAttribute('flow.webhook.rate_limit.retry_after_ms', retryAfterMs);
}

function log(
  { delivery, trigger, unserved, judgement }: Reception,
  { mode, runId, reasons }: { mode: EnforcementMode; runId: string | null; reasons: readonly Reason[] },
  logger: Logger,
): void {
  const about = {
    deliveryId: delivery.id,
    ...addressOf({ trigger, unserved }),
    clientIp: delivery.clientIp,
    mode,
    scheme: trigger?.schemeName ?? null,
  };
  for (const reason of reasons) {
    const { event } = REASONS[reason];
    if (event !== undefined) logEvent(logger, event, { ...about, reason, detail: judgement.detail });
  }
  if (judgement.evidence.usedPreviousKey === true) logEvent(logger, 'WebhookSecretRotationUsedPrevious', about);
  if (runId === null) return;
  logEvent(logger, 'WebhookDeliveryAccepted', { ...about, runId, bodyBytes: delivery.body.byteLength });
}
