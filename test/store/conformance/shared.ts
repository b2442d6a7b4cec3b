import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { booksStore } from '../../../src/features/books/store.ts';
import { deliveriesStore } from '../../../src/features/deliveries/store.ts';
import { holdStore } from '../../../src/features/hold/store.ts';
import type { Acceptance, SharedAcceptance, SharedOutcome, SharedResult, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  acceptanceOf,
  aDelivery,
  aNonce,
  aRun,
  countHeld,
  deployOf,
  graphOf,
  id,
  minute,
  PLAN,
  runIds,
  T0,
} from '../samples.ts';

const FLOWS = ['flow a', 'flow b', 'flow c'] as const;
type Flow = (typeof FLOWS)[number];
const triggerKey = 'hook';

type Change = Omit<Partial<Acceptance>, 'run'> & { readonly start?: SharedAcceptance['start'] };

/** The n-th delivery to the named flows, with each flow's own changes. */
function sent(n: number, flows: Partial<Record<Flow, Change>>, all: Change = {}): SharedAcceptance[] {
  return FLOWS.flatMap((flowId, at): SharedAcceptance[] => {
    const own = flows[flowId];
    if (own === undefined) return [];
    const { start = 'now', ...change } = { ...all, ...own };
    const runId = runOf(n, flowId);
    const delivery = aDelivery({ id: id(n), flowId, triggerKey, runId, ...change.delivery });
    const run = aRun({ id: runId, flowId, triggerKey, deliveryId: id(n), startedAt: T0 + at });
    return [{ start, acceptance: { ...change, delivery, run } }];
  });
}

const runOf = (n: number, flowId: Flow) => id(1_000_000 * (FLOWS.indexOf(flowId) + 1) + n);
const outcome = (flowId: Flow, kind: SharedOutcome['kind'], runId: string | null = null) => ({
  ...{ flowId, triggerKey, kind },
  runId,
});
const outcomesOf = (result: SharedResult) => (result.kind === 'shared' ? result.outcomes : result);
const both = { 'flow a': {}, 'flow b': {} } as const;
const discardOf = (store: Store, flowId: Flow) =>
  store.of(holdStore).discardHeld({ flowId, heldBefore: T0 + minute, limit: 9, note: 'held, and discarded by x' });
const idsOf = async (store: Store, flowId: string) =>
  (await store.listDeliveries({ flowId, skip: 0, take: 9 })).items.map((each) => each.id);

/** One delivery of the model: its fate at each flow, and its names. */
const aSent = fc.record({
  flows: fc.tuple(
    ...FLOWS.map(() => fc.constantFrom<'none' | 'now' | 'filtered' | 'never'>('none', 'now', 'filtered', 'never')),
  ),
  nonce: fc.nat(3),
  event: fc.option(fc.nat(2)),
  key: fc.option(fc.nat(2)),
});

/** The expected result of each flow for deliveries in order, by the order of decisions. */
function model() {
  const [nonces, events, keys] = [new Set<string>(), new Map<string, string>(), new Map<string, string>()];
  return (n: number, { flows, nonce, event, key }: typeof aSent extends fc.Arbitrary<infer Sent> ? Sent : never) => {
    const members = FLOWS.flatMap((flowId, at) => (flows[at] === 'none' ? [] : [{ flowId, says: flows[at] }]));
    if (members.some(({ flowId }) => nonces.has(`${flowId} ${nonce}`))) return 'replayed';
    const isKeyed = key !== null && members.some(({ flowId }) => keys.has(`${flowId} ${key}`));
    const outcomes = members.map(({ flowId, says }): SharedOutcome => {
      const ofKey = key === null ? undefined : keys.get(`${flowId} ${key}`);
      const ofEvent = event === null ? undefined : events.get(`${flowId} ${event}`);
      if (says === 'never') return outcome(flowId, 'closed');
      if (isKeyed) return outcome(flowId, 'duplicate', ofKey ?? null);
      if (ofEvent !== undefined) return outcome(flowId, 'duplicate', ofEvent);
      return says === 'filtered' ? outcome(flowId, 'filtered') : outcome(flowId, 'accepted', runOf(n, flowId));
    });
    for (const [at, { flowId }] of members.entries()) {
      nonces.add(`${flowId} ${nonce}`);
      const runId = outcomes[at]?.kind === 'accepted' ? outcomes[at].runId : null;
      if (runId !== null && event !== null) events.set(`${flowId} ${event}`, runId);
      if (runId !== null && key !== null) keys.set(`${flowId} ${key}`, runId);
    }
    return outcomes;
  };
}

export function shared({ test }: StoreUnderTest): void {
  describe('a delivery to several triggers', () => {
    test('has one record, and one run for each of them', async (store) => {
      const result = await store.acceptShared(sent(1, both));
      const runs = FLOWS.slice(0, 2).map((flowId) => outcome(flowId, 'accepted', runOf(1, flowId)));
      expect(result).toEqual({ kind: 'shared', outcomes: runs, lead: 0, runId: runOf(1, 'flow a'), isReplay: false });
      expect((await runIds(store)).sort()).toEqual([runOf(1, 'flow a'), runOf(1, 'flow b')]);
      const kept = await store.findDelivery(id(1));
      expect(kept).toMatchObject({ flowId: 'flow a', runId: runOf(1, 'flow a'), rejected: false });
      expect(kept?.shares).toEqual(runs.map(({ kind, ...share }) => ({ ...share, outcome: null })));
      expect(Buffer.from(kept?.body ?? []).toString()).toBe('{}');
      expect(await store.of(booksStore).countBooks({})).toMatchObject({ accepted: 1, runs: 1, unaccounted: 0 });
    });

    test('is unaccounted for where the run of any of them is lost', async (store) => {
      await store.acceptShared(sent(1, { 'flow a': {} }));
      const shares = FLOWS.slice(0, 2).map((flowId) => ({
        flowId,
        triggerKey,
        runId: runOf(2, flowId),
        outcome: null,
      }));
      const [lost] = sent(2, { 'flow a': {} });
      if (lost === undefined) throw new Error('nothing was sent');
      const { delivery, run } = lost.acceptance;
      await store.accept({ run: { ...run, deliveryId: id(2) } });
      await store.recordDelivery({ ...aDelivery(delivery), runId: run.id, shares });
      expect(await store.of(booksStore).countBooks({})).toMatchObject({ accepted: 2, runs: 1, unaccounted: 1 });
    });

    test('is found under each of their flows, and no other', async (store) => {
      await store.acceptShared(sent(1, both));
      await store.accept(acceptanceOf(2));
      expect(await Promise.all(FLOWS.map((flowId) => idsOf(store, flowId)))).toEqual([[id(1)], [id(1)], []]);
      const page = await store.listDeliveries({ flowId: 'flow b', skip: 0, take: 9, includeTotal: true });
      expect(page.total).toBe(1);
    });

    test('starts none where the nonce is known to any of them, and that one may be closed', async (store) => {
      const nonce = aNonce();
      await store.acceptShared(sent(1, { 'flow a': {}, 'flow b': { start: 'never' } }, { nonce }));
      const replayed = { kind: 'replayed', runId: runOf(1, 'flow a'), hasSameBody: true };
      expect(await store.acceptShared(sent(2, { 'flow b': {}, 'flow c': {} }, { nonce }))).toEqual({
        ...replayed,
        runId: null,
      });
      expect(await store.acceptShared(sent(3, { 'flow a': {}, 'flow c': {} }, { nonce }))).toEqual(replayed);
      const [alone] = sent(4, { 'flow b': {} }, { nonce });
      expect(await store.accept(alone?.acceptance ?? acceptanceOf(4))).toMatchObject({ kind: 'replayed' });
      expect(await runIds(store)).toEqual([runOf(1, 'flow a')]);
      expect(await store.findDelivery(id(2))).toBeUndefined();
    });

    test('is marked where the nonce is known and nothing refuses it', async (store) => {
      const nonce = aNonce({ isEnforced: false });
      await store.acceptShared(sent(1, both, { nonce }));
      expect(await store.acceptShared(sent(2, both, { nonce }))).toMatchObject({ kind: 'shared', isReplay: true });
      expect(await store.findDelivery(id(2))).toMatchObject({ rejected: true, reason: 'nonce_replayed' });
      expect(await runIds(store)).toHaveLength(4);
    });

    test('is filtered for each by itself, and keeps the nonce of all', async (store) => {
      const nonce = aNonce();
      const result = await store.acceptShared(sent(1, { 'flow a': { isFiltered: true }, 'flow b': {} }, { nonce }));
      expect(outcomesOf(result)).toEqual([
        outcome('flow a', 'filtered'),
        outcome('flow b', 'accepted', runOf(1, 'flow b')),
      ]);
      const kept = await store.findDelivery(id(1));
      expect(kept).toMatchObject({ flowId: 'flow b', runId: runOf(1, 'flow b') });
      expect(kept?.shares?.map(({ flowId, outcome }) => [flowId, outcome])).toEqual([
        ['flow b', null],
        ['flow a', 'filtered'],
      ]);
      const again = await store.acceptShared(sent(2, { 'flow a': {} }, { nonce }));
      expect(again).toMatchObject({ kind: 'replayed', runId: null });
    });

    test('is filtered where it is for all of them', async (store) => {
      const result = await store.acceptShared(sent(1, both, { isFiltered: true }));
      expect(outcomesOf(result)).toEqual([outcome('flow a', 'filtered'), outcome('flow b', 'filtered')]);
      expect(await store.findDelivery(id(1))).toMatchObject({ outcome: 'filtered', runId: null });
      expect(await store.of(booksStore).countBooks({})).toMatchObject({ accepted: 1, filtered: 1, unaccounted: 0 });
    });

    test('tells of an event that one of them knows: only the others start a run', async (store) => {
      const event = { id: 'event', arrivedAt: T0, expiresAt: T0 + minute };
      await store.acceptShared(sent(1, { 'flow a': { event } }));
      const result = await store.acceptShared(sent(2, both, { event }));
      expect(outcomesOf(result)).toEqual([
        outcome('flow a', 'duplicate', runOf(1, 'flow a')),
        outcome('flow b', 'accepted', runOf(2, 'flow b')),
      ]);
      expect(await store.findDelivery(id(2))).toMatchObject({ flowId: 'flow b', runId: runOf(2, 'flow b') });
      const third = await store.acceptShared(sent(3, both, { event }));
      expect(outcomesOf(third)).toEqual([
        outcome('flow a', 'duplicate', runOf(1, 'flow a')),
        outcome('flow b', 'duplicate', runOf(2, 'flow b')),
      ]);
      expect(await store.findDelivery(id(3))).toMatchObject({ outcome: 'duplicate', runId: runOf(1, 'flow a') });
    });

    test('repeats for all of them what one knows by its idempotency key', async (store) => {
      const idempotencyKey = 'key';
      await store.acceptShared(sent(1, { 'flow a': {} }, { idempotencyKey }));
      const result = await store.acceptShared(sent(2, both, { idempotencyKey }));
      expect(outcomesOf(result)).toEqual([
        outcome('flow a', 'duplicate', runOf(1, 'flow a')),
        outcome('flow b', 'duplicate'),
      ]);
      const other = sent(3, both, { idempotencyKey }).map(({ acceptance, ...rest }) => {
        const trigger = { ...acceptance.run.trigger, body: new TextEncoder().encode('[]') };
        return { ...rest, acceptance: { ...acceptance, run: { ...acceptance.run, trigger } } };
      });
      expect(await store.acceptShared(other)).toEqual({ kind: 'conflict', runId: runOf(1, 'flow a') });
      expect(await runIds(store)).toEqual([runOf(1, 'flow a')]);
    });

    test('is held for a closed flow, and started for an open one', async (store) => {
      await deployBoth(store);
      await store.setFlowDraining({ flowId: 'flow b', isDraining: true, at: T0 });
      const result = await store.acceptShared(sent(1, { 'flow a': {}, 'flow b': { start: 'later' } }));
      expect(outcomesOf(result)).toEqual([
        outcome('flow a', 'accepted', runOf(1, 'flow a')),
        outcome('flow b', 'held', runOf(1, 'flow b')),
      ]);
      expect(await countHeld(store)).toEqual({ 'flow b': 1 });
      await store.setFlowDraining({ flowId: 'flow b', isDraining: false, at: T0 });
      const { runs } = await store.of(holdStore).releaseHeld({ flowId: 'flow b', limit: 9, at: T0 + 1 });
      expect(runs.map((run) => run.id)).toEqual([runOf(1, 'flow b')]);
      expect(await store.of(booksStore).countBooks({})).toMatchObject({
        accepted: 1,
        runs: 1,
        held: 0,
        unaccounted: 0,
      });
    });

    test('does not say that it was discarded where one of its runs started', async (store) => {
      await deployBoth(store);
      await store.setFlowDraining({ flowId: 'flow b', isDraining: true, at: T0 });
      await store.acceptShared(sent(1, { 'flow a': {}, 'flow b': { start: 'later' } }));
      await discardOf(store, 'flow b');
      expect(await store.findDelivery(id(1))).toMatchObject({ detail: null });
    });

    test('is accounted for, with what repeats it, after one of its flows discarded it', async (store) => {
      await deployBoth(store);
      await store.setFlowDraining({ flowId: 'flow b', isDraining: true, at: T0 });
      const later = { start: 'later', event: eventOf('one') } as const;
      await store.acceptShared(sent(1, { 'flow a': {}, 'flow b': later }));
      await store.acceptShared(sent(2, { 'flow a': { isFiltered: true }, 'flow b': later }));
      await discardOf(store, 'flow b');
      await store.acceptShared(sent(3, { 'flow a': { isFiltered: true }, 'flow b': later }));
      expect((await store.findDelivery(id(1)))?.shares).toMatchObject([
        { flowId: 'flow a', outcome: null },
        { flowId: 'flow b', outcome: 'discarded' },
      ]);
      const all = { accepted: 3, runs: 1, duplicates: 2, discarded: 0, unaccounted: 0 };
      expect(await store.of(booksStore).countBooks({})).toMatchObject(all);
    });

    test('is not accounted for where one flow discarded it and another has lost its run', async (store) => {
      const lost = FLOWS.map((flowId) => ({ flowId, triggerKey, runId: runOf(1, flowId), outcome: null }));
      const noted = { runId: runOf(1, 'flow a'), detail: 'held, and discarded by x', shares: lost };
      await store.recordDelivery(aDelivery({ id: id(1), triggerKey, flowId: 'flow a', ...noted }));
      expect(await store.of(booksStore).countBooks({})).toMatchObject({ accepted: 1, discarded: 0, unaccounted: 1 });
    });

    test('leaves nothing where one of the flows has another revision, or is closed, or open again', async (store) => {
      await deployBoth(store);
      await store.deployFlow(deployOf(graphOf({ other: [] }), { id: 'flow b' }));
      expect(await store.acceptShared(sent(1, both, { nonce: aNonce() }))).toEqual({
        ...{ kind: 'outdated', flowId: 'flow b' },
      });
      await store.setFlowDraining({ flowId: 'flow a', isDraining: true, at: T0 });
      const closed = { kind: 'outdated', flowId: 'flow a' };
      expect(await store.acceptShared(sent(1, both, { nonce: aNonce() }))).toEqual(closed);
      await store.setFlowDraining({ flowId: 'flow a', isDraining: false, at: T0 });
      const held = sent(1, { 'flow a': { start: 'later' } }, { nonce: aNonce() });
      expect(await store.acceptShared(held)).toEqual(closed);
      expect(await runIds(store)).toEqual([]);
      expect(await store.acceptShared(sent(2, { 'flow a': {} }, { nonce: aNonce() }))).toMatchObject({
        kind: 'shared',
      });
    });

    test('starts its runs once when it is delivered again, however many do', async (store) => {
      await store.acceptShared(sent(1, both, { nonce: aNonce(), isFiltered: true }));
      const again = (n: number, change: Change = {}) => {
        const all = { nonce: aNonce(), ...change };
        return sent(n, both, all).map(({ acceptance, ...rest }) => {
          const delivery = aDelivery({ ...acceptance.delivery, redeliveredFrom: id(1) });
          return { ...rest, acceptance: { ...acceptance, delivery } };
        });
      };
      expect(outcomesOf(await store.acceptShared(again(2, { isFiltered: true })))).toEqual([
        outcome('flow a', 'filtered'),
        outcome('flow b', 'filtered'),
      ]);
      expect(await store.findDelivery(id(2))).toBeUndefined();
      const results = await Promise.all(Array.from({ length: 10 }, (_, n) => store.acceptShared(again(10 + n))));
      expect(results.filter(({ kind }) => kind === 'shared')).toHaveLength(1);
      expect(results.filter(({ kind }) => kind === 'repeated')).toHaveLength(9);
      expect(await runIds(store)).toHaveLength(2);
    });

    test('of which many come at once with one nonce is taken once', async (store) => {
      const results = await Promise.all(
        Array.from({ length: 20 }, (_, n) => store.acceptShared(sent(n + 1, both, { nonce: aNonce() }))),
      );
      expect(results.filter(({ kind }) => kind === 'shared')).toHaveLength(1);
      expect(await runIds(store)).toHaveLength(2);
    });

    test('is at each flow what nonce, key, event and filter say, whatever comes in which order', async (store) => {
      let group = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(aSent, { maxLength: 8 }), async (all) => {
          group += 1;
          const expected = model();
          for (const [at, one] of all.entries()) {
            const n = group * 20 + at;
            const says = Object.fromEntries(
              FLOWS.flatMap((flowId, place): [string, Change][] => {
                const said = one.flows[place] ?? 'none';
                if (said === 'none') return [];
                return [[flowId, said === 'filtered' ? { isFiltered: true } : { start: said }]];
              }),
            );
            if (Object.keys(says).length === 0) continue;
            const nonce = aNonce({ value: `${group} ${one.nonce}`, digest: `${group} ${one.nonce}` });
            const result = await store.acceptShared(
              sent(n, says, {
                nonce,
                ...(one.event !== null && { event: eventOf(`${group} ${one.event}`) }),
                ...(one.key !== null && { idempotencyKey: `${group} ${one.key}` }),
              }),
            );
            expect(result.kind === 'shared' ? result.outcomes : result.kind).toEqual(expected(n, one));
          }
        }),
        { numRuns: 60 },
      );
      expect(await store.of(booksStore).countBooks({})).toMatchObject({ unaccounted: 0 });
    });

    test('is found by the search keys of a flow only by who may see that flow', async (store) => {
      const flows = [
        ['flow a', 'SO-1010'],
        ['flow b', 'SO-2020'],
      ] as const;
      const members = sent(1, both).map((member, at): SharedAcceptance => {
        const run = {
          ...member.acceptance.run,
          searchKeys: { order: flows[at]?.[1] ?? '', [`of ${flows[at]?.[0]}`]: 'own' },
        };
        return { ...member, acceptance: { ...member.acceptance, run } };
      });
      await store.acceptShared(members);
      const totalOf = async (asked: object) =>
        (await store.listDeliveries({ ...asked, skip: 0, take: 9, includeTotal: true })).total;
      for (const [flow, order] of flows) {
        const seen = Object.fromEntries(
          await Promise.all(
            flows.map(async ([by]) => [by, await totalOf({ searchKeys: { order }, flowIds: [by] })] as const),
          ),
        );
        expect(seen).toEqual({ 'flow a': 0, 'flow b': 0, [flow]: 1 });
      }
      expect(await totalOf({ search: 'SO-1010', flowIds: ['flow b'] })).toBe(0);
      expect(await totalOf({ search: 'SO-2020', flowIds: ['flow a'] })).toBe(0);
      expect(await totalOf({ flowIds: ['flow b'] })).toBe(1);
      expect(await totalOf({ searchKeys: { order: 'SO-2020' } })).toBe(1);
      // The record takes over keys from the run that it names.
      for (const [flow] of flows) {
        await store.cancelRun({ runId: runOf(1, flow), reason: null, at: T0 + minute });
      }
      while (!(await store.purgeRuns({ before: T0 + 2 * minute, maxRows: 100 })).isDone);
      expect(await totalOf({ searchKeys: { order: 'SO-1010' }, flowIds: ['flow a'] })).toBe(1);
      expect(await totalOf({ searchKeys: { order: 'SO-2020' }, flowIds: ['flow a'] })).toBe(0);
      expect(await totalOf({ searchKeys: { 'of flow b': 'own' }, flowIds: ['flow a'] })).toBe(0);
    });

    test('is gone under each flow when its record is', async (store) => {
      await store.acceptShared(sent(1, both));
      await store.recordDelivery(aDelivery({ id: id(2), statusCode: 401, shares: refusedBy('flow a', 'flow b') }));
      expect(await idsOf(store, 'flow b')).toEqual([id(2), id(1)]);
      await store.purgeDeliveries({ before: T0 * 2, limit: 9 });
      expect(await idsOf(store, 'flow b')).toEqual([]);
    });

    test('counts as unevaluated for the trigger whose expression failed', async (store) => {
      const failed = { delivery: aDelivery({ outcome: 'unevaluated' }) };
      const [first, second] = sent(1, both);
      const record = { ...second?.acceptance.delivery, outcome: failed.delivery.outcome };
      await store.acceptShared(
        [first, second].flatMap((each, at) =>
          each === undefined
            ? []
            : [at === 0 ? each : { ...each, acceptance: { ...each.acceptance, delivery: aDelivery(record) } }],
        ),
      );
      expect(await store.of(deliveriesStore).countUnevaluated(0)).toEqual([{ flowId: 'flow b', triggerKey, count: 1 }]);
    });
  });

  describe('a slug that flows share', () => {
    const accepted = (n: number, value: string, flows: Partial<Record<Flow, Change>>) =>
      sent(n, flows, { nonce: aNonce({ value, digest: value }), event: eventOf(value) });
    const tryAt = async (store: Store, members: readonly SharedAcceptance[], flow: Flow) => {
      const revision = (await store.findFlow(flow))?.revision ?? 1;
      const found = members.flatMap(({ acceptance, ...rest }) => [
        { ...rest, acceptance: { ...acceptance, run: { ...acceptance.run, revision } } },
      ]);
      return store.acceptShared(found);
    };

    test('keeps what was accepted there known to who joins, once the first has left', async (store) => {
      await apply(store, { 'flow a': true });
      expect(await tryAt(store, accepted(1, 'one', { 'flow a': {} }), 'flow a')).toMatchObject({ kind: 'shared' });
      await apply(store, { 'flow b': true });
      await apply(store, { 'flow a': false });
      expect(await tryAt(store, accepted(2, 'one', { 'flow b': {} }), 'flow b')).toMatchObject({ kind: 'replayed' });
      expect(await tryAt(store, accepted(3, 'two', { 'flow b': {} }), 'flow b')).toMatchObject({ kind: 'shared' });
    });

    test('has each flow know its own events', async (store) => {
      await apply(store, { 'flow a': true });
      await tryAt(store, accepted(1, 'one', { 'flow a': {} }), 'flow a');
      await apply(store, { 'flow b': true });
      const late = sent(2, both, { event: eventOf('one'), nonce: aNonce({ value: 'late', digest: 'late' }) });
      expect(outcomesOf(await store.acceptShared(late))).toEqual([
        outcome('flow a', 'duplicate', runOf(1, 'flow a')),
        outcome('flow b', 'accepted', runOf(2, 'flow b')),
      ]);
      const next = sent(3, both, { event: eventOf('two'), nonce: aNonce({ value: 'next', digest: 'next' }) });
      expect(outcomesOf(await store.acceptShared(next))).toEqual([
        outcome('flow a', 'accepted', runOf(3, 'flow a')),
        outcome('flow b', 'accepted', runOf(3, 'flow b')),
      ]);
    });

    test('gives all it has to a flow that takes it for itself', async (store) => {
      await apply(store, { 'flow a': true, 'flow b': true });
      await store.acceptShared(accepted(1, 'one', both));
      await apply(store, { 'flow a': false, 'flow b': false });
      await apply(store, { 'flow c': true });
      expect(await tryAt(store, accepted(2, 'one', { 'flow c': {} }), 'flow c')).toMatchObject({ kind: 'replayed' });
    });
  });
}

const eventOf = (value: string) => ({ id: value, arrivedAt: T0, expiresAt: T0 + minute });

const refusedBy = (...flows: Flow[]) => flows.map((flowId) => ({ flowId, triggerKey, runId: null, outcome: null }));

async function deployBoth(store: Store): Promise<void> {
  for (const flowId of ['flow a', 'flow b']) await store.deployFlow(deployOf(graphOf({ first: [] }), { id: flowId }));
}

/** Deploys flows together; each either shares the slug or has none. */
async function apply(store: Store, flows: Partial<Record<Flow, boolean>>): Promise<void> {
  const planned = [];
  for (const [flowId, isSharing] of Object.entries(flows)) {
    const revision = (await store.findFlow(flowId))?.revision ?? null;
    const inputs = isSharing ? { webhookSlug: 'S', webhookShared: true } : {};
    const steps = graphOf({ [`step${revision}`]: [] });
    const snapshot = { id: flowId, steps, triggers: { [triggerKey]: { type: 'webhook', inputs } } };
    planned.push({
      ...deployOf(steps, { id: flowId, snapshot: JSON.parse(JSON.stringify(snapshot)) }),
      ...PLAN,
      basedOn: revision,
      triggers: { keys: [triggerKey], moved: [] },
    });
  }
  expect(await store.applyDeploys(planned)).toMatchObject({ kind: 'applied' });
}
