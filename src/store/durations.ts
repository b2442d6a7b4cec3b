/**
 * Durations are counted to within five per cent, so that a few thousand counts describe a million runs: exact below 20
 * ms, then in steps of 2, 5 and 10 hundredths of a power of ten. Stored counts have these steps: never change them.
 */
const DURATION_STEPS = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000].flatMap((power) => [
  { below: 50 * power, step: 2 * power },
  { below: 100 * power, step: 5 * power },
  { below: 200 * power, step: 10 * power },
]);
/** For runs that take weeks. */
const LONGEST_STEP = 1_000_000_000;

export function roundDuration(ms: number): number {
  if (ms < 20) return Math.max(ms, 0);
  const step = DURATION_STEPS.find(({ below }) => ms < below)?.step;
  if (step === undefined) return Math.floor(ms / LONGEST_STEP) * LONGEST_STEP;
  return Math.floor((ms + Math.floor(step / 2)) / step) * step;
}
