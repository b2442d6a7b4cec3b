import type { Json, JsonObject } from '../../../model/json.ts';
import { exactTexts } from '../exact-json.ts';
import { TRANSPORT_HEADERS } from '../log-fields.ts';
import type { Reconcile } from '../log-schema.ts';
import {
  refuseLongPage,
  type SentDelivery,
  type Source,
  type SourceAnswer,
  SourceError,
  type SourceItem,
} from '../source.ts';

type GithubConfig = Extract<Reconcile, { from: 'github' }>;

const PAGE_SIZE = 100;
const GUID_CHARACTERS = 200;

/**
 * The deliveries of one webhook, newest first, each with the request that GitHub made:
 * docs.github.com/rest/repos/webhooks and rest/orgs/webhooks, read 2026-11. GitHub keeps them for three days.
 */
export function githubSource({ repo, org, hook, token, baseUrl = 'https://api.github.com' }: GithubConfig): Source {
  const owner = repo === undefined ? `orgs/${org}` : `repos/${repo}`;
  const deliveries = `${baseUrl.replace(/\/$/, '')}/${owner}/hooks/${hook}/deliveries`;
  const get = (url: string) => ({
    method: 'GET' as const,
    url,
    headers: {
      accept: 'application/vnd.github+json',
      authorization: `Bearer ${token}`,
      'x-github-api-version': '2022-11-28',
    },
  });
  const page = `${deliveries}?per_page=${PAGE_SIZE}`;
  return {
    // The log lists only finished deliveries, with their answers.
    graceMs: 0,
    list: () => get(page),
    read({ json, headers }, { since }) {
      if (!Array.isArray(json)) throw new SourceError('GitHub answered with no list of deliveries');
      refuseLongPage(json);
      const items = json.map((each): SourceItem => {
        const { guid, event, status, status_code: code, delivered_at: deliveredAt, ...entry } = objectIn(each);
        const id = idIn(entry.id);
        const sentAt = typeof deliveredAt === 'string' ? Date.parse(deliveredAt) : Number.NaN;
        if (
          typeof guid !== 'string' ||
          guid === '' ||
          guid.length > GUID_CHARACTERS ||
          id === undefined ||
          Number.isNaN(sentAt)
        ) {
          throw new SourceError('GitHub listed a delivery without id, guid or time');
        }
        const known = { 'x-github-delivery': guid, ...(typeof event === 'string' && { 'x-github-event': event }) };
        const hasArrived = typeof code === 'number' && code >= 200 && code < 300;
        const failure = hasArrived || typeof status !== 'string' ? {} : { failure: status };
        return { id: guid, sentAt, headers: known, detail: get(`${deliveries}/${id}`), ...failure };
      });
      const cursor = nextCursor(headers.link);
      const isPast = items.some(({ sentAt }) => sentAt < since);
      return isPast || cursor === undefined
        ? { items }
        : { items, next: get(`${page}&cursor=${encodeURIComponent(cursor)}`) };
    },
    sent: ({ headers: known }, detail) => sentDelivery(known, detail),
  };
}

function sentDelivery(known: SourceItem['headers'], detail: SourceAnswer | undefined): SentDelivery {
  const { request, guid } = objectIn(detail?.json ?? null);
  const { headers: given, payload } = objectIn(request ?? null);
  if (detail === undefined || given === undefined || typeof payload !== 'object' || payload === null) {
    throw new SourceError('GitHub no longer has the payload and headers of the delivery');
  }
  if (guid !== known['x-github-delivery']) throw new SourceError('GitHub answered with another delivery');
  const sent = Object.entries(objectIn(given ?? null)).flatMap(([name, value]) =>
    typeof value === 'string' && !TRANSPORT_HEADERS.has(name.toLowerCase()) ? [[name.toLowerCase(), value]] : [],
  );
  const headers: Record<string, string> = { 'content-type': 'application/json', ...Object.fromEntries(sent), ...known };
  const isForm = headers['content-type']?.startsWith('application/x-www-form-urlencoded') === true;
  const inForm = (json: string) => new URLSearchParams({ payload: json }).toString();
  const [first, ...others] = exactTexts(detail.text, ['request', 'payload'], payload);
  const bytesOf = (json: string) => Buffer.from(isForm ? inForm(json) : json);
  return { headers, bodies: [bytesOf(first), ...others.map(bytesOf)] };
}

/** An id can have more digits than a double holds. */
function idIn(id: Json | undefined): string | undefined {
  const text = typeof id === 'string' ? id : JSON.stringify(id ?? null);
  return /^\d+$/.test(text) ? text : undefined;
}

function objectIn(given: Json): JsonObject {
  return typeof given === 'object' && given !== null && !Array.isArray(given) ? (given as JsonObject) : {};
}

/** The link itself is not followed, because the token would be sent wherever it leads. */
function nextCursor(link: string | undefined): string | undefined {
  const next = link?.split(',').find((each) => /;\s*rel="?next"?/.test(each));
  const url = next && /<([^>]*)>/.exec(next)?.[1];
  return url !== undefined && URL.canParse(url) ? (new URL(url).searchParams.get('cursor') ?? undefined) : undefined;
}
