import { z } from 'zod';
import { field, isoTime } from '../../dashboard/answer.ts';
import { IN_ORDER } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import type { ApiRoutes } from '../../dashboard/services.ts';
import { DAY_MS } from '../../model/clock.ts';
import { RUN_FILTER, runFilter } from './runs.ts';
import { runsStore } from './store.ts';

const TREND_PARTS = 24;

const failuresSchema = z
  .object({
    since: field.time().describe('When the time of the trends begins: `since`, or a day before its end.'),
    until: field.time(),
    groups: z.array(
      z.object({
        flowId: field.id(),
        step: z.string(),
        code: z.string(),
        host: z.string().nullable().describe('Scheme, host and port that the step called; null if it called none.'),
        error: field
          .content(z.string())
          .describe('The message without what differs from run to run; “…” stands for that.'),
        count: field.integer().describe('Runs.'),
        firstAt: field.time().describe('When the step failed first.'),
        lastAt: field.time(),
        trend: z
          .array(field.integer())
          .describe(`Failures in each of ${TREND_PARTS} equal parts of the time from \`since\` to \`until\`.`),
      }),
    ),
    searchedUntil: field.time().optional().describe('Start of the oldest run that was looked at; absent if all were.'),
  })
  .meta({ id: 'RunFailures' });

/** Answer of this operation. */
export type RunFailures = z.output<typeof failuresSchema>;

/** Groups failures by their common cause, most frequent first. */
export const runFailureRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/runs/failures',
    route('runs', {
      operationId: 'listRunFailures',
      limit: 'filtered',
      summary: 'Failed steps of runs by flow, step, code, host and error, the most frequent first',
      description:
        'Takes the filters of the list of runs, so that a group counts the runs that the list has with its step, code, host and error. Steps within loops do not count: the error of the loop tells of them. A step that failed and was handled by a later one counts too; `status=Failed` leaves out the runs that succeeded. At most 500 groups.',
      query: z.strictObject(RUN_FILTER).refine(...IN_ORDER),
      answer: failuresSchema,
    }),
    async (request) => {
      const { query } = request;
      const until = query.until ?? services.clock.now() + 1;
      const since = query.since !== undefined && query.since < until ? query.since : until - DAY_MS;
      const trend = { since, until, parts: TREND_PARTS };
      const { groups, searchedUntil } = await services.store.of(runsStore).groupFailures({
        ...runFilter(query, request, services),
        trend,
      });
      return {
        since: isoTime(since),
        until: isoTime(until),
        groups: groups.map((group) => ({
          ...group,
          firstAt: isoTime(group.firstAt),
          lastAt: isoTime(group.lastAt),
          trend: [...group.trend],
        })),
        ...(searchedUntil !== undefined && { searchedUntil: isoTime(searchedUntil) }),
      };
    },
  );
};
