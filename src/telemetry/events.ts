import type { Logger } from 'pino';
import { eventParts } from '../features/events.ts';
import { joined } from '../model/joined.ts';
import type { Json } from '../model/json.ts';

const KERNEL = {
  RunStarted: { eventId: 1000, level: 'info' },
  RunCompleted: { eventId: 1001, level: 'info' },
  TriggerRejectedDisabledFlow: { eventId: 1010, level: 'warn' },
  FailureFlowNotStarted: { eventId: 1011, level: 'error' },
  StepStarted: { eventId: 2000, level: 'debug' },
  StepCompleted: { eventId: 2001, level: 'debug' },
  StepFailed: { eventId: 2002, level: 'warn' },
  StepSkipped: { eventId: 2003, level: 'info' },
  WhenEvaluationFailed: { eventId: 2005, level: 'warn' },
  DispatchEnqueued: { eventId: 3000, level: 'debug' },
  WebhookSignatureRejected: { eventId: 4001, level: 'warn' },
  WebhookReplayRejected: { eventId: 4002, level: 'warn' },
  WebhookRateLimited: { eventId: 4003, level: 'warn' },
  WebhookIpDenied: { eventId: 4005, level: 'warn' },
  WebhookDeliveryAccepted: { eventId: 4007, level: 'info' },
  WebhookRejectionStoreFailed: { eventId: 4008, level: 'error' },
  WebhookSecretRotationUsedPrevious: { eventId: 4010, level: 'warn' },
  WebhookConflictingKeyFields: { eventId: 4011, level: 'warn' },
  WebhookBodyRejected: { eventId: 4012, level: 'warn' },
  WebhookKeySetChanged: { eventId: 4013, level: 'warn' },
  Intervention: { eventId: 5000, level: 'info' },
  AccessWidened: { eventId: 5010, level: 'warn' },
} as const;

/** Every numbered log event. Alerts can match on ids, which are stable; 4000, 4004, 4006 and 4009 are never emitted. */
export const EVENTS = joined(KERNEL, eventParts);

export type EventName = keyof typeof EVENTS;

/** Writes one line with `eventId`, `eventName` and the fields given; never pass a secret or a whole header map. */
export function logEvent(logger: Logger, eventName: EventName, fields: Readonly<Record<string, unknown>>): void {
  const { eventId, level } = EVENTS[eventName];
  if (logger.isLevelEnabled(level)) logger[level]({ eventId, eventName, ...fields }, eventName);
}

type LiveEventType =
  | 'run.started'
  | 'step.started'
  | 'step.completed'
  | 'step.retried'
  | 'run.completed'
  /** Another process changed the run, or unknown runs if none is named; the other events are from this process. */
  | 'run.changed'
  | 'delivery.received'
  /** Whether this process is ready, and how many deliveries got 503; sent every other second, even unchanged. */
  | 'service.state'
  /** The amount of attention needed. */
  | 'attention.changed';

/** Something that has just happened, for current listeners. */
export interface LiveEvent {
  readonly type: LiveEventType;
  /** Null if it belongs to no run. */
  readonly runId: string | null;
  /** Null if it belongs to no flow, or this process does not know which. */
  readonly flowId: string | null;
  readonly data: { readonly [key: string]: Json };
}

/** Passes events to current listeners; later ones read the records. */
export interface LiveEvents {
  /** Whether anyone receives events now; if not, callers need not make them. */
  readonly isHeard: boolean;
  emit(event: LiveEvent): void;
  /** Yields the function that unsubscribes. A listener must not throw. */
  subscribe(listener: (event: LiveEvent) => void): () => void;
}

/** Additional receivers of events. */
interface LiveEventsOptions {
  /** Called when something happened in a run of this process. */
  readonly onRun?: (runId: string) => void;
  /** Called for the first listener, and when the last one leaves. */
  readonly onWatched?: (isWatched: boolean) => void;
}

export function createLiveEvents({ onRun, onWatched }: LiveEventsOptions = {}): LiveEvents {
  const listeners = new Set<(event: LiveEvent) => void>();
  return {
    get isHeard() {
      return onRun !== undefined || listeners.size > 0;
    },
    emit(event) {
      if (event.runId !== null && event.type !== 'run.changed') onRun?.(event.runId);
      for (const listener of listeners) listener(event);
    },
    subscribe(listener) {
      listeners.add(listener);
      if (listeners.size === 1) onWatched?.(true);
      return () => {
        if (listeners.delete(listener) && listeners.size === 0) onWatched?.(false);
      };
    },
  };
}
