import { z } from 'zod';
import type { Intervention } from '../../store/store.ts';
import { field, isoTime, listOf, toList } from '../answer.ts';
import { IN_ORDER, PAGING, parameter, SPAN } from '../input.ts';
import { route } from '../route.ts';
import type { ApiRoutes } from '../services.ts';

const OUTCOMES = ['done', 'refused', 'failed', 'unknown'] as const;

export const interventionSchema = z
  .object({
    id: field.id(),
    at: field.time(),
    actor: z.string().describe('The name of a token or user; anyone if the dashboard has no credentials.'),
    clientIp: z.string().nullable(),
    action: z.string().describe('The operation, by its id in this document.'),
    target: z
      .object({ type: z.enum(['flow', 'run', 'delivery', 'schedule']), id: z.string() })
      .nullable()
      .describe('Null for the whole service.'),
    details: z.record(z.string(), z.string()).describe('Further details, such as the step or the progress.'),
    reason: z.string().nullable().describe('From the header x-sluice-reason, or from the body if it has one.'),
    outcome: z.enum(OUTCOMES).describe('Unknown while it is in progress, and if the process died before the answer.'),
    statusCode: field.integer().nullable(),
  })
  .meta({ id: 'Intervention' });

/** Who did what, when and why. */
export const activityRoutes: ApiRoutes = (app, { store }) => {
  app.get(
    '/flows/api/activity',
    route('service', {
      operationId: 'listActivity',
      summary: 'Who did what, when and why, newest first',
      query: z
        .strictObject({
          id: parameter.optionalGuid(),
          actor: parameter.freeText(64),
          action: parameter.freeText(64),
          target: parameter.freeText(300).meta({ description: 'The id of a flow, run, delivery or schedule.' }),
          ...SPAN,
          ...PAGING,
        })
        .refine(...IN_ORDER),
      answer: listOf(interventionSchema),
    }),
    async ({ query }) => {
      const page = await store.listInterventions(query);
      return toList(page.items.map(interventionView), page.total, query);
    },
  );
};

export function interventionView({ at, details, ...kept }: Intervention): z.output<typeof interventionSchema> {
  return { ...kept, at: isoTime(at), details: { ...details }, outcome: outcomeOf(kept.statusCode) };
}

function outcomeOf(statusCode: number | null): (typeof OUTCOMES)[number] {
  if (statusCode === null) return 'unknown';
  if (statusCode < 400) return 'done';
  return statusCode < 500 ? 'refused' : 'failed';
}
