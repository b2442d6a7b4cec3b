import { Command } from 'commander';
import { printJson, reporting, withService } from '../../commands/context.ts';
import { secondOf } from '../../commands/lists.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import {
  clientOf,
  listFlows,
  listPath,
  RefusedError,
  type ServedFlow,
  type ServiceClient,
  type ServiceOptions,
} from '../../commands/service-client.ts';
import { table } from '../../commands/table.ts';
import { type SpanOptions, withSpan } from '../../commands/time.ts';
import { HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import { print } from '../../telemetry/terminal.ts';

interface StatusOptions extends ServiceOptions, SpanOptions {
  readonly json?: true;
}

/** The state of a service. Null values are unknown because its store is unavailable. */
interface Status {
  readonly isReady: boolean;
  /** Why it is not ready. */
  readonly unready: string | null;
  readonly attention: readonly AttentionItem[] | null;
  readonly deliveries: Figures<'accepted' | 'rejected'> | null;
  readonly runs: Figures<'succeeded' | 'failed' | 'cancelled' | 'running' | 'skipped'> | null;
  /** Outcomes of accepted deliveries; null values if the delivery log is in memory. */
  readonly books: Readonly<
    Record<'accepted' | 'reconciled' | 'unaccounted' | 'givenUp' | (typeof FATES)[number], number | null>
  > | null;
  /** Number of deliveries held, over all flows. */
  readonly held: number | null;
  /** Flows that start no runs. */
  readonly closed: readonly ClosedFlow[] | null;
}

/** Possible outcomes of accepted deliveries. */
const FATES = ['runs', 'held', 'discarded', 'filtered', 'answered', 'duplicates', 'coalesced'] as const;

interface AttentionItem {
  readonly severity: 'error' | 'warning' | 'info';
  readonly kind: string;
  readonly message: string;
}

/** Counts within a span of time (ISO 8601). */
interface Figures<Name extends string> {
  readonly since: string;
  readonly until: string;
  readonly counts: Readonly<Record<Name, number>>;
}

interface ClosedFlow {
  readonly id: string;
  readonly name: string;
  readonly state: 'disabled' | 'draining';
  readonly held: number;
}

function makeStatus(): Command {
  const command = new Command('status')
    .helpGroup(HELP.daily)
    .description('Show how a service does: whether it is ready, what needs attention, what came and ran, closed flows')
    .option('--json', 'print it as JSON');
  return withService(withSpan(command))
    .addHelpText(
      'after',
      '\nDeliveries and runs are those of the last hour without --since; beyond six hours they are counted by the hour.\n' +
        'Exits with 0 if all is well, with 1 if the service is not ready, an error needs attention or deliveries are unaccounted\n' +
        'for, with 2 if it did not answer.',
    )
    .action(reporting(status));
}

async function status({ json, since, until, ...options }: StatusOptions): Promise<void> {
  const client = await clientOf(options);
  const read = await readStatus(client, { since: since ?? (until ?? Date.now()) - HOUR_MS, until });
  if (json) printJson(read);
  else print(statusText(read));
  const isWell = read.isReady && read.attention?.every(({ severity }) => severity !== 'error') === true;
  process.exitCode = isWell && (read.books?.unaccounted ?? 0) === 0 ? 0 : 1;
}

async function readStatus(client: ServiceClient, span: Span): Promise<Status> {
  const { status: code, body } = await client.ask({
    method: 'GET',
    path: '/health/ready',
    accepts: [503],
    like: { status: '' },
  });
  const isReady = code === 200;
  const [attention, books, deliveries, runs, flows] = await Promise.all([
    unlessAway(
      client.ask({ method: 'GET', path: '/flows/api/attention', like: [{ kind: '', severity: '', message: '' }] }),
    ),
    unlessAway(
      client.ask({
        method: 'GET',
        path: listPath('/flows/api/books', { ...span }),
        like: { accepted: 0, unaccounted: 0 },
      }),
    ),
    unlessAway(count(client, '/flows/api/webhooks/timeseries', span)),
    unlessAway(count(client, '/flows/api/runs/timeseries', span)),
    unlessAway(listFlows(client)),
  ]);
  const items = attention === null ? null : (attention.body as AttentionItem[]);
  // The readiness endpoint needs no credentials, so it does not reveal the cause.
  const cause = items?.find(({ kind }) => kind === 'store_unavailable')?.message;
  return {
    isReady,
    unready: isReady ? null : (cause ?? (body as { readonly message: string }).message),
    attention: items,
    deliveries: deliveries && figuresOf(deliveries, ({ accepted = 0, rejected = 0 }) => ({ accepted, rejected })),
    runs: runs && figuresOf(runs, runCounts),
    books: books === null ? null : (books.body as Status['books']),
    held: flows?.reduce((sum, { held }) => sum + held, 0) ?? null,
    closed: flows?.flatMap(closedFlow) ?? null,
  };
}

function closedFlow({ id, name, isEnabled, drainingSince, held }: ServedFlow): ClosedFlow[] {
  if (isEnabled && drainingSince === null) return [];
  return [{ id, name, state: isEnabled ? 'draining' : 'disabled', held }];
}

/** Null if the service's store is unavailable. */
async function unlessAway<Answer>(asked: Promise<Answer>): Promise<Answer | null> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof RefusedError && error.isAway) return null;
    throw error;
  }
}

interface Span {
  readonly since: number;
  readonly until: number | undefined;
}

/** Counts for each minute, hour or day of a span. */
interface Timeseries {
  readonly since: string;
  readonly until: string;
  readonly buckets: readonly Readonly<Partial<Record<string, number>>>[];
}

/** One less than the API returns at once: a span seldom starts exactly at a bucket. */
const MOST_MINUTES = 359;
const MOST_HOURS = 999;

const SERIES = { since: '', until: '', buckets: [{}] };

async function count(client: ServiceClient, path: string, { since, until }: Span): Promise<Timeseries> {
  const lengthMs = (until ?? Date.now()) - since;
  const bucket = lengthMs <= MOST_MINUTES * MINUTE_MS ? 'minute' : lengthMs <= MOST_HOURS * HOUR_MS ? 'hour' : 'day';
  return (await client.ask({ method: 'GET', path: listPath(path, { bucket, since, until }), like: SERIES }))
    .body as Timeseries;
}

function figuresOf<Name extends string>(
  { since, until, buckets }: Timeseries,
  countsIn: (bucket: Timeseries['buckets'][number]) => Record<Name, number>,
): Figures<Name> {
  const counts = buckets.map(countsIn).reduce((sum, each) => {
    const names = Object.keys(each) as Name[];
    return Object.fromEntries(names.map((name) => [name, sum[name] + each[name]])) as Record<Name, number>;
  });
  return { since, until, counts };
}

function runCounts({
  total = 0,
  succeeded = 0,
  failed = 0,
  cancelled = 0,
  running = 0,
}: Timeseries['buckets'][number]) {
  const skipped = total - succeeded - failed - cancelled - running;
  return { succeeded, failed, cancelled, running, skipped };
}

function statusText({ isReady, unready, attention, books, deliveries, runs, held, closed }: Status): string {
  const items = (attention ?? []).map(({ severity, kind, message }) => [severity, kind, message]);
  const flows = (closed ?? []).map((flow) => [flow.id, flow.state, String(flow.held), flow.name]);
  const parts = [
    `${isReady ? 'ready' : `not ready: ${unready}`}\n`,
    items.length > 0
      ? table(['SEVERITY', 'KIND', 'MESSAGE'], items)
      : `${attention === null ? 'what needs attention is not known' : 'nothing needs attention'}\n`,
    `${figuresText('deliveries', deliveries)}${held ? `; ${held} held now` : ''}\n${figuresText('runs', runs)}\n${booksText(books)}\n`,
    flows.length === 0 ? '' : table(['CLOSED FLOW', 'STATE', 'HELD', 'NAME'], flows),
  ];
  return parts.filter((part) => part !== '').join('\n');
}

/** Leaves out zeros, except for the sum and the unaccounted. */
function booksText(books: Status['books']): string {
  if (books === null || books.accepted === null) return 'books: not known';
  const parts = FATES.filter((name) => (books[name] ?? 0) > 0).map(
    (name) => `${books[name]} ${name === 'runs' && books.runs === 1 ? 'run' : name}`,
  );
  const fetched = books.reconciled ? ` (${books.reconciled} reconciled)` : '';
  return `books: ${books.accepted} accepted${fetched} = ${parts.join(' + ') || 0}; ${books.unaccounted} unaccounted${books.givenUp ? `; ${books.givenUp} given up` : ''}`;
}

function figuresText(what: string, figures: Figures<string> | null): string {
  if (figures === null) return `${what}: not known`;
  const counts = Object.entries(figures.counts).filter(([name, number]) => number > 0 || name !== 'skipped');
  const told = counts.map(([name, number]) => `${number} ${name}`).join(', ');
  return `${what} from ${secondOf(figures.since)} to ${secondOf(figures.until)}: ${told}`;
}

export const statusCommand: CommandPart = { name: 'status', commands: [makeStatus] };
