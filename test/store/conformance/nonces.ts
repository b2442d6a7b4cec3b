import fc from 'fast-check';
import { describe, expect } from 'vitest';
import type { Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { acceptanceOf, aDelivery, aNonce, aRun, deliveryIds, id, minute, runIdOf, runIds, T0 } from '../samples.ts';

const accepted = (n: number) => ({ kind: 'accepted', runId: id(1000 + n), isReplay: false });
const replayOf = (n: number) => ({ kind: 'replayed', runId: id(1000 + n), hasSameBody: true });

export function nonces({ test }: StoreUnderTest): void {
  describe('nonces', () => {
    test('refuses a nonce that was already accepted, and writes nothing', async (store) => {
      await store.accept(acceptanceOf(1, { nonce: aNonce() }));
      const replay = acceptanceOf(2, { nonce: aNonce(), idempotencyKey: 'key-2' });
      expect(await store.accept(replay)).toEqual(replayOf(1));
      expect(await runIds(store)).toEqual([id(1001)]);
      expect(await deliveryIds(store)).toEqual([id(1)]);
      expect(await store.accept(acceptanceOf(3, { idempotencyKey: 'key-2' }))).toEqual(accepted(3));
    });

    test('says whether a replay has the same body', async (store) => {
      await store.accept(acceptanceOf(1, { nonce: aNonce() }));
      const other = acceptanceOf(2, { nonce: aNonce({ bodySha256: 'b'.repeat(64) }) });
      expect(await store.accept(other)).toEqual({ ...replayOf(1), hasSameBody: false });
    });

    test('a nonce counts for its flow and trigger alone', async (store) => {
      await store.accept(acceptanceOf(1, { nonce: aNonce() }));
      for (const [n, scope] of [
        [2, { flowId: 'another flow' }],
        [3, { triggerKey: 'another trigger' }],
      ] as const) {
        const run = aRun({ id: id(1000 + n), ...scope });
        expect(await store.accept({ run, nonce: aNonce() })).toEqual(accepted(n));
        expect(await store.accept({ run: { ...run, id: id(99) }, nonce: aNonce() })).toEqual(replayOf(n));
      }
    });

    test('scopes are not run together', async (store) => {
      const claims = [
        ['a', 'b', 'c\nd'],
        ['a', 'b\nc', 'd'],
        ['a\nb', 'c', 'd'],
      ] as const;
      for (const [n, [flow, triggerKey, value]] of claims.entries()) {
        const run = aRun({ id: id(1000 + n), flowId: flow, triggerKey });
        expect(await store.accept({ run, nonce: aNonce({ value }) })).toEqual(accepted(n));
      }
    });

    test.each([
      ['the last millisecond before it expires', -1, replayOf(1)],
      ['the instant when it expires', 0, accepted(2)],
      ['later', minute, accepted(2)],
    ])('a nonce seen again at %s', async (store, _name, offset, expected) => {
      const nonce = aNonce();
      await store.accept(acceptanceOf(1, { nonce }));
      const at = nonce.expiresAt + offset;
      const later = aNonce({ expiresAt: at + minute });
      expect(await store.accept(acceptanceOf(2, { nonce: later, at }))).toEqual(expected);
    });

    test('an expired nonce that was accepted again refuses the next one in the name of its new run', async (store) => {
      const nonce = aNonce();
      await store.accept(acceptanceOf(1, { nonce }));
      const at = nonce.expiresAt;
      await store.accept(acceptanceOf(2, { nonce: aNonce({ expiresAt: at + minute }), at }));
      expect(await store.accept(acceptanceOf(3, { nonce, at: at + 1 }))).toEqual(replayOf(2));
    });

    test('a nonce that was alive when its delivery arrived does not expire before the run is planned', async (store) => {
      const nonce = aNonce();
      await store.accept(acceptanceOf(1, { nonce }));
      const { run, delivery = aDelivery() } = acceptanceOf(2);
      const slow = {
        nonce: { ...nonce, arrivedAt: nonce.expiresAt - 1 },
        delivery: { ...delivery, receivedAt: nonce.expiresAt + 1 },
        run: { ...run, startedAt: nonce.expiresAt + 1 },
      };
      expect(await store.accept(slow)).toEqual(replayOf(1));
    });

    test('a nonce that is not enforced is accepted again, with the violation on its record', async (store) => {
      const nonce = aNonce({ isEnforced: false });
      expect(await store.accept(acceptanceOf(1, { nonce }))).toEqual(accepted(1));
      expect(await store.accept(acceptanceOf(2, { nonce }))).toEqual({ ...accepted(2), isReplay: true });

      expect(await store.findDelivery(id(1))).toMatchObject({ rejected: false, reason: null, violations: [] });
      expect(await store.findDelivery(id(2))).toMatchObject({
        rejected: true,
        enforced: false,
        statusCode: 200,
        reason: 'nonce_replayed',
        violations: ['nonce_replayed'],
        runId: id(1002),
      });
      expect(await runIds(store)).toEqual([id(1002), id(1001)]);
    });

    test('an earlier violation stays the reason of a replay', async (store) => {
      const nonce = aNonce({ isEnforced: false });
      await store.accept(acceptanceOf(1, { nonce }));
      const { run } = acceptanceOf(2);
      const delivery = aDelivery({ id: id(2), rejected: true, reason: 'rate_limited', violations: ['rate_limited'] });
      await store.accept({ delivery, run, nonce });
      expect(await store.findDelivery(id(2))).toMatchObject({
        rejected: true,
        reason: 'rate_limited',
        violations: ['rate_limited', 'nonce_replayed'],
      });
    });

    test('a replay that is not enforced leaves the nonce as it was', async (store) => {
      const nonce = aNonce({ isEnforced: false });
      await store.accept(acceptanceOf(1, { nonce }));
      await store.accept(acceptanceOf(2, { nonce: { ...nonce, expiresAt: nonce.expiresAt + 9 * minute } }));
      expect(await store.accept(acceptanceOf(3, { nonce: aNonce() }))).toEqual(replayOf(1));
      const at = nonce.expiresAt;
      expect(await store.accept(acceptanceOf(4, { nonce: aNonce({ expiresAt: at + 1 }), at }))).toEqual(accepted(4));
    });

    test('of many deliveries with one nonce at once exactly one is accepted', async (store) => {
      const calls = Array.from({ length: 50 }, (_, n) => store.accept(acceptanceOf(n, { nonce: aNonce() })));
      const results = await Promise.all(calls);
      const winners = results.filter(({ kind }) => kind === 'accepted');
      expect(winners).toHaveLength(1);
      expect(new Set(results.map(runIdOf))).toEqual(new Set([runIdOf(winners[0])]));
      expect(await runIds(store)).toEqual([runIdOf(winners[0])]);
    });

    test('deletes expired nonces alone, and no more than asked for', async (store) => {
      const offsets = [-3, -2, -1, 0, 1];
      const claims = offsets.map((offset, n) => aNonce({ value: `n${n}`, expiresAt: T0 + minute + offset }));
      for (const [n, nonce] of claims.entries()) await store.accept(acceptanceOf(n, { nonce }));
      const now = T0 + minute;
      expect(await store.purgeNonces({ now, limit: 2 })).toBe(2);
      expect(await store.purgeNonces({ now, limit: 2 })).toBe(1);
      expect(await store.purgeNonces({ now, limit: 2 })).toBe(0);
      // At T0 none has expired, so only deleted ones are new.
      const kinds = await Promise.all(
        claims.map(async (nonce, n) => (await store.accept(acceptanceOf(n + 10, { nonce }))).kind),
      );
      expect(kinds).toEqual(['accepted', 'accepted', 'accepted', 'replayed', 'replayed']);
    });

    test('whatever the order and company, each enforced nonce has exactly one run', async (store) => {
      const turn = fc.array(
        fc.record({
          nonce: fc.integer({ min: 0, max: 3 }),
          body: fc.constantFrom('a', 'b'),
          key: fc.option(fc.constantFrom('k1', 'k2'), { nil: undefined, freq: 8 }),
          fails: fc.boolean(),
        }),
        { minLength: 1, maxLength: 8 },
      );
      let group = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(turn, { minLength: 1, maxLength: 5 }), async (turns) => {
          group += 1;
          await playTurns(store, group, turns);
        }),
        { numRuns: 40 },
      );
    });
  });
}

interface Play {
  readonly nonce: number;
  readonly body: string;
  readonly key: string | undefined;
  readonly fails: boolean;
}

/** Makes the calls of each turn at once, and checks all results. Each group has its own flow. */
async function playTurns(store: Store, group: number, turns: readonly (readonly Play[])[]): Promise<void> {
  const flow = `flow ${group}`;
  const acceptedBy = new Map<number, string>();
  const firstOf = new Map<number, { runId: string; body: string }>();
  let n = group * 1000;
  for (const turn of turns) {
    const calls = turn.map(({ nonce, body, key, fails }) => {
      n += 1;
      const steps = Array.from({ length: fails ? 2 : 1 }, () => ({ stepKey: 's', stepType: 'NoOp', dueAt: T0 }));
      const run = aRun({ id: id(n), flowId: flow, steps });
      return store.accept({ run, nonce: aNonce({ value: String(nonce), bodySha256: body }), idempotencyKey: key });
    });
    const known = new Set(firstOf.keys());
    const results = await Promise.allSettled(calls);
    const played = results.map((settled, at) => ({
      ...(turn[at] as Play),
      result: settled.status === 'fulfilled' ? settled.value : undefined,
    }));
    // Within a turn, any call may be the first.
    for (const { nonce, body, result } of played) {
      if (result === undefined || result.kind === 'replayed') continue;
      expect(firstOf.has(nonce)).toBe(false);
      firstOf.set(nonce, { runId: runIdOf(result) ?? '', body });
      if (result.kind === 'accepted') acceptedBy.set(nonce, result.runId);
    }
    for (const { nonce, body, fails, result } of played) {
      const first = firstOf.get(nonce);
      if (result === undefined) expect(fails && !known.has(nonce)).toBe(true);
      else if (result.kind === 'replayed') {
        expect(result).toEqual({ kind: 'replayed', runId: first?.runId, hasSameBody: first?.body === body });
      }
    }
  }
  const { items } = await store.listRuns({ flowId: flow, skip: 0, take: 500 });
  expect(new Set(items.map((run) => run.id))).toEqual(new Set(acceptedBy.values()));
}
