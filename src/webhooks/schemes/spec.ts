import type { Delivery } from '../../model/delivery.ts';
import type { KeyEncoding, SignatureAlgorithm, SignatureEncoding } from '../../model/manifest.ts';
import type { AcceptedResponse, Handshake } from './handshake.ts';

/**
 * How one publisher signs, as data. The verifier and the signer of `sluice send` both use it, so they cannot drift
 * apart. A publisher that data cannot describe is a `SignatureVerifier` instead.
 */
export interface SignatureSpec extends Conversation {
  /** Canonical spelling; matched in any case. */
  readonly name: string;
  /** Other names of the same scheme. */
  readonly aliases?: readonly string[] | undefined;
  /**
   * The first family whose signature header is present is read, and only its headers; the signer sends the first of
   * all. Empty if the body carries the signature.
   */
  readonly headers: readonly HeaderFamily[];
  /** Body fields that carry signatures, each a candidate. With one in each item of a list (`*`), all must be right. */
  readonly signatureFields?: readonly BodyField[] | undefined;
  readonly algorithm: SpecAlgorithm;
  readonly encoding: SignatureEncoding;
  /** The text in front of the digest; a value without it is malformed. */
  readonly prefix?: string | undefined;
  /** Whether a digest without the prefix is accepted too. */
  readonly isPrefixOptional?: boolean | undefined;
  /** Other algorithms that the publisher may choose, each recognised by its own prefix. */
  readonly alternatives?: readonly PrefixedAlgorithm[] | undefined;
  /** The text in front of the whole header line, such as "HMAC ". Compared in any case. */
  readonly headerValuePrefix?: string | undefined;
  /** A header of several segments, such as `t=1,v1=ab,v1=cd`. */
  readonly multiValue?: MultiValue | undefined;
  /** The asymmetric variant of the HMAC scheme, chosen by the prefix of the key. */
  readonly ed25519?: Ed25519Variant | undefined;
  /** The receiver makes up the key and enters it at the publisher; otherwise the publisher shows its own key. */
  readonly keyIsChosen?: true | undefined;
  /** Another form of the scheme, for keys that begin with this text. It has the same name. */
  readonly keyForm?: { readonly prefix: string; readonly spec: SignatureSpec } | undefined;
  /** Another form of the scheme, for deliveries that have the first header of its first family. */
  readonly requestForm?: SignatureSpec | undefined;
  /** The RSA algorithm, if a field of the body names it. */
  readonly algorithmField?: AlgorithmField | undefined;
  /** Where the public key comes from if the publisher names a certificate; the trigger's key is then a name. */
  readonly certificate?: CertificateSource | undefined;
  /**
   * What the signature covers: literal text and parts of the delivery, in order; empty if nothing is signed. For every
   * scheme, this list determines the signed bytes, and which boundaries between two parts could be moved.
   */
  readonly signs: readonly Part[];
  /** The publisher signs a body before compressing it, so the decoded content is judged. */
  readonly signsContent?: true | undefined;
  /**
   * The field that holds, as text, the document that a flow reads as its body; with a media type, only in bodies of
   * that type.
   */
  readonly document?:
    | { readonly path: readonly string[]; readonly mediaType?: string; readonly isBase64?: true }
    | undefined;
  /** Where to find the timestamp that the signature covers; absent if it covers none. */
  readonly timestamp?: TimestampSource | undefined;
  /** An absent signed timestamp is `timestamp_missing` even if the signed bytes could be built without it. */
  readonly requiresTimestamp?: boolean | undefined;
  /** The kind of event that a delivery reports. Only shown and searched. */
  readonly eventType?: PublisherValue | undefined;
  /** The publisher's id of the event, or else of the delivery; the delivery id of the headers by default. */
  readonly eventId?: PublisherValue | undefined;
  /**
   * Where and when we read that `eventId` names one event and is the same in each delivery of it. A second delivery
   * then starts no run, if the signature covers the id. Never for ids of objects, or of lists of events.
   */
  readonly eventIdSource?: string | undefined;
  /** `utf8` by default; a raw Ed25519 key is then in hex or base64. */
  readonly keyEncoding?: KeyEncoding | undefined;
  /** The key is `user:password`, and the token is its base64: HTTP's scheme Basic. */
  readonly isUserAndPassword?: true | undefined;
  /** What `sluice send` sends if it is given no body. */
  readonly sample?: SampleDelivery | undefined;
  /** Where and when these facts were read. */
  readonly source: string;
  /** Facts that neither the publisher's documentation nor its code was found to confirm. */
  readonly unconfirmed?: string | undefined;
}

/** The evidence for how a publisher signs: its own package does so, its own vector fits, its documentation, or none. */
export const CERTAINTIES = ['package', 'vector', 'documented', 'unconfirmed'] as const;
export type Certainty = (typeof CERTAINTIES)[number];

/** A scheme that comes with the service; each of its forms says by what its deliveries are found. */
export interface PublisherSpec extends SignatureSpec {
  /** The publisher's own name. */
  readonly title: string;
  readonly certainty: Certainty;
  readonly eventType: PublisherValue;
  readonly eventId: PublisherValue;
  readonly keyForm?: { readonly prefix: string; readonly spec: PublisherSpec } | undefined;
  readonly requestForm?: PublisherSpec | undefined;
}

/** The place of a publisher's value: the first present header, a path in the body, or why there is none. */
export type PublisherValue = FoundValue | { readonly none: string };

export type FoundValue =
  | { readonly headers: readonly string[] }
  /** With a media type, only in bodies of that type. */
  | { readonly path: readonly string[]; readonly mediaType?: string };

/** A delivery that a publisher would really send. */
export interface SampleDelivery {
  readonly body: string;
  readonly contentType: string;
  /** Headers in addition to those of the signature. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

export function jsonSample(value: object, headers?: SampleDelivery['headers']): SampleDelivery {
  return { body: JSON.stringify(value), contentType: 'application/json', headers };
}

/**
 * The hash of an HMAC; or a signature that the publisher's public key verifies; or `token`, the key itself, sent as it
 * is, which proves nothing about the delivery.
 */
export type SpecAlgorithm = SignatureAlgorithm | 'ed25519' | 'ecdsaP256' | RsaAlgorithm | 'token';

type RsaAlgorithm = 'rsaSha256' | 'rsaSha1';

interface AlgorithmField {
  readonly field: BodyField;
  readonly algorithms: Readonly<Record<string, RsaAlgorithm>>;
}

/**
 * A certificate that the delivery names by a URL. Only the patterns keep senders from naming their own certificate, so
 * they describe the whole host and the whole path, and no query, port or user is accepted.
 */
export interface CertificateSource {
  readonly url: { readonly header: string } | { readonly field: BodyField };
  readonly host: RegExp;
  readonly path: RegExp;
  /** The required common name of the certificate; any if absent. */
  readonly commonName?: RegExp | undefined;
  /** The publisher's certificates for tests, which count only for triggers with `webhookSandbox`. */
  readonly sandbox?: Pick<CertificateSource, 'host' | 'commonName'> | undefined;
  /** What the trigger's key names, in words, such as "the ARN of a topic". */
  readonly keyIs: string;
  /** The form of that name. */
  readonly keyForm: RegExp;
}

/** What a scheme answers to its publisher other than the usual acceptance. */
export interface Conversation {
  readonly handshakes?: readonly Handshake[] | undefined;
  /** The answer that the publisher expects when a delivery was accepted. */
  readonly acceptedResponse?: AcceptedResponse | undefined;
}

/** Names of headers that belong together, in the publisher's spelling. */
export interface HeaderFamily {
  readonly signature: string;
  /** Further headers that carry signatures made with other keys; each is a candidate. */
  readonly furtherSignatures?: readonly string[] | undefined;
  readonly timestamp?: string | undefined;
  readonly deliveryId?: string | undefined;
}

interface PrefixedAlgorithm {
  readonly algorithm: SpecAlgorithm;
  readonly prefix: string;
}

export interface MultiValue {
  /** The text between segments, as the publisher writes it. */
  readonly delimiter: string;
  /** The text between a segment's key and value. Absent if segments have no keys: then places, from 0, are the keys. */
  readonly keyValueSeparator?: string | undefined;
  /** The text between several lists of segments, which must not have different timestamps. */
  readonly setDelimiter?: string | undefined;
  /** Keys of segments that carry signatures; the signer sends the first. */
  readonly valueKeys: readonly string[];
  /** Whether every matching segment is a candidate, or only the first. Without keys, all after the last place match. */
  readonly acceptsMultiple: boolean;
  /** Whether values are in quotation marks. */
  readonly isQuoted?: boolean | undefined;
  /** Whether spaces around delimiter, keys and values are ignored. */
  readonly isTrimmed?: boolean | undefined;
}

interface Ed25519Variant {
  /** The key of segments that carry Ed25519 signatures. */
  readonly valueKey: string;
  /** The text in front of the base64 of the raw 32-byte public key. */
  readonly publicKeyPrefix: string;
  /** The text in front of the base64 of the 32-byte seed, or of seed and public key, for signing. */
  readonly privateKeyPrefix: string;
}

export type Part = string | DeliveryPart;

export type DeliveryPart =
  /**
   * `path` is the URL's path without its query, `target` with it, and `host` the URL's host without its port.
   * `checksum` is the body's CRC-32, in decimal. `keyName` is what the trigger's key names if the publisher has
   * certificates.
   */
  | {
      readonly part:
        | 'timestamp'
        | 'deliveryId'
        | 'method'
        | 'path'
        | 'target'
        | 'host'
        | 'sortedForm'
        | 'checksum'
        | 'keyName';
    }
  /** The SHA-256 of the body, in hex or in base64. */
  | { readonly part: 'bodyHash'; readonly encoding?: 'base64' }
  | NamedPart
  | ListedPart
  | BodyPart
  | UrlPart
  | FieldPart
  | BuiltPart;

/** A header, as it was on the wire, or a decoded parameter of the query; each must be present exactly once. */
export interface NamedPart {
  readonly part: 'header' | 'query';
  /** In lower case for a header. */
  readonly name: string;
  /** Number of characters; any other length is malformed. */
  readonly length?: number | undefined;
}

/** The headers that another header lists, sorted, as `name:value` with semicolons between them. */
export interface ListedPart {
  readonly part: 'headers';
  /** Name of the header with the list, in lower case. */
  readonly name: string;
  /** Headers that every list must name, including the list itself, in lower case. */
  readonly must: readonly string[];
}

interface BodyPart {
  readonly part: 'body';
  /** Whether the body must begin like a JSON object, so that it can never be what another form of the scheme signs. */
  readonly isJsonObject?: boolean | undefined;
  /**
   * Whether the publisher signs pure ASCII JSON that may be rewritten on the way. It is then verified as sent, and with
   * the escapes of PHP's json_encode.
   */
  readonly hasEscapedForm?: boolean | undefined;
}

export interface UrlPart {
  readonly part: 'url';
  /** Percent-encoded characters that the publisher decodes before it signs. */
  readonly decoded?: string | undefined;
  /** Whether the publisher may have signed its URL with or without the port. */
  readonly hasPortVariants?: boolean | undefined;
}

/** A text, whole number or boolean in the body. */
export interface FieldPart {
  readonly part: 'field';
  readonly field: BodyField;
  /** A new text for each delivery: the signer writes it into the body. */
  readonly isToken?: boolean | undefined;
  /** Absent or null counts as empty. A line is then left out; as only its name shows that, it must be among lines. */
  readonly isOptional?: boolean | undefined;
  /** May contain the text that separates parts; the parts around it determine where it begins and ends. */
  readonly isFree?: boolean | undefined;
  /** Signed as two lines, its name and its value. */
  readonly isLine?: boolean | undefined;
  /** Must be what the trigger's key names. */
  readonly isKeyName?: boolean | undefined;
  /** The pattern that the text must match. */
  readonly form?: RegExp | undefined;
}

/** Bytes that an operator's code builds; `build` is filled in by name when the scheme is registered. */
export interface BuiltPart {
  readonly part: 'built';
  readonly name: string;
  readonly build?: PayloadBuilder | undefined;
}

/**
 * Builds the bytes that a signature covers, for strategy Custom. They must include the given timestamp, because it
 * decides the age of the delivery, and everything that must not be changed, because their hash distinguishes the
 * delivery from a replay. Called again if a boundary could be ambiguous, so it must yield the same bytes each time.
 */
export type PayloadBuilder = (context: {
  readonly delivery: Delivery;
  readonly timestamp: string | undefined;
  readonly publicUrl: string;
}) => Uint8Array;

/** A text or number in the body: of a JSON object by its path, of a form by the field's name. */
export interface BodyField {
  /** `0` is the item of an array that has exactly one item. */
  readonly path: readonly string[];
  readonly formField?: string | undefined;
  /** Number of characters; any other length is malformed. */
  readonly length?: number | undefined;
  /** Whether the signer writes it into JSON as a number; readers accept both. */
  readonly isNumber?: boolean | undefined;
}

export type TimestampSource = {
  /**
   * As the publisher sends it: milliseconds or seconds since the Unix epoch, an RFC 3339 time in UTC or with any
   * offset, or the date of an HTTP header.
   */
  readonly unit: 'seconds' | 'milliseconds' | 'detect' | 'rfc3339' | 'rfc3339Offset' | 'httpDate';
  /** Number of characters; any other length is malformed. */
  readonly length?: number | undefined;
} & (
  | {
      /** The timestamp header of the family that carries the signature. */
      readonly in: 'header';
    }
  | {
      /** The value of this key in the multi-value signature header. */
      readonly in: 'signature';
      readonly valueKey: string;
    }
  | { readonly in: 'body'; readonly field: BodyField }
);

/** Short names of parts, so that lists read like the signed text: `['v0:', part.timestamp, ':', part.body]`. */
export const part = {
  body: { part: 'body' },
  timestamp: { part: 'timestamp' },
  deliveryId: { part: 'deliveryId' },
  method: { part: 'method' },
  url: { part: 'url' },
  path: { part: 'path' },
  target: { part: 'target' },
  host: { part: 'host' },
  sortedForm: { part: 'sortedForm' },
  bodyHash: { part: 'bodyHash' },
  bodyHashBase64: { part: 'bodyHash', encoding: 'base64' },
  checksum: { part: 'checksum' },
  keyName: { part: 'keyName' },
  header: (name: string): NamedPart => ({ part: 'header', name }),
  query: (name: string): NamedPart => ({ part: 'query', name }),
  headers: (name: string, ...others: readonly string[]): ListedPart => ({
    part: 'headers',
    name,
    must: [name, ...others],
  }),
  field: (path: readonly string[], options: Omit<FieldPart, 'part' | 'field'> = {}): FieldPart => ({
    part: 'field',
    field: { path },
    ...options,
  }),
  token: (field: BodyField): FieldPart => ({ part: 'field', field, isToken: true }),
} as const;

/** The input of a verifier. The keys are the trigger's, configured or learned; both can be absent. */
export interface VerificationRequest {
  readonly delivery: Delivery;
  readonly keys: { readonly current: string | undefined; readonly previous: string | undefined };
  /** The URL that the publisher signed, if it signs one; absolute. */
  readonly publicUrl: string;
  /** Aborts when the verifier's time is up: after 5 s the delivery is refused with `verifier_error`. */
  readonly signal: AbortSignal;
}

/** What distinguishes a delivery from a replay. */
interface VerifiedParts {
  readonly signedTimestampMs?: number;
  /**
   * The exact bytes that the signature covers. Without them, the raw body and `signedTimestampMs` count as covered; a
   * verifier that covers less, or a rewritten body, must give them.
   */
  readonly signedBytes?: Uint8Array;
}

export type VerificationResult =
  | ({ readonly outcome: 'verified' } & VerifiedParts)
  | ({ readonly outcome: 'verifiedWithPreviousKey' } & VerifiedParts)
  /** `reason` is for people and kept in the delivery's detail; the delivery counts as `signature_mismatch`. */
  | { readonly outcome: 'refused'; readonly reason: string };

/** A scheme as code of the operator; it may be asymmetric, remote, read the query string, or need no key. */
export interface SignatureVerifier extends Conversation {
  readonly name: string;
  /**
   * Names of the headers that it reads, so that delivery records keep them and a delivery can be judged again. Without
   * this, an old delivery lacks every header that may contain a credential.
   */
  readonly headers?: readonly string[] | undefined;
  verify(request: VerificationRequest): VerificationResult | Promise<VerificationResult>;
}

export const GRADES = ['A', 'B', 'C', 'D', 'E', 'F'] as const;
export type Grade = (typeof GRADES)[number];

/** What someone who captured one delivery can do with it, if the trigger uses everything that is signed. */
export const CAPTURED: Readonly<Record<Grade, string>> = {
  A: 'Body, timestamp and id are signed: with a tolerance a captured delivery cannot be used again, and a retry of the publisher is recognised by its id.',
  B: 'Body and timestamp are signed: with a tolerance a captured delivery cannot be used again.',
  C: 'Body and id are signed: a captured delivery passes again once its nonce is no longer kept.',
  D: 'Only the body is signed: a captured delivery passes again under another id or, without a nonce header, once its nonce is no longer kept.',
  E: 'Not all of the body is signed, or none of it: the first to send a captured signature chooses the rest. It passes once, because its nonce is kept; without a signed timestamp it passes again after the nonce has expired.',
  F: 'Nothing is signed: without a token anyone can send anything; with a token, anyone who captured a delivery can.',
};
