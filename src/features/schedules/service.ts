import { z } from 'zod';
import {
  builtInFlow,
  field,
  flowDisabled,
  flowUnreadable,
  isoTime,
  isoTimeOrNull,
  listOf,
  outcomeSchema,
  toList,
  unknownSchedule,
} from '../../dashboard/answer.ts';
import { type Finding, iso, type Situation } from '../../dashboard/attention/finding.ts';
import { COMMAND, IN_ORDER, isWithin, PAGING, parameter, parseJsonBody, SPAN } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import {
  type ApiRoutes,
  type DashboardApp,
  type DashboardServices,
  rulesFor,
  servicePart,
} from '../../dashboard/services.ts';
import { sees, sightOf } from '../../dashboard/sight.ts';
import { HttpError } from '../../errors.ts';
import { createReport } from '../../flows/report.ts';
import { MANIFEST_PARTS } from '../../manifest/schema.ts';
import { oncePer } from '../../model/once-per.ts';
import { schedulesAttention } from './attention.ts';
import { createScheduler, nextTicks, type Schedule } from './scheduler.ts';

/** The scheduler of a service; it starts to fire once steps run. */
const schedulerOf = oncePer((services: DashboardServices) => {
  const { receiver, heartbeat, clock } = services;
  const isFit = () => (heartbeat ?? clock).isFit();
  return createScheduler({ ...services, report: createReport(services), refresh: receiver.refresh, isFit });
});

const params = z.object({ jobId: z.string().max(400) });

const cronBody = COMMAND.extend({ cronExpression: MANIFEST_PARTS.triggerInputs.cron.shape.cronExpression });

export const scheduleSchema = z
  .object({
    jobId: z.string(),
    flowId: field.id(),
    flowName: z.string(),
    triggerKey: z.string(),
    cron: z.string().describe('In force: an operator’s change overrides the manifest.'),
    timeZone: z.string(),
    nextExecution: field.time().nullable(),
    lastExecution: field.time().nullable(),
    paused: z.boolean().describe('Also while the flow is drained.'),
    manifestCron: z.string().describe('The expression of the manifest; setting it reverts an operator’s change.'),
    changed: z.boolean().describe('An operator’s expression is in force.'),
    flowIsEnabled: z.boolean().describe('A disabled flow starts no runs at its ticks.'),
    enabled: z.boolean().describe('false where the manifest switches the trigger off: it has no ticks.'),
  })
  .meta({ id: 'Schedule' });

const previewSchema = z.object({
  cronExpression: z.string(),
  timeZone: z.string(),
  nextExecutions: z.array(field.time()).describe('Fewer than requested if the expression has no more.'),
});

/** Lists cron triggers with their next times, and changes them; changes survive a restart. */
const scheduleRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/schedules',
    route('schedules', {
      operationId: 'listSchedules',
      limit: 'filtered',
      summary: 'Cron triggers of the deployed flows',
      description: '`since` and `until` apply to `lastExecution`.',
      query: z.strictObject({ ...SPAN, ...PAGING }).refine(...IN_ORDER),
      answer: listOf(scheduleSchema),
    }),
    async (request) => {
      const { query } = request;
      const sight = sightOf(request, services);
      const all = [...(await schedulerOf(services).list()), ...switchedOff(services)];
      const schedules = all.filter(({ flowId }) => sees(sight, flowId)).filter(({ lastAt }) => isWithin(lastAt, query));
      const page = schedules.slice(query.skip, query.skip + query.take);
      return toList(
        page.map((schedule) => scheduleView(schedule, services)),
        { total: schedules.length },
        query,
      );
    },
  );
  pauseRoute(app, services, { verb: 'pause', isPaused: true });
  pauseRoute(app, services, { verb: 'resume', isPaused: false });
  triggerRoute(app, services);
  cronRoute(app, services);
  previewRoute(app, services);
};

/** Idempotent. */
function pauseRoute(
  app: DashboardApp,
  services: DashboardServices,
  { verb, isPaused }: { verb: 'pause' | 'resume'; isPaused: boolean },
): void {
  app.post(
    `/flows/api/schedules/:jobId/${verb}`,
    route('schedules', {
      operationId: `${verb}Schedule`,
      limit: 'schedule',
      summary: isPaused
        ? 'Stops a cron trigger from firing'
        : 'Lets a cron trigger fire again, starting with its next time',
      params,
      answer: outcomeSchema,
      refusals: [404],
    }),
    async (request) => {
      const schedule = known(
        await schedulerOf(services).setPaused(request.params.jobId, isPaused),
        request.params.jobId,
      );
      return { success: true, message: isPaused ? 'The schedule is paused' : nextOf(schedule) };
    },
  );
}

const triggerRoute: ApiRoutes = (app, services) => {
  app.post(
    '/flows/api/schedules/:jobId/trigger',
    route('schedules', {
      operationId: 'triggerSchedule',
      limit: 'schedule',
      summary: 'Starts a run of a cron trigger now; its next time does not change',
      params,
      answer: outcomeSchema.extend({ runId: field.id() }),
      refusals: [404],
    }),
    async (request) => {
      const result = known(await schedulerOf(services).trigger(request.params.jobId), request.params.jobId);
      if (result.kind === 'builtIn') throw builtInFlow();
      if (result.kind === 'disabled') throw flowDisabled();
      if (result.kind === 'unreadable') throw flowUnreadable(result.why);
      if (result.kind === 'unknown') throw unknownSchedule(request.params.jobId);
      return { success: true, message: 'A run was started', runId: result.runId };
    },
  );
};

const cronRoute: ApiRoutes = (app, services) => {
  app.put(
    '/flows/api/schedules/:jobId/cron',
    route('schedules', {
      operationId: 'changeCron',
      limit: 'schedule',
      summary:
        'Changes the cron expression of a trigger, effective at once; setting the expression of the manifest reverts the change',
      params,
      command: [cronBody, { cronExpression: '0 2 * * *' }],
      answer: outcomeSchema,
      refusals: [404],
    }),
    async (request) => {
      const { cronExpression } = parseJsonBody(request, cronBody);
      const changed = await schedulerOf(services).setCron(request.params.jobId, cronExpression);
      const schedule = known(changed, request.params.jobId);
      const fires = nextTicks(schedule, services.clock.now(), 1).length > 0;
      return { success: true, message: fires ? nextOf(schedule) : NEVER_AGAIN };
    },
  );
};

/** When an expression would fire, to check it before use. */
const previewRoute: ApiRoutes = (app, { clock }) => {
  app.get(
    '/flows/api/schedules/preview',
    route('schedules', {
      operationId: 'previewSchedule',
      limit: 'none',
      summary: 'The next times at which a cron expression fires',
      query: z.strictObject({
        cronExpression: parameter.requiredText(200, 'a cron expression such as 0 9 * * 1-5').meta({
          description: 'Five fields, or six with seconds first.',
        }),
        timeZone: parameter.freeText(100).meta({ description: 'IANA time zone; UTC by default.' }),
        count: parameter.wholeNumber({ min: 1, max: 100, fallback: 5 }),
      }),
      answer: previewSchema,
    }),
    async ({ query: { count, ...given } }) => {
      const parsed = MANIFEST_PARTS.triggerInputs.cron.safeParse(given);
      if (!parsed.success) {
        const problems = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
        throw new HttpError('invalid_request', problems.join('; '));
      }
      const { cronExpression, timeZone } = parsed.data;
      const ticks = nextTicks({ cron: cronExpression, timeZone }, clock.now(), count);
      return { cronExpression, timeZone, nextExecutions: ticks.map(isoTime) };
    },
  );
};

function known<T>(found: T | undefined, jobId: string): T {
  if (found === undefined) throw unknownSchedule(jobId);
  return found;
}

const NEVER_AGAIN = 'The schedule never fires again';

function nextOf({ nextAt, isPaused, isDraining }: Schedule): string {
  if (isPaused) return 'The schedule is paused';
  if (isDraining) return 'The flow is being drained; the schedule fires again when the drain ends';
  return nextAt === null ? NEVER_AGAIN : `The schedule fires at ${isoTimeOrNull(nextAt)}`;
}

function scheduleView(schedule: Schedule, { catalog }: DashboardServices): z.output<typeof scheduleSchema> {
  const flow = catalog.find(schedule.flowId);
  const trigger = flow?.loaded.manifest.triggers[schedule.triggerKey];
  const { jobId, flowId, flowName, triggerKey, cron, timeZone, nextAt, lastAt, isPaused, isDraining } = schedule;
  return {
    jobId,
    flowId,
    flowName,
    triggerKey,
    cron,
    timeZone,
    nextExecution: isoTimeOrNull(isDraining ? null : nextAt),
    lastExecution: isoTimeOrNull(lastAt),
    paused: isPaused || isDraining,
    manifestCron: trigger?.type === 'cron' ? trigger.inputs.cronExpression : cron,
    changed: schedule.cronOverride !== null,
    flowIsEnabled: flow?.record.isEnabled ?? false,
    enabled: trigger?.enabled !== false,
  };
}

/** Triggers switched off in the manifest, which the scheduler does not know. */
function switchedOff({ catalog }: DashboardServices): Schedule[] {
  return catalog.list().flatMap(({ record: { id, name }, loaded }) =>
    Object.entries(loaded.manifest.triggers).flatMap(([triggerKey, trigger]): Schedule[] => {
      if (trigger.type !== 'cron' || trigger.enabled !== false) return [];
      const { cronExpression: cron, timeZone } = trigger.inputs;
      const state = { nextAt: null, lastAt: null, isPaused: false, cronOverride: null, isDraining: false, revision: 0 };
      return [{ jobId: `flow-${id}-${triggerKey}`, flowId: id, flowName: name, triggerKey, cron, timeZone, ...state }];
    }),
  );
}

/** A due schedule fires within seconds; after this time something is wrong. */
const OVERDUE_AFTER_MS = 120_000;

async function scheduleItems(
  { now }: Pick<Situation, 'now'>,
  services: DashboardServices,
): Promise<Finding<'schedule_paused' | 'schedule_overdue'>[]> {
  const all = await schedulerOf(services).list();
  return all.flatMap((schedule): Finding<'schedule_paused' | 'schedule_overdue'>[] => {
    const name = `${schedule.flowName}/${schedule.triggerKey}`;
    const { nextAt, lastAt, isPaused, isDraining, flowId, triggerKey } = schedule;
    const where = { link: '/flows/schedules', flowId, triggerKey };
    // A draining flow misses its ticks on purpose.
    if (isDraining) return [];
    if (isPaused) {
      const missed = lastAt === null ? undefined : nextTicks(schedule, lastAt, 1)[0];
      if (missed === undefined || missed > now) {
        return [{ kind: 'schedule_paused', message: `The schedule ${name} is paused`, ...where }];
      }
      const message = `The schedule ${name} is paused and would have fired at ${iso(missed)}`;
      return [{ kind: 'schedule_paused', severity: 'warning', message, ...where }];
    }
    if (nextAt === null || nextAt >= now - OVERDUE_AFTER_MS) return [];
    const message = `The schedule ${name} was due at ${iso(nextAt)} and has not fired`;
    return [{ kind: 'schedule_overdue', message, ...where }];
  });
}

export const schedules = servicePart({
  name: 'schedules',
  routes: [scheduleRoutes],
  attention: rulesFor(schedulesAttention, scheduleItems),
  start: ({ dashboard, logger }) => {
    let isBegun = false;
    const sync = async () => {
      if (isBegun) await schedulerOf(dashboard()).sync();
    };
    return {
      async begin() {
        await schedulerOf(dashboard()).start();
        isBegun = true;
      },
      onTriggers: () =>
        void sync().catch((error: unknown) => {
          // The scheduler looks again within a minute.
          const message = 'cron triggers could not be updated after a deploy; trying again within a minute';
          logger.warn({ err: error }, message);
        }),
      onChange: async ({ kind }) => (kind === 'schedule' ? sync() : undefined),
      stop: () => schedulerOf(dashboard()).stop(),
    };
  },
});
