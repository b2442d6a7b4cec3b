import { z } from 'zod';
import { HttpError } from '../../errors.ts';
import { nextTicks } from '../../flows/scheduler.ts';
import { triggerInputsSchemas } from '../../manifest/schema.ts';
import { REFUSALS } from '../error-responses.ts';
import { freeText, requiredText, wholeNumber } from '../input.ts';
import type { ApiRoutes } from '../services.ts';
import { isoTime, time } from './formats.ts';

const previewSchema = z.object({
  cronExpression: z.string(),
  timeZone: z.string(),
  nextExecutions: z.array(time()).describe('Fewer than asked for where the expression names no more.'),
});

/** When an expression would fire, before anybody relies on it. */
export const schedulePreviewRoutes: ApiRoutes = (app, { clock }) => {
  app.get(
    '/flows/api/schedules/preview',
    {
      schema: {
        tags: ['schedules'],
        operationId: 'previewSchedule',
        summary: 'The next times that a cron expression names',
        querystring: z.strictObject({
          cronExpression: requiredText(200, 'a cron expression such as 0 9 * * 1-5').meta({
            description: 'Five fields, or six with seconds first.',
          }),
          timeZone: freeText(100).meta({ description: 'IANA time zone; UTC by default.' }),
          count: wholeNumber({ min: 1, max: 100, fallback: 5 }),
        }),
        response: { 200: previewSchema, ...REFUSALS },
      },
    },
    async ({ query: { count, ...given } }) => {
      const parsed = triggerInputsSchemas.cron.safeParse(given);
      if (!parsed.success) {
        const problems = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
        throw new HttpError(400, problems.join('; '));
      }
      const { cronExpression, timeZone } = parsed.data;
      const ticks = nextTicks({ cron: cronExpression, timeZone }, clock.now(), count);
      return { cronExpression, timeZone, nextExecutions: ticks.map(isoTime) };
    },
  );
};
