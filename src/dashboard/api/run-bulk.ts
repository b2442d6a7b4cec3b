import { z } from 'zod';
import { HttpError } from '../../errors.ts';
import {
  BULK_ACTIONS,
  type Bulk,
  type BulkAction,
  type BulkProgress,
  createBulk,
  LEFT_OUT_REASONS,
} from '../../flows/bulk.ts';
import { isStorableValue } from '../../model/text.ts';
import { interventionIdOf } from '../activity.ts';
import { field, isoTime } from '../answer.ts';
import { documentedBody, IN_ORDER, parseJsonBody } from '../input.ts';
import { route } from '../route.ts';
import type { ApiRoutes, DashboardServices } from '../services.ts';
import { RUN_FILTER, runFilter, runSchema, runViews } from './runs.ts';

/** A plan of so many runs has a token of 213 kB, which fits in a body. */
const MAX_RUNS = 10_000;
const MAX_SAMPLE = 10;
const MAX_REASON_CHARACTERS = 500;

const body = z
  .strictObject({
    ...RUN_FILTER,
    limit: z.int().min(1).max(MAX_RUNS).default(1_000).describe('How many runs to consider: the newest that match.'),
    plan: z.boolean().default(true),
    token: z
      .string()
      .max(400_000)
      .optional()
      .describe('The token of the plan to carry out; cannot be combined with a filter.'),
    reason: z.string().max(MAX_REASON_CHARACTERS).optional().describe('The reason; stored in the activity.'),
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
    token: z.string().describe('Carries out this plan, and nothing else, with `plan` false.'),
  })
  .meta({ id: 'RunPlan' });

const startedSchema = z
  .object({
    plan: z.literal(false),
    interventionId: field.id().describe('The activity entry that shows the progress: planned, done and left out.'),
    planned: field.integer(),
  })
  .meta({ id: 'StartedRunPlan' });

/** What actions on many runs answer. */
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

/** Commands to many runs: each is planned first, and exactly its plan can be carried out. */
export const runBulkRoutes: ApiRoutes = (app, services) => {
  const bulk = createBulk(services);
  app.addHook('onClose', () => bulk.stop());
  for (const action of BULK_ACTIONS) addRoute(app, { ...services, action, bulk });
};

interface BulkServices extends DashboardServices {
  readonly action: BulkAction;
  readonly bulk: Bulk;
}

function addRoute(app: Parameters<ApiRoutes>[0], services: BulkServices): void {
  const { action, bulk, newId } = services;
  app.post(
    `/flows/api/runs/${action}`,
    route('runs', {
      ...OPERATIONS[action],
      access: {
        isPlan: (request) => parseJsonBody(request, body).plan,
        reasonOf: (request) => parseJsonBody(request, body).reason ?? null,
        detailsOf: (request) => detailsOf(readToken(parseJsonBody(request, body), action)),
        endsLater: true,
      },
      description:
        'With `plan` true, the default, nothing changes: the answer has a `token`. `{"plan": false, "token": …}` carries out the plan in the background; a run that has changed since is left out. Send it again if the process stopped before the end: no run is changed twice.',
      body: documentedBody(body, { flowId: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10', limit: 500, plan: true }),
      answer: z.union([planSchema, startedSchema]),
    }),
    async (request) => {
      const { limit, plan, token: _, reason = null, ...filter } = parseJsonBody(request, body);
      if (!plan) {
        const planned = readToken(parseJsonBody(request, body), action);
        const interventionId = interventionIdOf(request);
        void carryOut({ ...planned, action, reason }, interventionId, services);
        return { plan, interventionId, planned: planned.runIds.length };
      }
      const { at, total, looked, runs, leftOut } = await bulk.plan({
        action,
        filter: runFilter(filter, services),
        limit,
      });
      const runIds = runs.map(({ id }) => id);
      return {
        plan,
        plannedAt: isoTime(at),
        total,
        looked,
        ready: runs.length,
        leftOut: leftOut.map((group) => ({ ...group, message: MESSAGES[group.reason] })),
        sample: await runViews(runs.slice(0, MAX_SAMPLE), services),
        token: tokenOf({ action, planId: newId(), at, filter, runIds }),
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
  flow_disabled: 'The flow is disabled or drained',
  unknown_flow: 'The flow of the run is not deployed',
  unknown_run: 'The run was deleted',
  error: 'It failed; the log has the details',
};

/** Keeps in the activity how far it has got. */
async function carryOut(
  planned: Parameters<Bulk['carryOut']>[0],
  id: string,
  { bulk, store, logger }: BulkServices,
): Promise<void> {
  try {
    const isDone = await bulk.carryOut(planned, (progress) =>
      store.noteIntervention({ id, details: progressOf(progress) }),
    );
    await store.endIntervention({ id, statusCode: isDone ? 200 : 503 });
  } catch (error) {
    logger.warn({ err: error, interventionId: id }, 'the end of an intervention could not be stored');
  }
}

function progressOf({ done, leftOut }: BulkProgress): Record<string, string> {
  const count = leftOut.reduce((sum, group) => sum + group.count, 0);
  const reasons = leftOut.map((group) => `${MESSAGES[group.reason]}: ${group.count}`).join('; ');
  return { done: String(done), leftOut: count === 0 ? '0' : `${count} (${reasons})` };
}

const ID_BYTES = 16;

const tokenSchema = z.strictObject({
  action: z.enum(BULK_ACTIONS),
  planId: z.guid(),
  at: z.int().nonnegative(),
  // Kept in the activity, so no larger than what a plan writes here.
  filter: z
    .record(z.string().max(20), z.string().max(1_100))
    .refine((filter) => Object.keys(filter).length <= Object.keys(RUN_FILTER).length && isStorableValue(filter)),
});

interface Planned extends z.output<typeof tokenSchema> {
  readonly runIds: readonly string[];
}

/** All of the plan, so that any replica can carry it out, whatever matches the filter by then. */
function tokenOf({ runIds, filter, ...plan }: Omit<Planned, 'filter'> & { readonly filter: object }): string {
  const given = Object.entries(filter).flatMap(([name, value]) => (value === undefined ? [] : [[name, textOf(value)]]));
  const head = JSON.stringify({ ...plan, filter: Object.fromEntries(given) });
  const ids = Buffer.from(runIds.join('').replaceAll('-', ''), 'hex');
  return `${Buffer.from(head).toString('base64url')}.${ids.toString('base64url')}`;
}

/** As it was asked for: times are the only numbers, search keys the only objects. */
function textOf(value: unknown): string {
  if (typeof value === 'number') return isoTime(value);
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map((key) => key.join(':'))
    .join();
}

/** Whoever may send one may do this to any run, so it is checked for its form and not for its origin. */
function readToken({ token, ...given }: z.output<typeof body>, action: BulkAction): Planned {
  if (token === undefined) throw new HttpError(400, 'body.token: is missing; ask for a plan first and send its token');
  const filtered = Object.keys(RUN_FILTER).find((name) => given[name as keyof typeof RUN_FILTER] !== undefined);
  if (filtered !== undefined)
    throw new HttpError(400, `body.${filtered}: the token already contains the filter; leave this out`);
  const [head = '', ids = ''] = token.split('.');
  const bytes = Buffer.from(ids, 'base64url');
  const parsed = tokenSchema.safeParse(jsonOf(Buffer.from(head, 'base64url').toString()));
  const isWhole = bytes.length % ID_BYTES === 0 && bytes.length <= MAX_RUNS * ID_BYTES;
  if (!parsed.success || !isWhole || parsed.data.action !== action) {
    throw new HttpError(400, `body.token: is not the token of a plan to ${action} runs`);
  }
  const runIds = Array.from({ length: bytes.length / ID_BYTES }, (_, index) => {
    const hex = bytes.toString('hex', index * ID_BYTES, (index + 1) * ID_BYTES);
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  });
  return { ...parsed.data, runIds };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function detailsOf({ filter, runIds }: Planned): Record<string, string> {
  return { ...filter, planned: String(runIds.length), done: '0' };
}
