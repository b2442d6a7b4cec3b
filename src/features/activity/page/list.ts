import { hasAny, ROWS, skipOf, spanOf, withQuery } from '../../../dashboard/web/address.ts';

/** The list of interventions: its API path, and whether it is filtered. */
export const activityList = { path: activityPath, isNarrowed: hasAny(['actor', 'action', 'target']) };

function activityPath(query: URLSearchParams): string {
  return withQuery('/activity', {
    actor: query.get('actor') ?? '',
    action: query.get('action') ?? '',
    target: query.get('target') ?? '',
    ...spanOf(query),
    skip: skipOf(query),
    take: ROWS,
    includeTotal: true,
  });
}
