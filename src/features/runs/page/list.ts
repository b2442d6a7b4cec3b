import {
  CAUSE,
  type Filter,
  hasAny,
  ROWS,
  skipOf,
  spanOf,
  textsOf,
  withQuery,
} from '../../../dashboard/web/address.ts';

/** The list of runs: its API path, the filters that its chart shares, and whether it is filtered. */
export const runList = {
  path: runsPath,
  filter: runsFilter,
  isNarrowed: hasAny(['flowId', 'status', 'waiting', 'search', 'searchKeys', ...CAUSE]),
};

function runsFilter(query: URLSearchParams): Filter {
  return textsOf(query, ['flowId', 'status', 'waiting', 'search', 'searchKeys', ...CAUSE]);
}

/** The API path of the failures of a list's runs. */
export function failuresPath(query: URLSearchParams): string {
  return withQuery('/runs/failures', { ...runsFilter(query), ...spanOf(query) });
}

function runsPath(query: URLSearchParams): string {
  return withQuery('/runs', {
    ...runsFilter(query),
    ...spanOf(query),
    skip: skipOf(query),
    take: ROWS,
    includeTotal: true,
  });
}
