import { z } from 'zod';
import { type CompiledExpression, ExpressionError } from '../../expressions/compile.ts';
import { compileCondition } from '../../expressions/condition.ts';
import { anyJson } from '../../flows/handlers/handler.ts';
import { HEADER_NAME } from '../../model/delivery.ts';
import { isExactNumber } from '../../model/json.ts';
import { LEAST_PER_SECOND, MOST_PER_SECOND } from './host-limits.ts';
import { signingInputs } from './http-signing.ts';

interface StatusRange {
  readonly from: number;
  readonly to: number;
}

/** Time limit of a request, unless its step sets one. */
export const REQUEST_SECONDS = 30;

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;

// Headers of the connection itself: if set by hand, they would let a step smuggle a second request.
const CONNECTION_HEADERS: ReadonlySet<string> = new Set(
  'connection content-length expect host keep-alive proxy-connection te trailer transfer-encoding upgrade'.split(' '),
);
// Visible Latin-1 and blanks: the characters of a header line, without line breaks.
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

const exact = z.custom<ReturnType<typeof JSON.rawJSON>>(isExactNumber).transform(({ rawJSON }) => rawJSON);
const scalar = z
  .union([z.string(), z.number(), z.boolean(), exact], 'expected a string, number or boolean')
  .transform(String);

const url = z.string().transform((text, context) => {
  const parsed = URL.canParse(text) ? new URL(text) : undefined;
  const problem = problemOfUrl(parsed);
  if (parsed !== undefined && problem === undefined) return parsed;
  // Never the text itself: a URL can be a secret.
  context.addIssue({ code: 'custom', message: problem ?? '' });
  return z.NEVER;
});

/** The mistake in a URL to call; undefined if there is none. */
export function problemOfUrl(parsed: URL | undefined): string | undefined {
  if (parsed === undefined) return 'expected an absolute URL such as https://api.example.com/orders';
  if (parsed.protocol !== 'http:' && parsed.protocol !== 'https:') return 'expected a URL of scheme http or https';
  if (parsed.username !== '' || parsed.password !== '') {
    return 'expected a URL without user name and password; send an authorization header instead';
  }
  return undefined;
}

const headers = z.record(z.string(), scalar).transform((given, context) => {
  const byName = new Map<string, string>();
  for (const [key, value] of Object.entries(given)) {
    const name = key.toLowerCase();
    const problem = byName.has(name) ? 'is given twice' : problemOfHeader(name, value);
    if (problem !== undefined) context.addIssue({ code: 'custom', path: [key], message: problem });
    byName.set(name, value);
  }
  return byName;
});

function problemOfHeader(name: string, value: string): string | undefined {
  if (!HEADER_NAME.test(name)) return 'is not a header name';
  if (CONNECTION_HEADERS.has(name)) return 'is set by the connection itself';
  return HEADER_VALUE.test(value) ? undefined : 'expected a value without line breaks and characters beyond Latin-1';
}

const query = z
  .record(z.string(), z.union([scalar, z.array(scalar), z.null()]))
  .transform((given) =>
    Object.entries(given).flatMap(([name, value]) =>
      (value === null ? [] : [value].flat()).map((single): [string, string] => [name, single]),
    ),
  );

const STATUS_FORMS = 'expected a status such as 404, a class such as "2xx" or a range such as "200-299"';

const statusRange = z.union([z.number(), z.string()], STATUS_FORMS).transform((given, context): StatusRange => {
  const range = parseStatusRange(String(given));
  if (range !== undefined) return range;
  context.addIssue({ code: 'custom', message: STATUS_FORMS });
  return z.NEVER;
});

function parseStatusRange(text: string): StatusRange | undefined {
  const [, hundreds, from, to] = /^(?:([1-5])xx|([1-5]\d\d)(?:-([1-5]\d\d))?)$/i.exec(text.trim()) ?? [];
  if (hundreds !== undefined) return { from: Number(hundreds) * 100, to: Number(hundreds) * 100 + 99 };
  if (from === undefined || Number(to ?? from) < Number(from)) return undefined;
  return { from: Number(from), to: Number(to ?? from) };
}

const condition = z.string().transform((source, context): CompiledExpression => {
  try {
    return compileCondition(source, 'response');
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    context.addIssue({ code: 'custom', message: error.message });
    return z.NEVER;
  }
});

/** Inputs of a request that is repeated until the expected answer comes. */
const pollInputs = {
  pollEnabled: z.boolean().default(false).describe('Repeats the request until the expected answer arrives.'),
  pollIntervalSeconds: z.number().positive().max(86_400).default(10).describe('Time between two requests.'),
  pollTimeoutSeconds: z
    .number()
    .positive()
    .max(31_536_000)
    .default(300)
    .describe('After this time the step fails with poll_timeout.'),
  pollMinAttempts: z.int().min(1).default(1).describe('Number of requests before an answer counts.'),
  pollCondition: condition.optional().describe('A CEL expression over response.status, .headers and .body.'),
  pollConditionPath: z.string().min(1).optional().describe('Path into the JSON body, such as job.state.'),
  pollConditionEquals: anyJson.optional().describe('Value expected at pollConditionPath.'),
};

type PollInputs = z.output<z.ZodObject<typeof pollInputs>>;

/** A mistake in the combination of poll inputs, with its field; undefined if there is none. */
function problemOfPoll(inputs: PollInputs): { field: keyof PollInputs; message: string } | undefined {
  const { pollCondition, pollConditionPath, pollConditionEquals } = inputs;
  if (pollCondition !== undefined && pollConditionPath !== undefined) {
    return { field: 'pollConditionPath', message: 'cannot be given together with pollCondition' };
  }
  if ((pollConditionPath === undefined) !== (pollConditionEquals === undefined)) {
    const missing = pollConditionPath === undefined ? 'pollConditionPath' : 'pollConditionEquals';
    return { field: missing, message: 'pollConditionPath and pollConditionEquals must be given together' };
  }
  const hasCondition = pollCondition !== undefined || pollConditionPath !== undefined;
  if (hasCondition && !inputs.pollEnabled) {
    return { field: 'pollEnabled', message: 'must be true where a poll condition is given' };
  }
  return undefined;
}

/** Inputs of `HttpRequest`, parsed into the parts of the request. */
export const httpRequestInputs = z
  .strictObject({
    url: url.describe('Absolute, http or https, without credentials; may be a secret.'),
    method: z
      .string()
      .transform((method) => method.toUpperCase())
      .pipe(z.enum(METHODS))
      .default('GET')
      .describe(`${METHODS.join(', ')}, in any case; GET by default.`),
    headers: headers.default(new Map()).describe('Headers by name; values may be secrets.'),
    query: query.default([]).describe('Added to the query of the URL; values may be secrets.'),
    body: anyJson.optional().describe('Sent as JSON; text with another content type is sent as it is.'),
    forwardBody: z
      .boolean()
      .default(false)
      .describe('Sends the exact bytes that started the run, with their content type and content encoding.'),
    expectedStatuses: z
      .union([z.array(statusRange).min(1), statusRange.transform((range) => [range])])
      .default([{ from: 200, to: 299 }])
      .describe('Statuses such as 404, classes such as "2xx", ranges such as "200-299"; "2xx" by default.'),
    forwardHeaders: z
      .array(z.string().transform((name) => name.toLowerCase()))
      .default([])
      .describe('Headers of the delivery to forward; redacted ones are not sent.'),
    ...pollInputs,
    signing: signingInputs.optional().describe('Signs the request, so that the receiver can verify who sent it.'),
    tls: z
      .strictObject({
        cert: z.string().describe('Certificate chain as PEM.'),
        key: z.string().describe('Private key as PEM.'),
        ca: z.string().optional().describe('CA certificates as PEM, trusted instead of the public ones.'),
      })
      .optional()
      .describe('Client certificate for mutual TLS; each value is file:PATH or env:NAME.'),
    maxPerSecond: z
      .number()
      .min(LEAST_PER_SECOND)
      .max(MOST_PER_SECOND)
      .optional()
      .describe(
        'Requests a second of this step, in all runs, to the host of the URL, if stricter than SLUICE_OUTGOING_HOSTS; a step that has to wait is Pending.',
      ),
    maxConcurrent: z
      .int()
      .min(1)
      .max(10_000)
      .optional()
      .describe(
        'Requests of this step, in all runs, to the host of the URL that may be in flight at once, if stricter than SLUICE_OUTGOING_HOSTS; a step that has to wait is Pending.',
      ),
    whenCircuitOpen: z
      .enum(['wait', 'fail'])
      .optional()
      .describe(
        'While the host does not answer: wait until it does, or fail with circuit_open; fail by default if another step runs after this one failed.',
      ),
    timeoutSeconds: z
      .number()
      .positive()
      .max(3600)
      .default(REQUEST_SECONDS)
      .describe('Time limit for the whole answer, redirects included.'),
  })
  .superRefine(
    (inputs, context) => {
      const poll = problemOfPoll(inputs);
      if (poll !== undefined) context.addIssue({ code: 'custom', path: [poll.field], message: poll.message });
    },
    whereFit(...Object.keys(pollInputs)),
  )
  .superRefine((inputs, context) => {
    for (const [index, name] of inputs.forwardHeaders.entries()) {
      const problem = problemOfHeader(name, '');
      if (problem !== undefined)
        context.addIssue({ code: 'custom', path: ['forwardHeaders', index], message: problem });
    }
  }, whereFit('forwardHeaders'))
  .superRefine(
    (inputs, context) => {
      const isBodyGiven = inputs.body !== undefined;
      if (isBodyGiven && inputs.forwardBody) {
        context.addIssue({ code: 'custom', path: ['forwardBody'], message: 'cannot be true when a body is given' });
      }
      if ((isBodyGiven || inputs.forwardBody) && (inputs.method === 'GET' || inputs.method === 'HEAD')) {
        context.addIssue({
          code: 'custom',
          path: ['method'],
          message: `${inputs.method} carries no body; name a method such as POST`,
        });
      }
    },
    whereFit('body', 'forwardBody', 'method'),
  );

/** Checks a rule whenever its fields are valid: a mistake or a placeholder in another field does not hide it. */
function whereFit(...fields: readonly string[]) {
  return {
    when: ({ issues }: z.core.ParsePayload) =>
      issues.every(({ code, path: [field] = [] }) =>
        field === undefined ? code === 'unrecognized_keys' : !fields.includes(String(field)),
      ),
  };
}

export type HttpRequestInputs = z.output<typeof httpRequestInputs>;
