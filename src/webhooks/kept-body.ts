import { endOfString } from '../model/json.ts';
import { REDACTED } from './headers.ts';
import { BUILT_IN_SCHEMES } from './schemes/publishers/index.ts';
import type { ResolvedScheme } from './schemes/resolve.ts';
import type { SignatureSpec } from './schemes/spec.ts';
import type { StandardRule } from './schemes/standards/standard.ts';

/** Returns the body that is kept and that flows read, without the parts that only the gates may see. */
export type KeepBody = (body: Buffer) => Buffer;

/** Undefined if the whole body is kept. */
export function prepareKeptBody(scheme: ResolvedScheme | undefined): KeepBody | undefined {
  if (scheme?.kind === 'standard') return isBodyToken(scheme.standard.rule) ? claimsOf : undefined;
  if (scheme?.kind !== 'spec') return undefined;
  const names = tokenMembers([scheme.spec, scheme.previousSpec ?? scheme.spec]);
  return names.size === 0 ? undefined : (body) => withoutMembers(body, names);
}

/**
 * Whether the gates judge the content of an encoded body, because the scheme signs it or carries the signature in it.
 * All encodings of one content then have the same nonce, and the content is kept.
 */
export function readsContent(scheme: ResolvedScheme | undefined): boolean {
  if (scheme?.kind !== 'spec') return prepareKeptBody(scheme) !== undefined;
  return [scheme.spec, scheme.previousSpec ?? scheme.spec].some(
    ({ signsContent, headers }) => signsContent === true || headers.length === 0,
  );
}

/** For bodies sent to a slug without a trigger: they may have been meant for any built-in scheme. */
export const keepOfUnknown: KeepBody = (body) => claimsOf(withoutMembers(body, BUILT_IN_TOKENS));

const BUILT_IN_TOKENS = tokenMembers(BUILT_IN_SCHEMES);

/** Names of the members that hold a token in the bodies of these schemes. */
function tokenMembers(specs: readonly SignatureSpec[]): ReadonlySet<string> {
  const tokens = specs.filter(({ algorithm }) => algorithm === 'token');
  return new Set(
    tokens.flatMap(({ signatureFields = [] }) => signatureFields.flatMap(({ path }) => path.at(-1) ?? [])),
  );
}

const isBodyToken = (rule: StandardRule) => rule.standard === 'Jwt' && rule.carrier === 'body';

/** The claims of a body that is a token, as sent. The token itself would pass wherever its key is trusted. */
function claimsOf(body: Buffer): Buffer {
  const [, claims] = /^[\w-]+\.([\w-]+)\.[\w-]+$/.exec(body.toString('latin1')) ?? [];
  return claims === undefined ? body : Buffer.from(claims, 'base64url');
}

/**
 * Redacts the values of these members at any depth in JSON, and keeps every other byte as it came. Malformed JSON is
 * searched as far as it looks like JSON, because it is kept too.
 */
function withoutMembers(body: Buffer, names: ReadonlySet<string>): Buffer {
  const text = body.toString('latin1');
  let kept = '';
  let from = 0;
  for (let at = text.indexOf('"'); at !== -1; ) {
    const end = behindString(text, at);
    const value = valueBehind(text, end);
    if (value !== undefined && names.has(unescaped(text.slice(at, end)))) {
      const valueEnd = text[value] === '"' ? behindString(text, value) : endOfWord(text, value);
      kept += `${text.slice(from, value)}"${REDACTED}"`;
      from = valueEnd;
      at = text.indexOf('"', valueEnd);
    } else at = text.indexOf('"', end);
  }
  return from === 0 ? body : Buffer.from(kept + text.slice(from), 'latin1');
}

/** The position after the closing quotation mark. */
function behindString(text: string, start: number): number {
  return Math.min(endOfString(text, start) + 1, text.length);
}

function endOfWord(text: string, start: number): number {
  let at = start;
  while (at < text.length && /[\w.+-]/.test(text[at] ?? '')) at += 1;
  return at;
}

/** The start of the value of the member whose name ends here; undefined if the value is neither text nor number. */
function valueBehind(text: string, end: number): number | undefined {
  const colon = skipSpace(text, end);
  if (text[colon] !== ':') return undefined;
  const value = skipSpace(text, colon + 1);
  return /["\d-]/.test(text[value] ?? '') ? value : undefined;
}

function skipSpace(text: string, start: number): number {
  let at = start;
  while (/\s/.test(text[at] ?? '')) at += 1;
  return at;
}

function unescaped(quoted: string): string {
  try {
    return String(JSON.parse(quoted));
  } catch {
    return quoted;
  }
}
