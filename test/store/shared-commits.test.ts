import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { SHARE_MS, SharedCommits } from '../../src/store/shared-commits.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Counts waiting calls, and the calls in each commit. */
function commits() {
  let waiting = 0;
  const sent: number[] = [];
  const shared = new SharedCommits(() => {
    sent.push(waiting);
    waiting = 0;
  }, globalThis);
  return {
    shared,
    sent,
    call(shareMs: number) {
      waiting += 1;
      shared.expect(shareMs, waiting);
    },
    /** Makes calls at this pace until it is known. */
    pace(everyMs: number) {
      for (let count = 0; count < 60; count += 1) {
        this.call(0);
        vi.advanceTimersByTime(everyMs);
      }
      sent.length = 0;
    },
  };
}

describe('calls that share commits', () => {
  test.each(Object.entries(SHARE_MS))('send a lone %s at the end of its turn', (_, shareMs) => {
    const { call, sent } = commits();
    for (let count = 0; count < 5; count += 1) {
      call(shareMs);
      vi.advanceTimersByTime(0);
      expect(sent).toHaveLength(count + 1);
      vi.advanceTimersByTime(1000);
    }
    expect(sent).toEqual([1, 1, 1, 1, 1]);
  });

  test.each(Object.entries(SHARE_MS))('let %s wait for others while they are likely to come', (_, shareMs) => {
    const paced = commits();
    paced.pace(shareMs / 4);
    for (let count = 0; count < 4; count += 1) {
      paced.call(shareMs);
      expect(paced.sent).toEqual([]);
      vi.advanceTimersByTime(shareMs / 4);
    }
    expect(paced.sent).toEqual([4]);
  });

  test('let no call wait longer than it may, whoever came before it', () => {
    const paced = commits();
    paced.pace(0.5);
    paced.call(SHARE_MS.advance);
    vi.advanceTimersByTime(1);
    paced.call(SHARE_MS.accept);
    vi.advanceTimersByTime(SHARE_MS.accept - 1);
    expect(paced.sent).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(paced.sent).toEqual([2]);
    vi.advanceTimersByTime(SHARE_MS.advance);
    expect(paced.sent).toEqual([2]);
  });

  test('send a call that may not wait at once, with those that waited', () => {
    const paced = commits();
    paced.pace(0.5);
    paced.call(SHARE_MS.advance);
    paced.call(0);
    vi.advanceTimersByTime(0);
    expect(paced.sent).toEqual([2]);
  });

  test('wait no longer once enough have come', () => {
    const paced = commits();
    paced.pace(0.5);
    for (let count = 0; count < 16; count += 1) paced.call(SHARE_MS.advance);
    vi.advanceTimersByTime(0);
    expect(paced.sent).toEqual([16]);
  });

  test('send at once again after a lull', () => {
    const paced = commits();
    paced.pace(0.5);
    vi.advanceTimersByTime(10_000);
    paced.call(SHARE_MS.accept);
    vi.advanceTimersByTime(0);
    expect(paced.sent).toEqual([1]);
  });
});
