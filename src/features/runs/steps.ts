import { Readable } from 'node:stream';
import { z } from 'zod';
import { field, isoTime, isoTimeOrNull, listOf, toList, unknownId } from '../../dashboard/answer.ts';
import { ID_PARAMS, PAGING, parameter } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import type { ApiRoutes, DashboardServices } from '../../dashboard/services.ts';
import { HttpError } from '../../errors.ts';
import { type Graph, STEP_STATUSES } from '../../model/manifest.ts';
import { STOP_ERRORS } from '../../model/run.ts';
import { stepAt } from '../../model/runtime-keys.ts';
import type { RunDetail, StepView, Store } from '../../store/store.ts';
import { runsStore, type StoredText, type ValueQuery } from './store.ts';

const stepStatusSchema = z.enum(STEP_STATUSES);
const stepErrorSchema = z.object({
  code: z.string(),
  message: field.content(z.string()),
  retryable: z.boolean(),
  host: z.string().optional().describe('Scheme, host and port that the step called; absent if it called none.'),
});

const truncated = () =>
  z
    .literal(true)
    .optional()
    .describe('Set if a value was too large for this answer: { truncated, length, preview } replaces it.');

const attemptSchema = z.object({
  attempt: field.integer(),
  status: stepStatusSchema,
  input: field.json(),
  inputsRevision: field
    .integer()
    .nullable()
    .describe(
      'The revision that the inputs came from; null where there are none, as of a loop, or none were read yet.',
    ),
  output: field.json(),
  error: stepErrorSchema.nullable(),
  slotWaitMs: field.integer().describe('How long the attempt was due before it got a slot.'),
  startedAt: field.time(),
  completedAt: field.time().nullable(),
  truncated: truncated(),
});

export const stepSchema = z
  .object({
    runId: field.id(),
    stepKey: z.string(),
    stepType: z.string(),
    status: stepStatusSchema,
    input: field.json().describe('Resolved inputs of the last attempt, secrets masked.'),
    output: field.json(),
    error: stepErrorSchema.nullable(),
    skipReason: z.string().nullable(),
    evaluationTrace: field.json(),
    attemptCount: field.integer(),
    attempts: z.array(attemptSchema),
    timeoutSeconds: z
      .number()
      .nullable()
      .describe(
        'How long one attempt may take: the time limit of the step, or of its request if that is shorter; null without any.',
      ),
    dueAt: field.time().nullable(),
    startedAt: field.time().nullable(),
    completedAt: field.time().nullable(),
    truncated: truncated(),
  })
  .meta({ id: 'Step' });

type StepAnswer = z.output<typeof stepSchema>;

/** Limits for values in an answer; `…/steps/{key}/output` has the whole value. */
const VALUE_LIMITS = { valueBytes: 64 * 1024, answerBytes: 4 * 1024 * 1024 } as const;
/** Steps on a page: both the default and the maximum. */
export const MAX_STEPS = 500;
export const MAX_KEY_CHARACTERS = 1000;

export const STEP_PARAMS = ID_PARAMS.extend({ key: z.string().max(MAX_KEY_CHARACTERS) });

/** The steps of a run with their inputs and outputs. */
export const stepRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/runs/:id/steps',
    route('runs', {
      operationId: 'listSteps',
      limit: 'run',
      summary: 'The steps of a run in manifest order, including those not reached yet',
      params: ID_PARAMS,
      query: z.strictObject({
        skip: PAGING.skip,
        take: parameter.wholeNumber({ min: 1, max: MAX_STEPS, fallback: MAX_STEPS }),
        includeTotal: PAGING.includeTotal,
      }),
      answer: listOf(stepSchema),
      refusals: [404],
    }),
    async (request) => {
      const found = await findGraph(request.params.id, services);
      const { items, total } = await stepPage(found, request.query, services);
      return toList(items, { total }, request.query);
    },
  );
  stepRoute(app, services);
  valueRoutes(app, services);
};

const stepRoute: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/runs/:id/steps/:key',
    route('runs', {
      operationId: 'getStep',
      limit: 'run',
      summary: 'One step of a run with its attempts',
      params: STEP_PARAMS,
      answer: stepSchema,
      refusals: [404],
    }),
    async (request) => {
      const { key: stepKey } = request.params;
      const { run, graph } = await findGraph(request.params.id, services);
      const row = await services.store.findStep(run.id, stepKey, VALUE_LIMITS);
      if (row !== undefined) return stepView(row, graph, services.extensions);
      const planned = stepAt(graph, stepKey);
      if (planned === undefined) {
        throw new HttpError('unknown_step', `The run has no step ${JSON.stringify(stepKey)}`);
      }
      return unreachedView(run, stepKey, planned.type);
    },
  );
};

/** Bytes of a value read and written before other requests get their turn. */
const PIECE_BYTES = 256 * 1024;

const valueRoutes: ApiRoutes = (app, services) => {
  for (const value of ['input', 'output'] as const) {
    app.get(
      `/flows/api/runs/:id/steps/:key/${value}`,
      route('runs', {
        operationId: value === 'input' ? 'getStepInput' : 'getStepOutput',
        limit: 'run',
        summary:
          value === 'input'
            ? 'The whole input of a step, secrets masked'
            : 'The whole output of a step; null if it has none',
        params: STEP_PARAMS,
        query: z.strictObject({
          attempt: parameter.optionalNumber().describe('Reads the value of this attempt; by default that of the step.'),
        }),
        answer: field.json(),
        refusals: [404],
      }),
      async (request, reply) => {
        const { key: stepKey } = request.params;
        const { attempt } = request.query;
        const { run, graph } = await findGraph(request.params.id, services);
        const asked = { runId: run.id, stepKey, attempt, value, bytes: PIECE_BYTES };
        const first = await services.store.of(runsStore).readValue({ ...asked, offset: 0 });
        if (first === undefined && (attempt !== undefined || stepAt(graph, stepKey) === undefined)) {
          const about = attempt === undefined ? '' : ` with an attempt ${attempt}`;
          throw new HttpError('unknown_step', `The run has no step ${JSON.stringify(stepKey)}${about}`);
        }
        void reply.type('application/json; charset=utf-8');
        if (first === undefined || first.totalBytes === null) return reply.send('null' as never);
        void reply.header('content-length', first.totalBytes);
        return reply.send(Readable.from(piecesOf(first, asked, services)) as never);
      },
    );
  }
};

/** Aborts the answer if the value changes while it is read: two halves of different values would be worse. */
async function* piecesOf(
  first: StoredText,
  asked: Omit<ValueQuery, 'offset'>,
  { store }: DashboardServices,
): AsyncGenerator<Uint8Array> {
  let offset = 0;
  for (let piece: StoredText | undefined = first; ; piece = await store.of(runsStore).readValue({ ...asked, offset })) {
    if (piece === undefined || piece.changes !== first.changes || piece.totalBytes !== first.totalBytes) {
      throw new Error('the value changed while it was read');
    }
    yield piece.piece;
    offset += piece.piece.byteLength;
    if (offset >= (first.totalBytes ?? 0) || piece.piece.byteLength === 0) return;
  }
}

export async function findRun(runId: string, { store }: DashboardServices): Promise<RunDetail> {
  const run = await store.findRun(runId);
  if (run === undefined) throw unknownId('run', runId);
  return run;
}

export async function findGraph(
  runId: string,
  services: DashboardServices,
): Promise<{ run: RunDetail; graph: Graph; onFailure: string | null }> {
  const run = await findRun(runId, services);
  const { graph, onFailure } = await services.catalog.pinned(run.flowId, run.revision);
  return { run, graph, onFailure };
}

/** A page of the steps of a run in manifest order, including those not reached yet. */
export async function stepPage(
  { run, graph }: { run: RunDetail; graph: Graph },
  { skip, take }: { skip: number; take: number },
  { store, extensions }: { store: Pick<Store, 'pageSteps'>; extensions: Described },
): Promise<{ items: StepAnswer[]; total: number }> {
  const page = await store.pageSteps({ runId: run.id, planned: Object.keys(graph), skip, take, limits: VALUE_LIMITS });
  if (page === undefined) throw unknownId('run', run.id);
  const items = page.items.map((item) =>
    item.runId === undefined
      ? unreachedView(run, item.stepKey, stepAt(graph, item.stepKey)?.type ?? '')
      : stepView(item, graph, extensions),
  );
  return { items, total: page.total };
}

type Described = Pick<DashboardServices['extensions'], 'handlers'>;

function timeoutOf({ stepKey, stepType, input }: StepView, graph: Graph, { handlers }: Described): number | null {
  const ofType = handlers.get(stepType)?.mostSeconds?.(input);
  const limits = [stepAt(graph, stepKey)?.timeoutSeconds, ofType].filter((limit) => limit !== undefined);
  return limits.length === 0 ? null : Math.min(...limits);
}

function stepView(row: StepView, graph: Graph, extensions: Described): StepAnswer {
  return {
    ...row,
    timeoutSeconds: timeoutOf(row, graph, extensions),
    attempts: row.attempts.map((attempt) => ({
      ...attempt,
      startedAt: isoTime(attempt.startedAt),
      completedAt: isoTimeOrNull(attempt.completedAt),
    })),
    dueAt: dueAtOf(row),
    startedAt: isoTimeOrNull(row.startedAt),
    completedAt: isoTimeOrNull(row.completedAt),
  };
}

/** When a step is due. Null for a running step: its row holds the end of its lease, which means nothing to people. */
export function dueAtOf({ status, dueAt }: Pick<StepView, 'status' | 'dueAt'>): string | null {
  return status === 'Running' ? null : isoTimeOrNull(dueAt);
}

function unreachedView(run: RunDetail, stepKey: string, stepType: string): StepAnswer {
  const { completedAt, ...unreached } = unreachedIn(run);
  return {
    runId: run.id,
    stepKey,
    stepType,
    ...unreached,
    input: null,
    output: null,
    error: null,
    evaluationTrace: null,
    attemptCount: 0,
    timeoutSeconds: null,
    attempts: [],
    dueAt: null,
    startedAt: null,
    completedAt: isoTimeOrNull(completedAt),
  };
}

/** The state of a step that the run has not reached; a stopped run never reaches it. */
export function unreachedIn({
  status,
  completedAt,
}: Pick<RunDetail, 'status' | 'completedAt'>): Pick<StepView, 'status' | 'skipReason' | 'completedAt'> {
  if (status === 'Cancelled') return { status: 'Skipped', skipReason: STOP_ERRORS.cancelled.message, completedAt };
  if (status === 'TimedOut') return { status: 'Skipped', skipReason: STOP_ERRORS.timedOut.message, completedAt };
  return { status: 'Pending', skipReason: null, completedAt: null };
}
