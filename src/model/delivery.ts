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
  /** The absolute URL that the publisher called, as known from a trusted proxy or the socket; query never decoded. */
  readonly requestUrl: string;
  /** By lower-case name; values of repeated lines are joined with ", ". May lack a prototype: look up own keys only. */
  readonly headers: Readonly<Record<string, string>>;
  /** Exact bytes as sent: signatures cover these, never a re-serialised body. */
  readonly body: Buffer;
  /** The content of an encoded body; absent if the bytes are the content. */
  readonly content?: EncodedContent | undefined;
  /** Canonical text of the client's address, IPv4-mapped IPv6 as IPv4. */
  readonly clientIp: string;
}

/** A copy for the operator's code, whose changes must not affect the delivery. */
export function copyOf(delivery: Delivery): Delivery {
  return { ...delivery, headers: { ...delivery.headers }, body: Buffer.from(delivery.body) };
}

/** Why a delivery was or would have been refused. A closed list: metrics and stats use it as labels. */
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
 * The outcome of a delivery without a run of its own or a refusal. `duplicate`: it repeats the delivery of another run.
 * `answered`: instead of starting a run, it answers runs that wait now or later. `filtered`: an expression of its
 * trigger kept it from starting a run. `coalesced`: it joined the run of another delivery. `unevaluated`: it started a
 * run although such an expression could not be evaluated. `givenUp`: it never arrived; the publisher's log listed it
 * but did not yield its contents. It was never answered, and its status code is 0.
 */
export const DELIVERY_OUTCOMES = ['duplicate', 'filtered', 'coalesced', 'answered', 'unevaluated', 'givenUp'] as const;
export type DeliveryOutcome = (typeof DELIVERY_OUTCOMES)[number];

/** Header names that HTTP allows: RFC 9110, section 5.6.2. */
export const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** The stored part of a delivery. */
export interface DeliveryRecord {
  readonly id: string;
  readonly flowId: string | null;
  readonly triggerKey: string | null;
  /** Milliseconds since the Unix epoch. */
  readonly receivedAt: number;
  readonly clientIp: string;
  readonly mode: EnforcementMode;
  /** The scheme's name; null if no signature gate is configured. */
  readonly scheme: string | null;
  /** A gate failed, or the delivery was refused. */
  readonly rejected: boolean;
  /** The answer was a 4xx. */
  readonly enforced: boolean;
  readonly statusCode: number;
  /** First failure in pipeline order; null if there is none. */
  readonly reason: Reason | null;
  readonly violations: readonly Reason[];
  /** Details for people in addition to the reason; never a secret or an expected signature. */
  readonly detail: string | null;
  readonly bodyBytes: number;
  /** Exact bytes; null if the delivery's run has them, or if none were read. */
  readonly body: Uint8Array | null;
  /** Credentials redacted. */
  readonly headers: Readonly<Record<string, string>>;
  readonly processingMs: number;
  readonly runId: string | null;
  readonly usedPreviousKey: boolean;
  /** The result of each gate, in pipeline order; absent if no gate ran. */
  readonly gateResults?: readonly GateResult[] | undefined;
  /** The called URL with its query, for judging again; stored if no run was started or a gate marked the delivery. */
  readonly requestUrl?: string | undefined;
  /** Names the key that seals the stored body; absent if the body is plain, and always above the store. */
  readonly bodyKey?: string | undefined;
  /** The refused delivery that was accepted later under this id. */
  readonly redeliveredFrom?: string | undefined;
  /** Absent if the delivery has a run of its own, or was refused. */
  readonly outcome?: DeliveryOutcome | undefined;
  /** Its run starts once the flow starts runs again. Only set on records from the store. */
  readonly isHeld?: boolean | undefined;
  /** Status of its run, while that is stored. Only set on records from the store. */
  readonly runStatus?: RunStatus | undefined;
  /** Absent if it has none. */
  readonly searchKeys?: SearchKeys | undefined;
  /** Its outcome at each trigger of a shared slug, first that of this record; absent if one trigger got it. */
  readonly shares?: readonly DeliveryShare[] | undefined;
}

/** The outcome of a delivery at one of several triggers, which never coalesce it. `closed`: its flow accepted none. */
export const SHARE_OUTCOMES = ['duplicate', 'filtered', 'answered', 'unevaluated', 'closed', 'discarded'] as const;

export interface DeliveryShare {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly runId: string | null;
  /** Null if it has a run of its own, which may start later, or if the delivery was refused. */
  readonly outcome: (typeof SHARE_OUTCOMES)[number] | null;
}

export const GATE_OUTCOMES = ['passed', 'failed', 'not evaluated', 'not configured'] as const;

/** The result of one gate for one delivery. */
export interface GateResult {
  readonly gate: string;
  readonly outcome: (typeof GATE_OUTCOMES)[number];
  readonly reason: Reason | null;
  readonly detail: string | null;
  /** The values that the gate found and compared; never a key nor a signature that would have been right. */
  readonly facts: JsonObject;
}

/** Prefixes of a record's detail that name the kind of delivery: the books count by them. */
export const DETAILS = {
  handshake: 'handshake ',
  discarded: 'held, and discarded by ',
  reconciled: 'reconciled from ',
  edited: 'redelivered with an edited body',
} as const;

/** Whether a person edited its body: then no publisher sent it, and no signature was verified over it. */
export const isEdited = ({ redeliveredFrom, detail }: Pick<DeliveryRecord, 'redeliveredFrom' | 'detail'>) =>
  redeliveredFrom !== undefined && detail?.startsWith(DETAILS.edited) === true;

/** What a digest covers, beside what else digests of the same trigger may cover under the same rule. */
export interface DigestCover {
  /** Names what it covers; digests that cover something else have another rule. */
  readonly rule: string;
  /** Hex SHA-256 of the body that the gates saw. */
  readonly bodySha256: string;
}

/** Scoped to flow and trigger; an untrusted delivery only joins other untrusted ones. */
export interface CoalesceClaim {
  readonly key: string;
  readonly isTrusted: boolean;
  /** How long the run waits after the newest delivery, and after the first. */
  readonly quietMs: number;
  readonly maxMs: number;
  /** The number of deliveries that starts it at once. */
  readonly collect: number;
}

/** The answer of a delivery to waiting steps, instead of starting a run. */
export interface SignalClaim {
  /** Key of the step in its graph, preceded by those of its loops. */
  readonly step: string;
  /** The key of the answered steps; undefined if the trigger could not determine it. */
  readonly key: string | undefined;
  /** The choice that the delivery names; a step with choices only accepts one of them. */
  readonly choice: string | undefined;
  /** JSON text: the output of the step. */
  readonly body: string;
  readonly deliveryId: string | null;
  readonly at: number;
}
