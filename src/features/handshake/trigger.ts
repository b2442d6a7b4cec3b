import { z } from 'zod';
import { hasPlaceholder } from '../../expressions/template.ts';
import { field } from '../../manifest/fields/row.ts';
import { anyCase, text } from '../../manifest/fields/values.ts';
import { verdict } from '../../manifest/fields/verdicts.ts';
import { triggerPart } from '../../manifest/trigger-part.ts';
import { HEADER_NAME } from '../../model/delivery.ts';
import { INERT_TYPES, inertType } from '../../model/inert-content.ts';
import {
  bareExpression,
  compileHandshake,
  isAnswered,
  METHODS,
  ownHandshakes,
  type WrittenHandshake,
} from './own-handshakes.ts';

const MOST_HANDSHAKES = 10;
const MOST_HEADERS = 10;
const MOST_CHARACTERS = 16 * 1024;

const answer = z.strictObject({
  status: z
    .union([z.int().min(200).max(299), z.string()], { error: 'is not a status from 200 to 299, and not an expression' })
    .optional()
    .describe('Status of the answer, 200 to 299, or an expression that gives it; 200 by default.'),
  headers: z
    .record(z.string(), z.string())
    .optional()
    .describe('Headers of the answer, as templates; none that a browser, a proxy or the connection would act on.'),
  body: z
    .unknown()
    .optional()
    .describe(
      'Body of the answer, as a template: a text is sent as text/plain, anything else as JSON; empty by default.',
    ),
});

const handshake = z
  .strictObject({
    method: anyCase(METHODS).describe('Method of the request.'),
    when: text
      .optional()
      .describe('CEL condition over query, headers and body that tells it from others; required for POST.'),
    answer: answer.describe(`The answer: templates over query, headers and body, such as "\${query.challenge}".`),
  })
  .superRefine((given, { addIssue }) => {
    const report = (path: PropertyKey[], message: string) => addIssue({ code: 'custom', path, message });
    check(given, report);
  });

type Report = (path: PropertyKey[], message: string) => void;

function check(given: WrittenHandshake, report: Report): void {
  const { method, when, answer } = given;
  if (method === 'POST' && when === undefined) {
    report(['when'], 'is required for POST: without it no delivery would start a run');
  }
  if (JSON.stringify(answer).length > MOST_CHARACTERS) {
    report(['answer'], `has more than ${MOST_CHARACTERS} characters`);
    return;
  }
  const found = compileHandshake(given);
  if (!('answer' in found)) for (const { path, message } of found) report(path, message);
  const { status, headers = {}, body } = answer;
  if (typeof status === 'string' && !/^\$\{.*\}$/s.test(status)) {
    report(['answer', 'status'], `is a text; write a number, or an expression such as \${int(query.status)}`);
  }
  if (Object.keys(headers).length > MOST_HEADERS)
    report(['answer', 'headers'], `has more than ${MOST_HEADERS} headers`);
  for (const [name, value] of Object.entries(headers)) checkHeader(name, value, report);
  const bare = typeof body === 'string' ? bareExpression(body) : undefined;
  if (bare !== undefined) report(['answer', 'body'], bare);
}

function checkHeader(name: string, value: string, report: Report): void {
  const path = ['answer', 'headers', name];
  if (!HEADER_NAME.test(name)) report(path, 'is not a header name');
  const bare = bareExpression(value);
  if (bare !== undefined) report(path, bare);
  if (!isAnswered(name)) {
    report(path, 'is a header that a browser, a proxy or the connection would act on, or that the service sets itself');
  }
  const isType = name.toLowerCase() === 'content-type' && !hasPlaceholder(value);
  if (isType && inertType(value) === undefined) {
    report(path, `is a type that browsers may run, on the origin of the dashboard; accepted are ${INERT_TYPES}`);
  }
}

const handshakes = z
  .union([handshake, z.array(handshake).min(1).max(MOST_HANDSHAKES)])
  .transform((given) => [given].flat())
  .superRefine((list, { addIssue }) => {
    for (const [at, { method }] of list.entries()) {
      const before = list.findIndex((each, index) => index < at && each.method === method && each.when === undefined);
      if (before === -1) continue;
      const message = `is never reached: ${method} is answered by the one before it that has no "when"`;
      addIssue({ code: 'custom', path: [at], message });
    }
  });

const fields = {
  webhookHandshake: field({
    schema: handshakes.describe(
      'Answers to tests of the endpoint by a publisher: method, when and answer, or a list of them. They need no signature and start no run.',
    ),
    holds: 'value',
    decides: 'answer',
    readBy: 'every scheme',
    docs: 'endpoint',
    change: {
      rule: (_before, after = []) => {
        if (after.length === 0)
          return verdict('same', 'Requests that it answered are judged as deliveries, or get 405.');
        const isPost = after.some(({ method }) => method === 'POST');
        const lost = isPost ? ' A delivery that its condition is true for starts none either.' : '';
        return verdict(
          'same',
          `Anyone who sends such a request is answered without a signature; no run starts.${lost}`,
        );
      },
      edits: {
        same: [
          [undefined, { method: 'GET', answer: { body: `\${query.challenge}` } }],
          [{ method: 'GET', answer: {} }, [{ method: 'HEAD', answer: {} }]],
        ],
      },
    },
  }),
};

export const handshakeTrigger = triggerPart({
  name: 'handshake',
  fields,
  handshakes: ({ webhookHandshake = [] }) => ownHandshakes(webhookHandshake),
});
