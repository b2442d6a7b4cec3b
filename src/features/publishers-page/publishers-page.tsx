import type { Api } from '../../dashboard/web/api-types.ts';
import { type Column, NoMatch, SearchFilter, Table } from '../../dashboard/web/kit/list.tsx';
import { Loaded, Page, Total } from '../../dashboard/web/kit/page.tsx';
import { Pill } from '../../dashboard/web/kit/pill.tsx';
import { LOOKS } from '../../dashboard/web/looks.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import { useQuery } from '../../dashboard/web/router.ts';
import { type Publisher, publisherMatches, publishersIn, titleOf } from '../deploy-page/page/publishers.ts';

const COLUMNS: readonly Column<Publisher>[] = [
  { name: 'Publisher', cell: titleOf, sortBy: titleOf },
  { name: 'Scheme', cell: ({ name }) => <code>{name}</code>, isMinor: true },
  {
    name: 'Signature',
    cell: ({ headers }) => <span class="break">{headers.slice(0, 2).join(', ') || 'in the body'}</span>,
    isMinor: true,
  },
  { name: 'Grade', cell: ({ grade }) => grade ?? '?', sortBy: ({ grade }) => grade },
  { name: 'Known by', cell: CertaintyPill, sortBy: ({ certainty }) => certainty },
];

/** All publishers with a scheme: the starting point for a new webhook. */
export function PublishersPage() {
  const schemes = useResource<readonly Api['Scheme'][]>('/schemes');
  const [query] = useQuery();
  const wanted = query.get('search') ?? '';
  const publishers = publishersIn(schemes.data ?? []);
  const shown = publishers.filter((publisher) => publisherMatches(publisher, wanted));
  return (
    <Page
      title="Publishers"
      trail={[['Flows', '/flows/flows']]}
      badges={schemes.data === undefined ? null : <Total count={shown.length} />}
    >
      <search class="filters">
        <SearchFilter label="Search by name or header" />
      </search>
      <div class="panel">
        <Loaded of={schemes} lines={8}>
          {() =>
            shown.length === 0 ? (
              <NoMatch what="publishers" path="/flows/publishers" />
            ) : (
              <Table
                label="Publishers"
                columns={COLUMNS}
                rows={shown}
                keyOf={({ name }) => name}
                hrefOf={({ name }) => `/flows/publishers/${encodeURIComponent(name)}`}
              />
            )
          }
        </Loaded>
      </div>
      <p class="muted">
        For your own sender choose <a href="/flows/publishers/Generic">Your own sender</a>; the scheme{' '}
        <code>Custom</code> describes any other signature.
      </p>
    </Page>
  );
}

export function CertaintyPill({ certainty }: Pick<Publisher, 'certainty'>) {
  if (certainty === null) return null;
  const [tone, icon, text] = LOOKS.certainty[certainty];
  return (
    <Pill tone={tone} icon={icon}>
      {text}
    </Pill>
  );
}
