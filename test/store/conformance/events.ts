import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { booksStore } from '../../../src/features/books/store.ts';
import { holdStore } from '../../../src/features/hold/store.ts';
import { reviewStore } from '../../../src/features/review/store.ts';
import type { Acceptance } from '../../../src/store/store.ts';
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
  PLAN,
  runIdOf,
  runIds,
  succeeded,
  T0,
} from '../samples.ts';

const one = graphOf({ first: [] });
const day = 24 * 60 * minute;
const eventOf = (eventId: string, at = T0) => ({ id: eventId, arrivedAt: at, expiresAt: at + day });
const ofEvent = (n: number, eventId: string, more: Parameters<typeof acceptanceOf>[1] = {}) =>
  acceptanceOf(n, { event: eventOf(eventId, more.at), ...more });

export function events({ test }: StoreUnderTest): void {
  describe('events', () => {
    test('a second delivery of one is a duplicate with the first run, and starts nothing', async (store) => {
      expect(await store.accept(ofEvent(1, 'evt'))).toMatchObject({ kind: 'accepted', runId: id(1001) });
      const again = await store.accept(ofEvent(2, 'evt'));
      expect(again).toEqual({ kind: 'duplicate', runId: id(1001), isReplay: false });
      expect(await store.accept(ofEvent(3, 'another'))).toMatchObject({ kind: 'accepted' });
      expect(await runIds(store)).toEqual([id(1003), id(1001)]);
      const kept = await store.findDelivery(id(2));
      expect(kept).toMatchObject({ outcome: 'duplicate', runId: id(1001), rejected: false, reason: null });
      expect(Buffer.from(kept?.body ?? []).toString()).toBe('{}');
      expect(await claimAll(store)).toHaveLength(2);
    });

    test('one counts for its flow and trigger alone', async (store) => {
      await store.accept(ofEvent(1, 'evt'));
      for (const [n, scope] of [
        [2, { flowId: 'another flow' }],
        [3, { triggerKey: 'another trigger' }],
      ] as const) {
        const run = aRun({ id: id(1000 + n), ...scope });
        expect(await store.accept({ run, event: eventOf('evt') })).toMatchObject({ kind: 'accepted' });
      }
    });

    test('texts of any length and kind tell events apart', async (store) => {
      const texts = ['', ' ', 'a', 'A', 'a'.repeat(100_000), 'ä', '\u0000', "'; --", 'a\nb', '💥'];
      for (const [n, text] of texts.entries()) {
        expect(await store.accept(ofEvent(n, text)), text.slice(0, 9)).toMatchObject({ kind: 'accepted' });
      }
      for (const [n, text] of texts.entries()) {
        expect(await store.accept(ofEvent(100 + n, text))).toMatchObject({ kind: 'duplicate', runId: id(1000 + n) });
      }
    });

    test('one is new again from its end on, by when its delivery came', async (store) => {
      await store.accept(ofEvent(1, 'evt'));
      expect(await store.accept(ofEvent(2, 'evt', { at: T0 + day - 1 }))).toMatchObject({ kind: 'duplicate' });
      expect(await store.accept(ofEvent(3, 'evt', { at: T0 + day }))).toMatchObject({ runId: id(1003) });
      expect(await store.accept(ofEvent(4, 'evt', { at: T0 + day + 1 }))).toMatchObject({ runId: id(1003) });
    });

    test('one that has ended is purged with the nonces, and no other', async (store) => {
      await store.accept(ofEvent(1, 'old', { nonce: aNonce({ value: 'n1' }) }));
      await store.accept(ofEvent(2, 'young', { at: T0 + 5 }));
      const now = T0 + day + 1;
      expect(await store.purgeNonces({ now, limit: 1 })).toBe(1);
      expect(await store.purgeNonces({ now, limit: 5 })).toBe(1);
      expect(await store.purgeNonces({ now, limit: 5 })).toBe(0);
      const early = { at: T0 + 10 };
      expect(await store.accept(ofEvent(3, 'young', early))).toMatchObject({ kind: 'duplicate' });
      expect(await store.accept(ofEvent(4, 'old', early))).toMatchObject({ kind: 'accepted' });
    });

    test('the nonce and the key are asked before the event, and the event before the filter', async (store) => {
      const nonce = aNonce();
      await store.accept(ofEvent(1, 'evt', { nonce, idempotencyKey: 'key' }));
      expect(await store.accept(ofEvent(2, 'evt', { nonce }))).toMatchObject({ kind: 'replayed' });
      await store.accept(ofEvent(3, 'other', { nonce: aNonce({ value: 'n3' }), idempotencyKey: 'other' }));
      const both = ofEvent(4, 'evt', { nonce: aNonce({ value: 'n4' }), idempotencyKey: 'other' });
      expect(await store.accept(both)).toMatchObject({ kind: 'duplicate', runId: id(1003) });
      const filtered = ofEvent(5, 'evt', { nonce: aNonce({ value: 'n5' }), isFiltered: true });
      expect(await store.accept(filtered)).toMatchObject({ kind: 'duplicate', runId: id(1001) });
    });

    test('a duplicate keeps its nonce and no key, a filtered delivery no event', async (store) => {
      await store.accept(ofEvent(1, 'evt'));
      const nonce = aNonce();
      await store.accept(ofEvent(2, 'evt', { nonce, idempotencyKey: 'key' }));
      expect(await store.accept(acceptanceOf(3, { nonce }))).toMatchObject({ kind: 'replayed', runId: id(1001) });
      expect(await store.accept(acceptanceOf(4, { idempotencyKey: 'key' }))).toMatchObject({ kind: 'accepted' });
      await store.accept(ofEvent(5, 'filtered', { isFiltered: true }));
      expect(await store.accept(ofEvent(6, 'filtered'))).toMatchObject({ kind: 'accepted' });
    });

    test('a known one under a known nonce that is not enforced is a duplicate and a replay', async (store) => {
      const nonce = aNonce({ isEnforced: false });
      await store.accept(ofEvent(1, 'evt', { nonce }));
      const again = await store.accept(ofEvent(2, 'evt', { nonce }));
      expect(again).toEqual({ kind: 'duplicate', runId: id(1001), isReplay: true });
      expect(await store.findDelivery(id(2))).toMatchObject({ outcome: 'duplicate', reason: 'nonce_replayed' });
    });

    test('an acceptance that is outdated or fails keeps none', async (store) => {
      const given = ofEvent(1, 'evt');
      const steps = Array.from({ length: 2 }, () => ({ stepKey: 'same', stepType: 'NoOp', dueAt: T0 }));
      await expect(store.accept({ ...given, run: { ...given.run, steps } })).rejects.toThrow();
      await store.deployFlow(deployOf(one));
      expect(await store.accept(ofEvent(2, 'evt', {}))).toMatchObject({ kind: 'accepted' });
      const outdated = ofEvent(3, 'late');
      const stale = { ...outdated, run: { ...outdated.run, revision: 7 } };
      expect(await store.accept(stale)).toEqual({ kind: 'outdated' });
      expect(await store.accept(ofEvent(4, 'late'))).toMatchObject({ kind: 'accepted' });
    });

    test('a held delivery keeps its event: others of it are duplicates, held or not', async (store) => {
      await store.deployFlow(deployOf(one));
      await store.setFlowDraining({ flowId, isDraining: true, at: T0 });
      expect(await store.holdDelivery(ofEvent(1, 'evt'))).toMatchObject({ kind: 'held', runId: id(1001) });
      expect(await store.holdDelivery(ofEvent(2, 'evt'))).toMatchObject({ kind: 'duplicate', runId: id(1001) });
      await store.setFlowDraining({ flowId, isDraining: false, at: T0 });
      expect((await store.of(holdStore).releaseHeld({ flowId, limit: 9, at: T0 })).runs).toHaveLength(1);
      expect(await store.accept(ofEvent(3, 'evt'))).toMatchObject({ kind: 'duplicate', runId: id(1001) });
      expect(await runIds(store)).toEqual([id(1001)]);
    });

    test('a redelivery stores the event of the original, and starts no run for a known one', async (store) => {
      const again = (n: number, from: number, eventId: string): Acceptance => ({
        ...ofEvent(n, eventId),
        delivery: aDelivery({ id: id(n), receivedAt: T0, redeliveredFrom: id(from) }),
      });
      expect(await store.accept(again(2, 1, 'evt'))).toMatchObject({ kind: 'accepted' });
      expect(await store.accept(ofEvent(3, 'evt'))).toMatchObject({ kind: 'duplicate', runId: id(1002) });
      expect(await store.accept(again(5, 4, 'evt'))).toMatchObject({ kind: 'duplicate', runId: id(1002) });
      expect(await store.of(reviewStore).findRedelivery(id(4))).toEqual({ deliveryId: id(5), runId: id(1002) });
    });

    test('one that was accepted under a former key of its trigger is known', async (store) => {
      const apply = async (n: number, keys: string[], moved: { from: string; to: string }[] = []) => {
        const basedOn = n === 1 ? null : n - 1;
        const plan = { ...deployOf(graphOf({ [`step${n}`]: [] })), ...PLAN, basedOn, triggers: { keys, moved } };
        expect(await store.applyDeploys([plan])).toMatchObject({ kind: 'applied' });
      };
      const under = (triggerKey: string, n: number, revision: number, eventId: string) => {
        const { run, ...given } = ofEvent(n, eventId);
        return store.accept({ ...given, run: { ...run, triggerKey, revision } });
      };
      await apply(1, ['github']);
      expect(await under('github', 1, 1, 'evt')).toMatchObject({ kind: 'accepted' });
      await apply(2, ['renamed'], [{ from: 'github', to: 'renamed' }]);
      expect(await under('renamed', 2, 2, 'evt')).toMatchObject({ kind: 'duplicate', runId: id(1001) });
      expect(await under('renamed', 3, 2, 'new')).toMatchObject({ kind: 'accepted' });
    });

    test('the books know a duplicate whose first run is from before them, and miss one that never was', async (store) => {
      const before = (T0 - 30 * day).toString(16).padStart(12, '0');
      const record = (n: number, runId: string) =>
        store.recordDelivery(aDelivery({ id: id(n), receivedAt: T0, runId, outcome: 'duplicate' }));
      await record(1, `${before.slice(0, 8)}-${before.slice(8)}-7000-8000-000000000001`);
      await record(2, 'ffffffff-0000-7000-8000-000000000001');
      const books = await store.of(booksStore).countBooks({ since: T0 - day, until: T0 + day });
      expect(books).toMatchObject({ accepted: 2, duplicates: 1, unaccounted: 1 });
    });

    test('of many deliveries of one at once exactly one starts a run', async (store) => {
      const results = await Promise.all(Array.from({ length: 30 }, (_, n) => store.accept(ofEvent(n, 'evt'))));
      const winners = results.filter(({ kind }) => kind === 'accepted');
      expect(winners).toHaveLength(1);
      expect(new Set(results.map(runIdOf))).toEqual(new Set([runIdOf(winners[0])]));
      expect(await runIds(store)).toEqual([runIdOf(winners[0])]);
    });

    test('whatever comes in which order, each delivery is what nonce, key, event and filter say', async (store) => {
      let n = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(anyDelivery, { minLength: 1, maxLength: 24 }), async (given) => {
          const expected = new Expected();
          n += 1;
          const scope = `${n} `;
          for (const each of given) {
            n += 1;
            const { kind, ...result } = await store.accept(acceptanceIn(scope, each, n));
            const runId = 'runId' in result ? result.runId : undefined;
            expect({ kind, runId }, JSON.stringify(given)).toEqual(expected.of(each, id(1000 + n)));
          }
        }),
        { numRuns: 60 },
      );
    });

    test('a run that was started once and ended stays the run of its event', async (store) => {
      await store.deployFlow(deployOf(one));
      await store.accept(ofEvent(1, 'evt'));
      const [claim] = await claimAll(store);
      if (claim === undefined) throw new Error('nothing is due');
      await finish(store, claim, succeeded());
      expect(await store.accept(ofEvent(2, 'evt'))).toMatchObject({ kind: 'duplicate', runId: id(1001) });
    });
  });
}

const anyDelivery = fc.record({
  event: fc.constantFrom('a', 'b', undefined),
  nonce: fc.constantFrom('1', '2', '3', undefined),
  key: fc.constantFrom('k', undefined, undefined),
  isFiltered: fc.constantFrom(true, undefined, undefined),
  isEnforced: fc.boolean(),
});
type AnyDelivery = Readonly<typeof anyDelivery extends fc.Arbitrary<infer Value> ? Value : never>;

function acceptanceIn(
  scope: string,
  { event, nonce, key, isFiltered, isEnforced }: AnyDelivery,
  n: number,
): Acceptance {
  return acceptanceOf(n, {
    ...(event !== undefined && { event: eventOf(scope + event) }),
    ...(nonce !== undefined && { nonce: aNonce({ value: scope + nonce, isEnforced }) }),
    ...(key !== undefined && { idempotencyKey: scope + key }),
    isFiltered,
  });
}

/** The contract's order of decisions, in memory. */
class Expected {
  readonly #nonces = new Map<string, string | null>();
  readonly #keys = new Map<string, string>();
  readonly #events = new Map<string, string>();

  of({ event, nonce, key, isFiltered, isEnforced }: AnyDelivery, runId: string) {
    const isKnown = nonce !== undefined && this.#nonces.has(nonce);
    if (isKnown && isEnforced) return { kind: 'replayed', runId: this.#nonces.get(nonce) };
    const first = this.#keys.get(key ?? '') ?? this.#events.get(event ?? '');
    const isDropped = first === undefined && isFiltered === true;
    if (nonce !== undefined && !isKnown) this.#nonces.set(nonce, isDropped ? null : (first ?? runId));
    if (first !== undefined) return { kind: 'duplicate', runId: first };
    if (isDropped) return { kind: 'filtered', runId: undefined };
    if (key !== undefined) this.#keys.set(key, runId);
    if (event !== undefined) this.#events.set(event, runId);
    return { kind: 'accepted', runId };
  }
}
