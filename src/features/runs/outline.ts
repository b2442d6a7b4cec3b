import { z } from 'zod';
import { field, isoTime, isoTimeOrNull } from '../../dashboard/answer.ts';
import { ID_PARAMS, PAGING, parameter } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import type { ApiRoutes, DashboardServices } from '../../dashboard/services.ts';
import { type Sight, sees, sightOf } from '../../dashboard/sight.ts';
import { HttpError } from '../../errors.ts';
import type { Json } from '../../model/json.ts';
import { type Graph, RUN_FLOW, STEP_STATUSES, type StepDefinition } from '../../model/manifest.ts';
import { graphOfScope } from '../../model/runtime-keys.ts';
import type { RunDetail, StepOutline } from '../../store/store.ts';
import { controlSchema, controlView, runSchema, runView } from './runs.ts';
import { dueAtOf, findGraph, MAX_KEY_CHARACTERS, stepSchema, unreachedIn } from './steps.ts';
import { runsStore } from './store.ts';

/** Number of iterations of one status that can be paged through; later ones are left out. */
const MAX_FOUND = 10_000;

const stepOutlineSchema = z
  .object({
    stepKey: z.string(),
    stepType: z.string(),
    status: stepSchema.shape.status,
    error: stepSchema.shape.error,
    skipReason: z.string().nullable(),
    signalName: field.content(z.string().nullable()).describe('The signal that the step waits for.'),
    lastPoll: z
      .object({ at: field.time(), status: field.integer().nullable(), why: field.content(z.string()) })
      .nullable()
      .describe('The last answer that a polling step got, and why it polls again; status is null if no answer came.'),
    subRunId: field.id().nullable().describe('The last run that a RunFlow step started.'),
    dueAt: field.time().nullable(),
    startedAt: field.time().nullable(),
    completedAt: field.time().nullable(),
    attempts: z.array(
      stepSchema.shape.attempts.element
        .pick({ attempt: true, status: true, slotWaitMs: true, startedAt: true, completedAt: true })
        .extend({ errorCode: z.string().nullable() }),
    ),
  })
  .meta({ id: 'StepOutline' });

const outlineSchema = z.object({
  run: runSchema,
  control: controlSchema,
  onFailure: z
    .object({ flowId: field.id(), flowName: z.string() })
    .nullable()
    .describe(
      'The flow that this run starts if it fails, according to its own revision; the lineage has the started run.',
    ),
  graph: field
    .declared()
    .describe('Steps by key: type, runAfter, for a loop its concurrencyLimit and steps, and for RunFlow its flow.'),
  steps: z
    .array(stepOutlineSchema)
    .describe('Steps outside of loops, in manifest order, including those not reached yet.'),
  loops: z
    .array(
      z.object({
        stepKey: z.string(),
        total: field.integer(),
        started: field.integer(),
        ended: field.integer(),
        failed: field.integer(),
      }),
    )
    .describe('Loops that have started, with their iterations.'),
  children: z
    .array(z.object({ path: z.string(), status: stepSchema.shape.status, count: field.integer() }))
    .describe('Children of loops by their path in the graph, all iterations together.'),
});

const iterationsSchema = z.object({
  items: z.array(z.object({ index: field.integer(), steps: z.array(stepOutlineSchema) })),
  total: field.integer().describe('Iterations that have started, or that match.'),
  skip: field.integer(),
  take: field.integer(),
});

/** Answers of these operations. */
export interface RunOutlineAnswers {
  readonly StepOutline: z.output<typeof stepOutlineSchema>;
  readonly RunOutline: z.output<typeof outlineSchema>;
  readonly Iterations: z.output<typeof iterationsSchema>;
}

/** A run without its values, so that a run of any size can be drawn and watched; values are read one step at a time. */
export const runOutlineRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/runs/:id/outline',
    route('runs', {
      operationId: 'outlineRun',
      limit: 'run',
      summary: 'The graph of a run and its progress, without inputs and outputs',
      params: ID_PARAMS,
      answer: outlineSchema,
      refusals: [404],
    }),
    async (request) => {
      const { run, graph, onFailure } = await findGraph(request.params.id, services);
      const [steps, loops] = await Promise.all([
        services.store.outlineSteps(run.id, Object.keys(graph)),
        services.store.of(runsStore).listLoops(run.id),
      ]);
      const naming = { ...services, sight: sightOf(request, services) };
      const children = loops.length === 0 ? [] : await services.store.of(runsStore).countChildren(run.id);
      return {
        run: await runView(run, services),
        control: controlView(run),
        // A run that a failure started does not start a failure flow itself.
        onFailure: run.triggerType === 'failure' || onFailure === null ? null : namedFlow(onFailure, naming),
        graph: graphView(graph, naming),
        steps: outlinesOf({ run, graph, scope: '' }, steps),
        loops,
        children,
      };
    },
  );
  iterationsRoute(app, services);
};

const iterationsRoute: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/runs/:id/iterations',
    route('runs', {
      operationId: 'listIterations',
      limit: 'run',
      summary: 'Iterations of a loop with their steps, without inputs and outputs',
      params: ID_PARAMS,
      query: z.strictObject({
        loop: parameter
          .requiredText(MAX_KEY_CHARACTERS, 'the key of a loop')
          .describe('Key of the loop, such as lines.'),
        status: parameter.oneOf(STEP_STATUSES).describe('Only iterations with a step in this status.'),
        skip: PAGING.skip,
        take: PAGING.take,
      }),
      answer: iterationsSchema,
      refusals: [404],
    }),
    async (request) => {
      const { loop: loopKey, status, skip, take } = request.query;
      const { run, graph } = await findGraph(request.params.id, services);
      const children = graphOfScope(graph, `${loopKey}.0.`);
      if (children === undefined) {
        throw new HttpError('unknown_step', `The run has no loop ${JSON.stringify(loopKey)}`);
      }
      const { indices, total } = await iterations({ runId: run.id, loopKey, status, skip, take }, services);
      const keys = indices.flatMap((index) => Object.keys(children).map((key) => `${loopKey}.${index}.${key}`));
      const rows = await services.store.outlineSteps(run.id, keys);
      const items = indices.map((index) => ({
        index,
        steps: outlinesOf({ run, graph: children, scope: `${loopKey}.${index}.` }, rows),
      }));
      return { items, total, skip, take };
    },
  );
};

interface IterationQuery {
  readonly runId: string;
  readonly loopKey: string;
  readonly status: StepOutline['status'] | undefined;
  readonly skip: number;
  readonly take: number;
}

async function iterations(
  { runId, loopKey, status, skip, take }: IterationQuery,
  { store }: DashboardServices,
): Promise<{ indices: number[]; total: number }> {
  if (status !== undefined) {
    const found = await store.of(runsStore).findIterations({ runId, loopKey, status, limit: MAX_FOUND });
    return { indices: found.slice(skip, skip + take), total: found.length };
  }
  const loops = await store.of(runsStore).listLoops(runId);
  const total = loops.find(({ stepKey }) => stepKey === loopKey)?.started ?? 0;
  const count = Math.max(0, Math.min(take, total - skip));
  return { indices: Array.from({ length: count }, (_, offset) => skip + offset), total };
}

/** The steps of one scope in manifest order; a step without a row has not been reached. */
function outlinesOf(
  { run, graph, scope }: { run: RunDetail; graph: Graph; scope: string },
  rows: readonly StepOutline[],
): z.output<typeof stepOutlineSchema>[] {
  const unreached = { ...NOT_REACHED, ...unreachedIn(run) };
  const byKey = new Map(rows.map((row) => [row.stepKey, row]));
  return Object.entries(graph).map(([key, { type }]) =>
    outlineView(byKey.get(scope + key) ?? { ...unreached, stepKey: scope + key, stepType: type }),
  );
}

const NOT_REACHED = {
  error: null,
  signalName: null,
  lastPoll: null,
  subRunId: null,
  dueAt: null,
  startedAt: null,
  attempts: [],
} as const;

function outlineView(row: StepOutline): z.output<typeof stepOutlineSchema> {
  return {
    ...row,
    lastPoll: lastPollView(row.lastPoll),
    dueAt: dueAtOf(row),
    startedAt: isoTimeOrNull(row.startedAt),
    completedAt: isoTimeOrNull(row.completedAt),
    attempts: row.attempts.map((attempt) => ({
      ...attempt,
      startedAt: isoTime(attempt.startedAt),
      completedAt: isoTimeOrNull(attempt.completedAt),
    })),
  };
}

const MAX_WHY_CHARACTERS = 500;
/** Larger numbers are not valid times: ECMA-262, "Time Values and Time Range". */
const LAST_TIME_MS = 8.64e15;

/** Step types of operators can store any value under this name. */
function lastPollView(noted: Json): z.output<typeof stepOutlineSchema>['lastPoll'] {
  const { at, status, why } = Object(noted) as Record<string, unknown>;
  if (typeof at !== 'number' || !(Math.abs(at) <= LAST_TIME_MS) || typeof why !== 'string') return null;
  const isStatus = typeof status === 'number' && Number.isSafeInteger(status);
  return { at: isoTime(at), status: isStatus ? status : null, why: why.slice(0, MAX_WHY_CHARACTERS) };
}

interface Naming extends Pick<DashboardServices, 'catalog'> {
  readonly sight: Sight | undefined;
}

/** A flow named by its id. Callers who may not see the flow get the id instead of its name. */
function namedFlow(id: string, { catalog, sight }: Naming) {
  const flowId = id.toLowerCase();
  const isSeen = sees(sight, flowId);
  return { flowId, flowName: (isSeen ? catalog.find(flowId)?.record.name : undefined) ?? flowId };
}

/** Omits inputs: a step takes them from the newest revision when it starts, and its record has them resolved. */
function graphView(graph: Graph, naming: Naming): Record<string, unknown> {
  const viewOf = ({ type, inputs, runAfter, concurrencyLimit, steps }: StepDefinition) => ({
    type,
    runAfter,
    concurrencyLimit,
    ...(steps !== undefined && { steps: graphView(steps, naming) }),
    // The only input that comes from the pinned revision.
    ...(type === RUN_FLOW && typeof inputs.flow === 'string' && { flow: namedFlow(inputs.flow, naming) }),
  });
  return Object.fromEntries(Object.entries(graph).map(([key, step]) => [key, viewOf(step)]));
}
