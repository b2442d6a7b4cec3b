import { withoutFragment } from './schemes/signed-payload.ts';

/** The URL that a publisher called, and the end of it that no configuration vouches for. */
interface CalledUrl {
  readonly url: string;
  /** The query that the request brought, with the character in front of it; empty where it brought none. */
  readonly sentQuery: string;
}

/** The URL that a publisher called, from the configuration or else from the request. */
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
