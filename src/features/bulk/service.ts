import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { field, isoTime } from '../../dashboard/answer.ts';
import { COMMAND, IN_ORDER, parseJsonBody } from '../../dashboard/input.ts';
import { interventionIdOf } from '../../dashboard/interventions.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, type DashboardServices, servicePart } from '../../dashboard/services.ts';
import { sightOf } from '../../dashboard/sight.ts';
import { createSealedPlans, MAX_PLANNED, planToken, type SealedPlans } from '../review/sealed-plans.ts';
import { RUN_FILTER, runFilter, runSchema, runViews } from '../runs/runs.ts';
import { BULK_ACTIONS, type Bulk, type BulkAction, type BulkProgress, createBulk, LEFT_OUT_REASONS } from './bulk.ts';
import { bulkStore } from './store.ts';

const MAX_SAMPLE = 10;

const body = z
  .strictObject({
    ...RUN_FILTER,
    includeBuiltIn: z.boolean().optional().describe('Includes the runs of the flow that sends alerts.'),
    limit: z.int().min(1).max(MAX_PLANNED).default(1_000).describe('How many runs to consider: the newest that match.'),
    plan: z.boolean().default(true),
    token: planToken,
    ...COMMAND.shape,
  })
  .refine(...IN_ORDER);

const leftOutSchema = z.object({
  reason: z.enum(LEFT_OUT_REASONS),
  message: z.string(),
  count: field.integer(),
  example: field.id(),
});

const planSchema = z
  .object({
    plan: z.literal(true),
    plannedAt: field.time(),
    total: field
      .integer()
      .describe('Runs that match, including those beyond the limit; with a search or a time span at most 10 000.'),
    looked: field.integer().describe('Runs that were considered: the newest that match.'),
    ready: field.integer().describe('Runs that the action applies to.'),
    leftOut: z.array(leftOutSchema),
    sample: z.array(runSchema).describe(`The first ${MAX_SAMPLE} runs that the action applies to, oldest first.`),
    token: z
      .string()
      .describe(
        'Carries out this plan, and nothing else, with `plan` false: for a day, and only for who asked for it.',
      ),
  })
  .meta({ id: 'RunPlan' });

const startedSchema = z
  .object({
    plan: z.literal(false),
    interventionId: field.id().describe('The activity entry that shows the progress: planned, done and left out.'),
    planned: field.integer(),
  })
  .meta({ id: 'StartedRunPlan' });

/** Answers of actions on many runs. */
export interface RunBulkAnswers {
  readonly RunPlan: z.output<typeof planSchema>;
  readonly StartedRunPlan: z.output<typeof startedSchema>;
  readonly BulkAction: BulkAction;
}

const OPERATIONS: Readonly<Record<BulkAction, { readonly operationId: string; readonly summary: string }>> = {
  cancel: { operationId: 'cancelRuns', summary: 'Plans to cancel many runs, or carries out the plan' },
  retry: {
    operationId: 'retryRuns',
    summary: 'Plans to retry the steps that made many runs fail, or carries out the plan',
  },
  rerun: { operationId: 'rerunRuns', summary: 'Plans to start many runs again, or carries out the plan' },
};

/** Actions on many runs: each is planned first, and exactly its plan can be carried out. */
const runBulkRoutes: ApiRoutes = (app, services) => {
  const bulk = createBulk(services);
  app.addHook('onClose', () => bulk.stop());
  const plans = createSealedPlans(services);
  for (const action of BULK_ACTIONS) addRoute(app, { ...services, action, bulk, plans });
};

interface BulkServices extends DashboardServices {
  readonly action: BulkAction;
  readonly bulk: Bulk;
  readonly plans: SealedPlans;
}

function addRoute(app: Parameters<ApiRoutes>[0], services: BulkServices): void {
  const { action, bulk, plans } = services;
  const { operationId } = OPERATIONS[action];
  const planIn = (request: FastifyRequest) => {
    const { limit: _, plan: _plan, reason: _reason, token, ...filter } = parseJsonBody(request, body);
    return plans.open(token, filter, { request, action: operationId });
  };
  app.post(
    `/flows/api/runs/${action}`,
    route('runs', {
      ...OPERATIONS[action],
      limit: 'filtered',
      access: {
        isPlan: (request) => parseJsonBody(request, body).plan,
        detailsOf: async (request) => {
          const { filter, ids } = await planIn(request);
          return { ...filter, planned: String(ids.length), done: '0' };
        },
        endsLater: true,
      },
      description:
        'With `plan` true, the default, nothing changes: the answer has a `token`. `{"plan": false, "token": …}` carries out the plan in the background, for who asked for it, within a day; a run that has changed since is left out. Send it again if the process stopped before the end: no run is changed twice.',
      command: [body, { flowId: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10', limit: 500, plan: true }],
      answer: z.union([planSchema, startedSchema]),
    }),
    async (request) => {
      const { limit, plan, token: _, reason = null, ...filter } = parseJsonBody(request, body);
      if (!plan) {
        const { planId, at, ids: runIds } = await planIn(request);
        const interventionId = interventionIdOf(request);
        const mayReach = sightOf(request, services)?.has;
        void carryOut({ planId, at, runIds, action, reason, mayReach }, interventionId, services);
        return { plan, interventionId, planned: runIds.length };
      }
      const { at, total, looked, runs, leftOut } = await bulk.plan({
        action,
        filter: runFilter(filter, request, services),
        limit,
      });
      const token = await plans.seal({ filter, ids: runs.map(({ id }) => id), at }, { request, action: operationId });
      return {
        plan,
        plannedAt: isoTime(at),
        total,
        looked,
        ready: runs.length,
        leftOut: leftOut.map((group) => ({ ...group, message: MESSAGES[group.reason] })),
        sample: await runViews(runs.slice(0, MAX_SAMPLE), services),
        token,
      };
    },
  );
}

const MESSAGES: Readonly<Record<(typeof LEFT_OUT_REASONS)[number], string>> = {
  run_ended: 'The run has ended',
  run_not_ended: 'The run has not ended',
  not_failed: 'The run did not fail',
  stopped: 'The run was cancelled or reached its time limit; run it again instead',
  changed: 'The run has changed since the plan',
  nothing_to_retry: 'The run has no step that can be retried',
  order_deadlock: 'It would have to wait for a run that waits for it',
  flow_disabled: 'The flow is disabled or drained',
  flow_unreadable: 'The flow, or a secret that it needs, cannot be read',
  built_in_flow: 'The flow is one of Sluice itself',
  unknown_flow: 'The flow of the run is not deployed',
  unknown_run: 'The run was deleted',
  error: 'It failed; the log has the details',
};

/** Carries out a plan and records its progress in the activity list. */
async function carryOut(
  planned: Parameters<Bulk['carryOut']>[0],
  id: string,
  { bulk, store, activity, logger }: BulkServices,
): Promise<void> {
  try {
    const isDone = await bulk.carryOut(planned, (progress) =>
      store.of(bulkStore).noteIntervention({ id, details: progressOf(progress) }),
    );
    await activity.end({ id, statusCode: isDone ? 200 : 503 });
  } catch (error) {
    logger.warn({ err: error, interventionId: id }, 'the end of an intervention could not be stored');
  }
}

function progressOf({ done, leftOut }: BulkProgress): Record<string, string> {
  const count = leftOut.reduce((sum, group) => sum + group.count, 0);
  const reasons = leftOut.map((group) => `${MESSAGES[group.reason]}: ${group.count}`).join('; ');
  return { done: String(done), leftOut: count === 0 ? '0' : `${count} (${reasons})` };
}

export const bulk = servicePart({ name: 'bulk', routes: [runBulkRoutes] });
