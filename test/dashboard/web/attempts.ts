import type { StepStatus } from '../../../src/model/manifest.ts';

export const T0 = Date.UTC(2026, 10, 21, 12);
export const at = (seconds: number) => new Date(T0 + seconds * 1000).toISOString();

/** An attempt as in the API's answers. Times are seconds after `T0`; `to` is null while it runs. */
export const attempt = (number: number, status: StepStatus, from: number, to: number | null, slotWaitMs = 0) => ({
  attempt: number,
  status,
  slotWaitMs,
  errorCode: null as string | null,
  startedAt: at(from),
  completedAt: to === null ? null : at(to),
});
