import type { WebhookTrigger } from '../manifest/webhook-inputs.ts';
import type { Clock } from '../model/clock.ts';
import type { Delivery, Reason } from '../model/delivery.ts';
import type { JsonObject } from '../model/json.ts';
import type { NameKey } from './key-names.ts';

// A gate or scheme takes these from here: it knows no other room but the model.
export type { WebhookInputs, WebhookTrigger } from '../manifest/webhook-inputs.ts';

/** One check of a delivery, prepared once per trigger and revision, then only run. It judges and changes nothing. */
export interface Gate {
  readonly name: string;
  /** It does work that a sender can make dear: it is not asked about what a gate before it has refused, in any mode. */
  readonly isExpensive?: boolean | undefined;
  /**
   * `evidence` is what the gates before it found. A gate that throws, or that of an operator's gives no answer in time,
   * fails the delivery with `verifier_error`.
   */
  check(delivery: Delivery, evidence: Evidence): Verdict | Promise<Verdict>;
  /** The same verdict without using anything up; absent where `check` uses nothing up either. */
  dryRun?(delivery: Delivery, evidence: Evidence): Verdict | Promise<Verdict>;
  /**
   * The verdict on a delivery that was fetched from the publisher's own log; absent where it is that of `check`. 'not asked'
   * where the gate judges by who sends, or how often.
   */
  readonly whenFetched?: Gate['check'] | 'not asked' | undefined;
}

/** Makes the gate of a trigger, or nothing where the trigger does not configure it: then it is not in the chain at all. */
export interface GatePlugin<Settings> {
  readonly name: string;
  /** Throws `GateConfigurationError` where the trigger's fields make no sense. */
  prepare(trigger: WebhookTrigger, settings: Settings): Gate | undefined;
}

/** What one gate said about one delivery. */
export type Verdict = Passed | Failed;

interface Passed {
  readonly passed: true;
  readonly evidence?: Evidence;
}

export interface Failed {
  readonly passed: false;
  readonly reason: Reason;
  /** For a person; never a secret nor the signature that would have been right. */
  readonly detail?: string;
  readonly evidence?: Evidence;
}

/** What gates find on their way and later gates, the acceptance and the record need. Each gate adds its own fields. */
export interface Evidence {
  /** Name of the scheme that the signature gate used. */
  readonly scheme?: string;
  readonly usedPreviousKey?: boolean;
  /** Of several keys in force: which of the others verified it, from 0. */
  readonly otherKey?: number;
  /** Whether the signature was verified. */
  readonly isVerified?: boolean;
  /** The timestamp that the scheme signs, milliseconds; absent where the scheme signs none or it is not there. */
  readonly signedTimestamp?: SignedTimestamp;
  /**
   * Hex SHA-256 of the bytes that a signature was verified over, where these are not the raw body between boundaries that
   * nothing can move. Then only they tell a delivery from a replay: URL, form or body may be written in another way.
   */
  readonly signedBytesSha256?: string;
  /**
   * Of a verified delivery whose scheme has several header families: the values in the family that verified, by the
   * lower-case names that any family has for them. The headers of the other families were never verified.
   */
  readonly verifiedHeaders?: ReadonlyMap<string, string>;
  /** The header that would hold both the signature and the timestamp is absent, which is one failure. */
  readonly lacksTimestampWithSignature?: true;
  readonly replaySkewMs?: number;
  readonly retryAfterMs?: number;
  readonly nonce?: NonceEvidence;
  /** Why gates before refused the delivery: who finds the same need not tell it again. */
  readonly refusedFor?: readonly Reason[];
  /** What single gates found, by the gate's name: shown with their results. */
  readonly facts?: Readonly<Record<string, JsonObject>>;
}

export interface SignedTimestamp {
  /** Exactly as sent. */
  readonly text: string;
  /** Milliseconds since the Unix epoch; NaN where the text is not a number. */
  readonly ms: number;
}

export interface NonceEvidence {
  /** Lower-case name of the header that the value is of; '' where the value is the digest. */
  readonly header: string;
  readonly value: string;
  /** Hex SHA-256 of the signed bytes, whatever header is named. */
  readonly digest: string;
  /** Whether the digest is that of the body as it came, and of nothing else. */
  readonly isOfBody: boolean;
  /** How long it is kept from the arrival on. */
  readonly lifeMs: number;
}

/** What every gate may know besides its trigger: the global defaults and the clock. */
export interface GateSettings {
  readonly clock: Clock;
  readonly replayToleranceSeconds: number;
  readonly nonceTtlSeconds: number;
  readonly rateLimitPermitsPerSecond?: number | undefined;
  readonly rateLimitBurstSize?: number | undefined;
  readonly rateLimitPerIp?: boolean | undefined;
  /** How many replicas receive the deliveries of a flow; it changes. One where not given. */
  readonly cluster?: { readonly replicas: number } | undefined;
  readonly allowLegacySha1: boolean;
  /** Largest body, and largest content of one; absent in a command that only reads manifests. */
  readonly maxBodyBytes?: number | undefined;
  /** How the address of a client is found behind proxies. */
  readonly trustedProxies?: readonly string[] | undefined;
  readonly forwardedHeaderDepth?: number | undefined;
  /** How long an operator's verifier or gate may take; 5 s where not given. */
  readonly verifierTimeLimitMs?: number | undefined;
  /** Absolute base URL that publishers call. */
  readonly publicUrl?: string | undefined;
  /** Absent where none is learnt, as in a command that only reads manifests. */
  readonly learnedKeys?: LearnedKeys | undefined;
  /** Names keys in the figures about them. Absent where nothing is counted. */
  readonly nameKey?: NameKey | undefined;
  /** Whether learned keys are sealed where they are kept. */
  readonly sealsLearnedKeys?: boolean | undefined;
}

/** Keys that publishers handed over in a handshake. They may change at any time: a gate asks for each delivery. */
export interface LearnedKeys {
  find(owner: KeyOwner): string | undefined;
  /** Whether there is a key that cannot be read here. */
  isUnreadable(owner: KeyOwner): boolean;
  /** Resolves when the key is durable, with whether it is the one that is kept: the first one stays. */
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
 * A field of a webhook trigger that no gate can work with, or the trigger as a whole where no field is to blame. The loader
 * adds the file and the JSON path.
 */
export class GateConfigurationError extends Error {
  readonly field: string | undefined;
  constructor(field: string | undefined, message: string) {
    super(message);
    this.name = 'GateConfigurationError';
    this.field = field;
  }
}
