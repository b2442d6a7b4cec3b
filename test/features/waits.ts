import type { SluiceApp } from '../../src/app.ts';
import type { StepDetail } from '../../src/store/store.ts';
import { eventually } from '../eventually.ts';

/** By key. */
export const stepsOf = async ({ store }: SluiceApp, runId: string): Promise<Record<string, StepDetail>> =>
  Object.fromEntries(((await store.listSteps(runId)) ?? []).map((step) => [step.stepKey, step]));

/** Resolves once a step has begun to wait. */
export const waiting = (app: SluiceApp, runId: string, stepKey = 'approval') =>
  eventually(
    async () => (await stepsOf(app, runId))[stepKey],
    (step) => step?.status === 'Pending' && step.attemptCount > 0,
  );

export const ended = ({ store }: SluiceApp, runId: string) =>
  eventually(
    () => store.findRun(runId),
    (run) => run !== undefined && run.status !== 'Running',
  );
