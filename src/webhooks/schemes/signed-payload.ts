import { createHash, timingSafeEqual } from 'node:crypto';
import type { Delivery, Reason } from '../../model/delivery.ts';
import { decodeForm, type FormField, URL_ENCODED_FORM } from '../../model/form.ts';
import { mediaTypeOf } from './body-fields.ts';
import { decodeDigest } from './digest.ts';
import { portVariants, withoutFragment } from './signed-url.ts';
import type { PayloadLayout } from './spec.ts';

/** The bytes that a signature covers, in order and in parts, so that a large body is not copied. */
export type SignedBytes = readonly Uint8Array[];

export type SignedPayload =
  /** What the publisher may have signed; the first is the usual form. */
  | { readonly isComplete: true; readonly variants: readonly SignedBytes[] }
  /** Something that the signature has to cover is not there, or is not what it covers. */
  | { readonly isComplete: false; readonly reason: Reason; readonly detail: string };

export interface PayloadInput {
  readonly delivery: Delivery;
  /** Absolute, as the publisher called it. */
  readonly publicUrl: string;
  readonly timestamp: string | undefined;
  readonly deliveryId: string | undefined;
  readonly token: string | undefined;
}

/** Name of the query parameter that binds a body which is no form to the signed URL. */
export const BODY_HASH_PARAMETER = 'bodySHA256';

export function signedPayload(layout: PayloadLayout, input: PayloadInput): SignedPayload {
  const { delivery, timestamp } = input;
  switch (layout.strategy) {
    case 'RawBody':
      return complete([delivery.body]);
    case 'TimestampDotBody':
      return timestampDotBody(layout, input);
    case 'ColonDelimited': {
      if (timestamp === undefined) return timestampMissing();
      const delimiter = layout.delimiter ?? ':';
      const head = `${layout.version ?? ''}${delimiter}${timestamp}${delimiter}`;
      return complete([Buffer.from(head), delivery.body]);
    }
    case 'UrlPlusBody':
      return layout.endsWithUrl === true ? bodyPlusUrl(layout, input) : urlPlusBody(layout, input);
    case 'UrlPlusSortedForm':
      return urlPlusSortedForm(layout, input);
    case 'TimestampPlusToken':
      if (timestamp === undefined) return timestampMissing();
      if (input.token === undefined) return incomplete('signature_malformed', `the body holds no ${tokenName(layout)}`);
      return complete([Buffer.from(`${timestamp}${input.token}`)]);
    case 'Custom':
      return complete([builtBytes(layout, input)]);
  }
}

function timestampDotBody(layout: PayloadLayout, { delivery, timestamp, deliveryId }: PayloadInput): SignedPayload {
  if (timestamp === undefined) return timestampMissing();
  const delimiter = layout.delimiter ?? '.';
  const head = Buffer.from(`${timestamp}${delimiter}`);
  if (layout.startsWithDeliveryId !== true) return complete([head, delivery.body]);
  if (deliveryId === undefined) return incomplete('signature_malformed', 'the delivery id, which is signed, is absent');
  // An id with a delimiter inside could lend its end to the timestamp, and the timestamp its end to the body.
  if (delimiter !== '' && deliveryId.includes(delimiter)) {
    return incomplete('signature_malformed', `the delivery id contains "${delimiter}"`);
  }
  // latin1: the bytes of a header as they were on the wire.
  return complete([Buffer.from(`${deliveryId}${delimiter}`, 'latin1'), head, delivery.body]);
}

function urlPlusBody(layout: PayloadLayout, input: PayloadInput): SignedPayload {
  return complete(...urls(layout, input).map((url) => [Buffer.from(url), input.delivery.body]));
}

/** Nothing stands between body and URL: a URL that holds another one could have been the end of a longer body. */
function bodyPlusUrl(layout: PayloadLayout, input: PayloadInput): SignedPayload {
  const signedUrls = urls(layout, input);
  if (signedUrls.some((url) => url.split('://').length > 2)) {
    return incomplete('signature_malformed', 'the URL, which is signed, holds another URL');
  }
  return complete(...signedUrls.map((url) => [input.delivery.body, Buffer.from(url)]));
}

/**
 * A form is signed field by field behind the URL. Any other body is covered by its hash in the URL's query alone, so that
 * without the hash nothing would bind it; and where there is a hash the body must be what was hashed, whatever its type.
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
        `the body is not the one that ${BODY_HASH_PARAMETER} in the URL stands for`,
      );
    }
    return complete(...signedUrls.map((url) => [Buffer.from(url)]));
  }
  if (body.length === 0) return complete(...signedUrls.map((url) => [Buffer.from(url)]));
  if (mediaTypeOf(headers) !== URL_ENCODED_FORM) {
    return incomplete('signature_malformed', `the body is no form and the URL has no ${BODY_HASH_PARAMETER}`);
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
  return layout.hasPortVariants === true ? portVariants(url) : [url];
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
