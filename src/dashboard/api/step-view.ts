import { z } from 'zod';
import type { Graph } from '../../model/manifest.ts';
import type { StepDetail } from '../../store/store.ts';
import { id, integer, isoTime, isoTimeOrNull, json, time } from './formats.ts';

export const stepStatusSchema = z.enum(['Pending', 'Running', 'Succeeded', 'Failed', 'Skipped']);
export const stepErrorSchema = z.object({ code: z.string(), message: z.string(), retryable: z.boolean() });

const attemptSchema = z.object({
  attempt: integer(),
  status: stepStatusSchema,
  input: json(),
  output: json(),
  error: stepErrorSchema.nullable(),
  startedAt: time(),
  completedAt: time().nullable(),
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
  })
  .meta({ id: 'Step' });

type StepView = z.output<typeof stepSchema>;

/**
 * Every step of the graph that a run follows, in manifest order, those it has not reached as Pending. Rows that the
 * graph does not name, such as the children of a loop (`key.0.child`), stand behind the step that they belong to.
 */
export function stepViews(runId: string, rows: readonly StepDetail[], graph: Graph): StepView[] {
  const isPlanned = (stepKey: string) => Object.hasOwn(graph, stepKey);
  const others = rows
    .filter((row) => !isPlanned(row.stepKey))
    .sort((a, b) => a.stepKey.localeCompare(b.stepKey, 'en', { numeric: true }));
  const byKey = new Map(rows.map((row) => [row.stepKey, row]));
  const planned = Object.entries(graph).flatMap(([stepKey, { type: stepType }]) => {
    const row = byKey.get(stepKey);
    const own = row === undefined ? pendingView({ runId, stepKey, stepType }) : stepView(row);
    return [own, ...others.filter((other) => parentOf(other) === stepKey).map(stepView)];
  });
  return [...planned, ...others.filter((other) => !isPlanned(parentOf(other))).map(stepView)];
}

function parentOf({ stepKey }: StepDetail): string {
  return stepKey.split('.', 1)[0] ?? stepKey;
}

export function stepView(row: StepDetail): StepView {
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

export function pendingView(step: { runId: string; stepKey: string; stepType: string }): StepView {
  return {
    ...step,
    status: 'Pending',
    input: null,
    output: null,
    error: null,
    skipReason: null,
    evaluationTrace: null,
    attemptCount: 0,
    attempts: [],
    dueAt: null,
    startedAt: null,
    completedAt: null,
  };
}
