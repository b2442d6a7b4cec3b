import { Budget } from '../../expressions/budget.ts';
import { type CompiledExpression, ExpressionError } from '../../expressions/compile.ts';
import { compileCondition } from '../../expressions/condition.ts';
import { DELIVERY_BUDGET_STEPS, type DeliveryData, evaluateFilter } from '../../expressions/delivery-expressions.ts';
import { type CompiledTemplate, compileTemplate, TemplateError } from '../../expressions/template.ts';
import { ArrivingBody } from '../../expressions/trigger-body.ts';
import type { AskedHandshake, OwnHandshake } from '../../manifest/trigger-part.ts';
import { answerOf } from '../../model/answer.ts';
import type { Json } from '../../model/json.ts';

export const METHODS = ['GET', 'HEAD', 'OPTIONS', 'POST'] as const;

/** One handshake as a manifest describes it. */
export interface WrittenHandshake {
  readonly method: (typeof METHODS)[number];
  readonly when?: string | undefined;
  readonly answer: {
    readonly status?: number | string | undefined;
    readonly headers?: Readonly<Record<string, string>> | undefined;
    readonly body?: unknown;
  };
}

interface Compiled {
  readonly condition: CompiledExpression | undefined;
  readonly answer: CompiledTemplate;
}

interface Mistake {
  readonly path: PropertyKey[];
  readonly message: string;
}

/** The compiled expressions of a handshake, or its mistakes. */
export function compileHandshake({ when, answer }: WrittenHandshake): Compiled | readonly Mistake[] {
  const mistakes: Mistake[] = [];
  const condition = compiled(
    () => (when === undefined ? undefined : compileCondition(when, 'handshake')),
    (path, message) => mistakes.push({ path: ['when', ...path], message }),
  );
  const template = compiled(
    () => compileTemplate(answer as Json, 'handshake'),
    (path, message) => mistakes.push({ path: ['answer', ...path], message }),
  );
  return template === undefined || mistakes.length > 0 ? mistakes : { condition, answer: template };
}

function compiled<Result>(compile: () => Result, report: (path: PropertyKey[], message: string) => void) {
  try {
    return compile();
  } catch (error) {
    const errors =
      error instanceof TemplateError ? error.errors : error instanceof ExpressionError ? [error] : undefined;
    if (errors === undefined) throw error;
    for (const each of errors) report([...(each.problem.path ?? [])], each.messageWithoutPath);
    return undefined;
  }
}

/** Compiled handshakes. A stored one of an earlier release that this release cannot use answers nothing. */
export function ownHandshakes(written: readonly WrittenHandshake[]): OwnHandshake[] {
  return written.flatMap((each, at) => {
    const found = compileHandshake(each);
    return 'answer' in found ? [ownHandshake(each.method, found, `webhookHandshake[${at}]`)] : [];
  });
}

function ownHandshake(method: OwnHandshake['method'], { condition, answer }: Compiled, name: string): OwnHandshake {
  const answered = (request: AskedHandshake) => answerTo(answer, request);
  return {
    name,
    method,
    needsVerification: false,
    // A condition on fields that most deliveries lack fails for these, so they are not handshakes.
    recognises: (request) => condition === undefined || evaluateFilter(condition, dataOf(request)) === true,
    refuse(request) {
      const detail = answered(request);
      const message = 'The request lacks what the answer of this webhook to it is made of';
      return typeof detail === 'string'
        ? { statusCode: 400, reason: 'signature_malformed', message, detail }
        : undefined;
    },
    answer(request) {
      const given = answered(request);
      return typeof given === 'string' ? undefined : given;
    },
  };
}

const MOST_BODY_BYTES = 16 * 1024;

/** The answer, or the reason why there is none, which never contains a value of the request. */
function answerTo(template: CompiledTemplate, request: AskedHandshake): ReturnType<typeof answerOf> {
  let output: Json;
  try {
    output = template.renderIn(dataOf(request));
  } catch (error) {
    if (error instanceof ExpressionError) return `answer.${error.message}`;
    throw error;
  }
  const answer = answerOf(output, isAnswered);
  if (typeof answer === 'string') return `answer: ${answer}`;
  const bytes = Buffer.byteLength(answer.body);
  return bytes > MOST_BODY_BYTES ? `answer.body: it has ${bytes} bytes; at most ${MOST_BODY_BYTES} are sent` : answer;
}

/** Reads as much of the body as search keys do: a probe is small. */
function dataOf({ headers, query, body }: AskedHandshake): DeliveryData {
  const arrived = new ArrivingBody(body, { contentType: headers['content-type'] });
  const roots = {
    headers,
    // The first value of a repeated parameter counts.
    query: Object.fromEntries([...query].reverse()),
    get body() {
      return arrived.value();
    },
  };
  return { roots, budget: new Budget(DELIVERY_BUDGET_STEPS) };
}

/**
 * Headers with an effect in a browser, a proxy or the connection, or that the service sets itself. Authors of manifests
 * must not choose them for answers on the origin of the dashboard.
 */
const REFUSED = [
  /^(?:connection|keep-alive|te|trailer|transfer-encoding|upgrade|via|host|date|server|proxy-.*)$/,
  /^content-(?:encoding|length|range|location|disposition|security-policy.*)$/,
  /^(?:set-cookie2?|location|refresh|link|www-authenticate|authentication-info|clear-site-data|alt-svc|nel)$/,
  /^(?:cache-control|expires|age|etag|last-modified|vary|no-vary-search|sourcemap|tk|p3p|expect-ct|accept-ch|critical-ch)$/,
  /^(?:access-control|cross-origin|service-worker|sec|public-key-pins|document-policy|report|reporting|sluice)-.*$/,
  /^(?:origin-agent-cluster|(?:permissions|feature|referrer|integrity|document)-policy|strict-transport-security)$/,
  /^(?:speculation-rules|supports-loading-mode|timing-allow-origin|public-key-pins|activate-storage-access)$/,
  /^x-(?:content-type-options|frame-options|xss-protection|permitted-cross-domain-policies|dns-prefetch-control)$/,
  /^x-(?:sourcemap|ua-compatible|sendfile|lighttpd-send-file|robots-tag|accel-.*|forwarded-.*|original-.*|rewrite-.*)$/,
];

export function isAnswered(header: string): boolean {
  return !REFUSED.some((names) => names.test(header.toLowerCase()));
}

/** A hint if a literal text looks like an expression that lost its `${ }`. */
export function bareExpression(text: string): string | undefined {
  const source = text.trim();
  if (!/^(?:query|headers|body)\s*[.[]/.test(source)) return undefined;
  const isExpression = compiled(
    () => compileTemplate(`\${${source}}`, 'handshake'),
    () => {},
  );
  return isExpression === undefined ? undefined : `is answered as it stands; as an expression write \${${source}}`;
}
