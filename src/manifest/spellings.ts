/** Calls back for each position where a text begins, in order, with the end of the longest spelling there. */
export type Search = (text: string, found: (from: number, to: number) => void) => void;

/**
 * Searches for texts in plain form, percent-encoded or escaped for JSON or HTML in any mix, in base64 or base64url at
 * any alignment, and in hex. Finds texts that were encoded twice, but not deeper. Preparing takes time linear in the
 * texts, searching linear in the searched text, for any input: beyond `STEPS_A_CHARACTER`, everything from there on
 * counts as found.
 */
export function searchFor(texts: readonly string[]): Search {
  const [plain, hex, base64] = [newTree(), newTree(), newTree()];
  for (const text of texts) {
    addTo(plain, symbolsOf(text));
    // Encoded text is often JSON, in which a PEM or a quotation mark is escaped.
    for (const written of new Set([text, JSON.stringify(text).slice(1, -1)])) {
      addTo(hex, [...Buffer.from(written)]);
      for (const { digits, isShared } of base64Of(written)) addTo(base64, digits, isShared);
    }
  }
  const begins = beginnings({ plain, hex, base64 });
  return (text, found) => {
    const work = { left: STEPS_A_CHARACTER * (text.length + 1) };
    for (let at = 0; at < text.length; at += 1) {
      const [code, next] = [text.charCodeAt(at), text.charCodeAt(at + 1)];
      const ways = code < ASCII ? (begins[code * ASCII + (next < ASCII ? next : 0)] ?? 0) : AS_PLAIN;
      if (ways === 0) continue;
      let end = -1;
      if (ways & AS_PLAIN) end = endOfPlain(text, { tree: plain, at }, work);
      if (ways & AS_HEX) end = Math.max(end, endOfHex(text, { tree: hex, at }, work));
      if (ways & AS_BASE64) end = Math.max(end, endOfBase64(text, { tree: base64, at }, work));
      if (work.left < 0) end = text.length;
      if (end > at) found(at, end);
      if (work.left < 0) return;
    }
  };
}

// Ordinary texts take one or two. Only repetitive secrets need more, in repetitive texts.
const STEPS_A_CHARACTER = 64;
const ASCII = 128;
const [AS_PLAIN, AS_HEX, AS_BASE64] = [1, 2, 4];

/** The remaining steps of a search. */
interface Work {
  left: number;
}

/** A tree of symbols: texts with the same beginning share its nodes. */
interface Tree {
  /** Identifies, together with a position, where a search is in one text. */
  readonly id: number;
  readonly symbol: number;
  /** The last child that was added; the others follow as its siblings. */
  child: Tree | undefined;
  readonly sibling: Tree | undefined;
  /** Whether a text ends here. */
  isEnd: boolean;
  /** Whether the digit after it holds bits of the text too. */
  isShared: boolean;
}

let lastId = 0;

function newTree(symbol = 0, sibling?: Tree): Tree {
  lastId += 1;
  return { id: lastId, symbol, child: undefined, sibling, isEnd: false, isShared: false };
}

function addTo(root: Tree, symbols: readonly number[], isShared = false): void {
  let tree = root;
  for (const symbol of symbols) {
    let child = childOf(tree, symbol);
    if (child === undefined) {
      child = newTree(symbol, tree.child);
      tree.child = child;
    }
    tree = child;
  }
  tree.isEnd = true;
  if (isShared) tree.isShared = true;
}

function childOf(tree: Tree, symbol: number): Tree | undefined {
  let child = tree.child;
  while (child !== undefined && child.symbol !== symbol) child = child.sibling;
  return child;
}

const [AMPERSAND, PERCENT, PLUS, SLASH, BACKSLASH] = [38, 37, 43, 47, 92];
/** UTF-8 cannot write half of a surrogate pair in any other way, so all halves are the same symbol. */
const REPLACEMENT = 0xfffd;

/** The code points of a text, and the negative length of each run of backslashes. */
function symbolsOf(text: string): number[] {
  return (text.match(/\\+|[\s\S]/gu) ?? []).map((piece) =>
    piece.startsWith('\\') ? -piece.length : wholeOf(piece.codePointAt(0) ?? 0),
  );
}

function wholeOf(code: number): number {
  return code >= 0xd800 && code <= 0xdfff ? REPLACEMENT : code;
}

/** Where a search in a tree begins. */
interface Start {
  readonly tree: Tree;
  readonly at: number;
}

/** The end of the longest text that begins there, or -1. */
function endOfPlain(text: string, start: Start, work: Work): number {
  let { tree, at } = start;
  let end = -1;
  // The next symbol can almost always be read in only one way.
  while (isOnlyItself(text.charCodeAt(at))) {
    work.left -= 1;
    const child = childOf(tree, text.charCodeAt(at));
    if (child === undefined || work.left < 0) return end;
    [tree, at] = [child, at + 1];
    if (tree.isEnd) end = at;
  }
  let places: Start[] = [{ tree, at }];
  while (places.length > 0 && work.left >= 0) {
    const next: Start[] = [];
    // A run of backslashes can be read in several ways that meet again: look at each place once.
    const seen = places.length > 1 ? new Set<number>() : undefined;
    const visit = (child: Tree, behind: number) => {
      work.left -= 1;
      const key = child.id * (text.length + 1) + behind;
      if (seen?.has(key) === true) return;
      seen?.add(key);
      if (child.isEnd) end = Math.max(end, behind);
      if (child.child !== undefined) next.push({ tree: child, at: behind });
    };
    for (const place of places) step(text, place, { visit, work });
    work.left -= 1;
    places = next;
  }
  return end;
}

function isOnlyItself(code: number): boolean {
  if (code === AMPERSAND || code === PERCENT || code === PLUS || code === BACKSLASH) return false;
  // Also false for NaN, after the end of the text.
  return code < 0xd800 || code > 0xdfff;
}

type Visit = (tree: Tree, at: number) => void;

/** Visits the place after each possible reading of the next symbol. */
function step(
  text: string,
  { tree, at }: Start,
  { visit, work }: { readonly visit: Visit; readonly work: Work },
): void {
  const take = (symbol: number, next: number) => {
    const child = childOf(tree, symbol);
    if (child !== undefined) visit(child, next);
  };
  const code = text.charCodeAt(at);
  if (Number.isNaN(code)) return;
  if (code >= 0xd800 && code <= 0xdfff) {
    const point = text.codePointAt(at) ?? code;
    if (point > 0xffff) take(point, at + 2);
    take(REPLACEMENT, at + 1);
    return;
  }
  take(code, at + 1);
  if (code === PLUS) take(0x20, at + 1);
  if (code === PERCENT) readPercent(text, at, take);
  if (code === BACKSLASH) readEscape(text, at, take);
  if (code === AMPERSAND) readEntity(text, at, take);
  if (code !== BACKSLASH && code !== PERCENT && code !== AMPERSAND) return;
  for (let run = tree.child; run !== undefined; run = run.sibling) {
    if (run.symbol < 0) readRun(text, { at, length: -run.symbol, work }, (next) => visit(run, next));
  }
}

type Take = (symbol: number, next: number) => void;

/** One character, each byte of it after `%`, `%25` or `%2525`. */
function readPercent(text: string, at: number, take: Take): void {
  for (let digits = at + 1; digits <= at + 5; digits += 2) {
    const byte = byteAt(text, digits);
    if (byte >= 0 && byte < 0x80) take(byte, digits + 2);
    if (byte >= 0xc2) readContinuation(text, { byte, at: digits + 2 }, take);
    if (byte !== PERCENT) return;
  }
}

function readContinuation(text: string, { byte, at }: { byte: number; at: number }, take: Take): void {
  const count = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
  let point = byte & (0x3f >> count);
  let next = at;
  for (let read = 0; read < count; read += 1) {
    if (text.charCodeAt(next) !== PERCENT) return;
    let digits = next + 1;
    while (digits < next + 5 && byteAt(text, digits) === PERCENT) digits += 2;
    const more = byteAt(text, digits);
    if (more >> 6 !== 2) return;
    point = point * 0x40 + (more & 0x3f);
    next = digits + 2;
  }
  take(wholeOf(point), next);
}

const JSON_LETTERS: Readonly<Record<string, number>> = {
  b: 8,
  f: 12,
  n: 10,
  r: 13,
  t: 9,
  '"': 34,
  "'": 39,
  '/': SLASH,
};

/** An escape of JSON or JavaScript after up to three backslashes. */
function readEscape(text: string, at: number, take: Take): void {
  const letter = afterBackslashes(text, at);
  const char = text.charAt(letter);
  const known = JSON_LETTERS[char];
  if (known !== undefined) take(known, letter + 1);
  if (char !== 'u') return;
  const unit = unitAt(text, letter);
  if (unit < 0) return;
  take(wholeOf(unit), letter + 5);
  if (unit >> 10 !== 0x36 || text.charCodeAt(letter + 5) !== BACKSLASH) return;
  const second = afterBackslashes(text, letter + 5);
  const low = text.charAt(second) === 'u' ? unitAt(text, second) : -1;
  if (low >> 10 === 0x37) take(0x10000 + ((unit & 0x3ff) << 10) + (low & 0x3ff), second + 5);
}

function unitAt(text: string, letter: number): number {
  const [high, low] = [byteAt(text, letter + 1), byteAt(text, letter + 3)];
  return high < 0 || low < 0 ? -1 : high * 256 + low;
}

function afterBackslashes(text: string, at: number): number {
  let end = at;
  while (end < at + 3 && text.charCodeAt(end) === BACKSLASH) end += 1;
  return end;
}

const ENTITY = /&(?:#0{0,2}([1-9]\d{1,2})|#[xX]0{0,2}([2-7][\da-fA-F])|(amp|lt|gt|quot|apos));/y;
const NAMED_ENTITIES: Readonly<Record<string, number>> = { amp: 38, lt: 60, gt: 62, quot: 34, apos: 39 };

/** An ASCII character other than letters and digits, as an HTML entity. */
function readEntity(text: string, at: number, take: Take): void {
  ENTITY.lastIndex = at;
  const [all = '', decimal, hex, name = ''] = ENTITY.exec(text) ?? [];
  if (all === '') return;
  const code =
    decimal !== undefined ? Number(decimal) : hex !== undefined ? Number.parseInt(hex, 16) : NAMED_ENTITIES[name];
  if (code !== undefined && /^[!-/:-@[-`{-~]$/.test(String.fromCharCode(code))) take(code, at + all.length);
}

const ENCODED_BACKSLASH = /%(?:25){0,2}5[cC]|&#0{0,2}92;|&#[xX]0{0,2}5[cC];|\\{1,3}u005[cC]/y;

/** A run of backslashes: up to four for each if a text was escaped twice, or each one was encoded. */
function readRun(
  text: string,
  { at, length, work }: { at: number; length: number; work: Work },
  take: (next: number) => void,
): void {
  for (let end = at; end < at + length * 4 && text.charCodeAt(end) === BACKSLASH; ) {
    end += 1;
    if (end >= at + length) take(end);
  }
  ENCODED_BACKSLASH.lastIndex = at;
  for (let read = 0; read < length; read += 1) {
    work.left -= 1;
    if (work.left < 0 || !ENCODED_BACKSLASH.test(text)) return;
  }
  take(ENCODED_BACKSLASH.lastIndex);
}

/** The value of two hexadecimal digits, or -1. */
function byteAt(text: string, at: number): number {
  const [high, low] = [digitOf(text.charCodeAt(at)), digitOf(text.charCodeAt(at + 1))];
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

function digitOf(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const letter = code | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

function endOfHex(text: string, start: Start, work: Work): number {
  let end = -1;
  let tree: Tree | undefined = start.tree;
  for (let at = start.at; tree?.child !== undefined; ) {
    work.left -= 1;
    tree = childOf(tree, byteAt(text, at));
    at += 2;
    if (tree?.isEnd === true) end = at;
  }
  return end;
}

/**
 * The text's digits at each position in encoded content: after whole groups of three bytes, or one or two bytes more.
 * The search compares the digits that only the text decides. `isShared`: the digit after them also holds bits of the
 * text's neighbours and belongs to the match.
 */
function base64Of(text: string): { readonly digits: number[]; readonly isShared: boolean }[] {
  const bytes = Buffer.from(text);
  return [0, 1, 2].map((offset) => {
    const digits = Buffer.concat([Buffer.alloc(offset), bytes])
      .toString('base64')
      .replace(/=+$/, '');
    const isShared = (offset + bytes.length) % 3 !== 0;
    return {
      digits: [...Buffer.from(digits.slice(offset === 0 ? 0 : offset + 1, isShared ? -1 : undefined))],
      isShared,
    };
  });
}

const ENCODED_DIGIT = /%(?:25){0,2}2[bBfF]|\\{1,3}(?:\/|u002[bBfF])/y;
const SHARED_DIGIT = /(?:[A-Za-z0-9+/_-]|%(?:25){0,2}2[bBfF])(?:=|%(?:25){0,2}3[dD]|\\u003[dD]){0,2}/y;

function endOfBase64(text: string, start: Start, work: Work): number {
  let end = -1;
  let { tree, at } = start;
  while (tree.child !== undefined) {
    work.left -= 1;
    const { digit, next } = base64DigitAt(text, at);
    const child = childOf(tree, digit);
    if (child === undefined) return end;
    [tree, at] = [child, next];
    if (tree.isEnd) end = Math.max(end, at, tree.isShared ? afterSharedDigit(text, at) : 0);
  }
  return end;
}

/** Reads digits of base64url as those of base64. */
function base64DigitAt(text: string, at: number): { digit: number; next: number } {
  const digit = text.charCodeAt(at);
  if (digit === 0x2d) return { digit: PLUS, next: at + 1 };
  if (digit === 0x5f) return { digit: SLASH, next: at + 1 };
  if (digit !== PERCENT && digit !== BACKSLASH) return { digit, next: at + 1 };
  ENCODED_DIGIT.lastIndex = at;
  const encoded = ENCODED_DIGIT.exec(text)?.[0];
  if (encoded === undefined) return { digit: -1, next: at };
  return { digit: /b$/i.test(encoded) ? PLUS : SLASH, next: at + encoded.length };
}

function afterSharedDigit(text: string, at: number): number {
  SHARED_DIGIT.lastIndex = at;
  return SHARED_DIGIT.test(text) ? SHARED_DIGIT.lastIndex : at;
}

/**
 * For each pair of ASCII characters, the encodings in which a text can begin with it; 0 means any other second one.
 * After the beginning of an escape, anything can follow.
 */
function beginnings({ plain, hex, base64 }: Record<'plain' | 'hex' | 'base64', Tree>): Uint8Array {
  const begins = new Uint8Array(ASCII * ASCII);
  const allow = (way: number, first: number, second: number) => {
    const [row, column] = [first * ASCII, second < ASCII ? second : 0];
    if (first < ASCII) begins[row + column] = (begins[row + column] ?? 0) | way;
  };
  const allowAll = (way: number, first: number) => {
    for (let second = 0; second < ASCII; second += 1) allow(way, first, second);
  };
  for (const first of ESCAPES) allowAll(AS_PLAIN, first);
  for (const child of childrenOf(plain)) {
    for (const first of plainCharsOf(child)) {
      if (child.isEnd) allowAll(AS_PLAIN, first);
      for (const second of [...ESCAPES, ...childrenOf(child).flatMap(plainCharsOf)]) allow(AS_PLAIN, first, second);
    }
  }
  for (const { symbol } of childrenOf(hex)) {
    const [high = '', low = ''] = symbol.toString(16).padStart(2, '0');
    for (const first of [high, high.toUpperCase()]) {
      for (const second of [low, low.toUpperCase()]) allow(AS_HEX, first.charCodeAt(0), second.charCodeAt(0));
    }
  }
  for (const child of childrenOf(base64)) {
    for (const first of base64CharsOf(child)) {
      if (child.isEnd || ESCAPES.includes(first)) allowAll(AS_BASE64, first);
      for (const second of childrenOf(child).flatMap(base64CharsOf)) allow(AS_BASE64, first, second);
    }
  }
  return begins;
}

const ESCAPES = [AMPERSAND, PERCENT, BACKSLASH];

function plainCharsOf({ symbol }: Tree): number[] {
  if (symbol < 0) return ESCAPES;
  // A surrogate pair, or half of one, begins with a non-ASCII unit too.
  return symbol === 0x20 ? [symbol, PLUS] : [symbol];
}

function base64CharsOf({ symbol }: Tree): number[] {
  if (symbol === PLUS) return [PLUS, 0x2d, PERCENT, BACKSLASH];
  if (symbol === SLASH) return [SLASH, 0x5f, PERCENT, BACKSLASH];
  return [symbol];
}

function childrenOf({ child }: Tree): Tree[] {
  const children: Tree[] = [];
  for (let each = child; each !== undefined; each = each.sibling) children.push(each);
  return children;
}
