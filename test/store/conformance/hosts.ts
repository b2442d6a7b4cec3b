import { describe, expect } from 'vitest';
import { httpRequestStore } from '../../../src/features/http-request/store.ts';
import type { StepResult, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { claimAll, finish, graphOf, id, minute, startRun, succeeded, T0 } from '../samples.ts';

const ONE = 'https://api.example.com';
const OTHER = 'http://[::1]:8080';
/** A queue of a host that not all callers share. */
const QUEUE = `${OTHER} 0123456789abcdef`;
const far = T0 + 60 * minute;

const waitFor = (origin: string, dueAt: number, more = {}): StepResult => ({
  kind: 'waiting',
  state: { ...more, hostTurn: origin, hostSince: T0 },
  dueAt,
  signalName: null,
});

const WAITS: Readonly<Record<string, StepResult>> = {
  a: waitFor(ONE, far + 2),
  b: waitFor(ONE, far + 1),
  c: waitFor(ONE, far + 3, { startedAt: T0, polls: 1, lastPoll: { at: T0, why: 'not yet' } }),
  d: waitFor(QUEUE, far),
  // A similar text in the state of another kind of wait.
  e: {
    kind: 'waiting',
    state: { note: '"hostTurn":"https://evil.example.com"' },
    dueAt: far,
    signalName: null,
  },
};

async function waiting(store: Store): Promise<void> {
  await startRun(store, graphOf(Object.fromEntries(Object.keys(WAITS).map((key) => [key, []]))), { id: id(1) });
  for (const claim of await claimAll(store)) await finish(store, claim, WAITS[claim.stepKey] ?? succeeded());
}

export function hosts({ test }: StoreUnderTest): void {
  describe('hosts', () => {
    test('steps that wait for the turn of a host are counted by host, up to a bound', async (store) => {
      await waiting(store);
      expect(await store.of(httpRequestStore).listHostWaits({ now: T0, most: 2 })).toEqual([
        { queue: QUEUE, steps: 1 },
        { queue: ONE, steps: 2 },
      ]);
    });

    test('those of a host that are due next are released first, one after another, and no others', async (store) => {
      await waiting(store);
      expect(
        await store.of(httpRequestStore).releaseHostWaits({ queue: ONE, now: T0 + minute, limit: 2, everyMs: 2.5 }),
      ).toBe(2);
      const first = await claimAll(store, T0 + minute + 1);
      expect(first.map(({ stepKey }) => stepKey)).toEqual(['b']);
      const claims = [...first, ...(await claimAll(store, T0 + minute + 2))];
      expect(claims.map(({ stepKey, attempt }) => [stepKey, attempt]).sort()).toEqual([
        ['a', 1],
        ['b', 1],
      ]);
      expect(claims[0]?.resumed?.state).toMatchObject({ hostTurn: ONE });
      expect(await store.of(httpRequestStore).listHostWaits({ now: T0 + minute, most: 10 })).toMatchObject([
        { queue: QUEUE },
        { queue: ONE, steps: 1 },
      ]);
      expect(
        await store
          .of(httpRequestStore)
          .releaseHostWaits({ queue: 'https://x.example.com', now: T0, limit: 5, everyMs: 1 }),
      ).toBe(0);
    });

    test('a run says for which host it waits, also where a poll waits for it', async (store) => {
      await waiting(store);
      const { waits } = await store.describeRuns({ running: [id(1)], ended: [], dueBefore: T0 });
      expect(waits).toEqual([
        {
          runId: id(1),
          kind: 'delay',
          stepKey: 'e',
          signalName: null,
          host: null,
          awaitedRunId: null,
          lacking: null,
          until: far,
          steps: 1,
        },
        {
          runId: id(1),
          kind: 'host',
          stepKey: 'd',
          signalName: null,
          host: OTHER,
          awaitedRunId: null,
          lacking: null,
          until: far,
          steps: 4,
        },
      ]);
      const listed = await store.listRuns({ skip: 0, take: 5, waiting: { kind: 'host', dueBefore: T0 } });
      expect(listed.items.map((run) => run.id)).toEqual([id(1)]);
      const polling = await store.listRuns({ skip: 0, take: 5, waiting: { kind: 'poll', dueBefore: T0 } });
      expect(polling.items).toEqual([]);
    });

    test('a cancelled run waits for no host; its step says for which it waited', async (store) => {
      await waiting(store);
      await store.cancelRun({ runId: id(1), reason: null, at: T0 + 1 });
      const errors = Object.fromEntries(
        (await store.listSteps(id(1)))?.map((step) => [step.stepKey, step.error]) ?? [],
      );
      const message = `The run was cancelled while the step waited for its turn at ${OTHER}.`;
      expect(errors.d).toEqual({ code: 'cancelled', message, retryable: false });
      expect(errors.e).toMatchObject({ message: 'The run was cancelled.' });
      expect(await store.of(httpRequestStore).listHostWaits({ now: T0, most: 10 })).toEqual([]);
      expect(await store.of(httpRequestStore).releaseHostWaits({ queue: ONE, now: T0, limit: 9, everyMs: 1 })).toBe(0);
    });

    test('a circuit is replaced by who knows its version alone, and forgotten likewise', async (store) => {
      const change = { queue: ONE, circuit: { phase: 'open', probeAt: T0 } };
      expect(await store.of(httpRequestStore).changeCircuit({ ...change, version: null, next: 7 })).toBe('changed');
      expect(await store.of(httpRequestStore).changeCircuit({ ...change, version: null, next: 8 })).toBe('outdated');
      expect(await store.of(httpRequestStore).changeCircuit({ ...change, version: 6, next: 8 })).toBe('outdated');
      expect(await store.of(httpRequestStore).changeCircuit({ ...change, queue: OTHER, version: null, next: T0 })).toBe(
        'changed',
      );
      expect(
        await store.of(httpRequestStore).changeCircuit({ ...change, version: 7, next: 8, circuit: { phase: 'x' } }),
      ).toBe('changed');
      expect(await store.of(httpRequestStore).listCircuits()).toEqual([
        { queue: OTHER, version: T0, circuit: change.circuit },
        { queue: ONE, version: 8, circuit: { phase: 'x' } },
      ]);
      expect(await store.of(httpRequestStore).changeCircuit({ ...change, version: 7, next: 9, circuit: null })).toBe(
        'outdated',
      );
      expect(await store.of(httpRequestStore).changeCircuit({ ...change, version: 8, next: 9, circuit: null })).toBe(
        'changed',
      );
      expect((await store.of(httpRequestStore).listCircuits()).map(({ queue }) => queue)).toEqual([OTHER]);
    });

    const request = { owner: 'one', now: T0, until: T0 + minute };
    const taken = (...places: readonly { queue: string; place: number }[]) => ({ kind: 'taken', places });

    test('so many requests hold a place in a queue as there are, whoever asks, and one that is returned is free', async (store) => {
      const take = (owner: string) =>
        store.of(httpRequestStore).takeHostPlaces({ ...request, owner, queues: [{ queue: ONE, most: 2 }] });
      expect(await take('one')).toEqual(taken({ queue: ONE, place: 1 }));
      expect(await take('two')).toEqual(taken({ queue: ONE, place: 2 }));
      expect(await take('one')).toEqual({ kind: 'full', queue: ONE });
      expect(await store.of(httpRequestStore).listHostPlaces({ owner: 'one', now: T0 })).toEqual([
        { queue: ONE, held: 1 },
      ]);
      await store.of(httpRequestStore).returnHostPlaces({ owner: 'two', places: [{ queue: ONE, place: 1 }] });
      expect(await take('one')).toEqual({ kind: 'full', queue: ONE });
      await store.of(httpRequestStore).returnHostPlaces({ owner: 'one', places: [{ queue: ONE, place: 1 }] });
      expect(await take('two')).toEqual(taken({ queue: ONE, place: 1 }));
      expect(await store.of(httpRequestStore).listHostPlaces({ owner: 'one', now: T0 })).toEqual([
        { queue: ONE, held: 2 },
      ]);
    });

    test('of requests that ask at once for a place no more get one than there are', async (store) => {
      const ask = (_: unknown, at: number) =>
        store
          .of(httpRequestStore)
          .takeHostPlaces({ ...request, owner: `replica ${at % 3}`, queues: [{ queue: ONE, most: 3 }] });
      const answers = await Promise.all(Array.from({ length: 12 }, ask));
      const places = answers.flatMap((answer) => (answer.kind === 'taken' ? answer.places : []));
      expect(places.map(({ place }) => place).sort()).toEqual([1, 2, 3]);
    });

    test('a request gets a place in each of its queues or in none', async (store) => {
      const both = {
        ...request,
        queues: [
          { queue: OTHER, most: 5 },
          { queue: QUEUE, most: 1 },
        ],
      };
      expect(await store.of(httpRequestStore).takeHostPlaces(both)).toEqual(
        taken({ queue: OTHER, place: 1 }, { queue: QUEUE, place: 1 }),
      );
      expect(await store.of(httpRequestStore).takeHostPlaces(both)).toEqual({ kind: 'full', queue: QUEUE });
      expect(await store.of(httpRequestStore).listHostPlaces({ owner: 'two', now: T0 })).toEqual([
        { queue: OTHER, held: 1 },
        { queue: QUEUE, held: 1 },
      ]);
    });

    test('the places of a process that was killed come free when it is recovered, and at their time in any case', async (store) => {
      const take = (owner: string, now = T0) =>
        store
          .of(httpRequestStore)
          .takeHostPlaces({ owner, queues: [{ queue: ONE, most: 1 }], now, until: now + minute });
      await take('one');
      expect(await take('two')).toEqual({ kind: 'full', queue: ONE });
      await store.recover({ owner: 'one', now: T0 + 1 });
      expect(await take('two')).toEqual(taken({ queue: ONE, place: 1 }));
      expect(await take('one', T0 + minute - 1)).toEqual({ kind: 'full', queue: ONE });
      expect(await take('one', T0 + minute)).toEqual(taken({ queue: ONE, place: 1 }));
      // Too late: the place belongs to another process by now.
      await store.of(httpRequestStore).returnHostPlaces({ owner: 'two', places: [{ queue: ONE, place: 1 }] });
      expect(await take('two', T0 + minute)).toEqual({ kind: 'full', queue: ONE });
    });
  });
}
