import { describe, expect } from 'vitest';
import { booksStore } from '../../../src/features/books/store.ts';
import { dueAtOf } from '../../../src/features/coalesce/group.ts';
import { holdStore } from '../../../src/features/hold/store.ts';
import type { CoalesceClaim } from '../../../src/model/delivery.ts';
import type { Acceptance, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  acceptanceOf,
  aDelivery,
  aNonce,
  aRun,
  claimAll,
  deployOf,
  finish,
  flowId,
  graphOf,
  id,
  minute,
  runIds,
  succeeded,
  T0,
} from '../samples.ts';

const quiet = 2000;
const claim: CoalesceClaim = { key: 'sku-1', isTrusted: true, quietMs: quiet, maxMs: 10_000, collect: 4 };

interface Given extends Omit<Partial<Acceptance>, 'coalesce' | 'run'> {
  readonly at?: number;
  readonly claim?: Partial<CoalesceClaim>;
  readonly revision?: number;
  readonly body?: string;
  readonly timeoutMs?: number;
}

/** The n-th delivery of a coalescing trigger, with the run that it starts if it joins none. */
function coalescing(n: number, { at = T0, claim: change, revision = 1, body, timeoutMs, ...more }: Given = {}) {
  const given = acceptanceOf(n, { at, ...more });
  const coalesce = { ...claim, ...change };
  const bytes = new TextEncoder().encode(body ?? `{"n":${n}}`);
  const dueAt = dueAtOf({ ...coalesce, at, bytes: bytes.byteLength + 35 });
  const trigger = { ...given.run.trigger, body: bytes };
  const steps = given.run.steps.map((step) => ({ ...step, dueAt }));
  const timeoutAt = timeoutMs === undefined ? null : dueAt + timeoutMs;
  return { ...given, coalesce, run: { ...given.run, revision, trigger, steps, timeoutAt } };
}

/** The bodies of a run's deliveries, in order of arrival. */
async function deliveriesOf(store: Store, runId: string): Promise<string[]> {
  const input = await store.readRunInput({ runId });
  if (input === undefined || input.kind !== undefined) throw new Error('The run cannot be read.');
  expect(input.trigger.body).toEqual(input.deliveries.at(-1)?.body);
  return input.deliveries.map(({ body }) => Buffer.from(body).toString());
}

const joined = { kind: 'coalesced', runId: id(1001), isReplay: false, startsNow: false };
const books = (store: Store) => store.of(booksStore).countBooks({ since: T0, until: T0 + 60 * minute });

export function coalescingSuite({ test }: StoreUnderTest): void {
  describe('deliveries of one key', () => {
    test('share no run where their turns are among other runs', async (store) => {
      const ordered = (n: number, key: string) => {
        const given = coalescing(n);
        return { ...given, run: { ...given.run, order: { key, problem: null, isTrusted: true } } };
      };
      await store.accept(ordered(1, 'order 1'));
      expect(await store.accept(ordered(2, 'order 2'))).toMatchObject({ kind: 'accepted', runId: id(1002) });
      expect(await store.accept(ordered(3, 'order 1'))).toMatchObject(joined);
    });

    test('share a run, which has all of them in the order of their arrival', async (store) => {
      expect(await store.accept(coalescing(1))).toEqual({ kind: 'accepted', runId: id(1001), isReplay: false });
      expect(await deliveriesOf(store, id(1001))).toEqual(['{"n":1}']);
      expect(await store.accept(coalescing(2, { at: T0 + 5 }))).toEqual(joined);
      expect(await store.accept(coalescing(3, { at: T0 + 9 }))).toEqual(joined);
      expect(await runIds(store)).toEqual([id(1001)]);
      expect(await deliveriesOf(store, id(1001))).toEqual(['{"n":1}', '{"n":2}', '{"n":3}']);
      const input = await store.readRunInput({ runId: id(1001) });
      const headers = { 'content-type': 'application/json' };
      expect(input).toMatchObject({
        deliveries: [1, 2, 3].map((n) => ({ id: id(n), contentType: 'application/json', headers })),
      });
      const run = await store.findRun(id(1001));
      expect(run).toMatchObject({ deliveries: 3, deliveryId: id(1), startedAt: T0 });
      expect(Buffer.from(run?.trigger.body ?? []).toString()).toBe('{"n":3}');
    });

    test('are recorded with the run that they joined, and with their own bytes, keys and headers', async (store) => {
      await store.accept(coalescing(1));
      const searchKeys = { order: 'second' };
      const delivery = aDelivery({ id: id(2), receivedAt: T0, runId: id(1002), searchKeys, headers: { a: 'own' } });
      await store.accept({ ...coalescing(2), delivery });
      const kept = await store.findDelivery(id(2));
      expect(kept).toMatchObject({ outcome: 'coalesced', runId: id(1001), headers: { a: 'own' }, searchKeys });
      expect(Buffer.from(kept?.body ?? []).toString()).toBe('{"n":2}');
      expect((await store.findDelivery(id(1)))?.outcome).toBeUndefined();
      const listed = await store.listDeliveries({ outcome: 'coalesced', skip: 0, take: 9 });
      expect(listed.items.map(({ id: own, body }) => [own, Buffer.from(body ?? []).toString()])).toEqual([
        [id(2), '{"n":2}'],
      ]);
      await store.accept(coalescing(3));
      expect((await store.findDelivery(id(3)))?.searchKeys).toBeUndefined();
    });

    test('make the run wait until there was silence, but no longer than it may', async (store) => {
      await store.accept(coalescing(1));
      for (const [n, at] of [1500, 3000, 4500, 6000, 7500, 9000].entries()) {
        const given = coalescing(n + 2, { at: T0 + at, claim: { collect: 100 } });
        expect(await store.accept(given)).toMatchObject({ kind: 'coalesced' });
        expect(await claimAll(store, T0 + at + 400)).toEqual([]);
      }
      expect(await claimAll(store, T0 + 9999)).toEqual([]);
      const [only, ...others] = await claimAll(store, T0 + 10_000);
      expect(only).toMatchObject({ runId: id(1001), dueAt: T0 + 10_000 });
      expect(others).toEqual([]);
    });

    test('start the run at once when it has collected enough, and the next opens another', async (store) => {
      const collect = 3;
      await store.accept(coalescing(1, { claim: { collect } }));
      expect(await store.accept(coalescing(2, { claim: { collect } }))).toEqual(joined);
      const last = coalescing(3, { at: T0 + 7, claim: { collect } });
      expect(await store.accept(last)).toEqual({ ...joined, startsNow: true });
      expect(await store.accept(coalescing(4, { at: T0 + 6, claim: { collect } }))).toMatchObject({ kind: 'accepted' });
      expect((await claimAll(store, T0 + 7)).map(({ runId }) => runId)).toEqual([id(1001)]);
      expect(await store.accept(coalescing(5, { at: T0 + 8, claim: { collect } }))).toMatchObject({ runId: id(1004) });
    });

    test('start the run at once with 1 MiB of them', async (store) => {
      await store.accept(coalescing(1));
      const large = coalescing(2, { at: T0 + 1, body: `"${'x'.repeat(1024 * 1024)}"` });
      expect(await store.accept(large)).toEqual({ ...joined, startsNow: true });
      expect(await claimAll(store, T0 + 1)).toHaveLength(1);
      expect(await store.readRunInput({ runId: id(1001), maxBytes: 1024 * 1024 })).toMatchObject({
        kind: 'tooLarge',
        bodyBytes: 1024 * 1024 + 2 + '{"n":1}'.length,
      });
      expect(await store.readRunInput({ runId: id(1001), maxBytes: 2 * 1024 * 1024 })).toHaveProperty('deliveries');
    });

    test('that alone are enough start their run at once, and wait for none', async (store) => {
      await store.accept(coalescing(1, { claim: { collect: 1 } }));
      expect(await claimAll(store, T0)).toHaveLength(1);
      expect((await store.findRun(id(1001)))?.deliveries).toBeNull();
      const input = await store.readRunInput({ runId: id(1001) });
      expect(input).toMatchObject({ deliveries: [{ id: id(1), receivedAt: T0 }] });
      expect(await store.accept(coalescing(2, { claim: { collect: 1 } }))).toMatchObject({ kind: 'accepted' });
    });

    test('give the run all of its time once it starts', async (store) => {
      const timeoutMs = 1000;
      await store.accept(coalescing(1, { timeoutMs }));
      expect((await store.findRun(id(1001)))?.timeoutAt).toBe(T0 + quiet + timeoutMs);
      await store.accept(coalescing(2, { at: T0 + 1500, timeoutMs }));
      expect((await store.findRun(id(1001)))?.timeoutAt).toBe(T0 + 1500 + quiet + timeoutMs);
    });

    test('stay apart from those of another key or trigger, and verified ones from those that are not', async (store) => {
      const ofTrigger = coalescing(4);
      const delivery = aDelivery({ id: id(4), triggerKey: 'other', receivedAt: T0, runId: id(1004) });
      const others = [
        coalescing(2, { claim: { key: 'sku-2' } }),
        coalescing(3, { claim: { isTrusted: false } }),
        { ...ofTrigger, delivery, run: { ...ofTrigger.run, triggerKey: 'other' } },
      ];
      await store.accept(coalescing(1));
      for (const other of others) expect(await store.accept(other)).toMatchObject({ kind: 'accepted' });
      expect(await store.accept(coalescing(5))).toEqual(joined);
      expect(await store.accept(coalescing(6, { claim: { isTrusted: false } }))).toMatchObject({ runId: id(1003) });
      expect(await deliveriesOf(store, id(1001))).toEqual(['{"n":1}', '{"n":5}']);
    });

    test('open a new run after a deploy; the one that waits starts with its own revision', async (store) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.accept(coalescing(1));
      await store.deployFlow(deployOf(graphOf({ first: [], second: [] })));
      expect(await store.accept(coalescing(2))).toEqual({ kind: 'outdated' });
      expect(await store.accept(coalescing(2, { revision: 2 }))).toMatchObject({ kind: 'accepted' });
      expect(await store.accept(coalescing(3, { revision: 2 }))).toMatchObject({ kind: 'coalesced', runId: id(1002) });
      const claims = await claimAll(store, T0 + quiet);
      expect(claims.map(({ runId, revision }) => [runId, revision])).toEqual([
        [id(1001), 1],
        [id(1002), 2],
      ]);
    });

    test('join no run that has begun, whatever time it is for who accepts them', async (store) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.accept(coalescing(1));
      const [claimed] = await claimAll(store, T0 + quiet);
      expect(await store.accept(coalescing(2, { at: T0 + quiet - 1 }))).toMatchObject({ kind: 'accepted' });
      if (claimed === undefined) throw new Error('Nothing was claimed.');
      await finish(store, claimed, succeeded(), T0 + quiet);
      expect(await store.accept(coalescing(3, { at: T0 + quiet - 1 }))).toMatchObject({ runId: id(1002) });
    });

    test('join no run that is due, was cancelled, or has ended', async (store) => {
      await store.accept(coalescing(1));
      expect(await store.accept(coalescing(2, { at: T0 + quiet }))).toMatchObject({
        kind: 'accepted',
        runId: id(1002),
      });
      await store.cancelRun({ runId: id(1002), reason: null, at: T0 + quiet });
      expect(await store.accept(coalescing(3, { at: T0 + quiet + 1 }))).toMatchObject({ kind: 'accepted' });
      expect(await store.accept(coalescing(4, { at: T0 + quiet + 2 }))).toMatchObject({ runId: id(1003) });
      expect(await books(store)).toMatchObject({ accepted: 4, runs: 3, coalesced: 1, unaccounted: 0 });
    });

    test('are kept with their nonce, key and event under the run that they joined', async (store) => {
      await store.accept(coalescing(1));
      const event = { id: 'event', arrivedAt: T0, expiresAt: T0 + minute };
      const nonce = aNonce({ value: 'own' });
      await store.accept(coalescing(2, { nonce, idempotencyKey: 'key', event }));
      const replayed = { kind: 'replayed', runId: id(1001), hasSameBody: true };
      expect(await store.accept(coalescing(3, { nonce }))).toEqual(replayed);
      const duplicate = { kind: 'duplicate', runId: id(1001), isReplay: false };
      const again = coalescing(4, { idempotencyKey: 'key', body: '{"n":2}' });
      expect(await store.accept(again)).toEqual(duplicate);
      expect(await store.accept(coalescing(5, { event }))).toEqual(duplicate);
      expect(await store.accept(coalescing(6, { isFiltered: true }))).toEqual({ kind: 'filtered', isReplay: false });
      expect(await deliveriesOf(store, id(1001))).toEqual(['{"n":1}', '{"n":2}']);
      expect(await books(store)).toEqual({
        accepted: 5,
        runs: 1,
        held: 0,
        discarded: 0,
        filtered: 1,
        answered: 0,
        duplicates: 2,
        coalesced: 1,
        reconciled: 0,
        unaccounted: 0,
        givenUp: 0,
      });
    });

    test('that a person delivers again have a run of their own', async (store) => {
      await store.accept(coalescing(1));
      const given = acceptanceOf(2);
      const delivery = aDelivery({ id: id(2), receivedAt: T0, runId: id(1002), redeliveredFrom: id(9) });
      expect(await store.accept({ ...given, delivery, coalesce: claim })).toMatchObject({ kind: 'accepted' });
      expect(await deliveriesOf(store, id(1001))).toHaveLength(1);
    });

    test('that come at once share one run, however they are committed', async (store) => {
      const results = await Promise.all(
        Array.from({ length: 60 }, (_, n) =>
          store.accept(coalescing(n + 1, { claim: { collect: 20, key: `${n % 2}` } })),
        ),
      );
      const all = results.map((result) => ('runId' in result ? result.runId : null));
      const kinds = results.map(({ kind }) => kind).sort();
      expect(kinds).toEqual([...Array(4).fill('accepted'), ...Array(56).fill('coalesced')]);
      const sizes: number[] = [];
      for (const runId of new Set(all)) {
        const own = await deliveriesOf(store, runId ?? '');
        expect(own.toSorted()).toEqual(all.flatMap((each, n) => (each === runId ? [`{"n":${n + 1}}`] : [])).toSorted());
        sizes.push(own.length);
      }
      expect(sizes.toSorted()).toEqual([10, 10, 20, 20]);
    });

    test('are what their run waits for', async (store) => {
      await store.accept(coalescing(1));
      await store.accept({ run: aRun({ id: id(2001) }) });
      const about = { signalName: null, host: null, awaitedRunId: null, lacking: null };
      const describeAt = async (dueBefore: number) =>
        (await store.describeRuns({ running: [id(1001)], ended: [], dueBefore })).waits;
      expect(await describeAt(T0)).toEqual([
        { ...about, runId: id(1001), kind: 'coalesce', stepKey: 'first', until: T0 + quiet, steps: 1 },
      ]);
      expect(await describeAt(T0 + quiet)).toMatchObject([{ kind: 'slot' }]);
      const waitFor = async (dueBefore: number) =>
        (await store.listRuns({ waiting: { kind: 'coalesce', dueBefore }, skip: 0, take: 9 })).items.map(
          (run) => run.id,
        );
      expect(await waitFor(T0)).toEqual([id(1001)]);
      expect(await waitFor(T0 + quiet)).toEqual([]);
    });

    test('are repeated together with their run', async (store) => {
      await store.accept(coalescing(1));
      await store.accept(coalescing(2));
      const source = await store.findRun(id(1001));
      if (source === undefined) throw new Error('The run is not there.');
      const repeat = async (n: number, from: string) =>
        store.accept({
          run: { ...aRun({ id: id(n), sourceRunId: from }), trigger: source.trigger, deliveriesOf: from },
        });
      await repeat(2001, id(1001));
      await repeat(2002, id(2001));
      for (const runId of [id(2001), id(2002)]) {
        expect(await deliveriesOf(store, runId)).toEqual(['{"n":1}', '{"n":2}']);
        expect(await store.findRun(runId)).toMatchObject({ deliveries: 2 });
      }
    });

    test('are removed with their run, and their keys with it; their records stay', async (store) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.accept(coalescing(1));
      await store.accept(coalescing(2, { idempotencyKey: 'key' }));
      for (const each of await claimAll(store, T0 + quiet)) await finish(store, each, succeeded(), T0 + quiet);
      while (!(await store.purgeRuns({ before: T0 + minute, maxRows: 100 })).isDone);
      expect(await store.findRun(id(1001))).toBeUndefined();
      expect(await store.findDelivery(id(2))).toMatchObject({ outcome: 'coalesced', runId: id(1001), body: null });
      const again = coalescing(3, { at: T0 + minute, idempotencyKey: 'key', body: 'other' });
      expect(await store.accept(again)).toMatchObject({ kind: 'accepted', runId: id(1003) });
    });

    test('leave nothing of a group that ended long ago', async (store) => {
      await store.accept(coalescing(1));
      await store.accept(coalescing(2, { claim: { key: 'later', maxMs: 90 * minute } }));
      expect(await store.purgeNonces({ now: T0 + 30 * minute, limit: 10 })).toBe(0);
      expect(await store.purgeNonces({ now: T0 + 70 * minute, limit: 10 })).toBe(1);
      expect(await store.purgeNonces({ now: T0 + 160 * minute, limit: 10 })).toBe(1);
    });
  });

  describe('held deliveries of one key', () => {
    const closed = async (store: Store) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.setFlowDraining({ flowId, isDraining: true, at: T0 });
    };
    const held = (runId: string) => ({ kind: 'held', runId, isReplay: false });
    const release = async (store: Store, limit = 10) => {
      await store.setFlowDraining({ flowId, isDraining: false, at: T0 + minute });
      return store.of(holdStore).releaseHeld({ flowId, limit, at: T0 + minute });
    };

    test('share the run that starts once the flow does, as they would have', async (store) => {
      await closed(store);
      expect(await store.holdDelivery(coalescing(1))).toEqual(held(id(1001)));
      expect(await store.holdDelivery(coalescing(2, { at: T0 + 1, idempotencyKey: 'key' }))).toEqual(held(id(1001)));
      expect(await store.holdDelivery(coalescing(3, { claim: { key: 'other' } }))).toEqual(held(id(1003)));
      expect(await store.holdDelivery(coalescing(4, { at: T0 + 1 + quiet }))).toEqual(held(id(1004)));
      expect(await books(store)).toMatchObject({ accepted: 4, held: 4, unaccounted: 0 });
      const kept = await store.findDelivery(id(2));
      expect(Buffer.from(kept?.body ?? []).toString()).toBe('{"n":2}');
      // Released together with the first delivery of its run.
      const { runs, left } = await release(store, 1);
      expect([runs.map((run) => run.id), left]).toEqual([[id(1001)], 2]);
      expect(await deliveriesOf(store, id(1001))).toEqual(['{"n":1}', '{"n":2}']);
      expect(await store.findRun(id(1001))).toMatchObject({ deliveries: 2, deliveryId: id(1) });
      await store.of(holdStore).releaseHeld({ flowId, limit: 10, at: T0 + minute });
      expect(await runIds(store)).toEqual([id(1004), id(1003), id(1001)]);
      expect(await books(store)).toMatchObject({ accepted: 4, runs: 3, coalesced: 1, held: 0, unaccounted: 0 });
      expect(Buffer.from((await store.findDelivery(id(2)))?.body ?? []).toString()).toBe('{"n":2}');
      expect(await claimAll(store, T0 + minute)).toHaveLength(3);
      const again = coalescing(5, { idempotencyKey: 'key', body: '{"n":2}' });
      expect(await store.accept(again)).toMatchObject({ kind: 'duplicate', runId: id(1001) });
    });

    test('join no run that waits, and are joined by none that comes after their release', async (store) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.accept(coalescing(1));
      await store.setFlowDraining({ flowId, isDraining: true, at: T0 });
      expect(await store.holdDelivery(coalescing(2))).toEqual(held(id(1002)));
      expect(await store.holdDelivery(coalescing(3))).toEqual(held(id(1002)));
      await release(store);
      expect(await store.accept(coalescing(4))).toMatchObject({ kind: 'accepted', runId: id(1004) });
      expect(await deliveriesOf(store, id(1001))).toEqual(['{"n":1}']);
      expect(await deliveriesOf(store, id(1002))).toEqual(['{"n":2}', '{"n":3}']);
    });

    test('start their run without those that were discarded', async (store) => {
      await closed(store);
      for (const n of [1, 2, 3]) await store.holdDelivery(coalescing(n, { at: T0 + n }));
      const note = 'held, and discarded by ops: moved';
      expect(await store.of(holdStore).discardHeld({ flowId, heldBefore: T0 + 2, limit: 9, note })).toEqual({
        discarded: 1,
        left: 2,
      });
      // It does not join a run with a discarded delivery.
      expect(await store.holdDelivery(coalescing(4, { at: T0 + 4 }))).toEqual(held(id(1004)));
      await release(store);
      expect(await deliveriesOf(store, id(1001))).toEqual(['{"n":2}', '{"n":3}']);
      expect(await books(store)).toMatchObject({ accepted: 4, runs: 2, discarded: 1, coalesced: 1, unaccounted: 0 });
    });
  });
}
