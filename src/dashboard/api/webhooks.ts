import { z } from 'zod';
import { HttpError } from '../../errors.ts';
import { REFUSALS } from '../error-responses.ts';
import { flag, freeText, oneOf, optionalGuid, PAGING, wholeNumber } from '../input.ts';
import type { ApiRoutes } from '../services.ts';
import { deliverySchema, deliveryView, reasonSchema } from './delivery-view.ts';
import { integer, listOf, toList } from './formats.ts';

const HOUR_MS = 3_600_000;
const MAX_WINDOW_HOURS = 720;

const recentQuery = z.strictObject({
  flowId: optionalGuid(),
  reason: oneOf(reasonSchema.options).meta({ description: 'The first gate that failed, or why it was refused.' }),
  rejectedOnly: flag().meta({ description: 'A gate failed, or the delivery was refused. false by default.' }),
  acceptedOnly: flag().meta({ description: 'The others. false by default.' }),
  search: freeText(200).meta({
    description:
      'Part of an id, client address, scheme, reason, detail or run id, in the newest 10 000 that the other filters leave; an id, or 8 and more characters of its beginning, however old.',
  }),
  ...PAGING,
});

export const statsSchema = z.object({
  windowHours: integer(),
  counts: z.partialRecord(reasonSchema, integer()),
  accepted: integer(),
  rejected: integer(),
  total: integer(),
});

/** The delivery log. */
export const webhookRoutes: ApiRoutes = (app, { store, clock }) => {
  const tags = ['deliveries'];

  app.get(
    '/flows/api/webhooks/recent',
    {
      schema: {
        tags,
        operationId: 'listDeliveries',
        summary: 'Deliveries that were kept, newest first',
        querystring: recentQuery,
        response: { 200: listOf(deliverySchema), ...REFUSALS },
      },
    },
    async ({ query }) => {
      if (query.rejectedOnly && query.acceptedOnly) {
        throw new HttpError(400, 'rejectedOnly, acceptedOnly: only one of the two can be true');
      }
      const page = await store.listDeliveries(query);
      return toList(page.items.map(deliveryView), page.total, query);
    },
  );

  app.get(
    '/flows/api/webhooks/stats',
    {
      schema: {
        tags,
        operationId: 'deliveryStats',
        summary: 'Counts by reason over the last hours',
        querystring: z.strictObject({ hours: wholeNumber({ min: 1, max: MAX_WINDOW_HOURS, fallback: 24 }) }),
        response: { 200: statsSchema, ...REFUSALS },
      },
    },
    async ({ query }) => {
      const stats = await store.deliveryStats(clock.now() - query.hours * HOUR_MS);
      return { ...stats, windowHours: query.hours };
    },
  );
};
