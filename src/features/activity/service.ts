import type { FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { z } from 'zod';
import { SCOPES } from '../../config/tokens.ts';
import type { ActivityList, NewIntervention } from '../../dashboard/activity.ts';
import { actorOf } from '../../dashboard/actors.ts';
import { field, listOf, toList } from '../../dashboard/answer.ts';
import { scopesOf } from '../../dashboard/credentials.ts';
import { IN_ORDER, PAGING, parameter, SPAN } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, type DashboardServices, type Host, servicePart } from '../../dashboard/services.ts';
import { canSee, type Sight, sightOf } from '../../dashboard/sight.ts';
import { HttpError } from '../../errors.ts';
import { ACTIVITY_DAYS, type Clock, DAY_MS, deletionGuard } from '../../model/clock.ts';
import type { DeployOutcome } from '../../model/finding.ts';
import type { Store } from '../../store/store.ts';
import { createSweeper, type Sweeper } from '../../sweeper.ts';
import { activityStore } from './store.ts';
import { interventionView, OUTCOMES, verifyActivity } from './view.ts';

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

/** Lists interventions, and says who the caller is. */
const activityRoutes: ApiRoutes = (app, services) => {
  const { store } = services;
  app.get(
    '/flows/api/actor',
    route('service', {
      operationId: 'getActor',
      limit: 'none',
      summary: 'Who you are here, and what your credentials may do',
      answer: actorSchema,
    }),
    async (request) => {
      const actor = actorOf(request);
      return { name: actor.name, scopes: scopesOf(actor) };
    },
  );
  app.get(
    '/flows/api/activity',
    route('service', {
      operationId: 'listActivity',
      limit: 'filtered',
      summary: 'Who did what, when and why, newest first',
      description: 'Whoever is limited to flows names one of them, or what belongs to it, as `target`.',
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
    async (request) => {
      const { query } = request;
      const sight = sightOf(request, services);
      if (sight !== undefined) await refuseOthers(request, query, { ...services, sight });
      const page = await store.of(activityStore).listInterventions(query);
      return toList(page.items.map(interventionView), page, query);
    },
  );
  app.get(
    '/flows/api/activity/verify',
    route('service', {
      operationId: 'verifyActivity',
      limit: 'refused',
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

/** Actors limited to some flows see only interventions on these flows, and their own. */
async function refuseOthers(
  request: FastifyRequest,
  { id, target }: { readonly id?: string | undefined; readonly target?: string | undefined },
  services: DashboardServices & { readonly sight: Sight },
): Promise<void> {
  const { name } = actorOf(request);
  if (target !== undefined && (await canSee(target, services.sight, services))) return;
  if (id !== undefined) {
    const { items } = await services.store.of(activityStore).listInterventions({ id, actor: name, skip: 0, take: 1 });
    if (items.length > 0) return;
  }
  throw new HttpError(
    'limited_to_flows',
    `${name} is limited to some flows; name one of them, or a run, delivery or schedule of one, as target`,
  );
}

type KeepServices = Pick<Host, 'store' | 'clock' | 'newId' | 'logger'>;

/** Facts of a deploy for the activity list: its effects on the flow and on who gets in. */
type ToldDeploy = Pick<DeployOutcome, 'flowId' | 'action' | 'version' | 'revision' | 'routes' | 'findings'> & {
  readonly actor: string;
  readonly reason?: string | null | undefined;
};

/** Rows written at once: a deploy of a thousand flows neither waits for each nor holds up others. */
const ROWS_AT_A_TIME = 50;

/**
 * Records new revisions, deploys that let more deliveries in, and changed secrets. The record of the request does not
 * suffice: starts and watched folders send no request, and one request may deploy many flows.
 */
async function keepDeploys(deploys: readonly ToldDeploy[], services: KeepServices): Promise<void> {
  const rows = deploys.flatMap(rowsOf);
  for (let at = 0; at < rows.length; at += ROWS_AT_A_TIME) {
    await Promise.all(rows.slice(at, at + ROWS_AT_A_TIME).map((row) => keepDone(row, services)));
  }
}

type Row = Pick<NewIntervention, 'actor' | 'action' | 'details' | 'reason'> & { readonly flowId: string };

function rowsOf({ flowId, action, version, revision, routes, findings, actor, reason = null }: ToldDeploy): Row[] {
  if (action === 'refused') return [];
  const wider = routes.filter(({ access }) => access === 'wider').map(({ route }) => route);
  const changed = findings
    .filter(({ rule }) => rule === 'secret-changed')
    .map(({ before, path }) => String(before ?? path));
  const about = { flowId, actor, reason };
  const kept = { revision: String(revision) };
  return [
    ...(action === 'unchanged' ? [] : [{ ...about, action: 'deployRevision', details: { ...kept, version } }]),
    ...(wider.length === 0
      ? []
      : [{ ...about, action: 'widenAccess', details: { access: 'wider', ...kept, routes: wider.join(', ') } }]),
    ...(changed.length === 0
      ? []
      : [{ ...about, action: 'changeSecret', details: { ...kept, references: changed.join(', ') } }]),
  ];
}

/** Records something that is done already, outside of a request. */
async function keepDone({ flowId, ...row }: Row, { store, clock, newId, logger }: KeepServices): Promise<void> {
  const id = newId();
  const list = listIn(store);
  try {
    await list.begin({
      id,
      at: clock.now(),
      clientIp: null,
      target: { type: 'flow', id: flowId },
      ...row,
    });
    await list.end({ id, statusCode: 200 });
  } catch (error) {
    // We go on: the change is in force, and the log reports the failure.
    const told = 'a flow has changed, and that could not be added to the activity list';
    logger.warn({ err: error, flowId, action: row.action }, told);
  }
}

const ROWS_A_CHUNK = 100;
const BROKEN =
  'the activity log is not what was written, so its old rows are kept; `sluice activity verify` names what was changed';

/** Deletes old interventions. */
function createActivityRetention({
  store,
  clock,
  logger,
}: {
  readonly store: Pick<Store, 'of'>;
  readonly clock: Clock;
  readonly logger: Logger;
}): Sweeper {
  const mayDelete = deletionGuard(clock, () => {});
  let toldAt: number | null = null;
  return createSweeper({
    sweep: async (inChunks) => {
      if (!mayDelete()) return;
      const before = clock.now() - ACTIVITY_DAYS * DAY_MS;
      await inChunks(async () => {
        const { rows, brokenAt } = await store.of(activityStore).purgeInterventions({ before, limit: ROWS_A_CHUNK });
        if (brokenAt !== null && brokenAt !== toldAt) {
          logger.error({ seq: brokenAt }, BROKEN);
          toldAt = brokenAt;
        }
        return rows === ROWS_A_CHUNK;
      });
    },
    failure: 'old interventions could not be deleted',
    logger,
  });
}

function listIn(store: Pick<Store, 'of'>): ActivityList {
  return {
    open: (change) => store.of(activityStore).changeActivityKey(change),
    begin: (intervention) => store.of(activityStore).beginIntervention(intervention),
    end: (end) => store.of(activityStore).endIntervention(end),
  };
}

export const activity = servicePart({
  name: 'activity',
  activity: listIn,
  routes: [activityRoutes],
  start: (host) => ({
    sweeper: createActivityRetention(host),
    onDeploys: (deploys) => keepDeploys(deploys, host),
  }),
});
