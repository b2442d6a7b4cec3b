import { z } from 'zod';
import { compileExpression, ExpressionError } from '../../expressions/compile.ts';
import type { Reader } from '../../expressions/context.ts';
import { credentialsOf } from '../../manifest/mask.ts';
import { HEADER_NAME } from '../../model/delivery.ts';
import { type LogRule, logFields, TRANSPORT_HEADERS } from './log-fields.ts';

/** A placeholder for an end of the window in the URL of a list: RFC 3339, or a count since 1970. */
export const WINDOW_PLACE = /\{(since|until)(?::(seconds|milliseconds))?\}/g;

/** Used in place of an expression: the next page is in the answer's Link header. */
export const LINK = 'link';

const { baseUrl: _, ...fields } = logFields;

const url = z.string().superRefine((given, context) => {
  const message = problemOfListUrl(given);
  if (message !== undefined) context.addIssue({ code: 'custom', message });
});

const headerName = z
  .string()
  .regex(HEADER_NAME, { error: 'is not a header name' })
  .refine((name) => !TRANSPORT_HEADERS.has(name.toLowerCase()), { error: 'is set by the connection itself' });

const ofAnswer = expression('response');
const ofItem = expression('item');

/** A paged list of sent deliveries, described as data: expressions over each answer and each of its items. */
export const listSchema = z
  .strictObject({
    from: z.literal('list').describe('A paged list in JSON.'),
    url: url.describe(
      'URL of the first page. {since} and {until} in it are the ends of the window in RFC 3339; {since:seconds} and {since:milliseconds} count from 1970.',
    ),
    requestHeaders: z
      .record(headerName, z.string())
      .optional()
      .describe('Headers of each request by name; a credential is env:NAME or file:PATH.'),
    requestQuery: z
      .record(z.string().min(1), z.string())
      .optional()
      .describe('Added to the query of each request by name; a credential is env:NAME or file:PATH.'),
    items: ofAnswer.describe('CEL expression over response: the list of items, such as "response.body.events".'),
    id: ofItem.describe('CEL expression over item that names what was sent, such as "item.id".'),
    time: ofItem.describe(
      'CEL expression over item: when it was sent, in RFC 3339, or in seconds or milliseconds since 1970.',
    ),
    body: ofItem
      .optional()
      .describe('CEL expression over item: the body as it was sent; a text is taken as it is. The item by default.'),
    headers: z
      .union([ofItem, z.record(headerName, ofItem)])
      .optional()
      .describe('Headers that were sent: CEL expressions over item by name, or one that gives all of them.'),
    next: expression('response', LINK)
      .optional()
      .describe(
        'The next page: "link" for the Link header, or a CEL expression over response that gives its URL; null or an empty text on the last.',
      ),
    nextQuery: z
      .record(z.string().min(1), ofAnswer)
      .refine((given) => Object.keys(given).length > 0, { error: 'is empty; it names what differs from page to page' })
      .optional()
      .describe(
        'Instead of next: query parameters of the next page by name, as CEL expressions over response; null or an empty text on the last.',
      ),
    ...fields,
  })
  .superRefine(({ next, nextQuery }, { addIssue }) => {
    if (next !== undefined && nextQuery !== undefined)
      addIssue({
        code: 'custom',
        path: ['nextQuery'],
        message: 'is set next to next; one of them finds the next page',
      });
  });

export const listRule: LogRule = { secrets: ['requestHeaders.*', 'requestQuery.*'] };

function problemOfListUrl(given: string): string | undefined {
  const filled = given.replaceAll(WINDOW_PLACE, '0');
  if (/[{}]/.test(filled)) {
    return 'has braces around something else than since, until, and :seconds or :milliseconds behind these; write %7B and %7D for braces';
  }
  if (!/^https?:\/\//i.test(filled) || !URL.canParse(filled)) return 'is not an absolute http or https URL';
  // The credentials would go to a different host at each look, or nowhere.
  if (/^[^/]*\/\/[^/?#\\]*\{/.test(given)) return 'has an end of the window in its host or port';
  const { username, password, hash } = new URL(filled);
  if (username !== '' || password !== '') return 'has user information in it; requestHeaders takes an authorization';
  if (credentialsOf(filled).length > 0)
    return 'has a credential in it; requestQuery takes one, as env:NAME or file:PATH';
  return hash === '' ? undefined : 'has a fragment, which is never sent';
}

function expression(reads: Reader, word?: string) {
  return z.string().superRefine((source, context) => {
    if (source === word) return;
    try {
      compileExpression(source, reads);
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      context.addIssue({ code: 'custom', message: error.message });
    }
  });
}
