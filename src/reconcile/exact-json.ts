import { findNodeAtLocation, parseTree } from 'jsonc-parser';
import type { Json } from '../model/json.ts';

/**
 * Texts that the value at a place of a JSON document may have had where a publisher wrote it without white space, the likeliest
 * first: as the document spells it, so that numbers and escapes stay as they are, as JavaScript does, and as Rails does.
 */
export function exactTexts(
  document: string,
  path: readonly (string | number)[],
  value: Json,
): readonly [string, ...string[]] {
  const root = parseTree(document);
  const node = root && findNodeAtLocation(root, [...path]);
  const plain = JSON.stringify(value);
  const found = node && withoutSpace(document.slice(node.offset, node.offset + node.length));
  const [first = plain, ...others] = new Set([...(found === undefined ? [] : [found]), plain, inRails(plain)]);
  return [first, ...others];
}

function withoutSpace(json: string): string {
  return json.replace(/("(?:[^"\\]|\\.)*")|\s+/gs, (_, text: string | undefined) => text ?? '');
}

/** ActiveSupport escapes what HTML and JavaScript could misread: its `JSON::Encoding`, read 2026-11. */
function inRails(json: string): string {
  return json.replace(/[<>&\u2028\u2029]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
