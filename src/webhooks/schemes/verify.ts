import { createHash, createHmac, type KeyObject, timingSafeEqual, verify as verifyAsymmetric } from 'node:crypto';
import type { Delivery, Reason } from '../../model/delivery.ts';
import type { SignatureAlgorithm } from '../../model/manifest.ts';
import type { SignedTimestamp } from '../gate.ts';
import { hasPart, layoutOf } from './layout.ts';
import type { SchemeKey } from './scheme-keys.ts';
import { displayUrl, type PayloadInput, type SignedBytes, signedPayload } from './signed-payload.ts';
import type { HeaderFamily, MultiValue, SignatureSpec, SpecAlgorithm, TimestampSource } from './spec.ts';
import {
  type BodyReader,
  bodyReader,
  decodeSignature,
  EACH,
  headerOf,
  KEY_PAIRS,
  lengthOf,
  readTimestamp,
  textOf,
  usesKeyPair,
} from './values.ts';

/** The result of verifying one delivery with a spec and its keys. A timestamp is given if present, verified or not. */
export type Verification = {
  readonly timestamp: SignedTimestamp | undefined;
} & (
  | {
      readonly isVerified: true;
      readonly usedPreviousKey: boolean;
      /** Hex SHA-256 of the signed bytes, unless they are the raw body between certain boundaries. */
      readonly signedBytesSha256: string | undefined;
      readonly verifiedHeaders: ReadonlyMap<string, string> | undefined;
      readonly isOneOfSeveral?: boolean;
    }
  | { readonly isVerified: false; readonly reason: Reason; readonly detail: string }
);

export interface KeyPair {
  readonly current: SchemeKey;
  readonly previous: SchemeKey | undefined;
}

/** A decoded candidate; its length is right for its algorithm. */
interface Candidate {
  readonly algorithm: SpecAlgorithm;
  readonly bytes: Buffer;
}

interface VerifiedRequest {
  readonly delivery: Delivery;
  readonly publicUrl: string;
  /** The end of the URL that the request chose. */
  readonly sentQuery?: string | undefined;
  /** Whether SHA-1 counts, if the body names the algorithm. */
  readonly allowsSha1?: boolean | undefined;
}

/** Verifies a delivery as the spec describes. Throws only what an operator's payload builder throws. */
export function verifyWithSpec(spec: SignatureSpec, keys: KeyPair, request: VerifiedRequest): Verification {
  const prepared = prepareVerification(spec, keys, request);
  return 'isVerified' in prepared ? prepared : prepared.compare(keys);
}

/** All checks before the signature is compared: yields a failed verification, or a function that compares. */
export function prepareVerification(
  given: SignatureSpec,
  keys: KeyPair,
  request: VerifiedRequest,
): Verification | { readonly timestamp: SignedTimestamp | undefined; compare(keys: KeyPair): Verification } {
  const extraction = extract(given, request.delivery);
  const { spec, timestamp, signature } = extraction;
  if (signature.kind !== 'found') {
    const reason = signature.kind === 'missing' ? 'signature_missing' : 'signature_malformed';
    return { isVerified: false, reason, detail: signature.detail, timestamp };
  }
  if (spec.algorithm === 'rsaSha1' && request.allowsSha1 !== true) {
    const detail = `${spec.name} signed with SHA-1, which is turned off`;
    return { isVerified: false, reason: 'sha1_not_allowed', detail, timestamp };
  }
  const candidates = signature.texts.map((text) => decodeCandidate(spec, text)).filter((it) => it !== undefined);
  if (candidates.length === 0 || (isOfEach(spec) && candidates.length < signature.texts.length)) {
    return {
      isVerified: false,
      reason: 'signature_malformed',
      detail: `no signature has the form ${formOf(spec)}`,
      timestamp,
    };
  }
  const input = payloadInput(extraction, request);
  const payload = signedPayload(spec, { ...input, name: keys.current.name });
  const previousPayload =
    keys.previous?.name === undefined ? payload : signedPayload(spec, { ...input, name: keys.previous.name });
  if (!payload.isComplete && !previousPayload.isComplete) {
    return { isVerified: false, reason: payload.reason, detail: payload.detail, timestamp };
  }
  const payloads = { payload, previousPayload };
  return { timestamp, compare: (compared) => compare(compared, { extraction, candidates, payloads, request }) };
}

/** Always compares both keys completely, whatever the result of the first. */
function compare(
  keys: KeyPair,
  { extraction, candidates, payloads: { payload, previousPayload }, request }: Comparison,
): Verification {
  const { spec, timestamp } = extraction;
  const groups = isOfEach(spec) ? candidates.map((candidate) => [candidate]) : [candidates];
  const matches = groups.map((group) => {
    const current = firstMatch(keys.current, group, payload);
    const previous = keys.previous === undefined ? undefined : firstMatch(keys.previous, group, previousPayload);
    return { signedBytes: current ?? previous, isCurrent: current !== undefined };
  });
  const [signedBytes] = matches.map((match) => match.signedBytes);
  if (signedBytes === undefined || matches.some((match) => match.signedBytes === undefined)) {
    return { isVerified: false, reason: 'signature_mismatch', detail: mismatchOf(spec, request.publicUrl), timestamp };
  }
  return {
    isVerified: true,
    usedPreviousKey: !matches.every(({ isCurrent }) => isCurrent),
    signedBytesSha256: layoutOf(spec).isBodyAlone ? undefined : sha256(signedBytes),
    verifiedHeaders: extraction.familyHeaders,
    timestamp,
  };
}

/** Whether each item of a list carries a signature. Then all must be right: one says nothing about the other items. */
function isOfEach({ signatureFields = [] }: SignatureSpec): boolean {
  return signatureFields.some(({ path }) => path.includes(EACH));
}

interface Comparison {
  readonly extraction: Extraction;
  readonly candidates: readonly Candidate[];
  readonly payloads: { readonly payload: Payload; readonly previousPayload: Payload };
  readonly request: VerifiedRequest;
}

type Payload = ReturnType<typeof signedPayload>;

/** The digests that the spec accepts; the first is what the publisher sends today. */
function acceptedDigests(spec: SignatureSpec): NonNullable<SignatureSpec['alternatives']> {
  return [{ algorithm: spec.algorithm, prefix: spec.prefix ?? '' }, ...(spec.alternatives ?? [])];
}

export function payloadInput(
  { timestamp, deliveryId, readField }: Extraction,
  { delivery, publicUrl, sentQuery }: VerifiedRequest,
): PayloadInput {
  return { delivery, publicUrl, sentQuery, timestamp: timestamp?.text, deliveryId, readField };
}

function decodeCandidate(spec: SignatureSpec, { text, isEd25519 }: CandidateText): Candidate | undefined {
  if (isEd25519) {
    const bytes = decodeSignature(text, spec.encoding, 'ed25519');
    return bytes === undefined ? undefined : { algorithm: 'ed25519', bytes };
  }
  // The header can only choose among the algorithms of the spec, so it cannot ask for a weaker one.
  for (const { algorithm, prefix } of acceptedDigests(spec)) {
    const isPrefixed = text.startsWith(prefix);
    if (!isPrefixed && spec.isPrefixOptional !== true) continue;
    const bytes = decodeSignature(isPrefixed ? text.slice(prefix.length) : text, spec.encoding, algorithm);
    if (bytes !== undefined) return { algorithm, bytes };
  }
  return undefined;
}

/** The bytes that a candidate signs. Compares every candidate with every variant, even after a match. */
function firstMatch(key: SchemeKey, candidates: readonly Candidate[], payload: Payload): SignedBytes | undefined {
  let match: SignedBytes | undefined;
  for (const signedBytes of payload.isComplete ? payload.variants : []) {
    const digests = new Map<SignatureAlgorithm, Buffer>();
    for (const candidate of candidates) {
      if (matches(key, candidate, { signedBytes, digests })) match ??= signedBytes;
    }
  }
  return match;
}

/** A candidate only matches a key of its algorithm's kind: a public key never counts as a secret. */
function matches(
  { kind, key }: SchemeKey,
  { algorithm, bytes }: Candidate,
  { signedBytes, digests }: { signedBytes: SignedBytes; digests: Map<SignatureAlgorithm, Buffer> },
): boolean {
  if (usesKeyPair(algorithm)) {
    const pair = KEY_PAIRS[algorithm];
    return kind === pair.kind && verifyAsymmetric(pair.hash, Buffer.concat(signedBytes), key, bytes);
  }
  if (algorithm === 'token') {
    return kind === 'token' && timingSafeEqual(createHash('sha256').update(key.export()).digest(), bytes);
  }
  if (kind !== 'hmac') return false;
  const digest = digests.get(algorithm) ?? hmac(algorithm, key, signedBytes);
  digests.set(algorithm, digest);
  return timingSafeEqual(digest, bytes);
}

export function hmac(algorithm: SignatureAlgorithm, key: KeyObject, signedBytes: SignedBytes): Buffer {
  const digest = createHmac(algorithm, key);
  for (const part of signedBytes) digest.update(part);
  return digest.digest();
}

function sha256(signedBytes: SignedBytes): string {
  const digest = createHash('sha256');
  for (const part of signedBytes) digest.update(part);
  return digest.digest('hex');
}

function formOf(spec: SignatureSpec): string {
  const digests = acceptedDigests(spec).map(
    ({ algorithm, prefix }) => `${prefix === '' ? '' : `"${prefix}" and `}${lengthOf(algorithm)}`,
  );
  return `${digests.join(', or ')} in ${spec.encoding.replace(/^hex.*/, 'hex').toLowerCase()}`;
}

function mismatchOf(spec: SignatureSpec, publicUrl: string): string {
  const over = hasPart(spec.signs, 'url') ? ` over the URL ${displayUrl(publicUrl)}` : '';
  return `no signature${over} matches a configured key`;
}

/** The parts of a delivery that verification needs. None of them may be trusted before a signature has matched. */
interface Extraction {
  /** The form of the scheme that the delivery is in. */
  readonly spec: SignatureSpec;
  readonly signature: FoundSignature;
  readonly timestamp: SignedTimestamp | undefined;
  readonly deliveryId: string | undefined;
  readonly readField: BodyReader;
  /** Timestamp and id of the family in use, by every name that any family has for them; absent with only one family. */
  readonly familyHeaders: ReadonlyMap<string, string> | undefined;
}

type FoundSignature =
  | { readonly kind: 'found'; readonly texts: readonly CandidateText[] }
  | { readonly kind: 'missing' | 'malformed'; readonly detail: string };

/** A text that may be a signature, not decoded yet. */
interface CandidateText {
  readonly text: string;
  readonly isEd25519: boolean;
}

interface Segment {
  readonly key: string;
  readonly value: string;
}

/** Places that may hold the timestamp. */
interface Places {
  readonly delivery: Delivery;
  readonly family: HeaderFamily | undefined;
  readonly segments: readonly Segment[] | undefined;
  readonly readField: BodyReader;
}

// A rotation sends two or three signatures. The bound keeps one request from buying thousands of verifications.
const MAX_SEGMENTS = 32;

export function extract(given: SignatureSpec, delivery: Delivery): Extraction {
  const readField = bodyReader(delivery.headers, delivery.body);
  const spec = formOfRequest(given, delivery, readField);
  const { headers } = spec;
  const families = headers.length < 2 ? headers : headers.filter((one) => signatureLines(one, delivery).length > 0);
  const family = families[0] ?? headers[0];
  const lines = family === undefined ? signatureFields(spec, readField) : signatureLines(family, delivery);
  const sets = setsOf(spec, lines);
  const isOneMessage = areOneMessage(spec, families, delivery) && areOfOneTime(spec, sets);
  return {
    spec,
    signature: isOneMessage
      ? signatureIn(spec, family, { lines, sets })
      : { kind: 'malformed', detail: 'its signatures are of different times or ids' },
    timestamp: timestampOf(spec.timestamp, { delivery, family, segments: sets?.flat(), readField }),
    deliveryId: family?.deliveryId === undefined ? undefined : headerOf(delivery.headers, family.deliveryId),
    readField,
    familyHeaders: family === undefined ? undefined : headersByAnyName(spec, family, delivery),
  };
}

/** If the body names an algorithm that is not in the list, the spec's own algorithm is used. */
function formOfRequest(given: SignatureSpec, delivery: Delivery, readField: BodyReader): SignatureSpec {
  const { requestForm } = given;
  const [family] = requestForm?.headers ?? [];
  const isOther = family !== undefined && headerOf(delivery.headers, family.signature) !== undefined;
  const spec = isOther && requestForm !== undefined ? requestForm : given;
  if (spec.algorithmField === undefined) return spec;
  const { field, algorithms } = spec.algorithmField;
  const named = textOf(readField(field)) ?? '';
  return {
    ...spec,
    algorithm: Object.hasOwn(algorithms, named) ? (algorithms[named] ?? spec.algorithm) : spec.algorithm,
  };
}

/**
 * Whether families that sign the time or the id of a delivery say the same of it. Otherwise each of them could be sent
 * alone, as a delivery of its own; so could signatures that were made at different times.
 */
function areOneMessage({ signs }: SignatureSpec, [first, ...others]: readonly HeaderFamily[], { headers }: Delivery) {
  return others.every((other) =>
    (['timestamp', 'deliveryId'] as const).every((role) => {
      const [one, another] = [first?.[role], other[role]].map((name = '') => headerOf(headers, name));
      return !hasPart(signs, role) || one === undefined || another === undefined || one === another;
    }),
  );
}

function areOfOneTime({ timestamp }: SignatureSpec, sets: readonly (readonly Segment[])[] = []): boolean {
  const timeKey = timestamp?.in === 'signature' ? timestamp.valueKey : undefined;
  const times = sets.flatMap((set) => set.find(({ key }) => key === timeKey) ?? []);
  return times.every(({ value }) => value === times[0]?.value);
}

function signatureLines({ signature, furtherSignatures = [] }: HeaderFamily, { headers }: Delivery): string[] {
  const lines = [signature, ...furtherSignatures].map((name) => headerOf(headers, name));
  return lines.filter((line) => line !== undefined);
}

function headersByAnyName({ headers: families }: SignatureSpec, family: HeaderFamily, { headers }: Delivery) {
  if (families.length < 2) return undefined;
  const values = (['timestamp', 'deliveryId'] as const).flatMap((role) => {
    const value = headerOf(headers, family[role] ?? '');
    const names = families.flatMap((each) => each[role]?.toLowerCase() ?? []);
    return value === undefined ? [] : names.map((name) => [name, value] as const);
  });
  return new Map(values);
}

/** Splits the lines into lists of segments; undefined if the scheme has no lists, or these have too many segments. */
function setsOf(spec: SignatureSpec, lines: readonly string[]): readonly (readonly Segment[])[] | undefined {
  const { multiValue } = spec;
  if (multiValue === undefined) return undefined;
  const values = lines.flatMap((line) => withoutLinePrefix(spec, line) ?? []);
  const { delimiter, isTrimmed = false, setDelimiter } = multiValue;
  const texts = values.flatMap((it) => (setDelimiter === undefined ? it : it.split(setDelimiter, MAX_SEGMENTS + 1)));
  const parts = texts.map((text) => text.split((isTrimmed && delimiter.trim()) || delimiter, MAX_SEGMENTS + 1));
  return parts.flat().length > MAX_SEGMENTS ? undefined : parts.map((set) => segmentsOfSet(multiValue, set));
}

function segmentsOfSet(multiValue: MultiValue, parts: readonly string[]): readonly Segment[] {
  const { keyValueSeparator, isTrimmed = false, isQuoted = false } = multiValue;
  const trimmed = (text: string) => (isTrimmed ? text.trim() : text);
  const bare = (text: string) => (isQuoted ? trimmed(text).replace(/^"([^"]*)"$/, '$1') : trimmed(text));
  if (keyValueSeparator === undefined) {
    return parts.map((part, at) => ({ key: placeOf(at, multiValue), value: bare(part) }));
  }
  const segments = parts.flatMap((part) => {
    const separator = part.indexOf(keyValueSeparator);
    if (separator === -1) return [];
    return [{ key: bare(part.slice(0, separator)), value: bare(part.slice(separator + keyValueSeparator.length)) }];
  });
  // Each parameter of such a header may occur only once: RFC 9110, section 11.2.
  const isTwice = isQuoted && new Set(segments.map(({ key }) => key)).size < segments.length;
  return isTwice ? [] : segments;
}

/** If there can be several signatures, they are at the end of the list. */
function placeOf(at: number, { valueKeys, acceptsMultiple }: MultiValue): string {
  const last = Number(valueKeys.at(-1));
  return String(acceptsMultiple && at > last ? last : at);
}

function withoutLinePrefix(spec: SignatureSpec, line: string): string | undefined {
  const prefix = spec.headerValuePrefix ?? '';
  if (line.slice(0, prefix.length).toLowerCase() !== prefix.toLowerCase()) return undefined;
  return line.slice(prefix.length);
}

/** The signature in the headers of the family, or in the body if there is no family. */
function signatureIn(
  spec: SignatureSpec,
  family: HeaderFamily | undefined,
  { lines, sets }: { lines: readonly string[]; sets: readonly (readonly Segment[])[] | undefined },
): FoundSignature {
  const [line] = lines;
  if (line === undefined) {
    const detail = family === undefined ? 'the body holds no signature' : `header ${family.signature} is absent`;
    return { kind: 'missing', detail };
  }
  const place = family === undefined ? 'the signature in the body' : `header ${family.signature}`;
  if (lines.length > MAX_SEGMENTS) return { kind: 'malformed', detail: `${place} is there too often` };
  const value = withoutLinePrefix(spec, line);
  if (value === undefined) {
    return { kind: 'malformed', detail: `${place} does not start with "${spec.headerValuePrefix}"` };
  }
  if (spec.multiValue === undefined) {
    const values = lines.map((each) => withoutLinePrefix(spec, each)).filter((it) => it !== undefined);
    return { kind: 'found', texts: values.map((text) => ({ text, isEd25519: false })) };
  }
  if (sets === undefined) return { kind: 'malformed', detail: `${place} has too many segments` };
  const { multiValue } = spec;
  const texts = sets.flatMap((set) => candidateTexts(spec, multiValue, set));
  if (texts.length > 0) return { kind: 'found', texts };
  const keys = spec.multiValue.valueKeys.map((key) => `"${key}"`).join(' or ');
  return { kind: 'malformed', detail: `${place} has no segment ${keys}` };
}

function candidateTexts(spec: SignatureSpec, multiValue: MultiValue, segments: readonly Segment[]): CandidateText[] {
  const asymmetricKey = spec.ed25519?.valueKey;
  const texts = segments
    .filter(({ key }) => multiValue.valueKeys.includes(key) || key === asymmetricKey)
    .map(({ key, value }) => ({ text: value, isEd25519: key === asymmetricKey }));
  return multiValue.acceptsMultiple ? texts : texts.slice(0, 1);
}

/** Empty if any item of a list has no signature. */
function signatureFields({ signatureFields: fields = [] }: SignatureSpec, readField: BodyReader): string[] {
  return fields.flatMap((field) => {
    const value = readField(field);
    if (!field.path.includes(EACH)) return textOf(value) ?? [];
    const texts = Array.isArray(value) ? value.map(textOf) : [];
    return texts.includes(undefined) ? [] : [...new Set(texts.filter((text) => text !== undefined))];
  });
}

function timestampOf(source: TimestampSource | undefined, places: Places): SignedTimestamp | undefined {
  if (source === undefined) return undefined;
  const text = timestampTextOf(source, places);
  return text === undefined ? undefined : readTimestamp(text, source);
}

function timestampTextOf(source: TimestampSource, places: Places): string | undefined {
  const { delivery, family, segments, readField } = places;
  switch (source.in) {
    case 'header':
      return family?.timestamp === undefined ? undefined : headerOf(delivery.headers, family.timestamp);
    case 'signature':
      return segments?.find(({ key }) => key === source.valueKey)?.value;
    case 'body':
      return textOf(readField(source.field));
  }
}
