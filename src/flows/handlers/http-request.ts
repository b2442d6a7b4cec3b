import { hash } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { LRUCache } from 'lru-cache';
import type { Agent } from 'undici';
import { type Json, parseJson } from '../../model/json.ts';
import type { RunTrigger, StepErrorCode } from '../../model/run.ts';
import { createEgress, EgressRefusedError } from './egress.ts';
import {
  defineHandler,
  type HandlerResult,
  noSignals,
  type StepContext,
  type StepHandler,
  startTimeLimit,
} from './handler.ts';
import { type HttpRequestInputs, httpRequestInputs, problemOfUrl } from './http-inputs.ts';
import { judgePoll } from './http-poll.ts';
import { BadKeyError, signatureHeaders } from './http-signing.ts';

interface HttpRequestSettings {
  /** CIDRs, addresses and host names that steps may call in addition to public addresses. */
  readonly egressAllow: readonly string[];
  /** Wall clock in milliseconds, to read a Retry-After that is a date. */
  readonly now?: () => number;
}

const MAX_RESPONSE_BYTES = 1_048_576;
const MAX_CERTIFICATES = 50;

/** Calls a URL; the output is `{ status, headers, body }`. Throws where `egressAllow` holds anything but addresses, CIDRs and host names. */
export function createHttpRequestHandler({ egressAllow, now = Date.now }: HttpRequestSettings): StepHandler {
  const egress = createEgress(egressAllow);
  const openAgent = async (tls: HttpRequestInputs['tls']) => {
    if (tls !== undefined) checkCertificate(tls);
    // Loaded for the first request: it costs a start 50 ms of CPU and 10 MB.
    const { Agent } = await import('undici');
    return new Agent({ connect: { ...tls, lookup: egress.lookup }, maxResponseSize: MAX_RESPONSE_BYTES });
  };
  let opened: Promise<Agent> | undefined;
  // Connections of one client certificate are used for no other.
  const byCertificate = new LRUCache<string, Promise<Agent>>({
    max: MAX_CERTIFICATES,
    dispose: (agent) =>
      void agent.then(
        (it) => it.close(),
        () => {},
      ),
  });
  const agentFor = (tls: HttpRequestInputs['tls']): Promise<Agent> => {
    if (tls === undefined) {
      opened ??= openAgent(tls);
      return opened;
    }
    const certificate = hash('sha256', JSON.stringify(tls));
    const known = byCertificate.get(certificate) ?? openAgent(tls);
    byCertificate.set(certificate, known);
    void known.catch(() => byCertificate.delete(certificate));
    return known;
  };
  const callOnce = async (context: StepContext<HttpRequestInputs>): Promise<HandlerResult> => {
    const { inputs } = context;
    const limit = startTimeLimit(inputs.timeoutSeconds, context.signal);
    const isExpected = (status: number) =>
      inputs.expectedStatuses.some((range) => status >= range.from && status <= range.to);
    const unsigned = await requestOf(context);
    try {
      const request = signed(unsigned, { context, now: now() });
      const agent = await agentFor(inputs.tls);
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
    secretInputs: ['headers.*', 'query.*', 'url', 'signing.key', 'tls.cert', 'tls.key', 'tls.ca'],
    waitsFor: noSignals,
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
  // Appended as text: rebuilding the search would re-encode what the author wrote, and break a signed URL.
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

/** Throws `BadKeyError`: else each connection would fail as if the network did. */
function checkCertificate(tls: NonNullable<HttpRequestInputs['tls']>): void {
  try {
    createSecureContext({ cert: tls.cert, key: tls.key, ca: tls.ca });
  } catch (error) {
    throw new BadKeyError(`tls: certificate and key cannot be used: ${codeOf(error)}`);
  }
}

/** The request with its signature, which no header of the author's replaces. */
function signed(
  request: HttpRequest,
  { context, now }: { readonly context: StepContext<HttpRequestInputs>; readonly now: number },
): HttpRequest {
  const { signing } = context.inputs;
  if (signing === undefined) return request;
  const id = context.idempotencyKey;
  const headers = signatureHeaders(signing, { id, now, body: request.body ?? '' });
  return { ...request, headers: new Map([...request.headers, ...headers]) };
}

/** A credential is stored redacted, and its placeholder is of no use to the receiver. */
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
    message: `${label} answered ${status}, which is not an expected status`,
    retryable: status === 408 || status === 425 || status === 429 || status >= 500,
    ...(askedForMs === undefined ? {} : { retryAfterMs: askedForMs }),
    output,
  };
}

function failureOf(
  error: unknown,
  { label, limit, seconds }: { label: string; limit: ReturnType<typeof startTimeLimit>; seconds: number },
): HandlerResult {
  const failed = (code: StepErrorCode, message: string, retryable: boolean): HandlerResult => ({
    kind: 'failed',
    code,
    message: `${label}: ${message}`,
    retryable,
  });
  if (limit.isUp) return failed('timeout', `no complete answer within ${seconds} s`, true);
  if (error instanceof EgressRefusedError) return failed('egress_refused', error.message, false);
  if (error instanceof BadKeyError) return failed('invalid_input', error.message, false);
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

interface HttpRequest {
  readonly url: URL;
  readonly method: HttpRequestInputs['method'];
  /** Lower-case names. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Uint8Array | string | undefined;
}

interface HttpResponse {
  readonly status: number;
  /** Lower-case names; several lines of one name are joined with ", ". */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/** A redirect that is not followed. */
class RedirectRefusedError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'RedirectRefusedError';
  }
}

interface Exchange {
  readonly agent: Agent;
  readonly egress: ReturnType<typeof createEgress>;
  readonly signal: AbortSignal;
  /** A redirect that the step expects is an answer and not followed. */
  readonly isExpected: (status: number) => boolean;
}

const MAX_REDIRECTS = 5;
const REDIRECT_STATUSES: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
// A credential may stand in a header of any name, so these alone follow a redirect to another origin.
const HEADERS_FOR_ANY_ORIGIN: ReadonlySet<string> = new Set(
  'accept accept-language content-type idempotency-key user-agent'.split(' '),
);

/** Sends a request and follows redirects; the address of every hop is checked. Rejects with what went wrong. */
async function exchange(request: HttpRequest, options: Exchange): Promise<HttpResponse> {
  let current = request;
  for (let redirects = 0; ; redirects += 1) {
    // A socket asks for no name to be looked up where the host is an address.
    options.egress.checkLiteral(current.url.hostname);
    const response = await send(current, options);
    const location = response.headers.location;
    if (options.isExpected(response.statusCode) || !REDIRECT_STATUSES.has(response.statusCode) || !location) {
      return {
        status: response.statusCode,
        headers: joined(response.headers),
        body: new Uint8Array(await response.body.arrayBuffer()),
      };
    }
    await response.body.dump({ limit: 16_384, signal: options.signal });
    if (redirects === MAX_REDIRECTS) throw new RedirectRefusedError(`redirected more than ${MAX_REDIRECTS} times`);
    current = redirected(current, response.statusCode, String(location));
  }
}

function send({ url, method, headers, body }: HttpRequest, { agent, signal }: Exchange) {
  return agent.request({
    origin: url.origin,
    path: `${url.pathname}${url.search}`,
    method,
    headers: Object.fromEntries(headers),
    body: body ?? null,
    signal,
    // The signal bounds the whole exchange; undici's own limits of 300 s would cut a longer one.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}

/** The next request, by the rules of fetch: fetch.spec.whatwg.org/#http-redirect-fetch. */
function redirected(request: HttpRequest, status: number, location: string): HttpRequest {
  const url = URL.canParse(location, request.url.href) ? new URL(location, request.url) : undefined;
  const problem = problemOfUrl(url);
  if (url === undefined || problem !== undefined) {
    throw new RedirectRefusedError(`redirected with a bad Location: ${problem}`);
  }
  const becomesGet = (status === 303 && request.method !== 'HEAD') || (status <= 302 && request.method === 'POST');
  const isSameOrigin = url.origin === request.url.origin;
  const headers = [...request.headers].filter(
    ([name]) => (isSameOrigin || HEADERS_FOR_ANY_ORIGIN.has(name)) && !(becomesGet && name.startsWith('content-')),
  );
  return {
    url,
    method: becomesGet ? 'GET' : request.method,
    headers: new Map(headers),
    body: becomesGet ? undefined : request.body,
  };
}

function joined(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value].flat().join(', ')]));
}

/** JSON where the content type says so and it parses, else text, else base64; null for no bytes. */
function decodeBody(bytes: Uint8Array, contentType: string | undefined): Json {
  if (bytes.length === 0) return null;
  const text = decodeText(bytes, contentType);
  if (text === undefined) return Buffer.from(bytes).toString('base64');
  if (!isJson(contentType)) return text;
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

/** Milliseconds from `now` that a Retry-After asks to wait, in seconds or as a date; undefined where it says neither. */
function retryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  const text = header.trim();
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) || !/[a-z]/i.test(text) ? undefined : Math.max(0, date - now);
}

function isJson(contentType: string | undefined): boolean {
  return /^\s*[\w.+-]+\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(contentType ?? '');
}

function decodeText(bytes: Uint8Array, contentType: string | undefined): string | undefined {
  const [, charset = 'utf-8'] = /;\s*charset="?([\w-]+)/i.exec(contentType ?? '') ?? [];
  try {
    return new TextDecoder(charset, { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
