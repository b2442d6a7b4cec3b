import { hash } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { LRUCache } from 'lru-cache';
import type { Agent } from 'undici';
import { createEgress, EgressRefusedError } from '../../flows/handlers/egress.ts';
import {
  defineHandler,
  type HandlerResult,
  noSignals,
  type StepContext,
  type StepHandler,
  startTimeLimit,
} from '../../flows/handlers/handler.ts';
import { InternalFaultError, loadOnce } from '../../flows/load-once.ts';
import { charsetOf, textReader } from '../../model/content.ts';
import { codeOf } from '../../model/error-kind.ts';
import { type Json, parseJson } from '../../model/json.ts';
import type { RunTrigger, StepErrorCode } from '../../model/run.ts';
import type { Hosts } from './hosts.ts';
import { type HttpRequestInputs, httpRequestInputs, problemOfUrl } from './http-inputs.ts';
import { judgePoll, waitInPoll } from './http-poll.ts';
import { BadKeyError, signatureHeaders } from './http-signing.ts';
import { afterFailedProbe, askFirst, askNext, endOfAnswer, endOfError, NoTurnError, type Turn } from './http-turns.ts';
import { sendTraced } from './traced-request.ts';

interface HttpRequestSettings {
  /** CIDRs, addresses and host names that steps may call in addition to public addresses. */
  readonly egressAllow: readonly string[];
  /** Wall clock in milliseconds, for a Retry-After with a date. */
  readonly now?: () => number;
  /** Decides when each host can be called; always, if absent. */
  readonly hosts?: Hosts | undefined;
}

const MAX_RESPONSE_BYTES = 1_048_576;
const MAX_CERTIFICATES = 50;
const TOO_LARGE = 'UND_ERR_RES_EXCEEDED_MAX_SIZE';

/** Loaded for the first request: at the start it would cost 50 ms of CPU and 10 MB. */
const loadClient = loadOnce(() => import('undici'));

/** Calls a URL; the output is `{ status, headers, body }`. Throws if `egressAllow` has an entry of another kind. */
export function createHttpRequestHandler({ egressAllow, now = Date.now, hosts }: HttpRequestSettings): StepHandler {
  const egress = createEgress(egressAllow);
  const openAgent = async (tls: HttpRequestInputs['tls']) => {
    if (tls !== undefined) checkCertificate(tls);
    const { Agent } = await loadClient();
    return new Agent({ connect: { ...tls, lookup: egress.lookup }, maxResponseSize: MAX_RESPONSE_BYTES });
  };
  const openUsual = loadOnce(() => openAgent(undefined));
  // Connections with one client certificate are not used for another.
  const byCertificate = new LRUCache<string, Promise<Agent>>({
    max: MAX_CERTIFICATES,
    dispose: (agent) =>
      void agent.then(
        (it) => it.close(),
        () => {},
      ),
  });
  const agentFor = (tls: HttpRequestInputs['tls']): Promise<Agent> => {
    if (tls === undefined) return openUsual();
    const certificate = hash('sha256', JSON.stringify(tls));
    const known = byCertificate.get(certificate) ?? openAgent(tls);
    byCertificate.set(certificate, known);
    void known.catch(() => byCertificate.delete(certificate));
    return known;
  };
  const callOnce = async (context: StepContext<HttpRequestInputs>): Promise<HandlerResult> => {
    const { inputs } = context;
    const isExpected = expectationOf(inputs);
    const unsigned = await requestOf(context);
    const { url } = unsigned;
    const about = { seconds: inputs.timeoutSeconds };
    const problem = refusalOf(egress, url);
    if (problem !== undefined) return failureOf(problem, { ...about, isTimeUp: false });
    const turn = hosts && (await askFirst(hosts, context));
    if (turn !== undefined && turn.kind !== 'go') return turn;
    const limit = startTimeLimit(inputs.timeoutSeconds, context.signal);
    const endsAt = performance.now() + inputs.timeoutSeconds * 1000;
    const next = hosts && ((to: URL) => askNext(hosts, { context, url: to, msLeft: endsAt - performance.now() }));
    const isUp = () => limit.isUp;
    try {
      const request = signed(unsigned, { context, now: now() });
      const agent = await agentFor(inputs.tls);
      const tracing = { mask: context.mask, isExpected, errorType: codeOf };
      const options = {
        agent,
        egress,
        signal: limit.signal,
        outer: context.signal,
        isUp,
        isExpected,
        now,
        tracing,
        ...about,
      };
      const response = await exchange(request, { ...options, turn, next });
      const { status, headers } = response;
      const body = decodeBody(response.body, headers['content-type']);
      const result = judgeAnswer({ status, headers, body }, { isExpected: isExpected(status), now: now() });
      return result.kind === 'failed' && turn?.probed !== undefined && response.status >= 500
        ? afterFailedProbe(result, { context, queue: turn.probed })
        : result;
    } catch (error) {
      if (error instanceof InternalFaultError) throw error;
      const failure = failureOf(error, { ...about, isTimeUp: limit.isUp });
      return turn?.probed !== undefined && failure.retryable
        ? afterFailedProbe(failure, { context, queue: turn.probed })
        : failure;
    } finally {
      // In case no request took the turn, because its key is bad.
      turn?.end({ kind: 'none' });
      limit.end();
    }
  };
  return defineHandler({
    type: 'HttpRequest',
    inputs: httpRequestInputs,
    secretInputs: HTTP_SECRET_INPUTS,
    waitsFor: noSignals,
    calls: ({ method, url }) => ({ method, url }),
    run: async (context) => {
      const answer = await callOnce(context);
      if (!context.inputs.pollEnabled) return answer;
      const poll = { state: context.resumed?.state, now: context.now() };
      return answer.kind === 'waiting'
        ? waitInPoll(answer, context.inputs, poll)
        : judgePoll(answer, context.inputs, poll);
    },
  });
}

/** The inputs of an `HttpRequest` that can be secrets. */
export const HTTP_SECRET_INPUTS = ['headers.*', 'query.*', 'url', 'signing.key', 'tls.cert', 'tls.key', 'tls.ca'];

/** The request that a step sends, without its signature. */
export async function requestOf(context: StepContext<HttpRequestInputs>): Promise<HttpRequest> {
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
    ...forwardedHeaders(inputs.forwardBody ? ['content-encoding'] : [], trigger),
    ...inputs.headers,
  ]);
  return { url, method: inputs.method, headers, body: content?.body };
}

/** Throws `BadKeyError`: otherwise each connection would fail like a network error. */
function checkCertificate(tls: NonNullable<HttpRequestInputs['tls']>): void {
  try {
    createSecureContext({ cert: tls.cert, key: tls.key, ca: tls.ca });
  } catch (error) {
    throw new BadKeyError(`tls: certificate and key cannot be used: ${codeOf(error)}`);
  }
}

/** The request with its signature, which no header from the author can replace. */
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

/** Leaves out credentials: they are stored redacted, and a placeholder is useless to the receiver. */
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
  // With another content type than JSON, a text is the body itself: a form, XML.
  const isText = typeof inputs.body === 'string' && !/\bjson\b/i.test(type);
  return { body: isText ? String(inputs.body) : JSON.stringify(inputs.body), type };
}

export function expectationOf({ expectedStatuses }: Pick<HttpRequestInputs, 'expectedStatuses'>) {
  return (status: number) => expectedStatuses.some((range) => status >= range.from && status <= range.to);
}

/** The result of a step with this answer. */
export function judgeAnswer(
  answer: Omit<HttpResponse, 'body'> & { readonly body: Json },
  { isExpected, now }: { isExpected: boolean; now: number },
): HandlerResult {
  const { status, headers, body } = answer;
  const output: Json = { status, headers, body };
  if (isExpected) return { kind: 'succeeded', output };
  const askedForMs = retryAfterMs(headers['retry-after'], now);
  return {
    kind: 'failed',
    code: 'unexpected_status',
    message: [status, reasonIn(body) ?? STATUS_NAMES[status] ?? 'is not an expected status'].join(' '),
    retryable: status === 408 || status === 425 || status === 429 || status >= 500,
    ...(askedForMs === undefined ? {} : { retryAfterMs: askedForMs }),
    output,
  };
}

/** Names of the statuses with which APIs refuse, for answers without a reason. */
const STATUS_NAMES: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  402: 'Payment Required',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  406: 'Not Acceptable',
  408: 'Request Timeout',
  409: 'Conflict',
  410: 'Gone',
  412: 'Precondition Failed',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  422: 'Unprocessable Content',
  425: 'Too Early',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
};

/** Fields in which APIs give the reason for a refusal, the most useful first. */
const REASON_FIELDS = ['message', 'detail', 'error_description', 'error', 'errors', 'title', 'description', 'reason'];
const MAX_REASON_CHARACTERS = 200;
const MAX_REASON_DEPTH = 4;

/**
 * The reason in an answer's own words; undefined if there is no short one. It is never cut: half a secret would not be
 * found and masked.
 */
function reasonIn(body: Json, depth = 0): string | undefined {
  if (typeof body === 'string') {
    const text = body.trim();
    const isLine = text !== '' && text.length <= MAX_REASON_CHARACTERS && !/^<|[\p{Cc}\u2028\u2029]/u.test(text);
    return isLine ? text : undefined;
  }
  if (typeof body !== 'object' || body === null || depth === MAX_REASON_DEPTH) return undefined;
  const parts: readonly unknown[] = Array.isArray(body)
    ? body.slice(0, 1)
    : REASON_FIELDS.map((name) => (Object.hasOwn(body, name) ? Reflect.get(body, name) : undefined));
  for (const part of parts) {
    const reason = reasonIn((part ?? null) as Json, depth + 1);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

function failureOf(
  error: unknown,
  { isTimeUp, seconds }: { isTimeUp: boolean; seconds: number },
): Extract<HandlerResult, { kind: 'failed' }> {
  const failed = (code: StepErrorCode, message: string, retryable: boolean) => ({
    kind: 'failed' as const,
    code,
    message,
    retryable,
  });
  if (error instanceof NoTurnError) return failed(error.code, error.message, true);
  if (isTimeUp) return failed('timeout', `no complete answer within ${seconds} s`, true);
  if (error instanceof EgressRefusedError) return failed('egress_refused', error.message, false);
  if (error instanceof BadKeyError) return failed('invalid_input', error.message, false);
  if (error instanceof RedirectRefusedError) return failed('redirect_refused', error.message, false);
  const code = codeOf(error);
  if (code === TOO_LARGE) {
    return failed('response_too_large', `the answer is larger than ${MAX_RESPONSE_BYTES} bytes`, false);
  }
  return failed('network_error', code, true);
}

function refusalOf(egress: ReturnType<typeof createEgress>, { hostname }: URL): unknown {
  try {
    // A socket does no DNS lookup if the host is an address.
    egress.checkLiteral(hostname);
    return undefined;
  } catch (error) {
    return error;
  }
}

export interface HttpRequest {
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
  /** The signal of the step; the other one also aborts when the time of the request is up. */
  readonly outer: AbortSignal;
  readonly isUp: () => boolean;
  readonly seconds: number;
  /** Wall clock in milliseconds. */
  readonly now: () => number;
  /** A redirect with an expected status is an answer and is not followed. */
  readonly isExpected: (status: number) => boolean;
  /** The turn of the first request; absent if no host is limited. */
  readonly turn: Turn | undefined;
  readonly tracing: Omit<Parameters<typeof sendTraced>[1], 'redirects'>;
  /** Asks for the turn of the next request; rejects with `NoTurnError`. */
  readonly next: ((url: URL) => Promise<Turn>) | undefined;
}

const MAX_REDIRECTS = 5;
const REDIRECT_STATUSES: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
// A header of any name can hold a credential, so only these follow a redirect to another origin.
const HEADERS_FOR_ANY_ORIGIN: ReadonlySet<string> = new Set(
  'accept accept-language content-type idempotency-key user-agent'.split(' '),
);

/** Sends a request and follows redirects; checks the address of every hop. Rejects with the error. */
async function exchange(request: HttpRequest, options: Exchange): Promise<HttpResponse> {
  let current = request;
  let { turn } = options;
  for (let redirects = 0; ; redirects += 1) {
    const answer = await inTurn(turn, options, () =>
      sendTraced(current, { ...options.tracing, redirects }, (request) => sendOnce(request, options)),
    );
    if (!('location' in answer)) return answer;
    if (redirects === MAX_REDIRECTS) throw new RedirectRefusedError(`redirected more than ${MAX_REDIRECTS} times`);
    current = redirected(current, answer.status, answer.location);
    options.egress.checkLiteral(current.url.hostname);
    turn = await options.next?.(current.url);
  }
}

interface Redirect {
  readonly status: number;
  readonly location: string;
}

/** Sends one request in its turn, and reports to the host's circuit when the answer is complete or has failed. */
async function inTurn<Answer extends Redirect | HttpResponse>(
  turn: Turn | undefined,
  { outer, isUp, isExpected, now, seconds }: Exchange,
  sendOne: () => Promise<Answer>,
): Promise<Answer> {
  try {
    const answer = await sendOne();
    const { status } = answer;
    const retryAfter = 'headers' in answer ? retryAfterMs(answer.headers['retry-after'], now()) : undefined;
    turn?.end(
      endOfAnswer({
        status,
        retryAfterMs: retryAfter,
        isExpected: isExpected(status),
        isProbe: turn.probed !== undefined,
      }),
    );
    return answer;
  } catch (error) {
    const code = codeOf(error);
    const isAnswer = code === TOO_LARGE;
    turn?.end(isAnswer ? { kind: 'answered' } : endOfError(code, { isTimeUp: isUp(), seconds, signal: outer }));
    throw error;
  }
}

async function sendOnce(request: HttpRequest, options: Exchange): Promise<Redirect | HttpResponse> {
  const { statusCode: status, headers, body } = await send(request, options);
  const { location } = headers;
  if (options.isExpected(status) || !REDIRECT_STATUSES.has(status) || !location) {
    return { status, headers: joined(headers), body: new Uint8Array(await body.arrayBuffer()) };
  }
  await body.dump({ limit: 16_384, signal: options.signal });
  return { status, location: String(location) };
}

function send({ url, method, headers, body }: HttpRequest, { agent, signal }: Exchange) {
  return agent.request({
    origin: url.origin,
    path: `${url.pathname}${url.search}`,
    method,
    headers: Object.fromEntries(headers),
    body: body ?? null,
    signal,
    // The signal limits the whole exchange; undici's own limits of 300 s would cut a longer one.
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

/** JSON if the content type says so and the body parses, otherwise text, otherwise base64; null for an empty body. */
function decodeBody(bytes: Uint8Array, contentType: string | undefined): Json {
  if (bytes.length === 0) return null;
  const text = textReader(charsetOf(contentType) ?? 'utf-8')?.(bytes);
  if (text === undefined) return Buffer.from(bytes).toString('base64');
  if (!isJson(contentType)) return text;
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

/** Milliseconds to wait from `now`, by a Retry-After in seconds or as a date; undefined if it is neither. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  const text = header.trim();
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1000;
  // A date without a zone is in UTC, as RFC 9110, section 5.6.7, says of asctime's form.
  const date = Date.parse(/(?:[a-z]|[+-]\d\d:?\d\d)$/i.test(text) ? text : `${text} GMT`);
  return Number.isNaN(date) || !/[a-z]/i.test(text) ? undefined : Math.max(0, date - now);
}

function isJson(contentType: string | undefined): boolean {
  return /^\s*[\w.+-]+\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(contentType ?? '');
}
