import { createHash, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { Delivery, Reason } from '../../model/delivery.ts';
import { decodeForm, type FormField, URL_ENCODED_FORM } from '../../model/form.ts';
import { firstOf, layoutOf, nameOf, type SignedText, type SignedValue } from './layout.ts';
import type { BuiltPart, DeliveryPart, FieldPart, ListedPart, NamedPart, UrlPart } from './spec.ts';
import { type BodyReader, bytesAsText, decodeDigest, headerOf, mediaTypeOf, parseJson } from './values.ts';

/** The bytes that a signature covers, as parts in order, so that a large body is not copied. */
export type SignedBytes = readonly Uint8Array[];

type SignedPayload =
  /** Each variant is something that the publisher may have signed; the first is the usual form. */
  { readonly isComplete: true; readonly variants: readonly SignedBytes[] } | Incomplete;

/** Something that the signature must cover is absent, or differs from what it covers. */
interface Incomplete {
  readonly isComplete: false;
  readonly reason: Reason;
  readonly detail: string;
}

export interface PayloadInput {
  readonly delivery: Delivery;
  /** The absolute URL that the publisher called. */
  readonly publicUrl: string;
  /** The end of `publicUrl` that the request chose; absent if the whole URL is known from elsewhere. */
  readonly sentQuery?: string | undefined;
  readonly timestamp: string | undefined;
  readonly deliveryId: string | undefined;
  readonly readField: BodyReader;
  /** What the trigger's key names, if the publisher has certificates. */
  readonly name?: string | undefined;
}

/** The query parameter that binds a body other than a form to the signed URL. */
export const BODY_HASH_PARAMETER = 'bodySHA256';

/**
 * The bytes that the signature must cover. Different deliveries yield different bytes: if a character could belong to
 * either of two neighbours, the delivery is incomplete, because its holder could move the boundary and keep the
 * signature. Uncertain boundaries are exempt: there, only these bytes distinguish deliveries.
 */
export function signedPayload(text: SignedText, input: PayloadInput): SignedPayload {
  const layout = layoutOf(text);
  const { url } = layout;
  if (layout.hasTimestamp && input.timestamp === undefined) {
    return incomplete('timestamp_missing', 'the timestamp, which is signed, is absent');
  }
  const values: SignedValue[] = [];
  for (const part of layout.parts) {
    const value = typeof part === 'string' ? part : readPart(part, input);
    if (typeof value === 'object' && !(value instanceof Uint8Array)) return value;
    values.push(value);
  }
  const escaped = layout.escapedBody === undefined ? undefined : escapedForm(input.delivery.body);
  const variants: SignedBytes[] = [];
  for (const variant of url === undefined ? [''] : signedUrls(url.part, input.publicUrl)) {
    if (url !== undefined) values[url.at] = Buffer.from(variant);
    for (const { left, right, problem } of layout.boundaries) {
      const detail = problem?.(values[left] ?? '', values[right] ?? '', input.sentQuery ?? '');
      if (detail !== undefined) return malformed(detail);
    }
    variants.push(joined(values));
    if (escaped !== undefined) variants.push(joined(values.with(layout.escapedBody ?? 0, escaped)));
  }
  return { isComplete: true, variants };
}

/**
 * The body as signed by a publisher whose JSON has only ASCII and no bare slash, if it arrived in another spelling.
 * Only for JSON: two JSON texts with the same escaped form mean the same, which other texts need not.
 */
function escapedForm(body: Buffer): Buffer | undefined {
  const text = body.toString();
  const escaped = text.replace(TO_ESCAPE, (found) => {
    if (found === '/') return '\\/';
    return found.startsWith('\\') ? found : `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
  return escaped === text || parseJson(body) === undefined ? undefined : Buffer.from(escaped);
}

// The first alternative is an existing escape, which stays as it is. box-node-sdk 10.12.0 escapes the same characters.
const TO_ESCAPE = /\\.|[\u007f-\uffff]|\//gs;

/** Joins neighbouring texts, because each piece costs a call of the digest. */
function joined(values: readonly SignedValue[]): SignedBytes {
  const bytes: Uint8Array[] = [];
  let text = '';
  for (const value of values) {
    if (typeof value === 'string') {
      text += value;
      continue;
    }
    if (text !== '') bytes.push(Buffer.from(text, 'latin1'));
    text = '';
    bytes.push(value);
  }
  if (text !== '') bytes.push(Buffer.from(text, 'latin1'));
  return bytes;
}

function readPart(part: DeliveryPart, input: PayloadInput): SignedValue | Incomplete {
  const { delivery } = input;
  switch (part.part) {
    case 'body':
      if (part.isJsonObject === true && firstOf(delivery.body) !== '{')
        return malformed('the body is not a JSON object');
      return delivery.body;
    case 'timestamp':
      return input.timestamp ?? '';
    case 'deliveryId':
      // Header lines are byte strings already, with the bytes as on the wire.
      return input.deliveryId ?? malformed('the delivery id, which is signed, is absent');
    case 'method':
      return delivery.method;
    case 'url':
      // Filled in later, because a publisher may write the URL in several ways.
      return '';
    case 'path':
      return /^[a-z+.-]+:\/\/[^/?#]*([^?#]*)/i.exec(input.publicUrl)?.[1] || '/';
    case 'target':
      return /^[a-z+.-]+:\/\/[^/?#]*([^#]*)/i.exec(input.publicUrl)?.[1] || '/';
    case 'host':
      return URL.canParse(input.publicUrl) ? new URL(input.publicUrl).hostname : '';
    case 'query':
    case 'header':
      return namedValue(part, input);
    case 'headers':
      return listedHeaders(part, delivery);
    case 'bodyHash':
      return createHash('sha256')
        .update(delivery.body)
        .digest(part.encoding ?? 'hex');
    case 'sortedForm':
      return signedForm(input);
    case 'checksum':
      // Another body can be made with the same checksum, so this does not cover the body.
      return String(crc32(delivery.body));
    case 'keyName':
      return input.name ?? '';
    case 'field':
      return fieldText(part, input);
    case 'built':
      return builtValue(part, input);
  }
}

/** An empty value counts as absent. Two parameters with one name are refused: readers differ in which they take. */
function namedValue(part: NamedPart, { delivery, publicUrl }: PayloadInput): string | Incomplete {
  const { name, length } = part;
  const query = withoutFragment(publicUrl).split('?').slice(1).join('?');
  const values =
    part.part === 'query'
      ? new URLSearchParams(query).getAll(name).map(bytesAsText)
      : [headerOf(delivery.headers, name) ?? ''];
  const [value = '', ...others] = values;
  const problem = value === '' ? 'absent' : others.length > 0 ? 'there twice' : undefined;
  if (problem !== undefined) return malformed(`${nameOf(part)}, which is signed, is ${problem}`);
  return length === undefined || value.length === length
    ? value
    : malformed(`${nameOf(part)}, which is signed, has not ${length} characters`);
}

/** Publishers list a dozen headers. The limit is needed because each is compared with all others. */
const MAX_LISTED = 64;

/** Refuses a value that could be read as the next header: the holder of a delivery could move text between headers. */
function listedHeaders({ name, must }: ListedPart, { headers }: Delivery): string | Incomplete {
  const list = headerOf(headers, name);
  if (list === undefined) return malformed(`the header ${name}, which lists what is signed, is absent`);
  const names = [...new Set(list.split(',').map((each) => each.trim().toLowerCase()))].sort();
  if (names.length > MAX_LISTED) return malformed(`the header ${name} lists more than ${MAX_LISTED} others`);
  const missing = must.find((each) => !names.includes(each));
  if (missing !== undefined) return malformed(`the header ${name} does not list ${missing}, which has to be signed`);
  const values = names.map((each) => [each, headerOf(headers, each)?.trim()] as const);
  const absent = values.find(([, value]) => value === undefined);
  if (absent !== undefined) return malformed(`the header ${absent[0]}, which is signed, is absent`);
  const isAmbiguous = values.some(([, value = '']) => names.some((each) => value.includes(`;${each}:`)));
  if (isAmbiguous) return malformed(`a header that ${name} lists holds what could be the next one`);
  return values.map(([each, value]) => `${each}:${value}`).join(';');
}

/**
 * A member of the body as the publisher writes it. Different values yield different bytes: texts that UTF-8 cannot
 * express and numbers that JavaScript cannot distinguish would be signed like others, so they are refused.
 */
function fieldText(part: FieldPart, { readField, name }: PayloadInput): string | Incomplete {
  const { field, form, isFree, isKeyName, isLine, isOptional, isToken } = part;
  const label = field.path.at(-1) ?? '';
  const value = readField(field) ?? null;
  if (value === null && isOptional === true) return '';
  const text = typeof value === 'boolean' || Number.isSafeInteger(value) ? String(value) : value;
  const isSigned =
    typeof text === 'string' &&
    !LONE_SURROGATE.test(text) &&
    (field.length === undefined || text.length === field.length) &&
    form?.test(text) !== false &&
    (isLine !== true || isFree === true || !text.includes('\n'));
  if (!isSigned) {
    if (isToken === true)
      return malformed(`the body holds no token${field.length === undefined ? '' : ` of ${field.length} characters`}`);
    return malformed(`the member ${field.path.join('.')} of the body is not what is signed`);
  }
  if (isKeyName === true && text !== name) {
    return incomplete('signature_mismatch', `${label} is not the one that the trigger names`);
  }
  return bytesAsText(isLine === true ? `${label}\n${text}\n` : text);
}

/** Half a character. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * The fields of a form, which are signed after the URL. Any other body is covered only by its hash in the URL's query,
 * so nothing would protect it without the hash. If there is a hash, the body must match it, whatever its type.
 */
function signedForm({ delivery: { body, headers }, publicUrl }: PayloadInput): SignedValue | Incomplete {
  const query = withoutFragment(publicUrl).split('?').slice(1).join('?');
  const hashes = new URLSearchParams(query).getAll(BODY_HASH_PARAMETER);
  if (hashes.length > 0) {
    if (hashes.every((hash) => isHashOf(hash, body))) return '';
    const detail = `the body is not the one that ${BODY_HASH_PARAMETER} in the URL describes`;
    return incomplete('signature_mismatch', detail);
  }
  if (body.length === 0) return '';
  if (mediaTypeOf(headers) !== URL_ENCODED_FORM) {
    return malformed(`the body is not a form and the URL has no ${BODY_HASH_PARAMETER}`);
  }
  const fields = decodeForm(body);
  return fields === undefined ? malformed('the form has too many fields') : Buffer.from(sortedForm(fields), 'latin1');
}

/** Names and values without separators, sorted by name and then by value, without duplicates. */
function sortedForm(fields: readonly FormField[]): string {
  const sorted = [...fields].sort((a, b) => byBytes(a.name, b.name) || byBytes(a.value, b.value));
  return sorted
    .filter(({ name, value }, index) => sorted[index - 1]?.name !== name || sorted[index - 1]?.value !== value)
    .map(({ name, value }) => `${name}${value}`)
    .join('');
}

function byBytes(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function isHashOf(hash: string, body: Buffer): boolean {
  const claimed = decodeDigest(hash, 'hexLower', 32);
  return claimed !== undefined && timingSafeEqual(claimed, createHash('sha256').update(body).digest());
}

/**
 * A builder that joins timestamp and body without a separator builds the same bytes from a longer timestamp and a shorter
 * body. Only the longest timestamp is accepted, so that no delivery can be made to look newer.
 */
function builtValue(part: BuiltPart, input: PayloadInput): Uint8Array | Incomplete {
  const { timestamp, delivery } = input;
  const { body } = delivery;
  const bytes = builtBytes(part, input);
  if (timestamp === undefined) return bytes;
  const [first, last] = [firstOf(body), firstOf(body.subarray(-1))];
  const moved = [
    { digit: first, timestamp: `${timestamp}${first}`, body: body.subarray(1) },
    { digit: last, timestamp: `${last}${timestamp}`, body: body.subarray(0, -1) },
  ];
  const isAmbiguous = moved.some((it) => {
    const other = { ...input, timestamp: it.timestamp, delivery: { ...delivery, body: it.body } };
    return /^[0-9]$/.test(it.digit) && isSame(bytes, part, other);
  });
  return isAmbiguous ? malformed('a digit of the body could belong to the timestamp next to it') : bytes;
}

function isSame(bytes: Uint8Array, part: BuiltPart, other: PayloadInput): boolean {
  try {
    return Buffer.compare(bytes, builtBytes(part, other)) === 0;
  } catch {
    // A builder may refuse a body that was never sent: then these are not the signed bytes.
    return false;
  }
}

function builtBytes({ build, name }: BuiltPart, { delivery, timestamp, publicUrl }: PayloadInput): Uint8Array {
  const bytes = build?.({ delivery, timestamp, publicUrl });
  if (!(bytes instanceof Uint8Array)) throw new TypeError(`payload strategy "${name}" built no bytes`);
  return bytes;
}

function malformed(detail: string): Incomplete {
  return incomplete('signature_malformed', detail);
}

function incomplete(reason: Reason, detail: string): Incomplete {
  return { isComplete: false, reason, detail };
}

/** The URLs that the publisher may have signed; the first is the usual form. */
export function signedUrls({ decoded = '', hasPortVariants }: UrlPart, publicUrl: string): string[] {
  const url = withoutFragment(publicUrl);
  return hasPortVariants === true ? portVariants(url) : [...new Set([decodeIn(url, decoded), url])];
}

/** Decodes only these characters, and only once: `%253A` stays as it is. */
function decodeIn(url: string, characters: string): string {
  return url.replace(/%[0-9a-f]{2}/gi, (code) => {
    const character = String.fromCharCode(Number.parseInt(code.slice(1), 16));
    return characters.includes(character) ? character : code;
  });
}

const DEFAULT_PORTS: Readonly<Record<string, string>> = { https: '443', wss: '443', http: '80', ws: '80' };

/** The URL without its fragment, which is never sent and so never signed. Nothing is normalised: every byte counts. */
export function withoutFragment(url: string): string {
  const at = url.indexOf('#');
  return at === -1 ? url : url.slice(0, at);
}

/**
 * The URL as it is, and as signed by a publisher that leaves out the port or adds the default port.
 * https://www.twilio.com/docs/usage/webhooks/webhooks-security, and twilio-node's validateRequest, read 2026-11.
 */
function portVariants(url: string): string[] {
  const schemeEnd = url.indexOf('://');
  if (schemeEnd === -1) return [url];
  const start = schemeEnd + 3;
  const authorityLength = url.slice(start).search(/[/?]/);
  const end = authorityLength === -1 ? url.length : start + authorityLength;
  const authority = url.slice(start, end);
  const port = /:\d*$/.exec(authority)?.[0];
  if (port !== undefined) return [url, `${url.slice(0, end - port.length)}${url.slice(end)}`];
  const defaultPort = DEFAULT_PORTS[url.slice(0, schemeEnd).toLowerCase()];
  return defaultPort === undefined ? [url] : [url, `${url.slice(0, end)}:${defaultPort}${url.slice(end)}`];
}

/** Scheme, host and path, for people to read; a query or user information may hold a secret. */
export function displayUrl(url: string): string {
  const match = /^([a-z]+:\/\/)(?:[^/?#]*@)?([^?#]*)/i.exec(url);
  return match === null ? 'a URL that is not absolute' : `${match[1]}${match[2]}`;
}
