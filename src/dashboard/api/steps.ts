import { z } from 'zod';
import { stepAt } from '../../flows/runtime-keys.ts';
import type { Graph } from '../../model/manifest.ts';
import type { RunDetail, StepView, Store } from '../../store/store.ts';
import { id, integer, isoTime, isoTimeOrNull, json, time, unknownId } from '../answer.ts';

export const stepStatusSchema = z.enum(['Pending', 'Running', 'Succeeded', 'Failed', 'Skipped']);
export const stepErrorSchema = z.object({ code: z.string(), message: z.string(), retryable: z.boolean() });

const truncated = () =>
  z
    .literal(true)
    .optional()
    .describe('Set where a value was too large for this answer: { truncated, length, preview } stands in its place.');

export const slotWaitMsSchema = integer()
  .nullable()
  .describe('How long the attempt was due before it got a slot; null where an earlier release began it.');

const attemptSchema = z.object({
  attempt: integer(),
  status: stepStatusSchema,
  input: json(),
  output: json(),
  error: stepErrorSchema.nullable(),
  slotWaitMs: slotWaitMsSchema,
  startedAt: time(),
  completedAt: time().nullable(),
  truncated: truncated(),
});

export const stepSchema = z
  .object({
    runId: id(),
    stepKey: z.string(),
    stepType: z.string(),
    status: stepStatusSchema,
    input: json().describe('Resolved inputs of the last attempt, secrets masked.'),
    output: json(),
    error: stepErrorSchema.nullable(),
    skipReason: z.string().nullable(),
    evaluationTrace: json(),
    attemptCount: integer(),
    attempts: z.array(attemptSchema),
    dueAt: time().nullable(),
    startedAt: time().nullable(),
    completedAt: time().nullable(),
    truncated: truncated(),
  })
  .meta({ id: 'Step' });

type StepAnswer = z.output<typeof stepSchema>;

/** What an answer has of values; the whole of one is at `…/steps/{key}/output`. */
export const VALUE_LIMITS = { valueBytes: 64 * 1024, answerBytes: 4 * 1024 * 1024 } as const;
/** Steps of a page, where no other number is asked for, and at most. */
export const MAX_STEPS = 500;

/** A page of the steps of a run in manifest order, those that it has not reached included. */
export async function stepPage(
  { run, graph }: { run: RunDetail; graph: Graph },
  { skip, take }: { skip: number; take: number },
  store: Pick<Store, 'pageSteps'>,
): Promise<{ items: StepAnswer[]; total: number }> {
  const page = await store.pageSteps({ runId: run.id, planned: Object.keys(graph), skip, take, limits: VALUE_LIMITS });
  if (page === undefined) throw unknownId('run', run.id);
  const items = page.items.map((item) =>
    item.runId === undefined
      ? unreachedView(run, item.stepKey, stepAt(graph, item.stepKey)?.type ?? '')
      : stepView(item),
  );
  return { items, total: page.total };
}

export function stepView(row: StepView): StepAnswer {
  return {
    ...row,
    attempts: row.attempts.map((attempt) => ({
      ...attempt,
      startedAt: isoTime(attempt.startedAt),
      completedAt: isoTimeOrNull(attempt.completedAt),
    })),
    dueAt: isoTimeOrNull(row.dueAt),
    startedAt: isoTimeOrNull(row.startedAt),
    completedAt: isoTimeOrNull(row.completedAt),
  };
}

export function unreachedView(run: RunDetail, stepKey: string, stepType: string): StepAnswer {
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
    attempts: [],
    dueAt: null,
    startedAt: null,
    completedAt: isoTimeOrNull(completedAt),
  };
}

/** Where a step stands that the run has not reached: one that was stopped never will. */
export function unreachedIn({
  status,
  completedAt,
}: Pick<RunDetail, 'status' | 'completedAt'>): Pick<StepView, 'status' | 'skipReason' | 'completedAt'> {
  if (status === 'Cancelled') return { status: 'Skipped', skipReason: 'the run was cancelled', completedAt };
  if (status === 'TimedOut') return { status: 'Skipped', skipReason: 'the time of the run was up', completedAt };
  return { status: 'Pending', skipReason: null, completedAt: null };
}
