import type { Delivery } from '../../model/delivery.ts';
import type { SignatureAlgorithm, SignatureEncoding, SignedPayloadStrategy } from '../../model/manifest.ts';

/**
 * How one publisher signs, as data. The verifier reads it one way and the signer of `sluice send` the other, so the two
 * cannot drift apart. A publisher whose form data cannot say is a `SignatureVerifier` instead.
 */
export interface SignatureSpec {
  /** Canonical spelling; matched in any case. */
  readonly name: string;
  /** Headers that may carry the signature, first one found wins; the first is what the signer sends. */
  readonly headers: readonly string[];
  readonly algorithm: SignatureAlgorithm;
  readonly encoding: SignatureEncoding;
  /** In front of the digest; a value without it is malformed. */
  readonly prefix?: string | undefined;
  /** Whether a digest without the prefix is accepted too. */
  readonly isPrefixOptional?: boolean | undefined;
  /** In front of the whole header line, such as "HMAC ". Compared in any case. */
  readonly headerValuePrefix?: string | undefined;
  /** A header of several segments, such as `t=1,v1=ab,v1=cd`. */
  readonly multiValue?: MultiValue | undefined;
  readonly payload: PayloadLayout;
  /** Where the timestamp stands that the signature covers. */
  readonly timestamp?: TimestampSource | undefined;
  /** A signed timestamp that is absent is `timestamp_missing` even without a tolerance. */
  readonly requiresTimestamp?: boolean | undefined;
  readonly keyEncoding?: KeyEncoding | undefined;
  /** Header of the publisher's delivery id, for the docs and the signer. */
  readonly deliveryIdHeader?: string | undefined;
  /** Where these facts were read, and when. */
  readonly source: string;
}

/** UTF-8 text as it is; base64; base64 behind an optional `whsec_`. */
export type KeyEncoding = 'utf8' | 'base64' | 'whsec';

export interface MultiValue {
  /** Between segments. */
  readonly delimiter: string;
  /** Between a segment's key and its value. */
  readonly keyValueSeparator: string;
  /** Keys of segments that carry signatures. */
  readonly valueKeys: readonly string[];
  /** Whether every matching segment is a candidate, or only the first. */
  readonly acceptsMultiple: boolean;
}

export interface PayloadLayout {
  readonly strategy: SignedPayloadStrategy;
  /** Between version, timestamp and body; the strategy's own where absent. */
  readonly delimiter?: string | undefined;
  /** The version literal of ColonDelimited. */
  readonly version?: string | undefined;
  /** The registered byte builder of strategy Custom. */
  readonly customName?: string | undefined;
}

export type TimestampSource = {
  /** Milliseconds or seconds since the Unix epoch, as the publisher sends. */
  readonly unit: 'seconds' | 'milliseconds' | 'detect';
} & (
  | { readonly in: 'header'; readonly header: string }
  /** The value of this key in the multi-value signature header. */
  | { readonly in: 'signature'; readonly valueKey: string }
  /** Path of property names in the JSON body. */
  | { readonly in: 'body'; readonly path: readonly string[] }
);

/** What a verifier is asked with. Keys are the trigger's, as configured; either may be absent. */
export interface VerificationRequest {
  readonly delivery: Delivery;
  readonly keys: { readonly current: string | undefined; readonly previous: string | undefined };
  /** The URL that the publisher signed, where it signs one; absolute. */
  readonly publicUrl: string;
}

export type VerificationResult =
  | { readonly outcome: 'verified'; readonly signedTimestampMs?: number }
  | { readonly outcome: 'verifiedWithPreviousKey'; readonly signedTimestampMs?: number }
  /** `reason` is for people and is kept in the delivery's detail; it counts as `signature_mismatch`. */
  | { readonly outcome: 'refused'; readonly reason: string };

/** A scheme as code: an operator's own, may be asymmetric, remote, read the query string, or need no key. */
export interface SignatureVerifier {
  readonly name: string;
  verify(request: VerificationRequest): VerificationResult | Promise<VerificationResult>;
}

/** Builds the bytes that a signature covers, for strategy Custom. */
export type PayloadBuilder = (context: {
  readonly delivery: Delivery;
  readonly timestamp: string | undefined;
  readonly publicUrl: string;
}) => Uint8Array;
