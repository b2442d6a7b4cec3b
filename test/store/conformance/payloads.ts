import { describe, expect } from 'vitest';
import type { PathDrift } from '../../../src/features/drift/paths.ts';
import { driftStore, type PathCount } from '../../../src/features/drift/store.ts';
import type { DeliveryRecord } from '../../../src/model/delivery.ts';
import { FIRST_ID, LAST_ID } from '../../../src/model/delivery-ids.ts';
import type { NewRun, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { acceptanceOf, aDelivery, claimAll, deployOf, finish, flowId, graphOf, id, succeeded, T0 } from '../samples.ts';

const own = { flowId, triggerKey: 'github' };
const all = { ...own, after: FIRST_ID, upTo: LAST_ID, limit: 10, maxBytes: 1000 };

interface Given extends Partial<NewRun> {
  readonly delivery?: Partial<DeliveryRecord>;
}

/** The n-th delivery, with a body and other fields of its run. */
function delivered(n: number, body = `{"n":${n}}`, { delivery = {}, ...run }: Given = {}) {
  const given = acceptanceOf(n, { at: T0 + n });
  const bytes = new TextEncoder().encode(body);
  return {
    ...given,
    delivery: {
      ...aDelivery({ id: id(n), runId: id(1000 + n), receivedAt: T0 + n, bodyBytes: bytes.byteLength }),
      ...delivery,
    },
    run: { ...given.run, trigger: { ...given.run.trigger, body: bytes }, ...run },
  };
}

async function deployed(store: Store): Promise<Store> {
  await store.deployFlow(deployOf(graphOf({ a: [] })));
  return store;
}

const sampled = async (store: Store, query: Partial<typeof all> = {}) =>
  (await store.of(driftStore).sampleDeliveries({ ...all, ...query })).samples.map((sample) => sample.id);

const drift: PathDrift = {
  event: 'push',
  path: 'body.ref',
  was: 'string',
  now: 'absent',
  firstId: id(7),
  firstAt: T0,
  before: 30,
  differing: 3,
  failed: 0,
};
const count = (change: Partial<PathCount> = {}) => {
  const { triggerKey: _, ...rest } = {
    triggerKey: '',
    event: null,
    path: 'body.x',
    hour: 5,
    type: 'string' as const,
    count: 1,
    firstId: id(1),
    lastId: id(1),
    ...change,
  };
  return rest;
};

export function payloads({ test }: StoreUnderTest): void {
  describe('samples of deliveries', () => {
    test('are the newest of one trigger, with what their runs read', async (store) => {
      await deployed(store);
      await store.accept(delivered(1, 'first', { searchKeys: { event: 'Push' } }));
      await store.accept(delivered(2, 'second'));
      await store.accept(delivered(3, 'other', { delivery: { triggerKey: 'other' } }));
      const { samples, lastId } = await store.of(driftStore).sampleDeliveries(all);
      const read = { contentType: 'application/json', headers: { 'content-type': 'application/json' } };
      expect(samples.map(({ body, ...rest }) => ({ ...rest, body: body && Buffer.from(body).toString() }))).toEqual([
        { id: id(2), receivedAt: T0 + 2, event: null, ...read, body: 'second', failure: null },
        { id: id(1), receivedAt: T0 + 1, event: 'Push', ...read, body: 'first', failure: null },
      ]);
      expect(lastId).toBe(id(3));
      expect(await sampled(store, { limit: 1 })).toEqual([id(2)]);
      expect(await sampled(store, { after: id(1) })).toEqual([id(2)]);
      expect(await sampled(store, { upTo: id(1) })).toEqual([id(1)]);
      expect(await store.of(driftStore).sampleDeliveries({ ...all, flowId: id(5) })).toEqual({
        samples: [],
        lastId: null,
      });
    });

    test('are of each event in turn, and of those whose runs failed apart, which say why', async (store) => {
      await deployed(store);
      const steps = [{ stepKey: 'a', stepType: 'NoOp', dueAt: T0 }];
      const deliver = (n: number, event: string) => store.accept(delivered(n, '{}', { searchKeys: { event }, steps }));
      for (const n of [1, 2]) await deliver(n, 'rare');
      await deliver(3, 'busy');
      const error = { code: 'expression_failed', message: 'there is no trigger.body.x', retryable: false } as const;
      for (const claim of await claimAll(store, T0 + 10)) {
        const isThird = claim.runId === id(1003);
        await finish(store, claim, isThird ? { kind: 'failed', error } : succeeded());
      }
      for (const n of [4, 5, 6, 7, 8]) await deliver(n, 'busy');
      expect(await sampled(store, { limit: 3 })).toEqual([8, 3, 2].map(id));
      expect(await sampled(store, { limit: 5 })).toEqual([8, 7, 3, 2, 1].map(id));
      const { samples } = await store.of(driftStore).sampleDeliveries({ ...all, limit: 3 });
      expect(samples.map(({ failure }) => failure)).toEqual([null, error, null]);
    });

    test('are neither refused, nor suspicious, nor repeated', async (store) => {
      await deployed(store);
      await store.accept(
        delivered(1, '{}', {
          delivery: { rejected: true, reason: 'signature_mismatch', violations: ['signature_mismatch'] },
        }),
      );
      await store.recordDelivery(
        aDelivery({
          id: id(2),
          rejected: true,
          enforced: true,
          statusCode: 401,
          reason: 'signature_missing',
          body: new Uint8Array(2),
        }),
      );
      await store.recordDelivery(aDelivery({ id: id(3) }));
      await store.accept(delivered(4, '{}', { delivery: { redeliveredFrom: id(2) } }));
      await store.accept({ ...delivered(5), idempotencyKey: 'same' });
      await store.accept({ ...delivered(6), idempotencyKey: 'same' });
      expect(await sampled(store)).toEqual([id(5)]);
    });

    test('are held ones too', async (store) => {
      await deployed(store);
      await store.setFlowEnabled({ flowId, isEnabled: false, at: T0 });
      expect(await store.holdDelivery(delivered(1, 'held', { searchKeys: { event: 'push' } }))).toMatchObject({
        kind: 'held',
      });
      const { samples } = await store.of(driftStore).sampleDeliveries(all);
      expect(samples).toMatchObject([{ id: id(1), event: 'push' }]);
      expect(Buffer.from(samples[0]?.body ?? []).toString()).toBe('held');
    });

    test('have bodies as far as these are not too much together', async (store) => {
      await deployed(store);
      for (const [n, bytes] of [400, 900, 500, 200].entries()) await store.accept(delivered(n + 1, 'x'.repeat(bytes)));
      const { samples } = await store.of(driftStore).sampleDeliveries(all);
      expect(samples.map(({ body }) => body?.byteLength ?? null)).toEqual([200, 500, null, null]);
      expect(
        (await store.of(driftStore).sampleDeliveries({ ...all, maxBytes: 0 })).samples.map(({ body }) => body),
      ).toEqual([null, null, null, null]);
    });

    test('are gone with their runs', async (store) => {
      await deployed(store);
      await store.accept(delivered(1, '{}', { status: 'Skipped', completedAt: T0, steps: [] }));
      for (let isDone = false; !isDone; ) isDone = (await store.purgeRuns({ before: T0 + 1000, maxRows: 100 })).isDone;
      expect(await sampled(store)).toEqual([]);
    });
  });

  describe('what is known of paths', () => {
    test('is nothing at first', async (store) => {
      expect(await store.of(driftStore).readPayloadWatch(own)).toEqual({ version: 0, lastId: FIRST_ID, drifts: [] });
      expect(await store.of(driftStore).listPathCounts(own)).toEqual([]);
      expect(await store.of(driftStore).sumPathCounts(flowId)).toEqual([]);
      expect(await store.of(driftStore).listPathDrifts()).toEqual([]);
    });

    test('is added up, by trigger, event, path, hour and type', async (store) => {
      const commit = { ...own, lastId: id(9), drifts: [] };
      const first = [
        count({ firstId: id(2), lastId: id(4), count: 2 }),
        count({ type: 'absent' }),
        count({ event: '' }),
        count({ path: 'body["ä\\u0000"]' }),
      ];
      expect(await store.of(driftStore).commitPayloadWatch({ ...commit, version: 0, counts: first })).toBe('committed');
      const second = [count({ firstId: id(1), lastId: id(3), count: 5 }), count({ hour: 6 })];
      expect(await store.of(driftStore).commitPayloadWatch({ ...commit, version: 1, counts: second })).toBe(
        'committed',
      );
      await store.of(driftStore).commitPayloadWatch({ ...commit, triggerKey: 'other', version: 0, counts: [count()] });
      const key = { triggerKey: 'github' };
      expect(await store.of(driftStore).listPathCounts(own)).toEqual([
        { ...key, ...count({ type: 'absent' }) },
        { ...key, ...count({ firstId: id(1), lastId: id(4), count: 7 }) },
        { ...key, ...count({ hour: 6 }) },
        { ...key, ...count({ path: 'body["ä\\u0000"]' }) },
        { ...key, ...count({ event: '' }) },
      ]);
      expect(await store.of(driftStore).listPathCounts({ flowId, triggerKey: 'other' })).toEqual([
        { ...count(), triggerKey: 'other' },
      ]);
      expect(await store.of(driftStore).listPathCounts({ ...own, flowId: id(3) })).toEqual([]);
      expect(await store.of(driftStore).sumPathCounts(flowId)).toEqual([
        { ...key, ...count({ type: 'absent' }) },
        { ...key, ...count({ hour: 6, firstId: id(1), lastId: id(4), count: 8 }) },
        { ...key, ...count({ path: 'body["ä\\u0000"]' }) },
        { ...key, ...count({ event: '' }) },
        { ...count(), triggerKey: 'other' },
      ]);
    });

    test('is counted once, whoever counts at the same time', async (store) => {
      const commit = (version: number) =>
        store.of(driftStore).commitPayloadWatch({ ...own, version, lastId: id(9), drifts: [drift], counts: [count()] });
      expect((await Promise.all([commit(0), commit(0), commit(0)])).sort()).toEqual([
        'committed',
        'outdated',
        'outdated',
      ]);
      const { version, ...watch } = await store.of(driftStore).readPayloadWatch(own);
      expect(watch).toEqual({ lastId: id(9), drifts: [drift] });
      expect((await Promise.all([commit(version), commit(version)])).sort()).toEqual(['committed', 'outdated']);
      expect((await store.of(driftStore).listPathCounts(own)).map((row) => row.count)).toEqual([2]);
      expect(await store.of(driftStore).listPathDrifts()).toEqual([{ ...own, drifts: [drift] }]);
      await store
        .of(driftStore)
        .commitPayloadWatch({ ...own, version: version + 1, lastId: id(9), drifts: [], counts: [] });
      expect(await store.of(driftStore).listPathDrifts()).toEqual([]);
    });

    test('is forgotten when it is old, and the oldest where it is too much', async (store) => {
      const counts = [1, 2, 3, 4, 5].map((hour) => count({ hour }));
      await store.of(driftStore).commitPayloadWatch({ ...own, version: 0, lastId: id(9), drifts: [], counts });
      const purge = (change: object) =>
        store.of(driftStore).purgePathCounts({ beforeHour: 3, maxRows: 100, limit: 1, ...change });
      const hours = async () => (await store.of(driftStore).listPathCounts(own)).map(({ hour }) => hour);
      expect(await purge({})).toBe(1);
      expect(await purge({ limit: 9 })).toBe(1);
      expect(await hours()).toEqual([3, 4, 5]);
      expect(await purge({})).toBe(0);
      expect(await purge({ maxRows: 1 })).toBe(1);
      expect(await purge({ maxRows: 1, limit: 9 })).toBe(1);
      expect(await hours()).toEqual([5]);
      expect(await purge({ maxRows: 1 })).toBe(0);
    });
  });
}
