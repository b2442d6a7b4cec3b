import { INERT_TYPES, inertType, PLAIN_TEXT } from './inert-content.ts';

export const JSON_TYPE = 'application/json; charset=utf-8';

/** The answer to a sender from a step or a manifest. */
export interface GivenAnswer {
  readonly statusCode: number;
  readonly contentType: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Headers that a step can set; others are not sent. */
const HEADERS: ReadonlySet<string> = new Set(['content-type', 'content-language', 'cache-control']);
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;

/** Proxies accept headers of a few kilobytes in all. */
const MAX_HEADER = 1024;
/** RFC 9110, sections 15.3.5 and 15.3.6. */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205]);

/** The answer in the output of a step or a template, or the reason why the output is not a valid answer. */
export function answerOf(
  output: unknown,
  isSent: (header: string) => boolean = (header) => HEADERS.has(header),
): GivenAnswer | string {
  if (!isRecord(output)) return 'it is no object with status, headers and body';
  const { status = 200, headers: given = {}, body } = output;
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 299) {
    return 'its status is none from 200 to 299, and any other makes publishers send again';
  }
  if (!isRecord(given)) return 'its headers are no object';
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(given)) {
    const key = name.toLowerCase();
    if (!isSent(key)) continue;
    if (typeof value !== 'string' || value.length > MAX_HEADER || !HEADER_VALUE.test(value)) {
      return `its header ${key} is no text of one line of at most ${MAX_HEADER} characters`;
    }
    headers[key] = value;
  }
  const { 'content-type': type, ...others } = headers;
  const isText = typeof body === 'string' || body === undefined || body === null;
  const text = isText ? (body ?? '') : JSON.stringify(body);
  if (WITHOUT_BODY.has(status) && text !== '') return `an answer with the status ${status} has no body`;
  const contentType = inertType(type ?? (isText ? PLAIN_TEXT : JSON_TYPE));
  if (contentType === undefined) {
    return `its header content-type names a type that browsers may run, or none; accepted are ${INERT_TYPES}`;
  }
  return { statusCode: status, contentType, body: String(text), headers: others };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
