/**
 * Where the string literal or comment that begins at `at` ends, or `at` where none does.
 * A backslash hides the next character in raw strings too: the CEL parser in use finds their end in the same way.
 */
export function skipLiteral(text: string, at: number): number {
  if (text.startsWith('//', at)) {
    const lineEnd = text.indexOf('\n', at);
    return lineEnd === -1 ? text.length : lineEnd;
  }
  const quote = text[at];
  if (quote !== '"' && quote !== "'") return at;
  const delimiter = text.startsWith(quote.repeat(3), at) ? quote.repeat(3) : quote;
  for (let index = at + delimiter.length; index < text.length; index += 1) {
    if (text[index] === '\\') index += 1;
    else if (text.startsWith(delimiter, index)) return index + delimiter.length;
  }
  return text.length;
}

/** Offset of the brace that closes a placeholder whose expression begins at `start`; undefined where none does. */
export function findClosingBrace(text: string, start: number): number | undefined {
  let depth = 0;
  for (let index = start; index < text.length; ) {
    const end = skipLiteral(text, index);
    if (end > index) {
      index = end;
      continue;
    }
    if (text[index] === '}' && depth === 0) return index;
    if (text[index] === '{') depth += 1;
    if (text[index] === '}') depth -= 1;
    index += 1;
  }
  return undefined;
}

/** Replaces a name where it stands alone: not inside a literal, not as a property. The replacement has the same length. */
export function renameIdentifier(text: string, name: string, replacement: string): string {
  const word = /\w+/y;
  let renamed = '';
  for (let index = 0; index < text.length; ) {
    word.lastIndex = index;
    const end = skipLiteral(text, index);
    const identifier = end === index ? (word.exec(text)?.[0] ?? '') : '';
    const length = Math.max(end - index, identifier.length, 1);
    const isAlone = identifier === name && !/\.\s*$/.test(renamed);
    renamed += isAlone ? replacement : text.slice(index, index + length);
    index += length;
  }
  return renamed;
}
