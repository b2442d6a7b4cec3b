import { z } from 'zod';
import { SCOPES } from '../../config/tokens.ts';
import { interventionView, OUTCOMES, verifyActivity } from '../../review/activity.ts';
import { actorOf } from '../activity.ts';
import { field, listOf, toList } from '../answer.ts';
import { IN_ORDER, PAGING, parameter, SPAN } from '../input.ts';
import { route } from '../route.ts';
import type { ApiRoutes } from '../services.ts';

export const interventionSchema = z
  .object({
    id: field.id(),
    at: field.time(),
    actor: z
      .string()
      .describe(
        'The name of a token or user; unknown if nothing was proven, anyone if the dashboard has no credentials.',
      ),
    clientIp: z.string().nullable(),
    action: z
      .string()
      .describe(
        'The operation, by its id in this document; or logIn, logOut, denyAccess, deployRevision, widenAccess, changeSecret, changeActivityKey.',
      ),
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

const point = (what: string) => z.object({ seq: field.integer(), hash: z.string() }).nullable().describe(what);

const verdictSchema = z
  .object({
    verdict: z
      .enum(['whole', 'broken', 'unknown'])
      .describe('Unknown if some rows were written with a key that the service does not have.'),
    rows: field.integer(),
    rowsWithoutKey: field.integer().describe('Whoever can write to the database could have made these.'),
    rowsOfOtherKeys: field.integer(),
    removed: point('The last row that retention removed.'),
    newest: point('The newest row; keep it elsewhere, and send it as `expect` next time.'),
    faults: z.array(
      z.object({
        kind: z.enum(['changed', 'removed', 'inserted', 'ends']),
        seq: field.integer().nullable(),
        row: z
          .object({ id: field.id(), at: field.time(), actor: z.string(), action: z.string() })
          .nullable()
          .describe('The row as it is now.'),
        message: z.string(),
      }),
    ),
    moreFaults: field.integer().describe('How many are not listed.'),
  })
  .meta({ id: 'ActivityVerdict' });

const actorSchema = z
  .object({ name: interventionSchema.shape.actor, scopes: z.array(z.enum(SCOPES)) })
  .meta({ id: 'Actor' });

/** Who did what, when and why; and who asks. */
export const activityRoutes: ApiRoutes = (app, { store }) => {
  app.get(
    '/flows/api/actor',
    route('service', {
      operationId: 'getActor',
      summary: 'Who you are here, and what your credentials may do',
      answer: actorSchema,
    }),
    async (request) => {
      const { name, scopes } = actorOf(request);
      return { name, scopes: [...scopes] };
    },
  );
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
      return toList(page.items.map(interventionView), page, query);
    },
  );
  app.get(
    '/flows/api/activity/verify',
    route('service', {
      operationId: 'verifyActivity',
      summary: 'Whether the activity log is what was written, and which rows are not',
      query: z.strictObject({
        expect: parameter
          .freeText(90)
          .pipe(
            z
              .string()
              .regex(/^[1-9]\d{0,14}:[0-9a-f]{64}$/, 'expected SEQ:HASH, as in `newest`')
              .optional(),
          )
          .meta({ description: 'SEQ:HASH of a row that must still be there.' }),
      }),
      answer: verdictSchema,
    }),
    async ({ query: { expect = '' } }) => {
      const [seq, hash] = expect.split(':');
      const verdict = await verifyActivity(store, hash === undefined ? undefined : { seq: Number(seq), hash });
      return { ...verdict, faults: [...verdict.faults] };
    },
  );
};
