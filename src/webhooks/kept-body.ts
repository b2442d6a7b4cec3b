import { endOfString } from '../model/json.ts';
import { REDACTED } from './headers.ts';
import { BUILT_IN_SCHEMES } from './schemes/publishers/index.ts';
import type { ResolvedScheme } from './schemes/resolve.ts';
import type { SignatureSpec } from './schemes/spec.ts';
import type { StandardRule } from './schemes/standards/standard.ts';

/** What of a body is kept and read by flows, where the body holds what only the gates may see. */
export type KeepBody = (body: Buffer) => Buffer;

/** Undefined where all of a body is kept. */
export function prepareKeptBody(scheme: ResolvedScheme | undefined): KeepBody | undefined {
  if (scheme?.kind === 'standard') return isBodyToken(scheme.standard.rule) ? claimsOf : undefined;
  if (scheme?.kind !== 'spec') return undefined;
  const names = tokenMembers([scheme.spec, scheme.previousSpec ?? scheme.spec]);
  return names.size === 0 ? undefined : (body) => withoutMembers(body, names);
}

/**
 * Whether the gates judge the content of an encoded body: where the scheme signs it, or carries the signature in it. All that a
 * sender can make of the bytes then has one name, and is kept as content.
 */
export function readsContent(scheme: ResolvedScheme | undefined): boolean {
  if (scheme?.kind !== 'spec') return prepareKeptBody(scheme) !== undefined;
  return [scheme.spec, scheme.previousSpec ?? scheme.spec].some(
    ({ signsContent, headers }) => signsContent === true || headers.length === 0,
  );
}

/** What is kept of a body at a slug of no trigger: it may have been meant for one of any built-in scheme. */
export const keepOfUnknown: KeepBody = (body) => claimsOf(withoutMembers(body, BUILT_IN_TOKENS));

const BUILT_IN_TOKENS = tokenMembers(BUILT_IN_SCHEMES);

/** Names of the members that hold a token in bodies of such schemes. */
function tokenMembers(specs: readonly SignatureSpec[]): ReadonlySet<string> {
  const tokens = specs.filter(({ algorithm }) => algorithm === 'token');
  return new Set(
    tokens.flatMap(({ signatureFields = [] }) => signatureFields.flatMap(({ path }) => path.at(-1) ?? [])),
  );
}

const isBodyToken = (rule: StandardRule) => rule.standard === 'Jwt' && rule.carrier === 'body';

/** Of a body that is a token: what it says, as it came. The token itself would pass anywhere that its key is trusted. */
function claimsOf(body: Buffer): Buffer {
  const [, claims] = /^[\w-]+\.([\w-]+)\.[\w-]+$/.exec(body.toString('latin1')) ?? [];
  return claims === undefined ? body : Buffer.from(claims, 'base64url');
}

/**
 * The JSON without the values of such members, wherever they are, and every other byte as it came. What is no JSON is read as far
 * as it looks like it, because it is kept too.
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

/** Behind the quotation mark that ends it. */
function behindString(text: string, start: number): number {
  return Math.min(endOfString(text, start) + 1, text.length);
}

function endOfWord(text: string, start: number): number {
  let at = start;
  while (at < text.length && /[\w.+-]/.test(text[at] ?? '')) at += 1;
  return at;
}

/** Where the value of a member is whose name ends here; undefined where that is no text and no number. */
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
