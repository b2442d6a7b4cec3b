/**
 * Says for each character whether it belongs to a spelling of one of the texts, by regular expressions. This is the
 * specification of `searchFor`, as simple as possible; for some texts it takes exponential time.
 */
export function foundByPattern(text: string, secrets: readonly string[]): boolean[] {
  const found = Array<boolean>(text.length).fill(false);
  for (const secret of secrets) {
    const encoded = [secret, JSON.stringify(secret).slice(1, -1)].flatMap((text) => [hexOf(text), ...base64Of(text)]);
    for (const pattern of [spelled(secret), ...encoded]) {
      const search = new RegExp(pattern, 'g');
      for (let match = search.exec(text); match !== null; match = search.exec(text)) {
        found.fill(true, match.index, search.lastIndex);
        search.lastIndex = match.index + 1;
      }
    }
  }
  return found;
}

const NAMED_ENTITIES: Readonly<Record<string, string>> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": 'apos' };
const JSON_LETTERS: Readonly<Record<string, string>> = { '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't' };

/** A pattern for a text in which any character may be escaped, because servers choose what they escape. */
function spelled(text: string): string {
  return (text.match(/\\+|[\s\S]/gu) ?? []).map(spelledPiece).join('');
}

function spelledPiece(piece: string): string {
  const [char = ''] = piece;
  if (char === '\\') {
    const { length } = piece;
    return `(?:\\\\{${length},${length * 4}}|(?:%(?:25){0,2}5[cC]|&#0{0,2}92;|&#[xX]0{0,2}5[cC];|\\\\{1,3}u005[cC]){${length}})`;
  }
  const units = [...Array(piece.length).keys()].map((at) => `\\\\{1,3}u${anyCaseHex(piece.charCodeAt(at), 4)}`);
  const bytes = [...Buffer.from(piece)].map((byte) => `%(?:25){0,2}${anyCaseHex(byte, 2)}`);
  const spellings = [escapeRegExp(piece), bytes.join(''), units.join('')];
  if (piece === ' ') spellings.push('\\+');
  if (/["'/]/.test(piece)) spellings.push(`\\\\{1,3}${piece}`);
  const letter = JSON_LETTERS[piece];
  if (letter !== undefined) spellings.push(`\\\\{1,3}${letter}`);
  if (/^[!-/:-@[-`{-~]$/.test(piece)) spellings.push(...entitiesOf(piece));
  return `(?:${spellings.join('|')})`;
}

function entitiesOf(char: string): string[] {
  const code = char.charCodeAt(0);
  const name = NAMED_ENTITIES[char];
  return [`&#0{0,2}${code};`, `&#[xX]0{0,2}${anyCaseHex(code, 2)};`, ...(name === undefined ? [] : [`&${name};`])];
}

function hexOf(text: string): string {
  return [...Buffer.from(text)].map((byte) => anyCaseHex(byte, 2)).join('');
}

function anyCaseHex(value: number, digits: number): string {
  const hex = value.toString(16).padStart(digits, '0');
  return hex.replace(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`);
}

/**
 * The text at any place within a larger encoded text: after full groups of three bytes, or one or two bytes more.
 * Searches for the digits that depend on the text alone. A last digit that also holds bits of the text's neighbours
 * belongs to the match if present.
 */
function base64Of(text: string): string[] {
  const bytes = Buffer.from(text);
  return [0, 1, 2].map((offset) => {
    const digits = Buffer.concat([Buffer.alloc(offset), bytes])
      .toString('base64')
      .replace(/=+$/, '');
    const isShared = (offset + bytes.length) % 3 !== 0;
    const own = digits.slice(offset === 0 ? 0 : offset + 1, isShared ? -1 : undefined);
    const pattern = [...own].map(spelledDigit).join('');
    return isShared ? `${pattern}(?:${BASE64_DIGIT}(?:=|%(?:25){0,2}3[dD]|\\\\u003[dD]){0,2})?` : pattern;
  });
}

const BASE64_DIGIT = '(?:[A-Za-z0-9+/_-]|%(?:25){0,2}2[bBfF])';

function spelledDigit(digit: string): string {
  if (digit === '+') return '(?:[+-]|%(?:25){0,2}2[bB]|\\\\{1,3}u002[bB])';
  if (digit === '/') return '(?:[/_]|%(?:25){0,2}2[fF]|\\\\{1,3}/|\\\\{1,3}u002[fF])';
  return digit;
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&');
}
