import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { followChanges } from '../../src/flows/changes.ts';
import type { Change } from '../../src/store/store.ts';
import { createLiveEvents, type LiveEvent } from '../../src/telemetry/events.ts';
import { recordingLogger } from './fixture.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A stream of changes that the test writes; it ends on `done`. */
function stream() {
  const waiting: IteratorResult<Change>[] = [];
  let take: ((result: IteratorResult<Change>) => void) | undefined;
  const put = (result: IteratorResult<Change>) => {
    if (take === undefined) waiting.push(result);
    else take(result);
    take = undefined;
  };
  const next = () => {
    const first = waiting.shift();
    if (first !== undefined) return Promise.resolve(first);
    return new Promise<IteratorResult<Change>>((resolve) => {
      take = resolve;
    });
  };
  const changes: AsyncIterable<Change> = { [Symbol.asyncIterator]: () => ({ next }) };
  return { changes, say: (value: Change) => put({ value }), end: () => put({ done: true, value: undefined }) };
}

function follow({ refresh = async (_flowId: string) => {} } = {}) {
  const told = stream();
  const done: string[] = [];
  const events: LiveEvent[] = [];
  const live = createLiveEvents();
  live.subscribe((event) => events.push(event));
  const log = recordingLogger();
  const stop = followChanges({
    changes: told.changes,
    refresh: async (flowId) => {
      await refresh(flowId);
      done.push(`flow ${flowId}`);
    },
    learnedKeys: {
      refresh: async (flowId) => {
        done.push(`key ${flowId}`);
      },
    },
    onChange: async ({ kind }) => {
      if (kind === 'schedule') done.push(kind);
    },
    live,
    logger: log.logger,
  });
  onTestFinished(() => stop());
  return { ...told, done, events, log, stop };
}

describe('changes of other processes', () => {
  it('have what this process keeps in memory read again', async () => {
    const { say, done } = follow();
    say({ kind: 'flow', flowId: 'a' });
    say({ kind: 'key', flowId: 'b' });
    say({ kind: 'schedule', flowId: 'c' });
    await vi.waitFor(() => expect(done).toEqual(['flow a', 'key b', 'schedule']));
  });

  it('of runs are told to those who watch', async () => {
    const { say, events } = follow();
    say({ kind: 'runs', runIds: ['r1', 'r2'] });
    await vi.waitFor(() => expect(events).toHaveLength(2));
    expect(events).toEqual(
      ['r1', 'r2'].map((runId) => ({ type: 'run.changed', runId, flowId: null, data: { runId } })),
    );
  });

  it('are read once, however often they are told while another is being read', async () => {
    const reads: (() => void)[] = [];
    const refresh = (_flowId: string) => new Promise<void>((resolve) => reads.push(resolve));
    const { say, done, events } = follow({ refresh });
    say({ kind: 'flow', flowId: 'a' });
    await vi.waitFor(() => expect(reads).toHaveLength(1));
    for (let n = 0; n < 5; n += 1) say({ kind: 'flow', flowId: 'a' });
    // It changed after the read began, so one more read is due.
    say({ kind: 'runs', runIds: ['r'] });
    await vi.waitFor(() => expect(events).toHaveLength(1));
    reads[0]?.();
    await vi.waitFor(() => expect(reads).toHaveLength(2));
    reads[1]?.();
    await vi.waitFor(() => expect(done).toEqual(['flow a', 'flow a']));
    say({ kind: 'key', flowId: 'b' });
    await vi.waitFor(() => expect(done).toEqual(['flow a', 'flow a', 'key b']));
    expect(reads).toHaveLength(2);
  });

  it('that cannot be read are read as soon as the store answers, and hold no other back', async () => {
    let isDown = true;
    const refresh = (flowId: string) =>
      isDown && flowId === 'a' ? Promise.reject(new Error('away')) : Promise.resolve();
    const { say, done, log } = follow({ refresh });
    say({ kind: 'flow', flowId: 'a' });
    say({ kind: 'flow', flowId: 'b' });
    await vi.waitFor(() => expect(done).toEqual(['flow b']));
    await vi.waitFor(() => expect(log.lines).toHaveLength(1));
    expect(log.lines[0]).toMatchObject({ level: 40, kind: 'flow', flowId: 'a' });
    isDown = false;
    await vi.advanceTimersByTimeAsync(1000);
    expect(done).toEqual(['flow b', 'flow a']);
  });

  it('are followed until it is stopped, and nothing runs after that', async () => {
    const { say, done, stop } = follow();
    say({ kind: 'flow', flowId: 'a' });
    await vi.waitFor(() => expect(done).toHaveLength(1));
    await stop();
    say({ kind: 'flow', flowId: 'b' });
    await vi.advanceTimersByTimeAsync(5000);
    expect(done).toEqual(['flow a']);
  });

  it('end with the store', async () => {
    const { end, log } = follow();
    end();
    await vi.advanceTimersByTimeAsync(5000);
    expect(log.lines).toEqual([]);
  });
});
