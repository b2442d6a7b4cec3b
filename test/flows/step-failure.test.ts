import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nextAttemptAt } from '../../src/flows/step-failure.ts';
import type { RetryPolicy } from '../../src/model/manifest.ts';

const policy: RetryPolicy = { maxAttempts: 5, backoffSeconds: 2, factor: 3, maxBackoffSeconds: 20, jitter: false };
const half = () => 0.5;
const DAY_MS = 86_400_000;

const rows: [string, Partial<RetryPolicy>, { attempt: number; retryAfterMs?: number }, number | undefined][] = [
  ['waits the base after the first try', {}, { attempt: 1 }, 2_000],
  ['grows by the factor', {}, { attempt: 2 }, 6_000],
  ['grows up to the cap', {}, { attempt: 3 }, 18_000],
  ['never waits longer than the cap', {}, { attempt: 4 }, 20_000],
  ['stops after the last attempt', {}, { attempt: 5 }, undefined],
  ['jitters over the whole wait', { jitter: true }, { attempt: 2 }, 3_000],
  ['waits as long as the other side asks', {}, { attempt: 1, retryAfterMs: 60_000 }, 60_000],
  ['keeps its own wait where the other side asks for less', {}, { attempt: 1, retryAfterMs: 10 }, 2_000],
  ['waits for no more than a day', {}, { attempt: 1, retryAfterMs: 10 * DAY_MS }, DAY_MS],
  ['tries at once without a back-off', { backoffSeconds: 0 }, { attempt: 1 }, 0],
  ['survives a power that overflows', { maxAttempts: 5000, factor: 10 }, { attempt: 4000 }, 20_000],
  ['waits for no more than a year', { backoffSeconds: 1e300, maxBackoffSeconds: 1e300 }, { attempt: 1 }, 365 * DAY_MS],
  ['survives no back-off with a power that overflows', { maxAttempts: 5000, backoffSeconds: 0 }, { attempt: 4000 }, 0],
];

describe('nextAttemptAt', () => {
  it.each(rows)('%s', (_rule, change, failed, waitMs) => {
    const at = 1_000_000;
    expect(nextAttemptAt({ ...policy, ...change }, { at, ...failed }, half)).toBe(
      waitMs === undefined ? undefined : at + waitMs,
    );
  });

  it('never tries again without a policy', () => {
    expect(nextAttemptAt(undefined, { attempt: 1, at: 0, retryAfterMs: 1 }, half)).toBeUndefined();
  });

  it('stays between what was asked for and the caps, for any policy', () => {
    const seconds = fc.double({ min: 0, max: 1e6, noNaN: true });
    const anyPolicy = fc.record({
      maxAttempts: fc.integer({ min: 1, max: 1000 }),
      backoffSeconds: seconds,
      factor: fc.double({ min: 1, max: 1000, noNaN: true }),
      maxBackoffSeconds: seconds,
      jitter: fc.boolean(),
    });
    const anyFailure = fc.record({
      attempt: fc.integer({ min: 1, max: 1000 }),
      at: fc.integer({ min: 0, max: 2e12 }),
      retryAfterMs: fc.option(fc.integer({ min: 0, max: 1e12 }), { nil: undefined }),
    });
    const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(anyPolicy, anyFailure, random, (any, failed, drawn) => {
        const at = nextAttemptAt(any, failed, () => drawn);
        if (failed.attempt >= any.maxAttempts) {
          expect(at).toBeUndefined();
          return;
        }
        const askedFor = Math.min(failed.retryAfterMs ?? 0, DAY_MS);
        expect(at).toBeGreaterThanOrEqual(failed.at + askedFor);
        expect(at).toBeLessThanOrEqual(failed.at + Math.max(askedFor, Math.round(any.maxBackoffSeconds * 1000)));
        expect(Number.isInteger(at)).toBe(true);
      }),
    );
  });
});
