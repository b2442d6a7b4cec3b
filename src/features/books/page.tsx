import { useState } from 'preact/hooks';
import { withQuery } from '../../dashboard/web/address.ts';
import { format } from '../../dashboard/web/format.ts';
import { Loaded, Panel } from '../../dashboard/web/kit/page.tsx';
import { Pill } from '../../dashboard/web/kit/pill.tsx';
import type { PagePart } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import type { BookAnswers } from './service.ts';

type Books = BookAnswers['Books'];

const HOUR_MS = 3_600_000;

/** Counts when the page is opened, not again: counting looks at each delivery. */
function BooksPanel() {
  const [since] = useState(() => Date.now() - HOUR_MS);
  const books = useResource<Books>(withQuery('/books', { since }));
  return (
    <Panel title="Is anything lost?" aside="1 hour">
      <Loaded of={books} lines={1}>
        {(counted) => (
          <p class="verdict">
            <Pill
              tone={counted.unaccounted === null ? 'quiet' : isWhole(counted) ? 'good' : 'bad'}
              icon={isWhole(counted) ? 'check' : 'warn'}
            >
              {lost(counted)}
            </Pill>
            <span>{shown(counted)}</span>
          </p>
        )}
      </Loaded>
    </Panel>
  );
}

const isWhole = ({ unaccounted, givenUp }: Books) => unaccounted === 0 && givenUp === 0;

/** How many accepted deliveries are missing. */
function lost({ unaccounted, givenUp }: Books): string {
  if (unaccounted === null) return 'Not known: the delivery log is kept in memory';
  const never = givenUp === null || givenUp === 0 ? '' : `, ${format.count(givenUp)} given up`;
  return `${format.count(unaccounted)} unaccounted${never}`;
}

/** Where accepted deliveries are: "12 accepted = 11 runs + 1 held"; leaves out zeros, except of runs. */
function shown({
  accepted,
  runs,
  held,
  discarded,
  filtered,
  answered,
  duplicates,
  coalesced,
  reconciled,
}: Books): string {
  if (accepted === null) return '';
  const figures = { held, discarded, filtered, answered, duplicates, coalesced };
  const others = Object.entries(figures).flatMap(([name, count]) =>
    count === null || count === 0 ? [] : [`${format.count(count)} ${name}`],
  );
  const fetched = reconciled === null || reconciled === 0 ? '' : ` (${format.count(reconciled)} reconciled)`;
  return `${format.count(accepted)} accepted${fetched} = ${[`${format.counted(runs ?? 0, 'run')}`, ...others].join(' + ')}`;
}

export const booksPage: PagePart = { name: 'books', at: { overview: BooksPanel } };
