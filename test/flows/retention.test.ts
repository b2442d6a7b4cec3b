import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createIdSource } from '../../src/flows/ids.ts';
import { createHousekeeping, createRetention } from '../../src/flows/retention.ts';
import type { Store } from '../../src/store/store.ts';
import { fakeClock, openFlowService, recordingLogger, START, until } from './fixture.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const newId = createIdSource();

/** A request may take two minutes from the time it is judged by to the time it is stored. */
const PURGED = START - 50_000;

/** So many expired rows, deleted as a store does. */
function open(rows: number) {
  let left = rows;
  const purgeNonces = vi.fn<Store['purgeNonces']>(async ({ limit }) => {
    const deleted = Math.min(limit, left);
    left -= deleted;
    return deleted;
  });
  const log = recordingLogger();
  const clock = fakeClock();
  const retention = createRetention({
    store: { purgeNonces, purgeRuns: async () => ({ runs: 0, rows: 0, isDone: true }) },
    clock,
    logger: log.logger,
  });
  return { purgeNonces, retention, clock, log, left: () => left };
}

describe('retention', () => {
  it('deletes nonces every minute, in chunks, once no request under way can need them', async () => {
    const service = await openFlowService();
    await service.deploy({});
    const flow = service.catalog.list()[0];
    if (flow === undefined) throw new Error('the flow is not deployed');
    const keep = (nonce: string, expiresAt: number) =>
      service.store.accept({
        run: service.runtime.engine.planRun({
          runId: newId(),
          flow,
          triggerType: 'webhook',
          trigger: { key: 'hook', body: Buffer.alloc(0), contentType: null, headers: {} },
          deliveryId: null,
          sourceRunId: null,
          traceparent: null,
          at: START,
        }),
        nonce: { value: nonce, bodySha256: '', expiresAt, isEnforced: true },
      });
    await Promise.all(Array.from({ length: 250 }, (_, index) => keep(`old-${index}`, PURGED - 1)));
    await keep('kept for a request under way', PURGED + 1);

    const purgeNonces = vi.fn(service.store.purgeNonces);
    const { logger } = recordingLogger();
    const retention = createRetention({
      store: { purgeNonces, purgeRuns: async () => ({ runs: 0, rows: 0, isDone: true }) },
      clock: fakeClock(),
      logger,
    });
    retention.start();
    vi.advanceTimersByTime(59_999);
    expect(purgeNonces).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    await until(() => purgeNonces.mock.settledResults.filter(({ type }) => type === 'fulfilled').length === 3);
    await retention.stop();
    expect(purgeNonces.mock.calls).toEqual(Array.from({ length: 3 }, () => [{ now: PURGED, limit: 100 }]));
    expect(await service.store.purgeNonces({ now: PURGED, limit: 1000 })).toBe(0);
    expect(await service.store.purgeNonces({ now: PURGED + 2, limit: 1000 })).toBe(1);
  });

  it('deletes nothing for a day after the clock was set ahead by more than an hour, and says so', async () => {
    const { retention, clock, purgeNonces, log, left } = open(1);
    retention.start();
    clock.set(3_600_001);
    vi.advanceTimersByTime(60_000);
    expect(log.lines).toMatchObject([{ level: 40, aheadMs: 3_600_001 }]);
    clock.pass(86_399_999);
    vi.advanceTimersByTime(60_000);
    expect(purgeNonces).not.toHaveBeenCalled();
    clock.pass(1);
    await until(() => {
      vi.advanceTimersByTime(60_000);
      return left() === 0;
    });
    await retention.stop();
    expect(log.lines).toHaveLength(1);
  });

  it('removes old runs a slice at a time until none is left', async () => {
    const left = [false, false, true];
    const purgeRuns = vi.fn<Store['purgeRuns']>(async () => ({ runs: 0, rows: 200, isDone: left.shift() ?? true }));
    const { logger } = recordingLogger();
    const store = { purgeNonces: async () => 0, purgeRuns };
    const retention = createRetention({ store, clock: fakeClock(), logger, runRetentionDays: 1 });
    retention.start();
    vi.advanceTimersByTime(60_000);
    await until(() => left.length === 0);
    await retention.stop();
    const slice = { before: START - 86_400_000, maxRows: 200 };
    expect(purgeRuns.mock.calls).toEqual([[slice], [slice], [slice]]);
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

describe('housekeeping', () => {
  /** In a process that is chosen as `isChosen` says. */
  function house({ isShared = true, isFit = true, isChosen = true } = {}) {
    const asked: number[] = [];
    const calls: string[] = [];
    const note = (name: string) => () => void calls.push(name);
    const { logger } = recordingLogger();
    const housekeeping = createHousekeeping({
      store: {
        beginHousekeeping: async ({ everyMs }) => {
          asked.push(everyMs);
          return isChosen;
        },
      },
      clock: fakeClock(),
      logger,
      sweepers: [{ start: note('start'), sweep: note('sweep'), stop: async () => {} }],
      isShared,
      isFit: () => isFit,
    });
    return { housekeeping, asked, calls };
  }

  it('is done each minute by the process that the store chooses', async () => {
    const { housekeeping, asked, calls } = house();
    housekeeping.start();
    housekeeping.everyMinute();
    await housekeeping.stop();
    expect({ asked, calls }).toEqual({ asked: [30_000], calls: ['sweep'] });
    const other = house({ isChosen: false });
    other.housekeeping.everyMinute();
    await other.housekeeping.stop();
    expect(other.calls).toEqual([]);
  });

  it('is done all the same where no process is told of a minute for long', async () => {
    const { housekeeping, asked, calls } = house();
    housekeeping.start();
    await vi.advanceTimersByTimeAsync(60_000);
    await housekeeping.stop();
    expect({ asked, calls }).toEqual({ asked: [300_000], calls: ['sweep'] });
  });

  it('is left to others by a process that is unfit', async () => {
    const { housekeeping, asked } = house({ isFit: false });
    housekeeping.start();
    housekeeping.everyMinute();
    await vi.advanceTimersByTimeAsync(60_000);
    await housekeeping.stop();
    expect(asked).toEqual([]);
  });

  it('counts its own minutes where a process has its store for itself', async () => {
    const { housekeeping, asked, calls } = house({ isShared: false });
    housekeeping.start();
    await vi.advanceTimersByTimeAsync(60_000);
    await housekeeping.stop();
    expect({ asked, calls }).toEqual({ asked: [], calls: ['start'] });
  });
});
