/** Any value that survives a round trip through JSON. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

export type JsonObject = { readonly [key: string]: Json };

/** Whether lists and objects are nested deeper than that in a JSON text: read without recursion, so that any text may come. */
export function isNestedDeeper(json: string, levels: number): boolean {
  let depth = 0;
  for (let index = 0; index < json.length; index += 1) {
    switch (json[index]) {
      case '"':
        index = endOfString(json, index);
        break;
      case '[':
      case '{':
        depth += 1;
        if (depth > levels) return true;
        break;
      case ']':
      case '}':
        depth -= 1;
        break;
    }
  }
  return false;
}

function endOfString(json: string, start: number): number {
  let index = start + 1;
  while (index < json.length && json[index] !== '"') index += json[index] === '\\' ? 2 : 1;
  return index;
}
