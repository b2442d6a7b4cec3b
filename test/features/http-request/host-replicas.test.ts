import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { RequestEnd } from '../../../src/features/http-request/circuit.ts';
import { ANSWERED, ask, BROKEN, FAILED, ORIGIN, setUp, sharedStore } from './host-table.ts';

const ENDS: readonly RequestEnd[] = [
  FAILED,
  BROKEN,
  ANSWERED,
  { kind: 'refused', error: 'answered 429', forMs: 1000 },
  { kind: 'none' },
];
/** Turns of the event loop. */
const turns = fc.nat({ max: 6 });
const acts = fc.array(
  fc.record({
    replica: fc.nat({ max: 1 }),
    kind: fc.constantFrom('ask', 'ask', 'ask', 'look', 'close', 'wait'),
    caller: fc.nat({ max: 1 }),
    end: fc.constantFrom(...ENDS),
    waitMs: fc.integer({ min: 1, max: 8000 }),
    lasts: turns,
    pause: fc.constantFrom(0, 0, 1, 5),
  }),
  { minLength: 10, maxLength: 60 },
);
/** The store's behaviour, call by call: how long it takes before and after it answers, and whether it is away. */
const answers = fc.array(fc.record({ before: turns, after: turns, isAway: fc.nat({ max: 9 }).map((n) => n === 0) }), {
  minLength: 5,
  maxLength: 20,
});

/** Ignores the error: the store was away. */
const untold = () => {};

async function pass(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await setImmediate();
}

it('two replicas agree on a circuit in the end, and leave none half-open, however slow their store is and whatever fails', async () => {
  const story = fc.asyncProperty(acts, answers, async (given, answering) => {
    const store = sharedStore('one');
    let isSlow = true;
    let asked = 0;
    const slowly = async <Value>(answer: () => Promise<Value>): Promise<Value> => {
      asked += 1;
      const { before = 0, after = 0, isAway = false } = (isSlow && answering[asked % answering.length]) || {};
      await pass(before);
      if (isAway) throw new Error('away');
      const value = await answer();
      forward(1);
      await pass(after);
      return value;
    };
    const replicas = ['one', 'two'].map((replica) => {
      const slow = {
        ...store,
        replica,
        changeCircuit: (change: Parameters<typeof store.changeCircuit>[0]) => slowly(() => store.changeCircuit(change)),
        listCircuits: () => slowly(store.listCircuits),
      };
      return setUp({ store: slow, replicas: 2 });
    });
    const forward = (ms: number) => {
      for (const { time } of replicas) time.now += ms;
    };
    const doing: Promise<unknown>[] = [];
    for (const { replica, kind, caller, end, waitMs, lasts, pause } of given) {
      const { hosts } = replicas[replica] ?? setUp();
      const request = async () => {
        const turn = await ask(hosts, { waitedIn: ORIGIN, caller: `flow ${caller}` });
        await pass(lasts);
        if (turn.kind === 'go') turn.end(end);
      };
      if (kind === 'ask') doing.push(request().catch(untold));
      else if (kind === 'look') doing.push(hosts.look());
      else if (kind === 'close') doing.push(hosts.closeCircuit(ORIGIN).catch(untold));
      forward(kind === 'wait' ? waitMs : 1);
      await pass(pause);
    }
    await Promise.all(doing);
    isSlow = false;
    for (let look = 0; look < 4; look += 1) {
      await pass(20);
      for (const { hosts } of replicas) await hosts.look();
    }
    const stored = (await store.listCircuits()).map(({ circuit }) => circuit);
    for (const { hosts, time } of replicas) {
      const circuits = (await hosts.list()).flatMap((host) => host.circuits);
      expect(circuits).toHaveLength(stored.length);
      expect(stored).toEqual(expect.arrayContaining(circuits));
      for (const { state, until } of circuits) expect(state === 'probing' && until > time.now).toBe(false);
    }
  });
  await fc.assert(story, { numRuns: 40, endOnFailure: true });
});
