/**
 * Durations are counted within five per cent, so that those of a million runs are told by a few thousand counts: exact
 * below 20 ms, then in steps of 2, 5 and 10 hundredths of a power of ten. Kept counts have these steps: they never change.
 */
export const DURATION_STEPS = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000].flatMap((power) => [
  { below: 50 * power, step: 2 * power },
  { below: 100 * power, step: 5 * power },
  { below: 200 * power, step: 10 * power },
]);
/** For what takes weeks. */
export const LONGEST_STEP = 1_000_000_000;

export function roundDuration(ms: number): number {
  if (ms < 20) return Math.max(ms, 0);
  const step = DURATION_STEPS.find(({ below }) => ms < below)?.step;
  if (step === undefined) return Math.floor(ms / LONGEST_STEP) * LONGEST_STEP;
  return Math.floor((ms + Math.floor(step / 2)) / step) * step;
}
