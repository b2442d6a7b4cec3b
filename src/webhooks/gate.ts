import type { WebhookTrigger } from '../manifest/webhook-inputs.ts';
import type { Clock } from '../model/clock.ts';
import type { Delivery, DigestCover, Reason } from '../model/delivery.ts';
import type { JsonObject } from '../model/json.ts';
import type { NameKey } from './key-names.ts';

// Gates and schemes import these types from here: the model is the only other room that they know.
export type { WebhookInputs, WebhookTrigger } from '../manifest/webhook-inputs.ts';

/** One check of a delivery, prepared once per trigger and revision, then only run. It judges and changes nothing. */
export interface Gate {
  readonly name: string;
  /** A sender can make its work costly, so in every mode it is skipped after an earlier gate refused the delivery. */
  readonly isExpensive?: boolean | undefined;
  /**
   * `evidence` holds the findings of earlier gates. If a gate throws, or an operator's gate does not answer in time,
   * the delivery fails with `verifier_error`.
   */
  check(delivery: Delivery, evidence: Evidence): Verdict | Promise<Verdict>;
  /** Gives the same verdict without using anything up; absent if `check` uses nothing up either. */
  dryRun?(delivery: Delivery, evidence: Evidence): Verdict | Promise<Verdict>;
  /**
   * Judges a delivery that was fetched from the publisher's own log; absent if `check` does that. 'not asked': the
   * gate is skipped, because it judges by sender or by rate.
   */
  readonly whenFetched?: Gate['check'] | 'not asked' | undefined;
}

/** Makes the gate of a trigger; nothing if the trigger does not configure it, so that it is not in the chain at all. */
export interface GatePlugin<Settings> {
  readonly name: string;
  /** Throws `GateConfigurationError` if the trigger's fields make no sense. */
  prepare(trigger: WebhookTrigger, settings: Settings): Gate | undefined;
}

/** What one gate said about one delivery. */
export type Verdict = Passed | Failed;

export interface Passed {
  readonly passed: true;
  readonly evidence?: Evidence;
}

export interface Failed {
  readonly passed: false;
  readonly reason: Reason;
  /** For people to read; never a secret or the signature that would have been right. */
  readonly detail?: string;
  readonly evidence?: Evidence;
}

/** Findings of gates that later gates, the acceptance and the record need. Each gate adds its own fields. */
export interface Evidence {
  /** Name of the scheme that the signature gate used. */
  readonly scheme?: string;
  readonly usedPreviousKey?: boolean;
  /** If one of the further keys in force verified: its index, from 0. */
  readonly otherKey?: number;
  /** Whether the signature was verified. */
  readonly isVerified?: boolean;
  /** Whether there are more signatures than the verified one, which other keys may verify. */
  readonly isOneOfSeveral?: boolean;
  /** The timestamp that the scheme signs; absent if the scheme signs none or the delivery has none. */
  readonly signedTimestamp?: SignedTimestamp;
  /**
   * Hex SHA-256 of the bytes that a signature was verified over; absent if these are the raw body between fixed
   * boundaries. Only these bytes then tell a delivery from a replay: URL, form or body can be written in another way.
   */
  readonly signedBytesSha256?: string;
  /**
   * If the scheme has several header families: the values of the family that verified, by the lower-case names that
   * any family has for them. The headers of the other families were never verified.
   */
  readonly verifiedHeaders?: ReadonlyMap<string, string>;
  /** The header for both signature and timestamp is absent, which counts as one failure. */
  readonly lacksTimestampWithSignature?: true;
  readonly replaySkewMs?: number;
  readonly retryAfterMs?: number;
  readonly nonce?: NonceEvidence;
  /** Why earlier gates refused the delivery; a gate need not report the same reason again. */
  readonly refusedFor?: readonly Reason[];
  /** Findings of single gates, by gate name; shown with their results. */
  readonly facts?: Readonly<Record<string, JsonObject>>;
}

export interface SignedTimestamp {
  /** Exactly as sent. */
  readonly text: string;
  /** Milliseconds since the Unix epoch; NaN if the text is not a number. */
  readonly ms: number;
}

export interface NonceEvidence {
  /** Lower-case name of the header that holds the value; '' if the value is the digest. */
  readonly header: string;
  readonly value: string;
  /** Hex SHA-256 of the signed bytes, even if a header is named. */
  readonly digest: string;
  /** What digests of the trigger cover; absent if this one is made for the delivery. */
  readonly covers?: DigestCover | undefined;
  /** How long the nonce is kept, from the arrival on. */
  readonly lifeMs: number;
}

/** What every gate may use in addition to its trigger: the global defaults and the clock. */
export interface GateSettings {
  readonly clock: Clock;
  readonly replayToleranceSeconds: number;
  readonly nonceTtlSeconds: number;
  readonly rateLimitPermitsPerSecond?: number | undefined;
  readonly rateLimitBurstSize?: number | undefined;
  readonly rateLimitPerIp?: boolean | undefined;
  /** How many replicas receive the deliveries of a flow; the number changes. One by default. */
  readonly cluster?: { readonly replicas: number } | undefined;
  readonly allowLegacySha1: boolean;
  /** Largest body, and largest decoded content; absent in a command that only reads manifests. */
  readonly maxBodyBytes?: number | undefined;
  /** How client addresses are found behind proxies. */
  readonly trustedProxies?: readonly string[] | undefined;
  readonly forwardedHeaderDepth?: number | undefined;
  /** How long an operator's verifier or gate may take; 5 s by default. */
  readonly verifierTimeLimitMs?: number | undefined;
  /** Absolute base URL that publishers call. */
  readonly publicUrl?: string | undefined;
  /** Absent if no keys are learned, as in a command that only reads manifests. */
  readonly learnedKeys?: LearnedKeys | undefined;
  /** Names keys in the figures about them. Absent if nothing is counted. */
  readonly nameKey?: NameKey | undefined;
  /** Whether learned keys are stored sealed. */
  readonly sealsLearnedKeys?: boolean | undefined;
}

/** Keys that publishers handed over in a handshake. They can change at any time, so a gate asks for each delivery. */
export interface LearnedKeys {
  find(owner: KeyOwner): string | undefined;
  /** Whether a key is stored that this process cannot read. */
  isUnreadable(owner: KeyOwner): boolean;
  /** Resolves when a key is durable; true if it is this one. The first key stays. */
  learn(owner: KeyOwner, key: string): Promise<boolean>;
  forget(owner: KeyOwner): Promise<boolean>;
}

/** A trigger, and the scheme that the key is for. */
export interface KeyOwner {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly scheme: string;
}

/**
 * An unusable field of a webhook trigger, or the trigger as a whole if no field is to blame. The loader adds the file
 * and the JSON path.
 */
export class GateConfigurationError extends Error {
  readonly field: string | undefined;
  constructor(field: string | undefined, message: string) {
    super(message);
    this.name = 'GateConfigurationError';
    this.field = field;
  }
}
