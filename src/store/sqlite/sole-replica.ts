import { MINUTE_MS } from '../../model/clock.ts';
import type { Beat, Store } from '../store.ts';

interface SoleReplica {
  readonly name: string;
  /** Resolves when the store closes. */
  readonly hasClosed: Promise<void>;
  /** Counts the running steps. */
  readonly countRunning: (now: number) => Promise<number>;
  readonly keepTime: Store['keepTime'];
}

/** The members about replicas of a store for one process at a time, which locks the file against all others. */
export function soleReplica({
  name,
  hasClosed,
  countRunning,
  keepTime,
}: SoleReplica): Pick<
  Store,
  'replica' | 'changes' | 'runChanged' | 'watchRuns' | 'onDue' | 'beat' | 'beginHousekeeping' | 'listReplicas'
> {
  let last: Beat | undefined;
  let keptAt = Number.NEGATIVE_INFINITY;
  return {
    replica: name,
    changes: {
      unseenMs: () => 0,
      [Symbol.asyncIterator]: () => ({
        async next() {
          await hasClosed;
          return { done: true, value: undefined };
        },
      }),
    },
    runChanged() {},
    watchRuns() {},
    // No other process makes steps due.
    onDue() {},
    async beat(beat) {
      last = beat;
      const { now, ledgerAt } = beat;
      // The only write of an idle service. After a crash, nonces live longer by at most this interval.
      if (ledgerAt - keptAt >= MINUTE_MS) {
        await keepTime({ now, ledgerAt });
        keptAt = ledgerAt;
      }
      return { at: undefined, ledgerAt, replicas: 1, died: [] };
    },
    beginHousekeeping: async () => true,
    // The replica is listed once it has beaten.
    async listReplicas({ now }) {
      const steps = await countRunning(now);
      if (last === undefined) return [];
      const { now: seenAt, version, startedAt, fingerprint } = last;
      return [{ name, version, startedAt, seenAt, clockOffsetMs: 0, fingerprint, steps }];
    },
  };
}
