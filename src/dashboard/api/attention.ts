import { z } from 'zod';
import { StoreUnavailableError } from '../../errors.ts';
import {
  ATTENTION_KINDS,
  type AttentionItem,
  attentionTo,
  LONG_SLOT_WAIT_MS,
  LOOK_BACK_HOURS,
  RECENT_HOURS,
  type Situation,
} from '../attention.ts';
import { REFUSALS } from '../error-responses.ts';
import { NO_QUERY } from '../input.ts';
import type { ApiRoutes, DashboardServices } from '../services.ts';

const HOUR_MS = 3_600_000;

export const attentionSchema = z
  .object({
    kind: z.enum(ATTENTION_KINDS),
    severity: z.enum(['error', 'warning', 'info']),
    message: z.string(),
    link: z.string().describe('Path of the page that shows it.'),
  })
  .meta({ id: 'Attention' });

/** What an operator should look at now. */
export const attentionRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/attention',
    {
      schema: {
        tags: ['service'],
        operationId: 'listAttention',
        summary: 'What needs a look, the gravest first',
        querystring: NO_QUERY,
        response: { 200: z.array(attentionSchema), ...REFUSALS },
      },
    },
    async () => [...(await notStored(services)), ...(await askStore(services))],
  );
};

/** While the store is away the answer is that it is. */
async function askStore(services: DashboardServices): Promise<AttentionItem[]> {
  try {
    const [situation] = await Promise.all([situationOf(services), services.store.ping()]);
    return attentionTo(situation);
  } catch (error) {
    if (!(error instanceof StoreUnavailableError)) throw error;
    const message = 'The store cannot be written: deliveries are answered 503 until it can; the log has the cause';
    return [{ kind: 'store_unavailable', severity: 'error', message, link: '/health/ready' }];
  }
}

async function situationOf(services: DashboardServices): Promise<Situation> {
  const { store, catalog, scheduler, triggers, clock, stepConcurrency: concurrency } = services;
  const now = clock.now();
  const since = now - LOOK_BACK_HOURS * HOUR_MS;
  const [ended, deliveries, schedules, waits] = await Promise.all([
    store.countEndedRuns(since),
    store.countDeliveries({ since, recentSince: now - (RECENT_HOURS - 1) * HOUR_MS }),
    scheduler.list(),
    store.listSlotWaits({ now, dueBefore: now - LONG_SLOT_WAIT_MS }),
  ]);
  const slots = { ...waits, concurrency };
  return { now, flows: catalog.list(), triggers: triggers().list(), schedules, ended, deliveries, slots };
}

/** What could not be stored is in no record: only the process' own counter knows of it. */
async function notStored({ metrics }: DashboardServices): Promise<AttentionItem[]> {
  const { values } = await metrics.webhookRejected.get();
  const count = values.reduce(
    (sum, { labels, value }) => (labels.reason === 'store_unavailable' ? sum + value : sum),
    0,
  );
  if (count === 0) return [];
  const message = `${count} deliveries were answered 503 since this process started, because the store could not take them`;
  return [{ kind: 'deliveries_not_stored', severity: 'error', message, link: '/metrics' }];
}
