import { z } from 'zod';
import { field, isoTime } from '../../dashboard/answer.ts';
import { IN_ORDER, SPAN } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, type DashboardServices, servicePart } from '../../dashboard/services.ts';
import { limitOf } from '../../dashboard/sight.ts';
import { DAY_MS, MINUTE_MS } from '../../model/clock.ts';
import type { TimeSpan } from '../../store/store.ts';
import { type Books, booksStore } from './store.ts';

const figure = (meaning: string) =>
  field.integer().nullable().describe(`${meaning} null where the delivery log is kept in memory.`);

const booksSchema = z
  .object({
    since: field.time(),
    until: field.time(),
    isCut: z.boolean().describe('`since` is later than asked: what was before may have been deleted by retention.'),
    accepted: figure(
      'Deliveries that were answered with 2xx, without handshakes, and those that were fetched; the sum of the figures below but for reconciled and givenUp.',
    ),
    runs: figure('Those that started a run.'),
    held: figure('Those whose run starts once their flow does.'),
    discarded: figure('Those that were held, and discarded by somebody.'),
    filtered: figure('Those that an expression of their trigger filtered out.'),
    answered: figure('Those that answered steps that wait, or are kept for some that will.'),
    duplicates: figure('Those that repeat another one.'),
    coalesced: figure('Those that joined the run of others.'),
    reconciled: figure(
      'Of all those: deliveries that did not arrive, and were fetched from the log of their publisher.',
    ),
    unaccounted: figure('Those of which nothing of that is true: 0, or something is lost.'),
    givenUp: figure(
      'Deliveries that were not accepted: the log of their publisher had them, and they could not be fetched; the outcome of their records is givenUp.',
    ),
  })
  .meta({ id: 'Books' });

/** Answers of these operations. */
export interface BookAnswers {
  readonly Books: z.output<typeof booksSchema>;
}

type BookServices = Pick<DashboardServices, 'store' | 'clock' | 'kept'>;

/** Counts accepted deliveries, and the missing ones among them. */
const bookRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/books',
    route('deliveries', {
      operationId: 'getBooks',
      limit: 'filtered',
      summary: 'What became of all that was accepted: counted from the tables, not from counters',
      description: 'The last 24 hours by default.',
      query: z.strictObject(SPAN).refine(...IN_ORDER),
      answer: booksSchema,
    }),
    async (request) => readBooks({ ...request.query, ...limitOf(request, services) }, services),
  );
};

async function readBooks(
  { flowIds, ...asked }: TimeSpan & { readonly flowIds?: readonly string[] | undefined },
  { store, clock, kept }: BookServices,
): Promise<z.output<typeof booksSchema>> {
  const now = clock.now();
  const until = asked.until ?? now + 1;
  const wanted = asked.since ?? until - DAY_MS;
  const since = Math.min(until, Math.max(wanted, now - kept.days * DAY_MS));
  const span = { since: isoTime(since), until: isoTime(until), isCut: since > wanted };
  const books = kept.hasLog ? await store.of(booksStore).countBooks({ since, until, flowIds }) : UNKNOWN;
  return { ...span, ...books };
}

const UNKNOWN: Readonly<Record<keyof Books, null>> = {
  accepted: null,
  runs: null,
  held: null,
  discarded: null,
  filtered: null,
  answered: null,
  duplicates: null,
  coalesced: null,
  reconciled: null,
  unaccounted: null,
  givenUp: null,
};

/** Time span of the gauge, and how long a count is reused: counting looks at each delivery. */
const WATCHED_MS = 10 * MINUTE_MS;
const COUNTED_EVERY_MS = MINUTE_MS;

/** Makes the count for a scrape: unaccounted deliveries of the last ten minutes, at most a minute old. */
function createUnaccounted(services: BookServices): () => Promise<number> {
  let last: { readonly at: number; readonly count: Promise<number> } | undefined;
  return () => {
    const now = services.clock.monotonic();
    if (last === undefined || now - last.at >= COUNTED_EVERY_MS) {
      const count = readBooks({ since: services.clock.now() - WATCHED_MS }, services).then(
        ({ unaccounted }) => unaccounted ?? Number.NaN,
      );
      last = { at: now, count };
      // The next scrape tries again.
      count.catch(() => {
        last = undefined;
      });
    }
    return last.count;
  };
}

export const books = servicePart({
  name: 'books',
  routes: [bookRoutes],
  gauges: [
    {
      name: 'sluice_deliveries_unaccounted',
      help:
        'Accepted deliveries of the last ten minutes without a run and neither held, discarded nor a repetition, counted ' +
        'from the tables once a minute; NaN where the delivery log is kept in memory.',
      measure: createUnaccounted,
    },
  ],
});
