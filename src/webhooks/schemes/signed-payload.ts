import { createHash, timingSafeEqual } from 'node:crypto';
import type { Delivery, Reason } from '../../model/delivery.ts';
import { decodeForm, type FormField, URL_ENCODED_FORM } from '../../model/form.ts';
import { checksumLine, fieldBytes } from './signed-fields.ts';
import type { PayloadLayout, SignatureSpec, TimestampSource } from './spec.ts';
import { decodeDigest, mediaTypeOf } from './values.ts';

/** The bytes that a signature covers, in order and in parts, so that a large body is not copied. */
export type SignedBytes = readonly Uint8Array[];

type SignedPayload =
  /** What the publisher may have signed; the first is the usual form. */
  | { readonly isComplete: true; readonly variants: readonly SignedBytes[] }
  /** Something that the signature has to cover is not there, or is not what it covers. */
  | { readonly isComplete: false; readonly reason: Reason; readonly detail: string };

interface PayloadInput {
  readonly delivery: Delivery;
  /** Absolute, as the publisher called it. */
  readonly publicUrl: string;
  /** The end of `publicUrl` that the request chose; absent where all of it is known from elsewhere. */
  readonly sentQuery?: string | undefined;
  readonly timestamp: string | undefined;
  readonly deliveryId: string | undefined;
  readonly token: string | undefined;
  /** What the trigger's key names, in a scheme whose publisher has certificates. */
  readonly name?: string | undefined;
}

const DIGIT = /^[0-9]$/;

// RFC 3986, section 3.4: the characters allowed in a query. JSON begins with none of these, except a bare number or
// word.
const QUERY = /^[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*$/;

/** Name of the query parameter that binds a body that is not a form to the signed URL. */
export const BODY_HASH_PARAMETER = 'bodySHA256';

/**
 * The bytes that the signature has to cover. Different deliveries yield different bytes: where one character could belong
 * to either of two neighbours, the delivery is not complete, because its holder could move the boundary and keep the
 * signature. Exempt are the strategies that do not sign the body as it came, which are told apart by these bytes alone.
 */
export function signedPayload(
  { payload: layout, timestamp: source }: Pick<SignatureSpec, 'payload' | 'timestamp'>,
  input: PayloadInput,
): SignedPayload {
  const { delivery, timestamp } = input;
  switch (layout.strategy) {
    case 'RawBody':
      if (layout.isJsonObject === true && firstOf(delivery.body) !== '{') {
        return incomplete('signature_malformed', 'the body is not a JSON object');
      }
      return complete([delivery.body]);
    case 'TimestampDotBody':
      return timestampDotBody(layout, source, input);
    case 'ColonDelimited': {
      if (timestamp === undefined) return timestampMissing();
      const delimiter = layout.delimiter ?? ':';
      const head = `${layout.version ?? ''}${delimiter}${timestamp}${delimiter}`;
      return behindTimestamp({ source, delimiter, body: delivery.body }, [Buffer.from(head)]);
    }
    case 'UrlPlusBody':
      return layout.endsWithUrl === true ? bodyPlusUrl(layout, input) : urlPlusBody(layout, input);
    case 'UrlPlusSortedForm':
      return urlPlusSortedForm(layout, input);
    case 'TimestampPlusToken':
      if (timestamp === undefined) return timestampMissing();
      if (input.token === undefined) return incomplete('signature_malformed', `the body holds no ${tokenName(layout)}`);
      return complete([Buffer.from(`${timestamp}${input.token}`)]);
    case 'BodyFields':
      return ofParts(fieldBytes(layout.fields, delivery.body, input.name));
    case 'ChecksumLine':
      return ofParts(checksumLine(input));
    case 'Nothing':
      return complete([]);
    case 'Custom':
      return customBytes(layout, input);
  }
}

function ofParts(built: ReturnType<typeof fieldBytes>): SignedPayload {
  return 'bytes' in built ? complete([built.bytes]) : incomplete(built.reason, built.detail);
}

function timestampDotBody(
  layout: PayloadLayout,
  source: TimestampSource | undefined,
  { delivery, timestamp, deliveryId }: PayloadInput,
): SignedPayload {
  if (timestamp === undefined) return timestampMissing();
  const delimiter = layout.delimiter ?? '.';
  if (layout.endsWithTimestamp === true) return complete([delivery.body, Buffer.from(`${delimiter}${timestamp}`)]);
  const head = Buffer.from(`${timestamp}${delimiter}`);
  const rest = { source, delimiter, body: delivery.body };
  if (layout.startsWithDeliveryId !== true) return behindTimestamp(rest, [head]);
  if (deliveryId === undefined) return incomplete('signature_malformed', 'the delivery id, which is signed, is absent');
  // latin1: the bytes of a header as they were on the wire.
  const id = Buffer.from(deliveryId, 'latin1');
  const mark = endMark(delimiter);
  if (Buffer.concat([id, mark]).indexOf(mark) !== id.length) {
    return incomplete('signature_malformed', `the delivery id contains "${mark}", which could begin what follows it`);
  }
  return behindTimestamp(rest, [id, Buffer.from(delimiter), head]);
}

/**
 * What ends an id: it must not stand inside. Without a delimiter a time of RFC 3339 follows, whose first colon is always
 * its 14th character.
 */
function endMark(delimiter: string): Buffer {
  return Buffer.from(delimiter === '' ? ':' : delimiter);
}

/**
 * A timestamp of digits ends at the first character that is none. Where the delimiter has no such character, the body
 * must begin with one, or a digit could belong to either.
 */
function behindTimestamp(
  { source, delimiter, body }: { source: TimestampSource | undefined; delimiter: string; body: Buffer },
  head: SignedBytes,
): SignedPayload {
  if (hasFixedForm(source) || /[^0-9]/.test(delimiter) || !DIGIT.test(firstOf(body))) {
    return complete([...head, body]);
  }
  return incomplete('signature_malformed', 'the body begins with a digit, which could be the end of the timestamp');
}

/** Whether no timestamp of this form is the beginning of another one. */
export function hasFixedForm(source: TimestampSource | undefined): boolean {
  if (source === undefined) return false;
  const length = source.length ?? (source.in === 'body' ? source.field.length : undefined);
  return source.unit === 'rfc3339' || source.unit === 'rfc3339Offset' || length !== undefined;
}

/**
 * Nothing separates URL and body. If the request chooses the end of the URL, it must not be possible to move characters
 * between the URL and the body. A body that begins with a question mark could also be a query, so both readings are
 * accepted; they share one nonce, so only the first delivery passes.
 */
function urlPlusBody(layout: PayloadLayout, input: PayloadInput): SignedPayload {
  const { sentQuery = '', delivery } = input;
  const next = firstOf(delivery.body);
  const couldGoOn = sentQuery !== '' && next !== '' && QUERY.test(next);
  if (couldGoOn || !QUERY.test(sentQuery)) {
    return incomplete(
      'signature_malformed',
      'it is not certain where the URL ends and the body begins; webhookPublicUrl with the whole query settles it',
    );
  }
  if (layout.endsWithTimestamp === true && input.timestamp === undefined) return timestampMissing();
  const start = layout.startsWithMethod === true ? delivery.method : '';
  const end = layout.endsWithTimestamp === true ? [Buffer.from(input.timestamp ?? '')] : [];
  return complete(...urls(layout, input).map((url) => [Buffer.from(`${start}${url}`), delivery.body, ...end]));
}

/** Nothing separates body and URL: a URL that holds another one could have been the end of a longer body. */
function bodyPlusUrl(layout: PayloadLayout, input: PayloadInput): SignedPayload {
  const signedUrls = urls(layout, input);
  if (signedUrls.some((url) => url.split('://').length > 2)) {
    return incomplete('signature_malformed', 'the URL, which is signed, holds another URL');
  }
  return complete(...signedUrls.map((url) => [input.delivery.body, Buffer.from(url)]));
}

/**
 * A form is signed field by field after the URL. Any other body is covered only by its hash in the URL's query, so
 * without the hash nothing would protect it. If there is a hash, the body must match it, whatever its type.
 */
function urlPlusSortedForm(layout: PayloadLayout, input: PayloadInput): SignedPayload {
  const { body, headers } = input.delivery;
  const signedUrls = urls(layout, input);
  const query = withoutFragment(input.publicUrl).split('?').slice(1).join('?');
  const hashes = new URLSearchParams(query).getAll(BODY_HASH_PARAMETER);
  if (hashes.length > 0) {
    if (!hashes.every((hash) => isHashOf(hash, body))) {
      return incomplete(
        'signature_mismatch',
        `the body is not the one that ${BODY_HASH_PARAMETER} in the URL describes`,
      );
    }
    return complete(...signedUrls.map((url) => [Buffer.from(url)]));
  }
  if (body.length === 0) return complete(...signedUrls.map((url) => [Buffer.from(url)]));
  if (mediaTypeOf(headers) !== URL_ENCODED_FORM) {
    return incomplete('signature_malformed', `the body is not a form and the URL has no ${BODY_HASH_PARAMETER}`);
  }
  const fields = decodeForm(body);
  if (fields === undefined) return incomplete('signature_malformed', 'the form has too many fields');
  const form = Buffer.from(sortedForm(fields), 'latin1');
  return complete(...signedUrls.map((url) => [Buffer.from(url), form]));
}

/** Names and values without separators, sorted by name, the values of one name sorted, equal values once. */
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

function urls(layout: PayloadLayout, { publicUrl }: PayloadInput): string[] {
  const url = withoutFragment(publicUrl);
  if (layout.hasPortVariants === true) return portVariants(url);
  if (layout.decodedInUrl === undefined) return [url];
  const decoded = decodeIn(url, layout.decodedInUrl);
  return decoded === url ? [url] : [decoded, url];
}

/** Only these characters, and each once: `%253A` stays as it is. */
function decodeIn(url: string, characters: string): string {
  return url.replace(/%[0-9a-f]{2}/gi, (code) => {
    const character = String.fromCharCode(Number.parseInt(code.slice(1), 16));
    return characters.includes(character) ? character : code;
  });
}

/**
 * A builder that joins timestamp and body without a separator builds the same bytes from a longer timestamp and a shorter
 * body. Only the longest timestamp is taken, so that none can be made to look newer.
 */
function customBytes(layout: PayloadLayout, input: PayloadInput): SignedPayload {
  const { timestamp, delivery } = input;
  const bytes = builtBytes(layout, input);
  const moved = timestamp === undefined ? [] : withLongerTimestamp(timestamp, delivery.body);
  const isAmbiguous = moved.some((it) => {
    const other = { ...input, timestamp: it.timestamp, delivery: { ...delivery, body: it.body } };
    return isSame(bytes, tryToBuild(layout, other));
  });
  if (!isAmbiguous) return complete([bytes]);
  return incomplete('signature_malformed', 'a digit of the body could belong to the timestamp next to it');
}

function withLongerTimestamp(timestamp: string, body: Buffer): { timestamp: string; body: Buffer }[] {
  const first = firstOf(body);
  const last = firstOf(body.subarray(-1));
  return [
    ...(DIGIT.test(first) ? [{ timestamp: `${timestamp}${first}`, body: body.subarray(1) }] : []),
    ...(DIGIT.test(last) ? [{ timestamp: `${last}${timestamp}`, body: body.subarray(0, -1) }] : []),
  ];
}

function tryToBuild(layout: PayloadLayout, input: PayloadInput): Uint8Array | undefined {
  try {
    return builtBytes(layout, input);
  } catch {
    // A builder may refuse a body that was never sent: then these are not the signed bytes.
    return undefined;
  }
}

function isSame(a: Uint8Array, b: Uint8Array | undefined): boolean {
  return b !== undefined && Buffer.compare(a, b) === 0;
}

/** The first byte as a character; empty where there is none. */
function firstOf(body: Buffer): string {
  return body.toString('latin1', 0, 1);
}

function builtBytes(layout: PayloadLayout, { delivery, timestamp, publicUrl }: PayloadInput): Uint8Array {
  const bytes = layout.builder?.({ delivery, timestamp, publicUrl });
  if (!(bytes instanceof Uint8Array)) throw new TypeError(`payload strategy "${layout.customName}" built no bytes`);
  return bytes;
}

function complete(...variants: readonly SignedBytes[]): SignedPayload {
  return { isComplete: true, variants };
}

function incomplete(reason: Reason, detail: string): SignedPayload {
  return { isComplete: false, reason, detail };
}

function tokenName({ token }: PayloadLayout): string {
  return token?.length === undefined ? 'token' : `token of ${token.length} characters`;
}

function timestampMissing(): SignedPayload {
  return incomplete('timestamp_missing', 'the timestamp, which is signed, is absent');
}

const DEFAULT_PORTS: Readonly<Record<string, string>> = { https: '443', wss: '443', http: '80', ws: '80' };

/** The URL without its fragment, which is never sent and so never signed. Nothing is normalised: every byte counts. */
export function withoutFragment(url: string): string {
  return url.split('#', 1).join('');
}

/**
 * The URL as it is, and as a publisher may have signed it that leaves the port out or writes the default one.
 * https://www.twilio.com/docs/usage/webhooks/webhooks-security, and twilio-node's validateRequest, read 2026-11.
 */
export function portVariants(url: string): string[] {
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

/** The URL that a publisher called, and the end of it that no configuration vouches for. */
interface CalledUrl {
  readonly url: string;
  /** The query that the request brought, with the character in front of it; empty where it brought none. */
  readonly sentQuery: string;
}

/** The URL that a publisher called, from the configuration or else from the request. */
export function calledUrl({
  configuredUrl,
  baseUrl,
  path,
  requestUrl,
}: {
  /** The trigger's own; absolute. */
  readonly configuredUrl: string | undefined;
  /** The service's base URL; the request's path is put behind it. */
  readonly baseUrl: string | undefined;
  /** Path and query as on the request line. */
  readonly path: string;
  readonly requestUrl: string;
}): CalledUrl {
  if (configuredUrl !== undefined) return withQuery(withoutFragment(configuredUrl), queryOf(withoutFragment(path)));
  const url = withoutFragment(baseUrl === undefined ? requestUrl : `${baseUrl.replace(/\/$/, '')}${path}`);
  const at = url.indexOf('?');
  return { url, sentQuery: at === -1 ? '' : url.slice(at) };
}

/**
 * A configured query is the publisher's own and stays as it is, unless the request continues it: Twilio adds its
 * parameters to the ones that are configured.
 */
function withQuery(url: string, query: string): CalledUrl {
  const configured = queryOf(url);
  if (configured === '') {
    const sentQuery = query === '' ? '' : `?${query}`;
    return { url: `${url.replace(/\?$/, '')}${sentQuery}`, sentQuery };
  }
  const sentQuery = query.startsWith(`${configured}&`) ? query.slice(configured.length) : '';
  return { url: `${url}${sentQuery}`, sentQuery };
}

function queryOf(url: string): string {
  const at = url.indexOf('?');
  return at === -1 ? '' : url.slice(at + 1);
}

/** Scheme, host and path, for a person: a query or user information may hold a secret. */
export function displayUrl(url: string): string {
  const match = /^([a-z]+:\/\/)(?:[^/?#]*@)?([^?#]*)/i.exec(url);
  return match === null ? 'a URL that is not absolute' : `${match[1]}${match[2]}`;
}
