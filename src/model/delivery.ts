import type { EncodedContent } from './content.ts';
import type { JsonObject } from './json.ts';
import type { EnforcementMode, RunStatus } from './manifest.ts';
import type { SearchKeys } from './search-keys.ts';

/** One webhook request as it arrived. */
export interface Delivery {
  /** UUID v7. */
  readonly id: string;
  /** Milliseconds since the Unix epoch. */
  readonly receivedAt: number;
  readonly method: string;
  /** Path and query exactly as on the request line, still percent-encoded. */
  readonly path: string;
  /** The absolute URL that the publisher called, as far as a trusted proxy or the socket tells; never its query decoded. */
  readonly requestUrl: string;
  /** Lower-case name to value; several lines of one name are joined with ", ". Null prototype or plain: look up own keys only. */
  readonly headers: Readonly<Record<string, string>>;
  /** Exact bytes as sent: signatures cover these, never a re-serialised body. */
  readonly body: Buffer;
  /** What the body holds, where it says that it is encoded; absent where the bytes are the content. */
  readonly content?: EncodedContent | undefined;
  /** Canonical text of the client's address, IPv4-mapped IPv6 as IPv4. */
  readonly clientIp: string;
}

/** For the operator's code: what it does to it changes nothing of the delivery. */
export function copyOf(delivery: Delivery): Delivery {
  return { ...delivery, headers: { ...delivery.headers }, body: Buffer.from(delivery.body) };
}

/** Why a delivery was refused, or would have been. A closed list: metrics and stats use it as labels. */
export const REASON_CODES = [
  'body_too_large',
  'unknown_flow',
  'flow_unreadable',
  'flow_disabled',
  'encoding_not_supported',
  'invalid_encoding',
  'invalid_json',
  'ip_not_allowed',
  'ip_denied',
  'unverified_rate_limited',
  'rate_limited',
  'signature_missing',
  'signature_malformed',
  'signature_mismatch',
  'key_not_configured',
  'sha1_not_allowed',
  'verifier_error',
  'verification_unavailable',
  'timestamp_missing',
  'timestamp_malformed',
  'timestamp_skew',
  'nonce_replayed',
  'body_schema',
  'idempotency_conflict',
  'store_unavailable',
] as const;
export type Reason = (typeof REASON_CODES)[number];

/**
 * What else became of a delivery than a run of its own or a refusal. `duplicate`: it repeats what started another run.
 * `answered`: its trigger lets it answer runs that wait, or will, in place of starting one.
 * `filtered`: an expression of its trigger keeps it from starting one. `coalesced`: it joined the run of another.
 * `unevaluated`: it started one although such an expression could not be evaluated. `givenUp`: it never arrived, and the log
 * of its publisher had it and could not be made to tell its contents; it was never answered, and its status code is 0.
 */
export const DELIVERY_OUTCOMES = ['duplicate', 'filtered', 'coalesced', 'answered', 'unevaluated', 'givenUp'] as const;
export type DeliveryOutcome = (typeof DELIVERY_OUTCOMES)[number];

/** A header's name as HTTP allows it: RFC 9110, section 5.6.2. */
export const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** What is kept of a delivery. */
export interface DeliveryRecord {
  readonly id: string;
  readonly flowId: string | null;
  readonly triggerKey: string | null;
  /** Milliseconds since the Unix epoch. */
  readonly receivedAt: number;
  readonly clientIp: string;
  readonly mode: EnforcementMode;
  /** The scheme's name, or null where no signature gate is configured. */
  readonly scheme: string | null;
  /** A gate failed, or the delivery was refused. */
  readonly rejected: boolean;
  /** The answer was a 4xx. */
  readonly enforced: boolean;
  readonly statusCode: number;
  /** First failure in pipeline order; null when clean. */
  readonly reason: Reason | null;
  readonly violations: readonly Reason[];
  /** What a person needs in addition to the reason; never a secret or an expected signature. */
  readonly detail: string | null;
  readonly bodyBytes: number;
  /** Exact bytes; null where the run of the delivery holds them, or where none were read. */
  readonly body: Uint8Array | null;
  /** Credentials redacted. */
  readonly headers: Readonly<Record<string, string>>;
  readonly processingMs: number;
  readonly runId: string | null;
  readonly usedPreviousKey: boolean;
  /** What each gate said, in pipeline order; absent where no gate was asked. */
  readonly gateResults?: readonly GateResult[] | undefined;
  /** What the publisher called, query included, to judge the delivery again by; kept where it started no run or a gate marked it. */
  readonly requestUrl?: string | undefined;
  /** Names the key that the stored body is sealed with; absent where the body is plain, and so above the store. */
  readonly bodyKey?: string | undefined;
  /** The refused delivery that was accepted later under this id. */
  readonly redeliveredFrom?: string | undefined;
  /** Absent where it has a run of its own, or was refused. */
  readonly outcome?: DeliveryOutcome | undefined;
  /** Its run starts once the flow starts runs again. Known of what is read from the store. */
  readonly isHeld?: boolean | undefined;
  /** Of its run, where that is kept. Known of what is read from the store. */
  readonly runStatus?: RunStatus | undefined;
  /** Absent where it has none. */
  readonly searchKeys?: SearchKeys | undefined;
  /** What became of it at each trigger that shares its slug, that of the record first; absent where one trigger got it. */
  readonly shares?: readonly DeliveryShare[] | undefined;
}

/** What became of a delivery at one of several triggers, which never coalesce it. `closed`: its flow took no deliveries. */
export const SHARE_OUTCOMES = ['duplicate', 'filtered', 'answered', 'unevaluated', 'closed', 'discarded'] as const;

export interface DeliveryShare {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly runId: string | null;
  /** Null where it has a run of its own, which may start later, or where the delivery was refused. */
  readonly outcome: (typeof SHARE_OUTCOMES)[number] | null;
}

export const GATE_OUTCOMES = ['passed', 'failed', 'not evaluated', 'not configured'] as const;

/** What one gate did about one delivery. */
export interface GateResult {
  readonly gate: string;
  readonly outcome: (typeof GATE_OUTCOMES)[number];
  readonly reason: Reason | null;
  readonly detail: string | null;
  /** What the gate found and compared; never a key nor a signature that would have been right. */
  readonly facts: JsonObject;
}

/** How the details of records begin that say what kind of delivery it was: the books tell those apart. */
export const DETAILS = {
  handshake: 'handshake ',
  discarded: 'held, and discarded by ',
  reconciled: 'reconciled from ',
  edited: 'redelivered with an edited body',
} as const;

/** Whether a person edited its body: no publisher sent it, and no signature was verified over it. */
export const isEdited = ({ redeliveredFrom, detail }: Pick<DeliveryRecord, 'redeliveredFrom' | 'detail'>) =>
  redeliveredFrom !== undefined && detail?.startsWith(DETAILS.edited) === true;

/** Scoped to the flow and the trigger; an unverified delivery joins only other unverified ones. */
export interface CoalesceClaim {
  readonly key: string;
  readonly isTrusted: boolean;
  /** How long the run waits after the newest delivery, and after the first. */
  readonly quietMs: number;
  readonly maxMs: number;
  /** Deliveries that start it at once. */
  readonly collect: number;
}

/** What a delivery says to the steps that it answers, in place of starting a run. */
export interface SignalClaim {
  /** Key of the step in its graph, behind those of its loops. */
  readonly step: string;
  /** Of the steps that it answers; undefined where its trigger could not tell. */
  readonly key: string | undefined;
  /** A step with choices is answered by one of them alone, where the delivery names one. */
  readonly choice: string | undefined;
  /** JSON text: the output of the step. */
  readonly body: string;
  readonly deliveryId: string | null;
  readonly at: number;
}
