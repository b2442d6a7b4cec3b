import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createRetention } from '../../src/flows/retention.ts';
import type { Store } from '../../src/store/store.ts';
import { fakeClock, recordingLogger, START, until } from './fixture.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** So many expired rows, deleted as a store does. */
function open(rows: number) {
  let left = rows;
  const purgeNonces = vi.fn<Store['purgeNonces']>(async ({ limit }) => {
    const deleted = Math.min(limit, left);
    left -= deleted;
    return deleted;
  });
  const log = recordingLogger();
  const retention = createRetention({ store: { purgeNonces }, clock: fakeClock(), logger: log.logger });
  return { purgeNonces, retention, log, left: () => left };
}

describe('retention', () => {
  it('deletes expired nonces every minute, in chunks, until none is left', async () => {
    const { retention, purgeNonces, left } = open(250);
    retention.start();
    vi.advanceTimersByTime(59_999);
    expect(purgeNonces).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    await until(() => left() === 0);
    await retention.stop();
    expect(purgeNonces.mock.calls).toEqual(Array.from({ length: 3 }, () => [{ now: START, limit: 100 }]));
  });

  it('goes on after the store failed', async () => {
    const { retention, purgeNonces, log, left } = open(1);
    purgeNonces.mockRejectedValueOnce(new Error('the disk is full'));
    retention.start();
    vi.advanceTimersByTime(60_000);
    await until(() => log.lines.length === 1);
    vi.advanceTimersByTime(60_000);
    await until(() => left() === 0);
    await retention.stop();
  });

  it('stops between two chunks', async () => {
    const { retention, purgeNonces, left } = open(1_000_000);
    retention.start();
    vi.advanceTimersByTime(60_000);
    await until(() => purgeNonces.mock.calls.length > 1);
    await retention.stop();
    const calls = purgeNonces.mock.calls.length;
    vi.advanceTimersByTime(600_000);
    expect(purgeNonces).toHaveBeenCalledTimes(calls);
    expect(left()).toBeGreaterThan(0);
  });
});
