import {
  type Filter,
  hasAny,
  ROWS,
  skipOf,
  spanOf,
  splitAddress,
  textsOf,
  withQuery,
} from '../../../dashboard/web/address.ts';
import type { Api } from '../../../dashboard/web/api-types.ts';

/** The list of deliveries: its API path, the filters that its chart shares, and whether it is filtered. */
export const deliveryList = {
  path: deliveriesPath,
  filter: deliveriesFilter,
  isNarrowed: hasAny(['flowId', 'reason', 'outcome', 'search', 'searchKeys']),
};

/** Outcomes that the API has as outcomes; the others are flags there. */
const OUTCOMES: readonly string[] = [
  'duplicate',
  'filtered',
  'coalesced',
  'answered',
  'unevaluated',
  'givenUp',
] satisfies readonly NonNullable<Api['Delivery']['outcome']>[];

function deliveriesFilter(query: URLSearchParams): Filter {
  const outcome = query.get('outcome') ?? '';
  return {
    ...textsOf(query, ['flowId', 'reason', 'search', 'searchKeys']),
    rejectedOnly: outcome === 'rejected',
    acceptedOnly: outcome === 'accepted',
    heldOnly: outcome === 'held',
    outcome: OUTCOMES.includes(outcome) ? outcome : '',
  };
}

function deliveriesPath(query: URLSearchParams): string {
  const skip = skipOf(query);
  return withQuery('/webhooks/recent', {
    ...deliveriesFilter(query),
    ...spanOf(query),
    skip: skip === 0 ? '' : skip,
    take: ROWS,
    includeTotal: true,
  });
}

/** The end of a URL, without its query: the name of a webhook, right or not. */
export function lastPartOf(url: string): string {
  return splitAddress(url).path.split('/').at(-1) ?? '';
}
