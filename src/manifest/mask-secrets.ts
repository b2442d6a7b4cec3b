import { mapStrings } from '../expressions/map-strings.ts';
import type { Json } from '../model/json.ts';

export const MASK = '***';

// A shorter value would blot out half of every text, and guards nothing.
const MIN_SECRET_LENGTH = 4;

/**
 * The same value with every occurrence of a secret masked, in strings and keys; also as a JSON text or a URL spells it,
 * and the credential alone of a secret such as `Bearer abc`. Secrets shorter than four characters are ignored.
 */
export function maskSecrets(value: Json, secrets: readonly string[]): Json {
  const spellings = [...new Set(secrets.flatMap(spellingsOf))].filter((text) => text.length >= MIN_SECRET_LENGTH);
  if (spellings.length === 0) return value;
  const mask = (text: string) => maskText(text, spellings);
  return mapStrings(value, mask, mask);
}

function spellingsOf(secret: string): string[] {
  const [, credential = ''] = /^[A-Za-z-]+ +(\S+)$/.exec(secret) ?? [];
  return [secret, credential].flatMap((text) => [
    text,
    JSON.stringify(text).slice(1, -1),
    new URLSearchParams([['', text]]).toString().slice(1),
    percentEncode(text),
  ]);
}

/** As `encodeURIComponent`, which refuses a lone surrogate. */
function percentEncode(text: string): string {
  return /[\ud800-\udfff]/u.test(text) ? text : encodeURIComponent(text);
}

/** Occurrences that overlap are masked as one, so that no rest of either stays. */
function maskText(text: string, spellings: readonly string[]): string {
  const occurrences = spellings.flatMap((spelling) => occurrencesOf(text, spelling));
  let masked = '';
  let end = 0;
  for (const occurrence of occurrences.sort((one, other) => one.start - other.start)) {
    if (occurrence.start >= end) masked += text.slice(end, occurrence.start) + MASK;
    end = Math.max(end, occurrence.end);
  }
  return masked + text.slice(end);
}

function occurrencesOf(text: string, spelling: string): { start: number; end: number }[] {
  const found: { start: number; end: number }[] = [];
  for (let start = text.indexOf(spelling); start !== -1; start = text.indexOf(spelling, start + 1)) {
    found.push({ start, end: start + spelling.length });
  }
  return found;
}
