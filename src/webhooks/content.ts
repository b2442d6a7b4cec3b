import { ArrivingBody } from '../expressions/trigger-body.ts';
import {
  type ContentProblem,
  charsetOf,
  codingsIn,
  contentOf,
  decoderOf,
  type EncodedContent,
  textReader,
} from '../model/content.ts';
import type { Delivery } from '../model/delivery.ts';
import { signatureGate } from './gates/signature.ts';
import { BodyError, type BodyLimits, readBody } from './read-delivery.ts';
import type { TriggeredReception } from './record.ts';
import type { PreparedTrigger } from './triggers.ts';

// Senders apply one or two codings, and decoding each one costs as much as another body.
const MAX_CODINGS = 4;

/** The content of an encoded body, decoded on first use; undefined if the bytes are the content already. */
function encodedContent(body: Buffer, headers: Delivery['headers'], limits: BodyLimits): EncodedContent | undefined {
  const codings = codingsIn(headers['content-encoding']);
  if (codings.length === 0 || body.byteLength === 0) return undefined;
  let decoding: ReturnType<EncodedContent['decode']> | undefined;
  return {
    decode() {
      decoding ??= decode(body, codings, limits);
      return decoding;
    },
  };
}

/** Decodes off the event loop, under the cap at each coding: the next coding may shrink a huge intermediate result. */
async function decode(
  body: Buffer,
  codings: readonly string[],
  limits: BodyLimits,
): Promise<{ readonly bytes: Buffer } | ContentProblem> {
  if (codings.length > MAX_CODINGS) {
    return notSupported(`The body has ${codings.length} content-encodings; at most ${MAX_CODINGS} are decoded`);
  }
  let bytes = body;
  for (const coding of codings.toReversed()) {
    const decoder = decoderOf(coding, bytes);
    if (decoder === undefined) return notSupported(`The content-encoding ${shown(coding)} is not known; ${ACCEPTED}`);
    const stream = decoder.stream();
    try {
      stream.end(bytes);
      bytes = await readBody(stream, undefined, limits);
    } catch (error) {
      if (!(error instanceof BodyError)) throw error;
      return problemOf(error, coding);
    } finally {
      stream.destroy();
    }
  }
  return { bytes };
}

const ACCEPTED = 'gzip, deflate, br and, with Node 22.15 and newer, zstd are decoded; or send the body without one';

function notSupported(message: string): ContentProblem {
  return { reason: 'encoding_not_supported', message };
}

function problemOf({ statusCode }: BodyError, coding: string): ContentProblem {
  if (statusCode === 413) {
    return { reason: 'body_too_large', message: 'The body is larger than this endpoint accepts once it is decoded' };
  }
  if (statusCode === 400) {
    return {
      reason: 'invalid_encoding',
      message: `The content-encoding says ${coding}, but the body is not ${coding}`,
    };
  }
  return { reason: 'store_unavailable', message: 'There is no memory left to decode the body; send it again' };
}

/** A word that the sender wrote, shortened and without special characters, in quotation marks. */
function shown(word: string): string {
  return `"${word.replace(/[^\w.+-]/g, '?').slice(0, 40)}"`;
}

/** Media types to which a charset applies. */
const IS_TEXT = /^\s*(text\/|application\/x-www-form-urlencoded|[^\s/;]+\/([^\s/;]+\+)?(json|xml)\b)/i;

/** The decoded body for expressions; or why it cannot be read, in which case every mode refuses the delivery. */
export async function readContent(
  { content, body, headers }: Delivery,
  trigger: Pick<PreparedTrigger, 'documentIn'>,
): Promise<ArrivingBody | ContentProblem> {
  const decoded = (await content?.decode()) ?? { bytes: body };
  if ('reason' in decoded) return decoded;
  const contentType = headers['content-type'];
  const charset = IS_TEXT.test(contentType ?? '') ? charsetOf(contentType) : undefined;
  if (charset === undefined || textReader(charset) !== undefined)
    return new ArrivingBody(decoded.bytes, { contentType, document: trigger.documentIn(headers) });
  return notSupported(`The charset ${shown(charset)} of the content type is not known; send the body in UTF-8`);
}

/** The delivery as if its body had been sent unencoded; unchanged if it was, or if the body cannot be decoded. */
export async function withoutEncoding(delivery: Delivery): Promise<Delivery> {
  const decoded = await delivery.content?.decode();
  return decoded === undefined || 'reason' in decoded ? delivery : asContent(delivery, decoded.bytes);
}

function asContent({ content, headers, ...delivery }: Delivery, body: Buffer): Delivery {
  const { 'content-encoding': _, ...others } = headers;
  return { ...delivery, headers: others, body };
}

/** Lets the content be decoded under the cap for bodies. The decoded bytes are taken from the allowance, if any. */
export function withContent(
  delivery: Delivery,
  { maxBodyBytes: maxBytes }: { readonly maxBodyBytes: number },
  allowance: BodyLimits['allowance'] = { take: () => true },
): Delivery {
  return { ...delivery, content: encodedContent(delivery.body, delivery.headers, { maxBytes, allowance }) };
}

const LITTLE_BYTES = 64 * 1024;

/**
 * Decodes a delivery that no trigger decodes, so that the tokens in its body can be removed before it is kept. A body
 * that cannot be decoded cheaply is left out.
 */
function lookedThrough(delivery: Delivery): Delivery {
  const encoding = delivery.headers['content-encoding'];
  if (codingsIn(encoding).length === 0) return delivery;
  const content = contentOf(delivery.body, encoding, LITTLE_BYTES);
  return asContent(delivery, content === delivery.body ? Buffer.alloc(0) : Buffer.from(content));
}

/** An encoded delivery as everyone but the gates may see it: decoded if part of its content must not be kept. */
export function keptContent(delivery: Delivery, keep: (body: Buffer) => Buffer): Delivery {
  const seen = lookedThrough(delivery);
  const body = keep(seen.body);
  return body === seen.body && body.byteLength > 0 ? delivery : { ...seen, body };
}

/** Limit for content that is decoded only to tell the sender's operator what is wrong. */
const EXPLAINED_BYTES = 256 * 1024;

/** Anyone can send deliveries that need an explanation, so only one is made at a time. */
let isExplaining = false;

/** If the signature is wrong, adds to the detail whether it would verify over the decoded body. */
export async function explained(judged: TriggeredReception, delivery: Delivery): Promise<TriggeredReception> {
  const { judgement, trigger } = judged;
  const gate = trigger.gates.find(({ name }) => name === signatureGate.name);
  // Operator code may return something else on a second call.
  if (gate === undefined || trigger.grade === null || isExplaining) return judged;
  if (!judgement.violations.includes('signature_mismatch')) return judged;
  isExplaining = true;
  try {
    const content = await withoutEncoding(withContent(delivery, { maxBodyBytes: EXPLAINED_BYTES }));
    const { passed } = await gate.check(content, {});
    if (!passed) return judged;
    return { ...judged, judgement: { ...judgement, detail: `${judgement.detail}; ${SIGNED_BEFORE}` } };
  } finally {
    isExplaining = false;
  }
}

export const SIGNED_BEFORE =
  'signed before compression: it would verify over the decompressed body; sign the bytes that are sent, or send them uncompressed';
