import { type Json, parseJson } from '../../model/json.ts';

/** JSON where the content type says so and it parses, else text, else base64 of what is no text; null for no bytes. */
export function decodeBody(bytes: Uint8Array, contentType: string | undefined): Json {
  if (bytes.length === 0) return null;
  const text = decodeText(bytes, contentType);
  if (text === undefined) return Buffer.from(bytes).toString('base64');
  if (!isJson(contentType)) return text;
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

/** Milliseconds from `now` that a Retry-After asks to wait, in seconds or as a date; undefined where it says neither. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  const text = header.trim();
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) || !/[a-z]/i.test(text) ? undefined : Math.max(0, date - now);
}

function isJson(contentType: string | undefined): boolean {
  return /^\s*[\w.+-]+\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(contentType ?? '');
}

function decodeText(bytes: Uint8Array, contentType: string | undefined): string | undefined {
  const [, charset = 'utf-8'] = /;\s*charset="?([\w-]+)/i.exec(contentType ?? '') ?? [];
  try {
    return new TextDecoder(charset, { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
