import { z } from 'zod';
import type { AlertState } from '../../alerts/plan.ts';
import { ALERT_EVENTS } from '../../alerts/targets.ts';
import { RUN_STATUSES } from '../../model/manifest.ts';
import { field, isoTime } from '../answer.ts';
import { route } from '../route.ts';
import type { ApiRoutes } from '../services.ts';

export const alertTargetSchema = z
  .object({
    name: z.string(),
    type: z.enum(['slack', 'teams', 'discord', 'json', 'smtp']),
    events: z.array(z.enum(ALERT_EVENTS)),
    flows: z.array(z.string()).nullable().describe('Ids or names; null for all.'),
    intervalSeconds: z.number(),
    waiting: field.integer().describe('Events that the next message will report.'),
    lastMessage: z
      .object({
        at: field.time(),
        runId: field.id(),
        status: z.enum(RUN_STATUSES).nullable().describe('The run that sends it; null if that run was removed.'),
      })
      .nullable(),
  })
  .meta({ id: 'AlertTarget' });

/** Whether anybody is told, and whether it arrives. */
export const alertRoutes: ApiRoutes = (app, { alerts, store }) => {
  app.get(
    '/flows/api/alerts',
    route('service', {
      operationId: 'listAlertTargets',
      summary: 'The targets of alerts, with the result of the last message to each; empty if there are none',
      answer: z.array(alertTargetSchema),
    }),
    async () => {
      const targets = alerts()?.targets ?? [];
      if (targets.length === 0) return [];
      const { state } = await store.readAlerts({ limit: 0 });
      const known = (state as unknown as AlertState | null)?.targets ?? {};
      return Promise.all(
        targets.map(async ({ name, type, events, flows = null, intervalSeconds }) => {
          const { sentAt = null, runId = null, lines = [], more = 0 } = known[name] ?? {};
          const run = runId === null ? undefined : await store.findRun(runId);
          return {
            name,
            type,
            events,
            flows,
            intervalSeconds,
            waiting: lines.length + more,
            lastMessage:
              sentAt === null || runId === null ? null : { at: isoTime(sentAt), runId, status: run?.status ?? null },
          };
        }),
      );
    },
  );
};
