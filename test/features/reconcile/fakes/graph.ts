import { type FakeApi, json, refused } from './fake-api.ts';

export interface GraphMessage {
  readonly id: string;
  readonly etag: string;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  readonly changedAt: number;
}

interface App {
  readonly tenant: string;
  readonly clientId: string;
  readonly clientSecret: string;
}

const ISO = (ms: number) => new Date(ms).toISOString().replace('.000Z', 'Z');

/**
 * The sign-in of an application and `GET /v1.0/users/ID/messages`: learn.microsoft.com/graph/query-parameters and
 * /graph/paging, read 2026-11. A page may be smaller than requested, even empty, while another follows.
 */
export function fakeGraph(app: App, messages: () => readonly GraphMessage[], pageSize = 100): FakeApi {
  return ({ method, url, headers, body }) => {
    if (url.pathname === `/${app.tenant}/oauth2/v2.0/token`) {
      const form = new URLSearchParams(body);
      const isApp = form.get('client_id') === app.clientId && form.get('client_secret') === app.clientSecret;
      const isFlow =
        form.get('grant_type') === 'client_credentials' && form.get('scope')?.endsWith('/.default') === true;
      if (method !== 'POST' || !isApp || !isFlow) return refused(401, 'AADSTS7000215: Invalid client secret provided');
      return json({ token_type: 'Bearer', expires_in: 3599, access_token: `token-of-${app.clientId}` });
    }
    if (!/^\/v1\.0\/users\/[^/]+\/messages$/.test(url.pathname)) return refused(404, 'ResourceNotFound');
    if (headers.authorization !== `Bearer token-of-${app.clientId}`) return refused(401, 'InvalidAuthenticationToken');
    const filter = url.searchParams.get('$filter') ?? '';
    const [, time = '', since = '', until = ''] = /^(\w+) ge (\S+) and \1 le (\S+)$/.exec(filter) ?? [];
    if (time !== url.searchParams.get('$orderby')) return refused(400, 'InefficientFilter');
    const timeOf = ({ createdAt, changedAt }: GraphMessage) => (time === 'createdDateTime' ? createdAt : changedAt);
    const found = messages()
      .filter((each) => timeOf(each) >= Date.parse(since) && timeOf(each) <= Date.parse(until))
      .toSorted((one, other) => timeOf(one) - timeOf(other));
    const start = Number(url.searchParams.get('$skip') ?? 0);
    const next = new URL(url);
    next.searchParams.set('$skip', String(start + pageSize));
    const value = found.slice(start, start + pageSize).map((each) => ({
      '@odata.etag': each.etag,
      id: each.id,
      [time]: ISO(timeOf(each)),
    }));
    const more = start + pageSize < found.length ? { '@odata.nextLink': next.href } : {};
    return json({ '@odata.context': `${url.origin}/v1.0/$metadata#messages`, ...more, value });
  };
}
