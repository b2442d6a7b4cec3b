import type { Span } from '@opentelemetry/api';
import type { Logger } from 'pino';
import type { Delivery, Reason } from '../model/delivery.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import { type LiveEvents, logEvent } from '../telemetry/events.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { isOfGate, REASONS } from './answers.ts';
import type { Evidence } from './gate.ts';

/** How a delivery ended, for those who count, log and trace. */
export interface Ending {
  readonly delivery: Delivery;
  readonly span: Span | undefined;
  readonly flowId: string | null;
  readonly triggerKey: string | null;
  readonly mode: EnforcementMode;
  readonly scheme: string | null;
  readonly evidence: Evidence;
  /** Failed gates in pipeline order. */
  readonly violations: readonly Reason[];
  /** Why the answer is an error; null where it is a 200. */
  readonly refusal: Reason | null;
  readonly detail: string | null;
  readonly runId: string | null;
  readonly processingMs: number;
}

export interface ReportServices {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Where nobody can watch, events go nowhere. */
  readonly live?: Pick<LiveEvents, 'emit'> | undefined;
}

/**
 * Counts, logs and tags one delivery. Under Off a failed gate leaves no trace here: it is in the delivery log alone, so
 * that watching costs nobody an alert.
 */
export function report(ending: Ending, { logger, metrics, live }: ReportServices): void {
  const flow = ending.flowId ?? 'none';
  const result = ending.refusal === null ? 'accepted' : 'rejected';
  metrics.webhookReceived.inc({ flow, result, scheme: ending.scheme ?? 'none' });
  metrics.webhookBodyBytes.observe(ending.delivery.body.byteLength);
  metrics.webhookProcessingMs.observe({ flow, result }, ending.processingMs);
  const audible = ending.mode === 'Off' ? [] : ending.violations;
  const reason = ending.refusal ?? audible[0];
  if (reason !== undefined) metrics.webhookRejected.inc({ flow, reason });
  const { id, receivedAt } = ending.delivery;
  const { flowId, triggerKey, runId } = ending;
  const told = { deliveryId: id, flowId, triggerKey, runId, result, reason: ending.refusal };
  live?.emit({ type: 'delivery.received', runId, data: { ...told, receivedAt: new Date(receivedAt).toISOString() } });
  tag(ending, { result, reason });
  log(ending, { logger, reasons: audibleReasons(ending, audible) });
}

/** Each once. Off has none of gates, not even where a handshake is refused under every mode: the delivery log has it. */
function audibleReasons({ mode, refusal }: Ending, violations: readonly Reason[]): Reason[] {
  const reasons = new Set(refusal === null ? violations : [...violations, refusal]);
  return [...reasons].filter((reason) => mode !== 'Off' || !isOfGate(reason));
}

function tag(ending: Ending, { result, reason }: { result: string; reason: Reason | undefined }): void {
  const { span, evidence } = ending;
  if (span === undefined || !span.isRecording()) return;
  span.setAttribute('flow.webhook.scheme', ending.scheme ?? 'none');
  span.setAttribute('flow.webhook.client_ip', ending.delivery.clientIp);
  span.setAttribute('flow.webhook.result', result);
  if (evidence.replaySkewMs !== undefined) span.setAttribute('flow.webhook.replay_skew_ms', evidence.replaySkewMs);
  if (reason === undefined) return;
  span.setAttribute('flow.webhook.reject_reason', reason);
  if (evidence.retryAfterMs !== undefined) {
    span.setAttribute('flow.webhook.rate_limit.retry_after_ms', evidence.retryAfterMs);
  }
}

function log(ending: Ending, { logger, reasons }: { logger: Logger; reasons: readonly Reason[] }): void {
  const { delivery, flowId, triggerKey, mode, scheme } = ending;
  const about = { deliveryId: delivery.id, flowId, triggerKey, clientIp: delivery.clientIp, mode, scheme };
  for (const reason of reasons) {
    const { event } = REASONS[reason];
    if (event !== undefined) logEvent(logger, event, { ...about, reason, detail: ending.detail });
  }
  if (ending.evidence.usedPreviousKey === true) logEvent(logger, 'WebhookSecretRotationUsedPrevious', about);
  if (ending.runId === null) return;
  const bodyBytes = delivery.body.byteLength;
  logEvent(logger, 'WebhookDeliveryAccepted', { ...about, runId: ending.runId, bodyBytes });
}
