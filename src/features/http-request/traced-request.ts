import type { Attributes } from '@opentelemetry/api';
import { MASK } from '../../manifest/mask.ts';
import { inClientSpan } from '../../telemetry/tracing.ts';

interface SentRequest {
  readonly url: URL;
  readonly method: string;
  /** Lower-case names. */
  readonly headers: ReadonlyMap<string, string>;
}

interface RequestTracing {
  /** Masks the step's secrets. */
  readonly mask: (text: string) => string;
  /** How many redirects led to this request. */
  readonly redirects: number;
  readonly isExpected: (status: number) => boolean;
  /** The kind of failure, without secrets. */
  readonly errorType: (error: unknown) => string;
}

/** Sends a step's request in its own span, with the headers that continue its trace at the other side. */
export function sendTraced<Request extends SentRequest, Answer extends { readonly status: number }>(
  request: Request,
  tracing: RequestTracing,
  send: (request: Request) => Promise<Answer>,
): Promise<Answer> {
  const { isExpected, errorType } = tracing;
  const span = {
    method: request.method,
    attributes: () => attributesOf(request.url, tracing),
    isError: ({ status }: Answer) => status >= 400 && !isExpected(status),
    errorType,
  };
  return inClientSpan(span, (traceHeaders) => {
    const added = Object.entries(traceHeaders);
    // An author who sets trace headers wants to continue another trace.
    const isOwn = added.some(([name]) => request.headers.has(name));
    return send(
      isOwn || added.length === 0 ? request : { ...request, headers: new Map([...request.headers, ...added]) },
    );
  });
}

const MAX_PATH_CHARACTERS = 200;

/** A path can be a credential, and after a redirect it can be anything; a query is never recorded. */
function attributesOf(url: URL, { mask, redirects }: RequestTracing): Attributes {
  const isShown = (text: string) => mask(text) === text;
  const hasHost = isShown(url.origin);
  const hasPath = redirects === 0 && isShown(url.href);
  const origin = hasHost ? url.origin : `${url.protocol}//${MASK}`;
  return {
    'server.address': hasHost ? url.hostname.replace(/^\[(.*)\]$/, '$1') : MASK,
    'server.port': Number(url.port || (url.protocol === 'https:' ? 443 : 80)),
    'url.full': `${origin}${hasPath ? url.pathname.slice(0, MAX_PATH_CHARACTERS) : `/${MASK}`}`,
    ...(redirects > 0 && { 'http.request.resend_count': redirects }),
  };
}
