// In a larger text, numbers are shown as the browser reads them: keeping their text takes a second for a mebibyte.
const MAX_EXACT_CHARACTERS = 262_144;

const MAY_CHANGE = /(?:^|[\s:,[])-?(?:[\d.]{16,}|\d+(?:\.\d+)?[eE]|\d+\.\d*0(?![\d.]))/;

/**
 * Like `JSON.parse`, but a number that a double would change, such as an order id of 20 digits, keeps its original text
 * in browsers that have `JSON.rawJSON`. `JSON.stringify` writes that text.
 */
export function parseJson(text: string): unknown {
  const rawJson: unknown = Reflect.get(JSON, 'rawJSON');
  if (typeof rawJson !== 'function' || text.length > MAX_EXACT_CHARACTERS || !MAY_CHANGE.test(text)) {
    return JSON.parse(text);
  }
  const exactly = (...[, value, token]: [string, unknown, { source?: string }?]): unknown => {
    const source = token?.source;
    return typeof value === 'number' && source !== undefined && source !== String(value) ? rawJson(source) : value;
  };
  return JSON.parse(text, exactly);
}

/** Whether it is a number that kept its text. */
export function isExactNumber(value: unknown): boolean {
  const isRawJson: unknown = Reflect.get(JSON, 'isRawJSON');
  return typeof isRawJson === 'function' && isRawJson(value) === true;
}

/** Why a text is not valid JSON, in one line; null if it is. An empty text is valid. */
export function jsonProblem(text: string): string | null {
  if (text.trim() === '') return null;
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return `This is not JSON: ${error instanceof Error ? error.message : error}`;
  }
}
