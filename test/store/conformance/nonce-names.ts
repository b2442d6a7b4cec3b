import fc from 'fast-check';
import { describe, expect } from 'vitest';
import type { DigestCover } from '../../../src/model/delivery.ts';
import type { NonceClaim, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { acceptanceOf, aNonce, aRun, deployOf, flowId, graphOf, id, minute, PLAN, runIds, T0 } from '../samples.ts';

const DAY = 24 * 60 * minute;

type Names = Pick<NonceClaim, 'header' | 'value' | 'digest' | 'covers'>;
const byBytes = (bytes: string): Names => ({ header: '', value: bytes, digest: bytes });
const byHeader = (header: string, value: string, digest: string): Names => ({ header, value, digest });

const covering = (names: Names, rule: DigestCover['rule'], bodySha256: string): Names => ({
  ...names,
  covers: { rule, bodySha256 },
});
const ofBody = (body: string) => covering(byBytes(body), 'body', body);
const ofTime = (time: number, body: string) => covering(byBytes(`${time} ${body}`), 'timestamp', body);
const ofUrl = (url: string, body: string) => covering(byBytes(`${url} ${body}`), 'bytes', body);
const unsigned = (body: string) => covering(byBytes(body), 'timestamp', body);

export function nonceNames({ test }: StoreUnderTest): void {
  describe('the names of an accepted delivery', () => {
    test.each<[string, Names, Names, string]>([
      ['under the same header its value alone tells', byHeader('x-a', '1', 'b'), byHeader('x-a', '2', 'b'), 'accepted'],
      ['the same value under the same header', byHeader('x-a', '1', 'b'), byHeader('x-a', '1', 'c'), 'replayed'],
      ['a header is added', byBytes('b'), byHeader('x-a', '1', 'b'), 'replayed'],
      ['a header is added, other bytes', byBytes('b'), byHeader('x-a', '1', 'c'), 'accepted'],
      ['a header is removed', byHeader('x-a', '1', 'b'), byBytes('b'), 'replayed'],
      ['a header is removed, other bytes', byHeader('x-a', '1', 'b'), byBytes('c'), 'accepted'],
      ['another header is named', byHeader('x-a', '1', 'b'), byHeader('x-b', '2', 'b'), 'replayed'],
      ['another header with an equal value', byHeader('x-a', '1', 'b'), byHeader('x-b', '1', 'c'), 'accepted'],
      ['a value that looks like a digest', byHeader('x-a', 'b', 'c'), byBytes('b'), 'accepted'],
      ['digests cover a timestamp now', ofBody('b'), ofTime(1, 'b'), 'replayed'],
      ['digests cover a timestamp now, another body', ofBody('b'), ofTime(1, 'c'), 'accepted'],
      ['digests cover a timestamp no longer', ofTime(1, 'b'), ofBody('b'), 'replayed'],
      ['digests cover a timestamp no longer, another body', ofTime(1, 'b'), ofBody('c'), 'accepted'],
      ['digests cover a timestamp as before', ofTime(1, 'b'), ofTime(2, 'b'), 'accepted'],
      ['a form without it under the same rule', ofTime(1, 'b'), unsigned('b'), 'accepted'],
      ['a form with it under the same rule', unsigned('b'), ofTime(1, 'b'), 'accepted'],
      ['digests cover other bytes now', ofTime(1, 'b'), ofUrl('/u', 'b'), 'replayed'],
      ['digests cover other bytes as before', ofUrl('/u', 'b'), ofUrl('/v', 'b'), 'accepted'],
      ['digests cover other bytes no longer', ofUrl('/u', 'b'), ofBody('b'), 'replayed'],
      [
        'a header is removed, and digests cover a timestamp',
        covering(byHeader('x-a', '1', 'b'), 'body', 'b'),
        ofTime(1, 'b'),
        'replayed',
      ],
      [
        'a header is added, and digests cover a timestamp no longer',
        ofTime(1, 'b'),
        covering(byHeader('x-a', '1', 'b'), 'body', 'b'),
        'replayed',
      ],
    ])('%s', async (store, _name, before, after, kind) => {
      await store.accept(acceptanceOf(1, { nonce: aNonce(before) }));
      expect(await store.accept(acceptanceOf(2, { nonce: aNonce(after) }))).toMatchObject({ kind });
      expect(await store.accept(acceptanceOf(3, { nonce: aNonce(after) }))).toMatchObject({ kind: 'replayed' });
      expect(await store.accept(acceptanceOf(4, { nonce: aNonce(before) }))).toMatchObject({ kind: 'replayed' });
    });

    test('are known to the end of its nonce and no longer', async (store) => {
      const expiresAt = T0 + 50 * 60 * minute;
      await store.accept(acceptanceOf(1, { nonce: aNonce({ ...byHeader('x-a', '1', 'b'), expiresAt }) }));
      const nonce = aNonce({ ...byBytes('b'), expiresAt: expiresAt + DAY });
      expect(await store.accept(acceptanceOf(2, { nonce, at: expiresAt - 1 }))).toMatchObject({ kind: 'replayed' });
      expect(await store.accept(acceptanceOf(3, { nonce, at: expiresAt }))).toMatchObject({ kind: 'accepted' });
    });

    test('follow a moved trigger', async (store) => {
      const deploy = (basedOn: number | null, keys: string[], moved: { from: string; to: string }[]) =>
        store.applyDeploys([
          { ...deployOf(graphOf({ [keys.join()]: [] })), ...PLAN, basedOn, triggers: { keys, moved } },
        ]);
      const accept = (n: number, names: Names, change: object) =>
        store.accept({ run: aRun({ id: id(n), flowId, ...change }), nonce: aNonce(names) });
      await deploy(null, ['former'], []);
      await accept(1, byHeader('x-a', '1', 'b'), { revision: 1, triggerKey: 'former' });
      await deploy(1, ['own'], [{ from: 'former', to: 'own' }]);
      const own = { revision: 2, triggerKey: 'own' };
      for (const names of [byHeader('x-a', '1', 'c'), byHeader('x-b', '2', 'b'), byBytes('b')]) {
        expect(await accept(2, names, own)).toMatchObject({ kind: 'replayed', runId: id(1) });
      }
      expect(await accept(3, byBytes('c'), own)).toMatchObject({ kind: 'accepted' });
    });

    test('of a moved trigger count though a new trigger under its key takes the same delivery, and asks for none', async (store) => {
      const plan = (basedOn: number | null, keys: string[], moved: { from: string; to: string }[]) =>
        store.applyDeploys([
          { ...deployOf(graphOf({ [keys.join()]: [] })), ...PLAN, basedOn, triggers: { keys, moved } },
        ]);
      const accept = (n: number, nonce: Partial<NonceClaim>, change: object) =>
        store.accept({ run: aRun({ id: id(n), flowId, ...change }), nonce: aNonce({ ...byBytes('b'), ...nonce }) });
      await plan(null, ['key'], []);
      const first = await accept(1, {}, { revision: 1, triggerKey: 'key' });
      expect(first).toMatchObject({ kind: 'accepted' });
      await plan(1, ['own', 'key'], [{ from: 'key', to: 'own' }]);
      const longer = { isAsked: false, expiresAt: aNonce().expiresAt + 3 * 60 * minute };
      for (const n of [2, 3])
        expect(await accept(n, longer, { revision: 2, triggerKey: 'key' })).toMatchObject({ kind: 'accepted' });
      expect(await accept(4, {}, { revision: 2, triggerKey: 'own' })).toMatchObject({ kind: 'replayed', runId: id(1) });
      const at = longer.expiresAt - 1;
      const last = await accept(5, { arrivedAt: at }, { revision: 2, triggerKey: 'key', startedAt: at });
      expect(last).toMatchObject({ kind: 'replayed' });
    });

    test('of one that nothing asked for count as soon as something does', async (store) => {
      const nonce = aNonce({ ...byBytes('b'), isAsked: false });
      for (const n of [1, 2]) {
        expect(await store.accept(acceptanceOf(n, { nonce }))).toMatchObject({ kind: 'accepted', isReplay: false });
      }
      expect(await store.accept(acceptanceOf(3, { nonce: aNonce(byBytes('b')) }))).toMatchObject({ kind: 'replayed' });
      expect(await store.findDelivery(id(2))).toMatchObject({ rejected: false, violations: [] });
      expect(await runIds(store)).toHaveLength(2);
    });

    test('of an unverified one take no place of a verified one, whatever they are', async (store) => {
      const lenient = { isTrusted: false, isEnforced: false };
      await store.accept(acceptanceOf(1, { nonce: aNonce({ ...byHeader('x-a', '1', 'b'), ...lenient }) }));
      const honest = acceptanceOf(2, { nonce: aNonce({ ...byHeader('x-a', '1', 'b'), isEnforced: false }) });
      expect(await store.accept(honest)).toMatchObject({ kind: 'accepted', isReplay: false });
      for (const [n, nonce] of [byHeader('x-a', '1', 'c'), byBytes('b')].entries()) {
        const forged = acceptanceOf(3 + n, { nonce: aNonce({ ...nonce, ...lenient }) });
        expect(await store.accept(forged)).toMatchObject({ kind: 'accepted', isReplay: true });
      }
      const again = acceptanceOf(5, { nonce: aNonce(byHeader('x-a', '1', 'b')) });
      expect(await store.accept(again)).toMatchObject({ kind: 'replayed', runId: id(1002) });
    });

    test('whatever headers are named and rules hold in which order, no known delivery is new', async (store) => {
      const header = fc.constantFrom('', 'x-a', 'x-b');
      const delivery = fc.record({
        ids: fc.record({ 'x-a': fc.integer({ min: 0, max: 2 }), 'x-b': fc.integer({ min: 0, max: 2 }) }),
        /** A header that the sender left out. */
        lacks: fc.option(fc.constantFrom('x-a', 'x-b'), { nil: undefined, freq: 5 }),
        body: fc.constantFrom('b', 'c', 'd'),
        /** What the digest covers beside the body. */
        more: fc.constantFrom('', '1', '2'),
        isTrusted: fc.oneof({ arbitrary: fc.constant(true), weight: 3 }, { arbitrary: fc.constant(false), weight: 1 }),
      });
      const deploy = fc.record({
        header,
        rule: fc.constantFrom('one', 'two', 'three'),
        isAsked: fc.oneof({ arbitrary: fc.constant(true), weight: 4 }, { arbitrary: fc.constant(false), weight: 1 }),
        isEnforced: fc.boolean(),
        deliveries: fc.array(delivery, { maxLength: 5 }),
      });
      let group = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(deploy, { minLength: 2, maxLength: 6 }), async (deploys) => {
          group += 1;
          await play(store, group, deploys);
        }),
        { numRuns: 60 },
      );
    });
  });
}

interface Deploy {
  readonly header: '' | 'x-a' | 'x-b';
  readonly rule: DigestCover['rule'];
  readonly isAsked: boolean;
  readonly isEnforced: boolean;
  readonly deliveries: readonly {
    readonly ids: Readonly<Record<'x-a' | 'x-b', number>>;
    readonly lacks: 'x-a' | 'x-b' | undefined;
    readonly body: string;
    readonly more: string;
    readonly isTrusted: boolean;
  }[];
}

/**
 * The rule itself: as long as the same header is named, its value identifies a delivery; otherwise the digest does, or,
 * if a verified one follows another rule, its body.
 */
function isKnown(claim: NonceClaim, first: NonceClaim, rules: readonly string[]): boolean {
  if (!first.isTrusted && claim.isTrusted) return false;
  if (claim.header === first.header && claim.header !== '') return claim.value === first.value;
  if (claim.digest === first.digest) return true;
  const { rule, bodySha256 } = claim.covers ?? {};
  if (!claim.isTrusted) return false;
  if (first.header === '') return first.covers?.rule !== rule && first.covers?.bodySha256 === bodySha256;
  // What a header named is found by the body only if its digest is that.
  return first.digest === bodySha256 && rules.some((other) => other !== rule);
}

/** An unenforced replay is stored too, unless the row of its own name exists. */
function isSameName(claim: NonceClaim, first: NonceClaim): boolean {
  const isSame = claim.value === first.value && claim.isTrusted === first.isTrusted;
  return isSame && claim.header === first.header;
}

async function play(store: Store, group: number, deploys: readonly Deploy[]): Promise<void> {
  const accepted: NonceClaim[] = [];
  let n = group * 1000;
  for (const { header, rule, isEnforced, deliveries, ...deploy } of deploys) {
    const isAsked = deploy.isAsked || header !== '';
    for (const { ids, lacks, body, more, isTrusted } of deliveries) {
      n += 1;
      const digest = more === '' ? body : `${more} ${body}`;
      const given = header === '' || header === lacks ? byBytes(digest) : byHeader(header, `${ids[header]}`, digest);
      const names = covering(given, rule, body);
      const nonce = aNonce({ ...names, isAsked, isTrusted, isEnforced: isEnforced && isTrusted });
      const result = await store.accept({ run: aRun({ id: id(n), flowId: `flow ${group}` }), nonce });
      const rules = accepted.map(({ covers }) => covers?.rule ?? '');
      const known = isAsked && accepted.some((first) => isKnown(nonce, first, rules));
      const expected = known && nonce.isEnforced ? { kind: 'replayed' } : { kind: 'accepted', isReplay: known };
      expect(result).toMatchObject(expected);
      const hasOwn = isAsked && accepted.some((first) => isSameName(nonce, first));
      if (result.kind === 'accepted' && !hasOwn) accepted.push(nonce);
    }
  }
}
