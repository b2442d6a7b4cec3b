import { Agent } from 'undici';
import type { Json } from '../../model/json.ts';
import type { RunTrigger } from '../../model/run.ts';
import { startTimeLimit, type TimeLimit } from '../time-limit.ts';
import { createEgress, EgressRefusedError } from './egress.ts';
import { defineHandler, type HandlerResult, type StepContext, type StepHandler } from './handler.ts';
import { exchange, type HttpRequest, type HttpResponse, RedirectRefusedError } from './http-exchange.ts';
import { type HttpRequestInputs, httpRequestInputs } from './http-inputs.ts';
import { judgePoll } from './http-poll.ts';
import { decodeBody, retryAfterMs } from './http-response.ts';

export interface HttpRequestSettings {
  /** CIDRs, addresses and host names that steps may call beside public addresses. */
  readonly egressAllow: readonly string[];
  /** Wall clock in milliseconds, to read a Retry-After that is a date. */
  readonly now?: () => number;
}

const MAX_RESPONSE_BYTES = 1_048_576;

/** Calls a URL; the output is `{ status, headers, body }`. Throws where `egressAllow` holds what is no address or host. */
export function createHttpRequestHandler({ egressAllow, now = Date.now }: HttpRequestSettings): StepHandler {
  const egress = createEgress(egressAllow);
  const agent = new Agent({ connect: { lookup: egress.lookup }, maxResponseSize: MAX_RESPONSE_BYTES });
  const callOnce = async (context: StepContext<HttpRequestInputs>): Promise<HandlerResult> => {
    const { inputs } = context;
    const request = await requestOf(context);
    const limit = startTimeLimit(inputs.timeoutSeconds, context.signal);
    const isExpected = (status: number) =>
      inputs.expectedStatuses.some((range) => status >= range.from && status <= range.to);
    try {
      const response = await exchange(request, { agent, egress, signal: limit.signal, isExpected });
      return judged(response, { isExpected: isExpected(response.status), label: labelOf(inputs), now: now() });
    } catch (error) {
      return failureOf(error, { label: labelOf(inputs), limit, seconds: inputs.timeoutSeconds });
    } finally {
      limit.end();
    }
  };
  return defineHandler({
    type: 'HttpRequest',
    inputs: httpRequestInputs,
    secretInputs: ['headers.*', 'query.*', 'url'],
    run: async (context) => {
      const answer = await callOnce(context);
      if (!context.inputs.pollEnabled) return answer;
      return judgePoll(answer, context.inputs, { state: context.resumed?.state, now: context.now() });
    },
  });
}

async function requestOf(context: StepContext<HttpRequestInputs>): Promise<HttpRequest> {
  const { inputs } = context;
  const url = new URL(inputs.url);
  // Appended as text: building the search anew would re-encode what the author wrote, and break a signed URL.
  const added = new URLSearchParams(inputs.query).toString();
  if (added !== '') url.search = url.search === '' ? added : `${url.search}&${added}`;
  const isForwarding = inputs.forwardBody || inputs.forwardHeaders.length > 0;
  const trigger = isForwarding ? await context.trigger() : undefined;
  const content = contentOf(inputs, inputs.forwardBody ? trigger : undefined);
  const headers = new Map([
    ['user-agent', 'sluice'],
    ['idempotency-key', context.idempotencyKey],
    ...forwardedHeaders(inputs.forwardHeaders, trigger),
    ...(content?.type == null ? [] : [['content-type', content.type] as const]),
    ...inputs.headers,
  ]);
  return { url, method: inputs.method, headers, body: content?.body };
}

/** A credential is stored redacted: what stands in its place is worth nothing to anybody. */
function forwardedHeaders(names: readonly string[], trigger: RunTrigger | undefined): [string, string][] {
  return names.flatMap((name): [string, string][] => {
    const value = trigger !== undefined && Object.hasOwn(trigger.headers, name) ? trigger.headers[name] : undefined;
    return value === undefined || value === '[redacted]' ? [] : [[name, value]];
  });
}

function contentOf(inputs: HttpRequestInputs, forwarded: RunTrigger | undefined) {
  if (forwarded !== undefined) return { body: forwarded.body, type: forwarded.contentType };
  if (inputs.body === undefined) return undefined;
  const type = inputs.headers.get('content-type') ?? 'application/json';
  // A text under another content type than JSON is the body itself: a form, XML.
  const isText = typeof inputs.body === 'string' && !/\bjson\b/i.test(type);
  return { body: isText ? String(inputs.body) : JSON.stringify(inputs.body), type };
}

function judged(
  response: HttpResponse,
  { isExpected, label, now }: { isExpected: boolean; label: string; now: number },
): HandlerResult {
  const { status, headers } = response;
  const output: Json = { status, headers, body: decodeBody(response.body, headers['content-type']) };
  if (isExpected) return { kind: 'succeeded', output };
  const askedForMs = retryAfterMs(headers['retry-after'], now);
  return {
    kind: 'failed',
    code: 'unexpected_status',
    message: `${label} answered ${status}, which expectedStatuses does not list`,
    retryable: status === 408 || status === 425 || status === 429 || status >= 500,
    ...(askedForMs === undefined ? {} : { retryAfterMs: askedForMs }),
    output,
  };
}

function failureOf(
  error: unknown,
  { label, limit, seconds }: { label: string; limit: TimeLimit; seconds: number },
): HandlerResult {
  const failed = (code: string, message: string, retryable: boolean): HandlerResult => ({
    kind: 'failed',
    code,
    message: `${label}: ${message}`,
    retryable,
  });
  if (limit.isUp) return failed('timeout', `no complete answer within ${seconds} s`, true);
  if (error instanceof EgressRefusedError) return failed('egress_refused', error.message, false);
  if (error instanceof RedirectRefusedError) return failed('redirect_refused', error.message, false);
  const code = codeOf(error);
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') {
    return failed('response_too_large', `the answer is larger than ${MAX_RESPONSE_BYTES} bytes`, false);
  }
  return failed('network_error', code, true);
}

/** The code of a network fault; its message could hold the whole request. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}

/** Method and host alone: path and query may hold secrets. */
function labelOf({ method, url }: HttpRequestInputs): string {
  return `${method} ${url.host}`;
}
