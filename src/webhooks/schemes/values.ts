import { decodeForm, decodeMultipart, type FormField, URL_ENCODED_FORM } from '../../model/form.ts';
import type { Json } from '../../model/json.ts';
import type { SignatureEncoding } from '../../model/manifest.ts';
import type { SignedTimestamp } from '../gate.ts';
import type { BodyField, SpecAlgorithm, TimestampSource } from './spec.ts';

/** Reads single fields of a body, which is parsed at the first question; undefined where a field is not there. */
export type BodyReader = (field: BodyField) => string | undefined;

/** A header's value; own names only, so that `constructor` is not taken for a header. */
export function headerOf(headers: Readonly<Record<string, string>>, name: string): string | undefined {
  const key = name.toLowerCase();
  return Object.hasOwn(headers, key) ? headers[key] : undefined;
}

/** The media type without parameters, lower case; empty where none was sent. */
export function mediaTypeOf(headers: Readonly<Record<string, string>>): string {
  return (headerOf(headers, 'content-type') ?? '').split(';', 1).join('').trim().toLowerCase();
}

export function bodyReader(headers: Readonly<Record<string, string>>, body: Buffer): BodyReader {
  let read: BodyReader | undefined;
  return (field) => {
    read ??= openBody(headers, body);
    return read(field);
  };
}

function openBody(headers: Readonly<Record<string, string>>, body: Buffer): BodyReader {
  const mediaType = mediaTypeOf(headers);
  if (mediaType === URL_ENCODED_FORM) return formReader(decodeForm(body));
  if (mediaType === 'multipart/form-data') {
    const boundary = boundaryOf(headerOf(headers, 'content-type') ?? '');
    return formReader(boundary === undefined ? undefined : decodeMultipart(body, boundary));
  }
  const json = parseJson(body);
  return (field) => textOf(valueAt(json, field.path));
}

function formReader(fields: readonly FormField[] = []): BodyReader {
  return ({ formField }) => fields.find((field) => field.name === formField)?.value;
}

// RFC 2046: at most 70 characters, quoted or not.
function boundaryOf(contentType: string): string | undefined {
  const match = /;\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(contentType);
  return match?.[1] ?? match?.[2];
}

/** The body as JSON; undefined where it is none. */
export function parseJson(body: Buffer): Json | undefined {
  try {
    return JSON.parse(body.toString('utf8')) as Json;
  } catch {
    // Other bytes have no fields: the caller then misses the one it needs, and says so.
    return undefined;
  }
}

function valueAt(json: Json | undefined, path: readonly string[]): Json | undefined {
  let value = json;
  for (const name of path) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}

export function isObject(value: Json | undefined): value is { readonly [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textOf(value: Json | undefined): string | undefined {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
}

/** How long a signature is. */
export const DIGEST_BYTES: Readonly<Record<SpecAlgorithm, number>> = {
  sha1: 20,
  sha256: 32,
  sha384: 48,
  sha512: 64,
  ed25519: 64,
};

const HEX = /^[0-9a-f]*$/i;

export function encodeDigest(digest: Buffer, encoding: SignatureEncoding): string {
  switch (encoding) {
    case 'hexLower':
      return digest.toString('hex');
    case 'hexUpper':
      return digest.toString('hex').toUpperCase();
    case 'base64':
      return digest.toString('base64');
    case 'base64Url':
      return digest.toString('base64url');
  }
}

/**
 * The bytes that a text encodes, or undefined if it is not exactly one digest: node's own decoders skip or stop at
 * what they do not know, so that a right digest with something behind it would pass. Hex may be of either case.
 */
export function decodeDigest(text: string, encoding: SignatureEncoding, byteCount: number): Buffer | undefined {
  switch (encoding) {
    case 'hexLower':
    case 'hexUpper':
      return text.length === byteCount * 2 && HEX.test(text) ? Buffer.from(text, 'hex') : undefined;
    case 'base64':
      return decodeBase64(text, byteCount);
    case 'base64Url':
      return decodeBase64Url(text, byteCount);
  }
}

function decodeBase64(text: string, byteCount: number): Buffer | undefined {
  if (text.length !== Math.ceil(byteCount / 3) * 4) return undefined;
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === byteCount && bytes.toString('base64') === text ? bytes : undefined;
}

/** Publishers send base64url without padding, and some with: both are canonical, nothing between them is. */
function decodeBase64Url(text: string, byteCount: number): Buffer | undefined {
  const padding = '='.repeat((3 - (byteCount % 3)) % 3);
  if (text.length > Math.ceil(byteCount / 3) * 4) return undefined;
  const unpadded = padding !== '' && text.endsWith(padding) ? text.slice(0, -padding.length) : text;
  const bytes = Buffer.from(unpadded, 'base64url');
  return bytes.length === byteCount && bytes.toString('base64url') === unpadded ? bytes : undefined;
}

const DIGITS = /^\d{1,16}$/;

// Below it lie seconds up to the year 5138, from it on milliseconds since 1973.
const FIRST_MILLISECONDS = 1e11;

// In UTC alone, so that the text has one beginning and one end whatever is next to it.
const RFC_3339 = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(\.\d{1,9})?Z$/;

/**
 * Milliseconds since the Unix epoch, or NaN for anything but plain digits, or an RFC 3339 time in UTC. Signs, fractions and spaces are refused too:
 * where the timestamp is next to other signed text, a character that may belong to either would let a signature be
 * read in two ways.
 */
export function timestampMs(text: string, unit: TimestampSource['unit']): number {
  if (unit === 'rfc3339') return rfc3339Ms(text);
  if (!DIGITS.test(text)) return Number.NaN;
  const value = Number(text);
  if (unit === 'milliseconds' || (unit === 'detect' && value >= FIRST_MILLISECONDS)) return value;
  return value * 1000;
}

export function readTimestamp(text: string, source: TimestampSource): SignedTimestamp {
  const length = source.length ?? (source.in === 'body' ? source.field.length : undefined);
  const ms = length === undefined || text.length === length ? timestampMs(text, source.unit) : Number.NaN;
  return { text, ms };
}

/** Digits beyond the milliseconds are cut; a day that the calendar does not have is none. */
function rfc3339Ms(text: string): number {
  const [, seconds, fraction = ''] = RFC_3339.exec(text) ?? [];
  if (seconds === undefined) return Number.NaN;
  const ms = Date.parse(`${seconds}Z`);
  if (!Number.isFinite(ms) || !new Date(ms).toISOString().startsWith(seconds)) return Number.NaN;
  return ms + Number(fraction.slice(1, 4).padEnd(3, '0'));
}

/** How a publisher would write the instant. */
export function timestampText(ms: number, unit: TimestampSource['unit']): string {
  if (unit === 'rfc3339') return new Date(ms).toISOString();
  return String(unit === 'milliseconds' ? Math.trunc(ms) : Math.trunc(ms / 1000));
}
