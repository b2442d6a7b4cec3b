import { CREDENTIAL_NAME, maskQuery, maskUrl } from '../manifest/mask.ts';
import type { Clock } from '../model/clock.ts';
import type { Delivery, DeliveryRecord, Reason } from '../model/delivery.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import { shownHeaders } from './headers.ts';
import { type Judgement, withUnconfigured } from './pipeline.ts';
import type { PreparedTrigger } from './triggers.ts';

/** A delivery and what is known about it when its record is made. */
export interface RecordSource {
  readonly delivery: Delivery;
  readonly trigger: PreparedTrigger | undefined;
  readonly judgement: Judgement;
  /** Monotonic milliseconds. */
  readonly startedAt: number;
}

export interface RecordedAnswer {
  readonly statusCode: number;
  /** Why the delivery was refused, by a gate or otherwise; null where it was accepted clean. */
  readonly reason: Reason | null;
  /** The run that holds the body. */
  readonly runId: string | null;
}

/**
 * What is kept of a delivery: all that it takes to judge it again, but for a body that a run holds. Its reason is the first
 * failure in pipeline order, whatever the answer was given for.
 */
export function recordOf(
  { delivery, trigger, judgement, startedAt }: RecordSource,
  { statusCode, reason, runId }: RecordedAnswer,
  { clock, defaultMode }: { readonly clock: Clock; readonly defaultMode: EnforcementMode },
): DeliveryRecord {
  const isKnown = reason === null || judgement.violations.includes(reason);
  const violations = isKnown ? judgement.violations : [...judgement.violations, reason];
  const mode = trigger?.mode ?? defaultMode;
  // A lenient mode accepts a replay, and only the store can tell that it is one.
  const mayBeReplay = mode !== 'Enforce' && judgement.evidence.nonce !== undefined;
  const mayBeMarked = runId === null || violations.length > 0 || mayBeReplay;
  // Only what was posted can be judged again; the query of a handshake may hold a token.
  const mayBeJudgedAgain = mayBeMarked && delivery.method === 'POST';
  return {
    id: delivery.id,
    flowId: trigger?.trigger.flowId ?? null,
    triggerKey: trigger?.trigger.triggerKey ?? null,
    receivedAt: delivery.receivedAt,
    clientIp: delivery.clientIp,
    mode,
    scheme: trigger?.schemeName ?? null,
    rejected: violations.length > 0,
    enforced: statusCode >= 400 && statusCode < 500,
    statusCode,
    reason: violations[0] ?? null,
    violations,
    detail: judgement.detail,
    bodyBytes: reason === 'body_too_large' ? announcedBytes(delivery) : delivery.body.byteLength,
    body: runId === null && reason !== 'body_too_large' ? delivery.body : null,
    headers: shownHeaders(delivery.headers, trigger?.headersRead.names),
    processingMs: clock.monotonic() - startedAt,
    runId,
    usedPreviousKey: judgement.evidence.usedPreviousKey ?? false,
    story: trigger === undefined ? undefined : withUnconfigured(trigger.chain, judgement.story),
    requestUrl: mayBeJudgedAgain ? keptUrl(delivery.requestUrl, trigger) : undefined,
  };
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
