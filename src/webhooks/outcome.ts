import type { Span } from '@opentelemetry/api';
import type { Logger } from 'pino';
import { levelOfRetry } from '../errors.ts';
import { ArrivingBody } from '../expressions/trigger-body.ts';
import { CREDENTIAL_NAME, maskQuery, maskUrl } from '../manifest/mask.ts';
import type { Clock } from '../model/clock.ts';
import type { Delivery, DeliveryRecord, GateResult, Reason } from '../model/delivery.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import type { SearchKeys } from '../model/search-keys.ts';
import type { Store } from '../store/store.ts';
import { type EventName, type LiveEvents, logEvent } from '../telemetry/events.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { headerKeys, shownHeaders } from './headers.ts';
import { type Judgement, refusedFor, withUnasked } from './pipeline.ts';
import type { AcceptedResponse } from './schemes/handshake.ts';
import type { PreparedTrigger } from './triggers.ts';

// Not imported: an import of node:http reads each of its exports, which loads a second undici (40 ms of CPU, 15 MB).
const { STATUS_CODES } = process.getBuiltinModule('node:http');

/** How a delivery is refused for one reason. */
interface Refusal {
  readonly statusCode: number;
  /** The phrase of HTTP for the status. */
  readonly error: string;
  /** For the publisher: what happened and where to look, nothing that helps to guess. */
  readonly message: string;
  /** The log event; undefined where none is allocated. */
  readonly event: EventName | undefined;
}

/** Every reason there is: the labels of the metrics, the keys of stats, the answers. */
export const REASONS: Readonly<Record<Reason, Refusal>> = {
  body_too_large: refusal(413, undefined, 'The body is larger than this endpoint accepts'),
  unknown_flow: refusal(404, undefined, 'No webhook has this address; check the last part of the URL'),
  flow_disabled: refusal(403, 'TriggerRejectedDisabledFlow', 'The flow behind this webhook is disabled'),
  invalid_json: refusal(400, undefined, 'The content type says JSON, but the body is not JSON'),
  ip_not_allowed: refusal(403, 'WebhookIpDenied', 'Deliveries are not accepted from this address'),
  ip_denied: refusal(403, 'WebhookIpDenied', 'Deliveries are not accepted from this address'),
  unverified_rate_limited: refusal(429, 'WebhookRateLimited', 'Too many deliveries; send this one again later'),
  rate_limited: refusal(429, 'WebhookRateLimited', 'Too many deliveries; send this one again later'),
  signature_missing: unverified('The signature is missing; check that the sender signs its deliveries'),
  signature_malformed: unverified('The signature does not have the format that this webhook expects'),
  signature_mismatch: unverified('The signature does not match; check the key, and that nothing alters the body'),
  key_not_configured: unverified('The signature cannot be verified; this webhook has no key'),
  sha1_not_allowed: unverified('The signature cannot be verified; SHA-1 is not accepted here'),
  verifier_error: unverified('The signature could not be verified'),
  timestamp_missing: stale(401, 'The timestamp is missing'),
  timestamp_malformed: stale(401, 'The timestamp does not have the format that this webhook expects'),
  timestamp_skew: stale(401, 'The timestamp is too far from the current time; check the clock of the sender'),
  nonce_replayed: stale(409, 'This delivery was already accepted'),
  body_schema: refusal(422, 'WebhookBodyRejected', 'The body does not match the schema of this webhook'),
  store_unavailable: refusal(503, undefined, 'The delivery could not be stored; send it again'),
};

/** Whether a gate gives it: the log events of those are 4001 to 4005. */
export function isOfGate(reason: Reason): boolean {
  return REASONS[reason].event?.startsWith('Webhook') === true;
}

/** Whether it is the signature gate's. */
export function isUnverified(reason: Reason): boolean {
  return REASONS[reason].event === 'WebhookSignatureRejected';
}

function unverified(message: string): Refusal {
  return refusal(401, 'WebhookSignatureRejected', message);
}

function stale(statusCode: 401 | 409, message: string): Refusal {
  return refusal(statusCode, 'WebhookReplayRejected', message);
}

function refusal(statusCode: number, event: EventName | undefined, message: string): Refusal {
  return { statusCode, error: STATUS_CODES[statusCode] ?? 'Error', message, event };
}

/** What goes back to the publisher. */
export interface WebhookAnswer {
  readonly statusCode: number;
  readonly contentType: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

const JSON_TYPE = 'application/json; charset=utf-8';

/** Publishers that want to read something of their own get that; all others get the ids. */
export function accepted(
  ids: { readonly runId: string; readonly deliveryId: string; readonly kind: 'accepted' | 'duplicate' | 'held' },
  response: AcceptedResponse | undefined,
): WebhookAnswer {
  if (response !== undefined) return { statusCode: 200, ...response };
  const { runId, deliveryId, kind } = ids;
  const more = { accepted: {}, duplicate: { duplicate: true }, held: { held: true } }[kind];
  const body = JSON.stringify({ runId, deliveryId, ...more });
  return { statusCode: 200, contentType: JSON_TYPE, body };
}

/** An error as Fastify writes them, and the reason. */
export function refused(reason: Reason, statusCode = REASONS[reason].statusCode): WebhookAnswer {
  const { message } = REASONS[reason];
  const error = STATUS_CODES[statusCode] ?? 'Error';
  return { statusCode, contentType: JSON_TYPE, body: JSON.stringify({ statusCode, error, message, reason }) };
}

/** `others` are methods of handshakes. */
export function methodNotAllowed(others: readonly string[] = []): WebhookAnswer {
  const error = { statusCode: 405, error: 'Method Not Allowed', message: 'Deliveries are sent with POST' };
  const allow = [...new Set(['POST', ...others])].join(', ');
  return { statusCode: 405, contentType: JSON_TYPE, body: JSON.stringify(error), headers: { allow } };
}

/** Nothing arrived that could be judged or kept. */
export function bodyStopped(): WebhookAnswer {
  const message = 'The body stopped arriving; send the delivery again';
  const error = { statusCode: 408, error: 'Request Timeout', message };
  return { statusCode: 408, contentType: JSON_TYPE, body: JSON.stringify(error) };
}

/** Without a reason: no publisher sends such a request, and it is refused before it counts as a delivery. */
export function malformedHost(): WebhookAnswer {
  const error = { statusCode: 400, error: 'Bad Request', message: 'The Host header is not a host name' };
  return { statusCode: 400, contentType: JSON_TYPE, body: JSON.stringify(error) };
}

/** One delivery on its way, with its trigger and what the gates said about it so far. */
export interface Reception {
  readonly delivery: Delivery;
  readonly trigger: PreparedTrigger | undefined;
  readonly judgement: Judgement;
  readonly span: Span | undefined;
  /** Monotonic milliseconds. */
  readonly startedAt: number;
  /** Set for a redelivery by a person: what the record says instead. */
  readonly redelivery?: Pick<DeliveryRecord, 'receivedAt' | 'redeliveredFrom' | 'detail'> | undefined;
  /** The body as far as it was looked at; absent where no one has. */
  readonly body?: ArrivingBody | undefined;
}

/** A reception whose delivery found its trigger. */
export type TriggeredReception = Reception & { readonly trigger: PreparedTrigger };

export interface OutcomeServices {
  readonly store: Pick<Store, 'recordDelivery'>;
  readonly clock: Clock;
  /** The mode of what belongs to no trigger. */
  readonly defaultMode: EnforcementMode;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Absent where no one can watch. */
  readonly live?: Pick<LiveEvents, 'emit'> | undefined;
}

/** Refuses a delivery: keeps it, reports it and yields what to answer. */
export function refuse(reception: Reception, reason: Reason, services: OutcomeServices): Promise<WebhookAnswer> {
  return endWithoutRun({ ...reception, judgement: refusedFor(reception.judgement, reason) }, refused(reason), services);
}

/** Keeps and reports a delivery that starts no run; yields the answer given. */
export async function endWithoutRun(
  reception: Reception,
  answer: WebhookAnswer,
  services: OutcomeServices,
): Promise<WebhookAnswer> {
  await keepDelivery(reception, { statusCode: answer.statusCode, runId: null }, services);
  reportDelivery(reception, null, services);
  return answer;
}

/** 503, not 4xx: the publisher did nothing wrong, and what it sends again with the same nonce is accepted. */
export function notStored(reception: Reception, error: unknown, services: OutcomeServices): WebhookAnswer {
  services.logger[levelOfRetry(error, 'error')](
    { err: error, deliveryId: reception.delivery.id },
    'a delivery could not be stored',
  );
  const judgement = refusedFor(reception.judgement, 'store_unavailable');
  reportDelivery({ ...reception, judgement }, null, services);
  return refused('store_unavailable');
}

/** Keeps what started no run. The answer stays the same where the log cannot be written: refusing needs no disk. */
export async function keepDelivery(
  reception: Reception,
  answered: Answered,
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

/** The status of the answer, and the run that holds the body. */
interface Answered extends Pick<DeliveryRecord, 'statusCode' | 'runId'> {
  /** An honest retry that the trigger acknowledges: it repeats a nonce and is not refused. */
  readonly isDuplicate?: true;
}

/**
 * The record of a delivery: everything needed to judge it again, except a body that its run holds. Its reason is the
 * first failure in pipeline order, even if the answer had another cause.
 */
export function recordOf(
  { delivery, trigger, judgement, startedAt, body }: Omit<Reception, 'span'>,
  { statusCode, runId, isDuplicate }: Answered,
  { clock, defaultMode }: { readonly clock: Clock; readonly defaultMode: EnforcementMode },
): DeliveryRecord {
  const { refusal, reason, violations } = judgement;
  const mode = trigger?.mode ?? defaultMode;
  // A lenient mode accepts a replay, and only the store can tell that it is one.
  const mayBeReplay = mode !== 'Enforce' && judgement.evidence.nonce !== undefined;
  const mayBeMarked = runId === null || violations.length > 0 || mayBeReplay;
  // Only what was posted can be judged again; the query of a handshake may hold a token.
  const mayBeJudgedAgain = mayBeMarked && delivery.method === 'POST';
  const { searchKeys, told } = searchKeysOf({ delivery, trigger, body }, refusal);
  const story = trigger === undefined ? undefined : withUnasked(trigger, judgement.gateResults);
  return {
    id: delivery.id,
    flowId: trigger?.trigger.flowId ?? null,
    triggerKey: trigger?.trigger.triggerKey ?? null,
    receivedAt: delivery.receivedAt,
    clientIp: delivery.clientIp,
    mode,
    scheme: trigger?.schemeName ?? null,
    rejected: violations.length > 0 && isDuplicate !== true,
    enforced: statusCode >= 400 && statusCode < 500,
    statusCode,
    reason,
    violations,
    detail: judgement.detail,
    bodyBytes: refusal === 'body_too_large' ? announcedBytes(delivery) : delivery.body.byteLength,
    body: runId === null && refusal !== 'body_too_large' ? delivery.body : null,
    headers: shownHeaders(delivery.headers, trigger?.headersRead.names),
    processingMs: clock.monotonic() - startedAt,
    runId,
    usedPreviousKey: judgement.evidence.usedPreviousKey ?? false,
    story: told === undefined ? story : [...(story ?? []), told],
    requestUrl: mayBeJudgedAgain ? keptUrl(delivery.requestUrl, trigger) : undefined,
    searchKeys,
  };
}

/** Refusals that a flood ends in: they cost no reading of bodies. */
const CHEAP: ReadonlySet<Reason | null> = new Set<Reason>([
  'ip_not_allowed',
  'ip_denied',
  'rate_limited',
  'unverified_rate_limited',
]);

/** What the delivery is found by, and what is told of keys that have no value. */
function searchKeysOf(
  { delivery: { headers, body: bytes }, trigger, body }: Pick<Reception, 'delivery' | 'trigger' | 'body'>,
  refusal: Reason | null,
): { readonly searchKeys?: SearchKeys; readonly told?: GateResult | undefined } {
  const keys = trigger?.searchKeys;
  if (keys === undefined) return {};
  const searchKeys = headerKeys(headers, keys.headers);
  const told = CHEAP.has(refusal)
    ? undefined
    : keys.readOthers?.(headers, body ?? new ArrivingBody(bytes, headers['content-type']), searchKeys);
  return Object.keys(searchKeys).length === 0 ? { told } : { searchKeys, told };
}

/**
 * The URL with the values of its query masked. Where the query may be part of what was signed, only those are that look
 * like credentials, so that the delivery can be judged again.
 */
function keptUrl(requestUrl: string, trigger: PreparedTrigger | undefined): string {
  const at = requestUrl.indexOf('?');
  if (at === -1) return maskUrl(requestUrl);
  const isSigned = trigger?.mayReadQuery === true;
  const query = maskQuery(requestUrl.slice(at + 1), (name) => isSigned && !CREDENTIAL_NAME.test(name));
  return `${maskUrl(requestUrl.slice(0, at))}?${query}`;
}

/** What the sender said it would send; nothing of it was read. */
function announcedBytes({ headers }: Delivery): number {
  const announced = headers['content-length'] ?? '';
  return /^\d{1,15}$/.test(announced) ? Number(announced) : 0;
}

/**
 * Counts, logs and tags one delivery. Under Off a failed gate leaves no trace here: it is in the delivery log alone, so
 * that watching causes no alerts.
 */
export function reportDelivery(
  reception: Reception,
  runId: string | null,
  services: Omit<OutcomeServices, 'store'>,
): void {
  const { delivery, trigger, judgement, startedAt } = reception;
  const { refusal, violations } = judgement;
  const { metrics, live, clock } = services;
  const { flowId = null, triggerKey = null } = trigger?.trigger ?? {};
  const flow = flowId ?? 'none';
  const mode = trigger?.mode ?? services.defaultMode;
  const result = refusal === null ? 'accepted' : 'rejected';
  metrics.webhookReceived.inc({ flow, result, scheme: trigger?.schemeName ?? 'none' });
  metrics.webhookBodyBytes.observe(delivery.body.byteLength);
  metrics.webhookProcessingMs.observe({ flow, result }, clock.monotonic() - startedAt);
  const counted = refusal ?? (mode === 'Off' ? undefined : violations[0]);
  if (counted !== undefined) metrics.webhookRejected.inc({ flow, reason: counted });
  const told = { deliveryId: delivery.id, flowId, triggerKey, runId, result, reason: refusal };
  const receivedAt = new Date(delivery.receivedAt).toISOString();
  live?.emit({ type: 'delivery.received', runId, data: { ...told, receivedAt } });
  tag(reception, result, counted);
  log(reception, { mode, runId, reasons: mode === 'Off' ? loggedUnderOff(refusal) : violations }, services.logger);
}

/** No reason of a gate, not even where a handshake is refused under every mode: the delivery log has it. */
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
  { delivery, trigger, judgement }: Reception,
  { mode, runId, reasons }: { mode: EnforcementMode; runId: string | null; reasons: readonly Reason[] },
  logger: Logger,
): void {
  const about = {
    deliveryId: delivery.id,
    flowId: trigger?.trigger.flowId ?? null,
    triggerKey: trigger?.trigger.triggerKey ?? null,
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
