import type { Delivery, Finding, Reason, Redelivery, RunEvent, RunStatus, StepStatus } from './api-types.ts';
import type { IconName } from './kit/icon.tsx';

/*
 * How each name of the API is shown: its tone, its picture and its words. Pure, so that the words are tested without a
 * browser.
 */

export type Tone = 'good' | 'bad' | 'warn' | 'busy' | 'quiet';

export interface Look {
  readonly tone: Tone;
  readonly icon: IconName;
  readonly text: string;
}

export type LookRow = readonly [Tone, IconName, string];

export const STATUSES: Readonly<Record<RunStatus | StepStatus, LookRow>> = {
  Pending: ['quiet', 'pending', 'Pending'],
  Running: ['busy', 'spinner', 'Running'],
  Succeeded: ['good', 'check', 'Succeeded'],
  Failed: ['bad', 'cross', 'Failed'],
  Skipped: ['quiet', 'skip', 'Skipped'],
  Cancelled: ['warn', 'stop', 'Cancelled'],
  TimedOut: ['bad', 'clock', 'Timed out'],
};

/** What a picture says of one step of a run. */
export interface StepMark extends Look {
  readonly status: StepStatus;
  /** Beside it, such as how far a loop has come. */
  readonly note?: string | undefined;
}

export type JudgedDelivery = Pick<Delivery, 'rejected' | 'mode' | 'statusCode' | 'reason'>;

/** What became of a delivery. One that a gate refused and that was let in all the same is neither good nor bad. */
export function deliveryLook({
  rejected,
  mode,
  statusCode,
  reason,
}: JudgedDelivery): Look & { readonly title?: string } {
  if (!rejected) return { tone: 'good', icon: 'check', text: 'Accepted' };
  const title = reason === null ? {} : { title: reason };
  if (statusCode >= 400) return { tone: 'bad', icon: 'cross', text: 'Refused', ...title };
  if (mode === 'Enforce' && reason === 'nonce_replayed') {
    return { tone: 'quiet', icon: 'replay', text: 'Duplicate', title: 'Answered with the run of the first one' };
  }
  return { tone: 'warn', icon: 'warn', text: 'Let in', ...title };
}

const EVENTS: Readonly<Record<string, LookRow>> = {
  'run.started': ['quiet', 'play', 'Run started'],
  'run.completed': ['quiet', 'check', 'Run ended'],
  'run.cancelRequested': ['warn', 'stop', 'Cancel requested'],
  'run.timedOut': ['bad', 'clock', 'Time limit reached'],
  'step.started': ['busy', 'play', 'started'],
  'step.completed': ['good', 'check', 'succeeded'],
  'step.failed': ['bad', 'cross', 'failed'],
  'step.retried': ['warn', 'replay', 'failed, will be tried again'],
  'step.skipped': ['quiet', 'skip', 'skipped'],
  'signal.received': ['busy', 'deliveries', 'Signal received'],
};

/** Of an event of a step, the text follows the step's key. */
interface EventLook extends Look {
  /** What the record adds to the text; null where it would only repeat it. */
  readonly detail: string | null;
}

export function eventLook({ type, message }: Pick<RunEvent, 'type' | 'message'>): EventLook {
  const [tone, icon, text] = ownOf(EVENTS, type) ?? ['quiet', 'info', type];
  return { tone, icon, text, detail: message === 'Attempt 1' ? null : message.replace(/^Attempt 1: /, '') };
}

function ownOf<Value>(table: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

/** What a redelivery did, or would do. */
export const REDELIVERIES: Readonly<Record<Redelivery['outcome'], LookRow>> = {
  accepted: ['good', 'check', 'Accepted'],
  'would be accepted': ['good', 'check', 'Would be accepted'],
  'accepted before': ['quiet', 'replay', 'Accepted before'],
  refused: ['bad', 'cross', 'Refused'],
  'not possible': ['quiet', 'off', 'Not possible'],
};

export const FINDINGS: Readonly<Record<Finding['class'], LookRow>> = {
  safe: ['good', 'check', 'Safe'],
  caution: ['warn', 'warn', 'Caution'],
  breaking: ['bad', 'cross', 'Breaking'],
};

export function gravestOf(findings: readonly Finding[]): Finding['class'] {
  const order = ['breaking', 'caution', 'safe'] as const;
  return order.find((name) => findings.some((finding) => finding.class === name)) ?? 'safe';
}

/** Every reason, in pipeline order, and what it means to an operator. */
export const REASONS: Readonly<Record<Reason, string>> = {
  body_too_large: 'The body is larger than the cap.',
  unknown_flow: 'No webhook has this address.',
  flow_disabled: 'The flow is disabled.',
  invalid_json: 'The content type says JSON and the body is not.',
  ip_not_allowed: 'The client is not in the allow list.',
  ip_denied: 'The client is in the deny list.',
  rate_limited: 'The bucket of permits was empty.',
  signature_missing: 'The signature header is absent.',
  signature_malformed: 'The signature is not in the form of the scheme.',
  signature_mismatch: 'No configured key makes this signature.',
  key_not_configured: 'The trigger has no key to verify with.',
  sha1_not_allowed: 'The scheme needs SHA-1, which is switched off.',
  verifier_error: 'The verifier failed.',
  timestamp_missing: 'The timestamp is required and absent.',
  timestamp_malformed: 'The timestamp is no number.',
  timestamp_skew: 'The timestamp is too far from the time here.',
  nonce_replayed: 'A delivery with this nonce was accepted before.',
  store_unavailable: 'The store could not take it.',
};

/** What each part of the pipeline is called. */
const GATES: Readonly<Record<string, string>> = {
  bodyCap: 'Body size',
  address: 'Address and flow',
  ip: 'IP lists',
  rateLimit: 'Rate limit',
  signature: 'Signature',
  replay: 'Replay',
  body: 'Body as JSON',
};

/** A gate of the operator's own is called as it calls itself. */
export function gateName(gate: string): string {
  return GATES[gate] ?? gate;
}
