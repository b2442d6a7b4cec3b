const DEFAULT_PORTS: Readonly<Record<string, string>> = { https: '443', wss: '443', http: '80', ws: '80' };

/** The URL without its fragment, which is never sent and so never signed. Nothing is normalised: every byte counts. */
export function withoutFragment(url: string): string {
  return url.split('#', 1).join('');
}

/**
 * The URL as it is, and as a publisher may have signed it that leaves the port out or writes the default one.
 * https://www.twilio.com/docs/usage/webhooks/webhooks-security, and twilio-node's validateRequest, read 2026-11.
 */
export function portVariants(url: string): string[] {
  const schemeEnd = url.indexOf('://');
  if (schemeEnd === -1) return [url];
  const start = schemeEnd + 3;
  const authorityLength = url.slice(start).search(/[/?]/);
  const end = authorityLength === -1 ? url.length : start + authorityLength;
  const authority = url.slice(start, end);
  const port = /:\d*$/.exec(authority)?.[0];
  if (port !== undefined) return [url, `${url.slice(0, end - port.length)}${url.slice(end)}`];
  const defaultPort = DEFAULT_PORTS[url.slice(0, schemeEnd).toLowerCase()];
  return defaultPort === undefined ? [url] : [url, `${url.slice(0, end)}:${defaultPort}${url.slice(end)}`];
}

/** The URL that a publisher called, and the end of it that no configuration vouches for. */
export interface CalledUrl {
  readonly url: string;
  /** The query that the request brought, with the character in front of it; empty where it brought none. */
  readonly sentQuery: string;
}

/** The URL that a publisher called, from what is configured or else from what the request tells. */
export function calledUrl({
  configuredUrl,
  baseUrl,
  path,
  requestUrl,
}: {
  /** The trigger's own; absolute. */
  readonly configuredUrl: string | undefined;
  /** The service's base URL; the request's path is put behind it. */
  readonly baseUrl: string | undefined;
  /** Path and query as on the request line. */
  readonly path: string;
  readonly requestUrl: string;
}): CalledUrl {
  if (configuredUrl !== undefined) return withQuery(withoutFragment(configuredUrl), queryOf(withoutFragment(path)));
  const url = withoutFragment(baseUrl === undefined ? requestUrl : `${baseUrl.replace(/\/$/, '')}${path}`);
  const at = url.indexOf('?');
  return { url, sentQuery: at === -1 ? '' : url.slice(at) };
}

/**
 * A configured query is the publisher's own and stays as it is, unless the request continues it: Twilio adds its
 * parameters to the ones that are configured.
 */
function withQuery(url: string, query: string): CalledUrl {
  const configured = queryOf(url);
  if (configured === '') {
    const sentQuery = query === '' ? '' : `?${query}`;
    return { url: `${url.replace(/\?$/, '')}${sentQuery}`, sentQuery };
  }
  const sentQuery = query.startsWith(`${configured}&`) ? query.slice(configured.length) : '';
  return { url: `${url}${sentQuery}`, sentQuery };
}

function queryOf(url: string): string {
  const at = url.indexOf('?');
  return at === -1 ? '' : url.slice(at + 1);
}

/** Scheme, host and path, for a person: a query or user information may hold a secret. */
export function displayUrl(url: string): string {
  const match = /^([a-z]+:\/\/)(?:[^/?#]*@)?([^?#]*)/i.exec(url);
  return match === null ? 'a URL that is not absolute' : `${match[1]}${match[2]}`;
}
