import type { Delivery } from '../../model/delivery.ts';
import type { KeyEncoding, SignatureAlgorithm, SignatureEncoding } from '../../model/manifest.ts';
import type { AcceptedResponse, Handshake } from './handshake.ts';

/**
 * How one publisher signs, as data. The verifier reads it one way and the signer of `sluice send` the other, so the two
 * cannot drift apart. A publisher whose form data cannot say is a `SignatureVerifier` instead.
 */
export interface SignatureSpec extends Conversation {
  /** Canonical spelling; matched in any case. */
  readonly name: string;
  /** Other names of the same scheme. */
  readonly aliases?: readonly string[] | undefined;
  /**
   * The first family whose signature header is there is read, and only its headers; the first of all is what the signer
   * sends. Empty where the body carries the signature.
   */
  readonly headers: readonly HeaderFamily[];
  /** Fields of the body that carry signatures, each a candidate; of one in each item of a list (`*`) every one has to be right. */
  readonly signatureFields?: readonly BodyField[] | undefined;
  readonly algorithm: SpecAlgorithm;
  readonly encoding: SignatureEncoding;
  /** In front of the digest; a value without it is malformed. */
  readonly prefix?: string | undefined;
  /** Whether a digest without the prefix is accepted too. */
  readonly isPrefixOptional?: boolean | undefined;
  /** Other algorithms that the publisher may choose, each told by its own prefix. */
  readonly alternatives?: readonly PrefixedAlgorithm[] | undefined;
  /** In front of the whole header line, such as "HMAC ". Compared in any case. */
  readonly headerValuePrefix?: string | undefined;
  /** A header of several segments, such as `t=1,v1=ab,v1=cd`. */
  readonly multiValue?: MultiValue | undefined;
  /** The asymmetric variant of the HMAC scheme, chosen by the prefix of the key. */
  readonly ed25519?: Ed25519Variant | undefined;
  /** Whoever receives makes the key up and enters it at the publisher; else the publisher shows its own. */
  readonly keyIsChosen?: true | undefined;
  /** Another form of the scheme, for keys that begin with this text. It has the same name. */
  readonly keyForm?: { readonly prefix: string; readonly spec: SignatureSpec } | undefined;
  /** Another form of the scheme, for deliveries that have the first header of its first family. */
  readonly requestForm?: SignatureSpec | undefined;
  /** Which of the RSA signatures it is, where the body says so. */
  readonly algorithmField?: AlgorithmField | undefined;
  /** Where the public key comes from if the publisher names a certificate; the trigger's key is then a name. */
  readonly certificate?: CertificateSource | undefined;
  /**
   * What the signature covers: literal text and parts of the delivery, one after the other; empty if nothing is signed. The signed
   * bytes, and which boundary between two parts could be moved, come from this list for every scheme alike.
   */
  readonly signs: readonly Part[];
  /** The publisher signs a body before it compresses it, so that what is judged is the content. */
  readonly signsContent?: true | undefined;
  /**
   * The field that holds the document which a flow reads as its body, as text; of bodies of that media type alone, where it names one.
   */
  readonly document?:
    | { readonly path: readonly string[]; readonly mediaType?: string; readonly isBase64?: true }
    | undefined;
  /** Where the timestamp is that the signature covers; absent where it covers none. */
  readonly timestamp?: TimestampSource | undefined;
  /** A signed timestamp that is absent is `timestamp_missing` even where the signed bytes could be built without it. */
  readonly requiresTimestamp?: boolean | undefined;
  /** What kind of event a delivery tells of. Only shown and searched. */
  readonly eventType?: PublisherValue | undefined;
  /** What the publisher calls the event, or else the delivery; the delivery id of the headers where not given. */
  readonly eventId?: PublisherValue | undefined;
  /**
   * Where the publisher says that `eventId` names one event and is the same in each delivery of it, and when that was read.
   * A second delivery then starts no run, if the signature covers the id. Never for ids of objects, or of lists of events.
   */
  readonly eventIdSource?: string | undefined;
  /** `utf8` where not given; a raw Ed25519 key is then in hex or base64. */
  readonly keyEncoding?: KeyEncoding | undefined;
  /** The key is `user:password`, of which a token is the base64: HTTP's scheme Basic. */
  readonly isUserAndPassword?: true | undefined;
  /** What `sluice send` sends where it is given no body. */
  readonly sample?: SampleDelivery | undefined;
  /** Where these facts were read, and when. */
  readonly source: string;
  /** Which of them neither the publisher's documentation nor its code was found to confirm. */
  readonly unconfirmed?: string | undefined;
}

/** How it is known that a publisher signs so: its own package signs, a vector of its own fits, its documentation says it, or none of these. */
export const CERTAINTIES = ['package', 'vector', 'documented', 'unconfirmed'] as const;
export type Certainty = (typeof CERTAINTIES)[number];

/** A scheme that comes with the service: each of its forms says what its deliveries are found by. */
export interface PublisherSpec extends SignatureSpec {
  /** What the publisher calls itself. */
  readonly title: string;
  readonly certainty: Certainty;
  readonly eventType: PublisherValue;
  readonly eventId: PublisherValue;
  readonly keyForm?: { readonly prefix: string; readonly spec: PublisherSpec } | undefined;
  readonly requestForm?: PublisherSpec | undefined;
}

/** Where a publisher says something: in the first of the headers that is there, in the body by its path, or why nowhere. */
export type PublisherValue = FoundValue | { readonly none: string };

export type FoundValue =
  | { readonly headers: readonly string[] }
  /** With a media type, of bodies of that type alone. */
  | { readonly path: readonly string[]; readonly mediaType?: string };

/** Something that a publisher would really send. */
export interface SampleDelivery {
  readonly body: string;
  readonly contentType: string;
  /** What goes with the headers of the signature. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

export function jsonSample(value: object, headers?: SampleDelivery['headers']): SampleDelivery {
  return { body: JSON.stringify(value), contentType: 'application/json', headers };
}

/**
 * A hash of an HMAC; a signature that the publisher's public key verifies; or `token`, the key itself, sent as it is: it
 * proves nothing of the delivery.
 */
export type SpecAlgorithm = SignatureAlgorithm | 'ed25519' | 'ecdsaP256' | RsaAlgorithm | 'token';

type RsaAlgorithm = 'rsaSha256' | 'rsaSha1';

interface AlgorithmField {
  readonly field: BodyField;
  readonly algorithms: Readonly<Record<string, RsaAlgorithm>>;
}

/**
 * A certificate that the delivery names by a URL. The patterns are all that keeps a sender from naming one of his own, so they
 * describe the whole host and the whole path, and no query, port or user is accepted.
 */
export interface CertificateSource {
  readonly url: { readonly header: string } | { readonly field: BodyField };
  readonly host: RegExp;
  readonly path: RegExp;
  /** What the common name of the certificate has to be; any where absent. */
  readonly commonName?: RegExp | undefined;
  /** Where the publisher has certificates for tests, which count only for triggers with `webhookSandbox`. */
  readonly sandbox?: Pick<CertificateSource, 'host' | 'commonName'> | undefined;
  /** What the trigger's key names, for a person, such as "the ARN of a topic". */
  readonly keyIs: string;
  /** The form of such a name. */
  readonly keyForm: RegExp;
}

/** What a scheme says to its publisher other than "accepted". */
export interface Conversation {
  readonly handshakes?: readonly Handshake[] | undefined;
  /** What the publisher wants to read when a delivery was accepted. */
  readonly acceptedResponse?: AcceptedResponse | undefined;
}

/** Names of headers that belong together, in the publisher's spelling. */
export interface HeaderFamily {
  readonly signature: string;
  /** Further headers that carry a signature, by other keys; each is a candidate. */
  readonly furtherSignatures?: readonly string[] | undefined;
  readonly timestamp?: string | undefined;
  readonly deliveryId?: string | undefined;
}

interface PrefixedAlgorithm {
  readonly algorithm: SpecAlgorithm;
  readonly prefix: string;
}

export interface MultiValue {
  /** Between segments, as the publisher writes it. */
  readonly delimiter: string;
  /** Between a segment's key and its value. Absent where segments have no keys: then their places, from 0 on, are what they are called. */
  readonly keyValueSeparator?: string | undefined;
  /** Between lists of such segments, where several may come; those with another timestamp than the first do not count. */
  readonly setDelimiter?: string | undefined;
  /** Keys of segments that carry signatures; the first is what the signer sends. */
  readonly valueKeys: readonly string[];
  /** Whether every matching segment is a candidate, or only the first. Of segments without keys all behind the last place are. */
  readonly acceptsMultiple: boolean;
  /** Whether values are in quotation marks. */
  readonly isQuoted?: boolean | undefined;
  /** Whether spaces around delimiter, keys and values do not count. */
  readonly isTrimmed?: boolean | undefined;
}

interface Ed25519Variant {
  /** Key of the segments that carry these signatures. */
  readonly valueKey: string;
  /** In front of the base64 of the raw 32 bytes that verify. */
  readonly publicKeyPrefix: string;
  /** In front of the base64 of the 32-byte seed, or of seed and public key, that sign. */
  readonly privateKeyPrefix: string;
}

export type Part = string | DeliveryPart;

export type DeliveryPart =
  /**
   * `path` is that of the URL, without its query, `target` the same with it, and `host` the URL's without its port. `checksum` is the
   * CRC-32 of the body, in decimal. `keyName` is what the trigger's key names, in a scheme whose publisher has certificates.
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

/** A header, as it was on the wire, or a parameter of the query, decoded; each must be there once. */
export interface NamedPart {
  readonly part: 'header' | 'query';
  /** Of a header in lower case. */
  readonly name: string;
  /** Number of characters; any other is malformed. */
  readonly length?: number | undefined;
}

/** The headers that a header lists, sorted, as `name:value` with semicolons between them. */
export interface ListedPart {
  readonly part: 'headers';
  /** Of the header that lists them, in lower case. */
  readonly name: string;
  /** Those that every list has to name, the list itself among them, in lower case. */
  readonly must: readonly string[];
}

interface BodyPart {
  readonly part: 'body';
  /** Whether it has to begin like a JSON object, so that it is never what another form of the scheme signs. */
  readonly isJsonObject?: boolean | undefined;
  /**
   * Whether the publisher signs JSON that is ASCII alone, and something on the way may have written it anew: as sent, or with
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
  /** Drawn anew for each delivery: the signer writes it into the body. */
  readonly isToken?: boolean | undefined;
  /** Absent or null counts as empty; a line is then left out, which only its name can tell: it must be among other lines. */
  readonly isOptional?: boolean | undefined;
  /** May hold what separates the parts: theirs around it determine where it begins and ends. */
  readonly isFree?: boolean | undefined;
  /** Signed as two lines, its name and its value. */
  readonly isLine?: boolean | undefined;
  /** Must be what the trigger's key names. */
  readonly isKeyName?: boolean | undefined;
  /** What it has to match. */
  readonly form?: RegExp | undefined;
}

/** Bytes that an operator's code builds; `build` is filled in by name when the scheme is registered. */
export interface BuiltPart {
  readonly part: 'built';
  readonly name: string;
  readonly build?: PayloadBuilder | undefined;
}

/**
 * Builds the bytes that a signature covers, for strategy Custom. The timestamp that it is given has to be among them: the
 * age of the delivery is judged by it. So has everything that must not be changed: the hash of these bytes is what tells
 * the delivery from a replay. Called again where it could be ambiguous, so it must yield the same bytes each time.
 */
export type PayloadBuilder = (context: {
  readonly delivery: Delivery;
  readonly timestamp: string | undefined;
  readonly publicUrl: string;
}) => Uint8Array;

/** A text or number in the body: of a JSON object by its path, of a form by the field's name. */
export interface BodyField {
  /** `0` stands for the item of an array that has one item. */
  readonly path: readonly string[];
  readonly formField?: string | undefined;
  /** Number of characters; any other is malformed. */
  readonly length?: number | undefined;
  /** Whether the signer writes it into JSON as a number; a reader takes both. */
  readonly isNumber?: boolean | undefined;
}

export type TimestampSource = {
  /**
   * Milliseconds or seconds since the Unix epoch, an RFC 3339 time, as the publisher sends it: in UTC, or with any offset, or the date
   * of an HTTP header.
   */
  readonly unit: 'seconds' | 'milliseconds' | 'detect' | 'rfc3339' | 'rfc3339Offset' | 'httpDate';
  /** Number of characters; any other is malformed. */
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

/** The parts that need no more words, for lists that read like what is signed: `['v0:', part.timestamp, ':', part.body]`. */
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

/** The input of a verifier. Keys are the trigger's, configured or learned; either may be absent. */
export interface VerificationRequest {
  readonly delivery: Delivery;
  readonly keys: { readonly current: string | undefined; readonly previous: string | undefined };
  /** The URL that the publisher signed, where it signs one; absolute. */
  readonly publicUrl: string;
  /** Aborts when the verifier's time is up: after 5 s the delivery is refused with `verifier_error`. */
  readonly signal: AbortSignal;
}

/** What tells a delivery from a replay of it. */
interface VerifiedParts {
  readonly signedTimestampMs?: number;
  /**
   * The exact bytes that the signature covers. Without them the raw body counts as covered, and with it
   * `signedTimestampMs`; a verifier that covers less, or covers it rewritten, has to give them.
   */
  readonly signedBytes?: Uint8Array;
}

export type VerificationResult =
  | ({ readonly outcome: 'verified' } & VerifiedParts)
  | ({ readonly outcome: 'verifiedWithPreviousKey' } & VerifiedParts)
  /** `reason` is for people and is kept in the delivery's detail; it counts as `signature_mismatch`. */
  | { readonly outcome: 'refused'; readonly reason: string };

/** A scheme as code: an operator's own, may be asymmetric, remote, read the query string, or need no key. */
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

/** What someone who captured one delivery can do with it, where the trigger makes use of all that is signed. */
export const CAPTURED: Readonly<Record<Grade, string>> = {
  A: 'Body, timestamp and id are signed: with a tolerance a captured delivery cannot be used again, and a retry of the publisher is recognised by its id.',
  B: 'Body and timestamp are signed: with a tolerance a captured delivery cannot be used again.',
  C: 'Body and id are signed: a captured delivery passes again once its nonce is no longer kept.',
  D: 'Only the body is signed: a captured delivery passes again under another id or, without a nonce header, once its nonce is no longer kept.',
  E: 'Not all of the body is signed, or none of it: the first to send a captured signature chooses the rest. It passes once, because its nonce is kept; without a signed timestamp it passes again after the nonce has expired.',
  F: 'Nothing is signed: without a token anyone can send anything; with a token, anyone who captured a delivery can.',
};
