import { MINUTE_MS } from '../../model/clock.ts';
import type { Beat, Store } from '../store.ts';

interface SoleReplica {
  readonly name: string;
  /** Resolves when the store closes. */
  readonly hasClosed: Promise<void>;
  /** Counts the steps that run. */
  readonly countRunning: (now: number) => Promise<number>;
  readonly keepTime: Store['keepTime'];
}

/** What a store says of replicas where one process at a time has it: while it has the file locked, no other changes it. */
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
      // An idle service writes nothing but this: after a crash nonces live so much longer.
      if (ledgerAt - keptAt >= MINUTE_MS) {
        await keepTime({ now, ledgerAt });
        keptAt = ledgerAt;
      }
      return { at: undefined, ledgerAt, replicas: 1, died: [] };
    },
    beginHousekeeping: async () => true,
    // It is there for as long as it beats.
    async listReplicas({ now }) {
      const steps = await countRunning(now);
      if (last === undefined) return [];
      const { now: seenAt, version, startedAt, fingerprint } = last;
      return [{ name, version, startedAt, seenAt, clockOffsetMs: 0, fingerprint, steps }];
    },
  };
}
