import { createHash } from 'node:crypto';
import {
  boundaryOf,
  decodeForm,
  decodeMultipart,
  type FormField,
  MULTIPART_FORM,
  URL_ENCODED_FORM,
} from '../../model/form.ts';
import type { Json, JsonObject } from '../../model/json.ts';
import type { SignatureAlgorithm, SignatureEncoding } from '../../model/manifest.ts';
import type { SignedTimestamp } from '../gate.ts';
import type { BodyField, SignatureSpec, SpecAlgorithm, TimestampSource } from './spec.ts';

/** Reads single fields of a body, which is parsed on first use; undefined if a field is absent. */
export type BodyReader = (field: BodyField) => Json | undefined;

/** A header's value; only own properties, so that `constructor` does not pass for a header. */
export function headerOf(headers: Readonly<Record<string, string>>, name: string): string | undefined {
  const key = name.toLowerCase();
  return Object.hasOwn(headers, key) ? headers[key] : undefined;
}

/** The media type without parameters, in lower case; empty if none was sent. */
export function mediaTypeOf(headers: Readonly<Record<string, string>>): string {
  return (headerOf(headers, 'content-type') ?? '').split(';', 1).join('').trim().toLowerCase();
}

/** The field with the document for the flow, as stored headers name it; undefined if the flow reads the body itself. */
export function documentOf(
  document: SignatureSpec['document'],
  headers: Readonly<Record<string, string>>,
): string | undefined {
  if (document === undefined) return undefined;
  const { path, mediaType, isBase64 } = document;
  if (mediaType !== undefined && mediaTypeOf(headers) !== mediaType) return undefined;
  return `${path.join('.')}${isBase64 === true ? ';base64' : ''}`;
}

export function bodyReader(headers: Readonly<Record<string, string>>, body: Buffer): BodyReader {
  let read: BodyReader | undefined;
  return (field) => {
    read ??= openBody(headers, body);
    return read(field);
  };
}

/** A member without a form field is read from JSON, whatever the content type says: hardly any publisher signs that. */
function openBody(headers: Readonly<Record<string, string>>, body: Buffer): BodyReader {
  const readForm = openForm(headers, body);
  let json: { readonly value: Json | undefined } | undefined;
  return (field) => {
    if (readForm !== undefined && field.formField !== undefined) return readForm(field);
    json ??= { value: parseJson(body) };
    return valueAt(json.value, field.path);
  };
}

function openForm(headers: Readonly<Record<string, string>>, body: Buffer): BodyReader | undefined {
  const mediaType = mediaTypeOf(headers);
  if (mediaType === URL_ENCODED_FORM) return formReader(decodeForm(body));
  if (mediaType !== MULTIPART_FORM) return undefined;
  const boundary = boundaryOf(headerOf(headers, 'content-type') ?? '');
  return formReader(boundary === undefined ? undefined : decodeMultipart(body, boundary));
}

function formReader(fields: readonly FormField[] = []): BodyReader {
  return ({ formField }) => fields.find((field) => field.name === formField)?.value;
}

// Lenient decoders read all invalid bytes alike, so different bodies would have the same signed members.
const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The body as JSON; undefined if it is not JSON. */
export function parseJson(body: Buffer): Json | undefined {
  try {
    return JSON.parse(UTF_8.decode(body)) as Json;
  } catch {
    // Other bytes have no fields: the caller then reports the field that it misses.
    return undefined;
  }
}

/** The body as a JSON object; an empty object for any other body. */
export function jsonObject(body: Buffer): JsonObject {
  const json = parseJson(body);
  return isObject(json) ? json : {};
}

/** Arrays of more than one item have no value, because further items would go unnoticed. `*` means each item. */
function valueAt(json: Json | undefined, path: readonly string[]): Json | undefined {
  let value = json;
  for (const [at, name] of path.entries()) {
    if (Array.isArray(value)) {
      if (name === EACH) return value.map((item) => valueAt(item, path.slice(at + 1)) ?? null);
      if (name !== '0' || value.length !== 1) return undefined;
      value = value[0];
      continue;
    }
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}

/** In the path of a field: each item of the list. */
export const EACH = '*';

export function isObject(value: Json | undefined): value is { readonly [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A text or a number. */
export function textOf(value: Json | undefined): string | undefined {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
}

/** Length of each hash's digest. */
const DIGEST_BYTES: Readonly<Record<SignatureAlgorithm, number>> = {
  sha1: 20,
  sha256: 32,
  sha384: 48,
  sha512: 64,
};

interface KeyPairAlgorithm {
  /** The kind of key that verifies and signs. */
  readonly kind: 'ed25519' | 'ecdsaP256' | 'rsa';
  readonly hash: 'sha256' | 'sha1' | null;
  /** The shortest and the longest signature. */
  readonly bytes: readonly [number, number];
}

/** DER of two numbers of at most 33 bytes is 8 to 72 bytes long; RSA keys have 2048 to 8192 bits. */
export const KEY_PAIRS: Readonly<Record<Exclude<SpecAlgorithm, SignatureAlgorithm | 'token'>, KeyPairAlgorithm>> = {
  ed25519: { kind: 'ed25519', hash: null, bytes: [64, 64] },
  ecdsaP256: { kind: 'ecdsaP256', hash: 'sha256', bytes: [8, 72] },
  rsaSha256: { kind: 'rsa', hash: 'sha256', bytes: [256, 1024] },
  rsaSha1: { kind: 'rsa', hash: 'sha1', bytes: [256, 1024] },
};

export function usesKeyPair(algorithm: SpecAlgorithm): algorithm is keyof typeof KEY_PAIRS {
  return Object.hasOwn(KEY_PAIRS, algorithm);
}

/** The length of a signature, in words. */
export function lengthOf(algorithm: SpecAlgorithm): string {
  if (algorithm === 'token') return 'any text';
  const lengths = usesKeyPair(algorithm) ? KEY_PAIRS[algorithm].bytes : [DIGEST_BYTES[algorithm]];
  return `${[...new Set(lengths)].join(' to ')} bytes`;
}

/** The bytes of a text that may be a signature, or undefined. Tokens are hashed, so that all have the same length. */
export function decodeSignature(text: string, encoding: SignatureEncoding, algorithm: SpecAlgorithm) {
  // latin1 gives the bytes of a header as on the wire.
  if (algorithm === 'token') return createHash('sha256').update(text, 'latin1').digest();
  if (!usesKeyPair(algorithm)) return decodeDigest(text, encoding, DIGEST_BYTES[algorithm]);
  const [shortest, longest] = KEY_PAIRS[algorithm].bytes;
  const { length } = Buffer.from(text.slice(0, longest * 2), NODE_ENCODINGS[encoding]);
  return length < shortest || length > longest ? undefined : decodeDigest(text, encoding, length);
}

/** Node's names for the encodings. */
export const NODE_ENCODINGS = { hexLower: 'hex', hexUpper: 'hex', base64: 'base64', base64Url: 'base64url' } as const;

export function encodeDigest(digest: Buffer, encoding: SignatureEncoding): string {
  const text = digest.toString(NODE_ENCODINGS[encoding]);
  return encoding === 'hexUpper' ? text.toUpperCase() : text;
}

/**
 * The bytes that a text encodes, or undefined if it is not exactly one digest. Publishers send base64url without
 * padding, some with it; base64 always has padding. Hex may be in either case.
 */
export function decodeDigest(text: string, encoding: SignatureEncoding, byteCount: number): Buffer | undefined {
  if (text.length > byteCount * 2 || (encoding === 'base64' && text.length % 4 !== 0)) return undefined;
  const bytes = decodeExactly(text, NODE_ENCODINGS[encoding]);
  return bytes?.length === byteCount ? bytes : undefined;
}

/**
 * The bytes that a text encodes, with or without padding; undefined if no encoder writes it so. Node's own decoders
 * skip unknown characters or stop there, so a right text followed by others would pass.
 */
export function decodeExactly(text: string, encoding: 'hex' | 'base64' | 'base64url'): Buffer | undefined {
  if (encoding === 'hex') return text.length % 2 === 0 && HEX.test(text) ? Buffer.from(text, 'hex') : undefined;
  const bytes = Buffer.from(text, encoding);
  const canonical = bytes.toString(encoding);
  if (text === canonical) return bytes;
  const padding = '='.repeat((3 - (bytes.length % 3)) % 3);
  const other =
    encoding === 'base64' ? canonical.slice(0, canonical.length - padding.length) : `${canonical}${padding}`;
  return text === other ? bytes : undefined;
}

const HEX = /^[0-9a-f]*$/i;

const DIGITS = /^\d{1,16}$/;

// Smaller numbers are seconds up to the year 5138; others are milliseconds since 1973.
const FIRST_MILLISECONDS = 1e11;

// Only UTC, so that beginning and end of the text are certain, whatever is next to it.
const RFC_3339 = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(\.\d{1,9})?Z$/;
// The end is as certain: two digits after a colon. Separate, because nearly every publisher sends UTC.
const RFC_3339_OFFSET = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(\.\d{1,9})?([+-])(\d{2}):(\d{2})$/;

/**
 * Milliseconds since the Unix epoch, or NaN for a text that does not have exactly the form of the unit. Numbers are
 * plain digits, without signs, fractions or spaces: next to other signed text, a character that may belong to either
 * would let a signature be read in two ways.
 */
export function timestampMs(text: string, unit: TimestampSource['unit']): number {
  if (unit === 'rfc3339') return rfc3339Ms(text);
  if (unit === 'rfc3339Offset') return withOffsetMs(text);
  if (unit === 'httpDate') return httpDateMs(text);
  if (!DIGITS.test(text)) return Number.NaN;
  const value = Number(text);
  if (unit === 'milliseconds' || (unit === 'detect' && value >= FIRST_MILLISECONDS)) return value;
  return value * 1000;
}

export function lengthOfTimestamp(source: TimestampSource | undefined): number | undefined {
  return source?.length ?? (source?.in === 'body' ? source.field.length : undefined);
}

export function readTimestamp(text: string, source: TimestampSource): SignedTimestamp {
  const length = lengthOfTimestamp(source);
  const ms = length === undefined || text.length === length ? timestampMs(text, source.unit) : Number.NaN;
  return { text, ms };
}

/** Digits beyond the milliseconds are cut; NaN for a day that the calendar does not have. */
function rfc3339Ms(text: string): number {
  const [, seconds, fraction = ''] = RFC_3339.exec(text) ?? [];
  if (seconds === undefined) return Number.NaN;
  const ms = Date.parse(`${seconds}Z`);
  if (!Number.isFinite(ms) || !new Date(ms).toISOString().startsWith(seconds)) return Number.NaN;
  return ms + Number(fraction.slice(1, 4).padEnd(3, '0'));
}

/** RFC 9110, section 5.6.7, only in the form that senders generate. */
function httpDateMs(text: string): number {
  const ms = Date.parse(text);
  return Number.isFinite(ms) && new Date(ms).toUTCString() === text ? ms : Number.NaN;
}

function withOffsetMs(text: string): number {
  const [, seconds, fraction = '', sign, hours, minutes] = RFC_3339_OFFSET.exec(text) ?? [];
  if (seconds === undefined) return rfc3339Ms(text);
  const offsetMinutes = Number(hours) * 60 + Number(minutes);
  if (Number(hours) > 23 || Number(minutes) > 59) return Number.NaN;
  return rfc3339Ms(`${seconds}${fraction}Z`) + (sign === '-' ? 1 : -1) * offsetMinutes * 60_000;
}

/** How a publisher would write the instant. */
export function timestampText(ms: number, unit: TimestampSource['unit']): string {
  if (unit === 'rfc3339' || unit === 'rfc3339Offset') return new Date(ms).toISOString();
  if (unit === 'httpDate') return new Date(ms).toUTCString();
  return String(unit === 'milliseconds' ? Math.trunc(ms) : Math.trunc(ms / 1000));
}

/** The bytes of a text in UTF-8, each as one character. */
export function bytesAsText(text: string): string {
  return Buffer.from(text).toString('latin1');
}
