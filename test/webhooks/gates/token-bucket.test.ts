import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fullBucket, takePermit } from '../../../src/webhooks/gates/token-bucket.ts';

const limits = fc.record({
  permitsPerSecond: fc.double({ min: 0.01, max: 1000, noNaN: true }),
  burstSize: fc.double({ min: 1, max: 50, noNaN: true }),
});
const gapsMs = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 5000 })), { maxLength: 200 });

describe('token bucket', () => {
  it('never grants more than the burst and what time has refilled, in no window', () => {
    fc.assert(
      fc.property(limits, gapsMs, (limit, gaps) => {
        let now = 0;
        let bucket = fullBucket(limit, now);
        const grants: number[] = [];
        for (const gap of gaps) {
          now += gap;
          const taken = takePermit(bucket, limit, now);
          bucket = taken.bucket;
          if (taken.retryAfterMs === 0) grants.push(now);
        }
        grants.forEach((from, first) => {
          const to = grants.at(-1) ?? from;
          const allowed = limit.burstSize + ((to - from) / 1000) * limit.permitsPerSecond;
          expect(grants.length - first).toBeLessThanOrEqual(allowed + 1e-6);
        });
      }),
    );
  });

  it('grants after the time it asked to wait', () => {
    fc.assert(
      fc.property(limits, gapsMs, (limit, gaps) => {
        let now = 0;
        let bucket = fullBucket(limit, now);
        for (const gap of gaps) {
          now += gap;
          const taken = takePermit(bucket, limit, now);
          bucket = taken.bucket;
          if (taken.retryAfterMs === 0) continue;
          expect(takePermit(bucket, limit, now + taken.retryAfterMs).retryAfterMs).toBe(0);
        }
      }),
    );
  });

  it('starts full, refills without steps and never above the burst', () => {
    const limit = { permitsPerSecond: 2, burstSize: 3 };
    const grants = [0, 0, 0, 0, 250, 500, 60_000, 60_000, 60_000, 60_000];
    let bucket = fullBucket(limit, 0);
    const waits = grants.map((now) => {
      const taken = takePermit(bucket, limit, now);
      bucket = taken.bucket;
      return taken.retryAfterMs;
    });
    expect(waits).toEqual([0, 0, 0, 500, 250, 0, 0, 0, 0, 500]);
  });

  it('gains nothing from a clock that goes back', () => {
    const limit = { permitsPerSecond: 1, burstSize: 1 };
    const { bucket } = takePermit(fullBucket(limit, 10_000), limit, 10_000);
    const back = takePermit(bucket, limit, 0);
    expect(back.retryAfterMs).toBe(1000);
    expect(takePermit(back.bucket, limit, 10_500).retryAfterMs).toBe(500);
  });
});
