import { crc32 } from 'node:zlib';
import type { Reason } from '../../model/delivery.ts';
import type { Json } from '../../model/json.ts';
import type { SignedField, SignedFields } from './spec.ts';
import { isObject } from './values.ts';

/** The signed bytes, or why there are none. */
type Built = { readonly bytes: Buffer } | { readonly reason: Reason; readonly detail: string };

/**
 * Members of a JSON body, joined as the publisher joins them. Different values yield different bytes: only one member may hold
 * what separates them, and a text that UTF-8 cannot say, which would be written like another one, is refused.
 */
export function fieldBytes(fields: SignedFields | undefined, body: Buffer, name: string | undefined): Built {
  const json = strictJson(body);
  if (fields === undefined || !isObject(json)) return malformed('the body is not a JSON object in UTF-8');
  const members = fields.list(json);
  if (typeof members === 'string') return malformed(members);
  const delimiter = fields.joined === 'colons' ? ':' : '\n';
  const texts: string[] = [];
  for (const field of members) {
    const text = textOf(field, delimiter);
    if (text === undefined) return malformed(`the member ${field.name} of the body is not what is signed`);
    texts.push(fields.joined === 'colons' ? text : `${field.name}\n${text}\n`);
  }
  if (fields.named !== undefined && members.find((field) => field.name === fields.named)?.value !== name) {
    return { reason: 'signature_mismatch', detail: `${fields.named} is not the one that the trigger names` };
  }
  return { bytes: Buffer.from(texts.join(fields.joined === 'colons' ? ':' : '')) };
}

/** Half of a character. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/** Numbers beyond those that JavaScript tells apart would be signed like their neighbours. */
function textOf({ value, isFree }: SignedField, delimiter: string): string | undefined {
  if (typeof value === 'boolean') return String(value);
  if (typeof value === 'number') return Number.isSafeInteger(value) ? String(value) : undefined;
  if (typeof value !== 'string' || LONE_SURROGATE.test(value)) return undefined;
  return isFree === true || !value.includes(delimiter) ? value : undefined;
}

function strictJson(body: Buffer): Json | undefined {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)) as Json;
  } catch {
    // Nothing in such a body can be what was signed.
    return undefined;
  }
}

/**
 * `id|time|name|checksum`, the checksum of the body in decimal. A checksum can be met by another body that is made for it, so the
 * line does not cover the body.
 */
export function checksumLine(given: {
  readonly delivery: { readonly body: Buffer };
  readonly deliveryId: string | undefined;
  readonly timestamp: string | undefined;
  readonly name?: string | undefined;
}): Built {
  const { delivery, deliveryId, timestamp, name } = given;
  if (timestamp === undefined)
    return { reason: 'timestamp_missing', detail: 'the timestamp, which is signed, is absent' };
  if (deliveryId === undefined) return malformed('the delivery id, which is signed, is absent');
  const parts = [deliveryId, timestamp, name ?? ''];
  if (parts.some((part) => part.includes('|')))
    return malformed('a signed part contains "|", which separates the parts');
  return { bytes: Buffer.from([...parts, crc32(delivery.body)].join('|'), 'latin1') };
}

function malformed(detail: string): Built {
  return { reason: 'signature_malformed', detail };
}
