import { describe, expect, it, vi } from 'vitest';
import { createHousekeeping, createRetention } from '../../src/flows/retention.ts';
import { createServiceClock } from '../../src/model/clock.ts';
import { createIdSource } from '../../src/model/ids.ts';
import type { Store } from '../../src/store/store.ts';
import { aNonce } from '../store/samples.ts';
import { fakeClock, openFlowService, recordingLogger, START, standingTimers, until } from './fixture.ts';

standingTimers();

const newId = createIdSource();

/** 50 s before the time of the purge: the margin for requests under way. */
const PURGED = START - 50_000;

const purgeRevisions: Store['purgeRevisions'] = async () => ({ removed: 0, next: null });

/** A store with so many expired rows, which it deletes in chunks. */
function open(rows: number, purgeRuns: Store['purgeRuns'] = async () => ({ runs: 0, rows: 0, isDone: true })) {
  let left = rows;
  const purgeNonces = vi.fn<Store['purgeNonces']>(async ({ limit }) => {
    const deleted = Math.min(limit, left);
    left -= deleted;
    return deleted;
  });
  const log = recordingLogger();
  const clock = fakeClock();
  const serviceClock = createServiceClock(clock);
  const retention = createRetention({
    store: { purgeNonces, purgeRuns, purgeRevisions },
    clock: serviceClock,
    logger: log.logger,
    runRetentionDays: 1,
  });
  /** Sets the clock of the machine; the service follows it from then on. */
  const followSet = (ms: number) => {
    clock.set(ms);
    serviceClock.follow({ at: clock.now(), ledgerAt: serviceClock.ledger() }, clock.monotonic());
  };
  return { purgeNonces, retention, clock, followSet, log, left: () => left };
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
        nonce: aNonce({ value: nonce, expiresAt }),
      });
    await Promise.all(Array.from({ length: 250 }, (_, index) => keep(`old-${index}`, PURGED - 1)));
    await keep('kept for a request under way', PURGED + 1);

    const purgeNonces = vi.fn(service.store.purgeNonces);
    const { logger } = recordingLogger();
    const retention = createRetention({
      store: { purgeNonces, purgeRuns: async () => ({ runs: 0, rows: 0, isDone: true }), purgeRevisions },
      clock: createServiceClock(fakeClock()),
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

  it('deletes no run for a day after the clock was set ahead by more than an hour, and says so', async () => {
    const purgeRuns = vi.fn<Store['purgeRuns']>(async () => ({ runs: 0, rows: 0, isDone: true }));
    const { retention, clock, log, followSet } = open(0, purgeRuns);
    retention.start();
    followSet(3_600_001);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(log.lines).toMatchObject([{ level: 40, aheadMs: 3_600_001 }]);
    clock.pass(86_399_999);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(purgeRuns).not.toHaveBeenCalled();
    clock.pass(1);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(purgeRuns).toHaveBeenCalledOnce();
    await retention.stop();
    expect(log.lines).toHaveLength(1);
  });

  it('deletes nonces by a time that passes as the monotonic clock does, however the other one is set', async () => {
    const { retention, clock, purgeNonces, followSet } = open(0);
    retention.start();
    const purgedAt = async () => {
      await vi.advanceTimersByTimeAsync(60_000);
      return purgeNonces.mock.lastCall?.[0].now;
    };
    expect(await purgedAt()).toBe(PURGED);
    followSet(86_400_000);
    expect(await purgedAt()).toBe(PURGED);
    followSet(-3 * 86_400_000);
    clock.pass(1000);
    expect(await purgedAt()).toBe(PURGED + 1000);
    await retention.stop();
  });

  it('removes manifests of old revisions a chunk at a time, the newest 50 excepted, and after the runs', async () => {
    const places = [{ flowId: 'a', revision: 20 }, { flowId: 'b', revision: 7 }, null];
    const asked: unknown[] = [];
    const store = {
      purgeNonces: async () => 0,
      purgeRuns: async () => ({ runs: asked.push('runs'), rows: 0, isDone: true }),
      purgeRevisions: vi.fn<Store['purgeRevisions']>(async (request) => {
        asked.push(request);
        return { removed: 20, next: places.shift() ?? null };
      }),
    };
    const { logger } = recordingLogger();
    const retention = createRetention({ store, clock: createServiceClock(fakeClock()), logger, runRetentionDays: 1 });
    retention.start();
    vi.advanceTimersByTime(60_000);
    await until(() => places.length === 0);
    await retention.stop();
    const chunk = { kept: 50, limit: 20 };
    expect(asked).toEqual([
      'runs',
      { ...chunk, after: { flowId: '', revision: 0 } },
      { ...chunk, after: { flowId: 'a', revision: 20 } },
      { ...chunk, after: { flowId: 'b', revision: 7 } },
    ]);
  });

  it('removes old runs a slice at a time until none is left', async () => {
    const left = [false, false, true];
    const purgeRuns = vi.fn<Store['purgeRuns']>(async () => ({ runs: 0, rows: 200, isDone: left.shift() ?? true }));
    const { logger } = recordingLogger();
    const store = { purgeNonces: async () => 0, purgeRuns, purgeRevisions };
    const retention = createRetention({ store, clock: createServiceClock(fakeClock()), logger, runRetentionDays: 1 });
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
  /** In a process that `isChosen` makes the chosen one. */
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
