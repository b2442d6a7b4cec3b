import type { Agent } from 'undici';
import type { Egress } from './egress.ts';
import { type HttpMethod, problemOfUrl } from './http-inputs.ts';

export interface HttpRequest {
  readonly url: URL;
  readonly method: HttpMethod;
  /** Lower-case names. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Uint8Array | string | undefined;
}

export interface HttpResponse {
  readonly status: number;
  /** Lower-case names; several lines of one name are joined with ", ". */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/** A redirect that is not followed. */
export class RedirectRefusedError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'RedirectRefusedError';
  }
}

export interface Exchange {
  readonly agent: Agent;
  readonly egress: Egress;
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

/** Sends a request and follows redirects; every hop's address is checked anew. Rejects with what went wrong. */
export async function exchange(request: HttpRequest, options: Exchange): Promise<HttpResponse> {
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
