import { isJsonObject, own } from '../../../model/json.ts';
import type { Reconcile } from '../log-schema.ts';
import { type Source, SourceError } from '../source.ts';
import { listSource } from './list.ts';

type GraphConfig = Extract<Reconcile, { from: 'graph' }>;

/** A token is not used in its last moments, because a look takes a while. */
const MARGIN_SECONDS = 300;

const TIMES = { created: 'createdDateTime', updated: 'lastModifiedDateTime' } as const;

/**
 * Microsoft Graph has no log of its notifications, and a `missed` notification names no item: it says to read the
 * resource, where each item has its time of creation and last change. Deleted items are not found this way:
 * learn.microsoft.com/graph/change-notifications-lifecycle-events, read 2026-11.
 */
export function graphSource(config: GraphConfig): Source {
  const { resource, changeType, subscriptionId, baseUrl = 'https://graph.microsoft.com' } = config;
  const time = TIMES[changeType];
  const query = [
    `$select=id,${time}`,
    `$filter=${time} ge {since} and ${time} le {until}`,
    `$orderby=${time}`,
    '$top=100',
  ].join('&');
  const subscription = subscriptionId === undefined ? '' : `"subscriptionId": ${JSON.stringify(subscriptionId)}, `;
  const list = listSource({
    url: `${baseUrl.replace(/\/$/, '')}/v1.0/${resource}?${query}`,
    items: 'response.body.value',
    id: changeType === 'created' ? 'item.id' : 'item.id + " " + item["@odata.etag"]',
    time: `item.${time}`,
    body: `{"value": [{${subscription}"changeType": "${changeType}", "resource": "${resource}/" + item.id, "resourceData": {"id": item.id, "@odata.etag": item["@odata.etag"]}}]}`,
    next: '"@odata.nextLink" in response.body ? response.body["@odata.nextLink"] : ""',
  });
  return { ...list, signIn: signIn(config) };
}

/** As an application: learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow, read 2026-11. */
function signIn({
  tenant,
  clientId,
  clientSecret,
  baseUrl = 'https://graph.microsoft.com',
  loginUrl = 'https://login.microsoftonline.com',
}: GraphConfig): NonNullable<Source['signIn']> {
  const body = new URLSearchParams({
    grant_type: 'client_credentials',
    client_id: clientId,
    client_secret: clientSecret,
    scope: `${new URL(baseUrl).origin}/.default`,
  });
  return {
    request: () => ({
      method: 'POST',
      url: `${loginUrl.replace(/\/$/, '')}/${tenant}/oauth2/v2.0/token`,
      headers: { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' },
      body: body.toString(),
    }),
    read({ json }) {
      const [token, seconds] = isJsonObject(json) ? [own(json, 'access_token'), own(json, 'expires_in')] : [];
      if (typeof token !== 'string' || !/^[\w.~+/-]+=*$/.test(token) || typeof seconds !== 'number') {
        throw new SourceError('the sign-in answered without a token and its lifetime');
      }
      return { headers: { authorization: `Bearer ${token}` }, lifeMs: Math.max(0, seconds - MARGIN_SECONDS) * 1000 };
    },
  };
}
