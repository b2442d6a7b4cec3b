import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { DeliveryRecord, GateStory } from '../../src/model/delivery.ts';
import { withDeliveryRing } from '../../src/store/delivery-ring.ts';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import type { Store } from '../../src/store/store.ts';
import { acceptanceOf, aDelivery, aRun, deliveryIds, flowId, id, minute, runIds, T0 } from './samples.ts';

const story: GateStory[] = [
  { gate: 'replay', outcome: 'passed', reason: null, detail: null, facts: { nonce: 'say "n"', replaySkewMs: 3 } },
];

function refused(n: number, change: Partial<DeliveryRecord> = {}): DeliveryRecord {
  const why = { rejected: true, enforced: true, statusCode: 401, reason: 'signature_mismatch' } as const;
  return aDelivery({ id: id(n), ...why, violations: ['signature_mismatch'], body: new Uint8Array(100), ...change });
}

describe.each(['a file', 'memory', 'a ring'])('the delivery log in %s', (place) => {
  async function open(): Promise<Store> {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-log-'));
    const database = await openSqliteStore({ path: place === 'a file' ? join(folder, 'log.db') : ':memory:' });
    const store = place === 'a ring' ? withDeliveryRing(database, { size: 20, maxBytes: 1e6 }) : database;
    onTestFinished(async () => {
      await store.close();
      rmSync(folder, { recursive: true });
    });
    return store;
  }

  test('keeps story, URL and origin of a delivery', async () => {
    const store = await open();
    const record = refused(1, { story, requestUrl: 'https://a.example/x?y=1', redeliveredFrom: id(9), runId: id(2) });
    await store.recordDelivery(record);
    expect(await store.findDelivery(id(1))).toMatchObject({ ...record, body: new Uint8Array(100) });
    expect(await store.findRedelivery(id(9))).toEqual({ deliveryId: id(1), runId: id(2) });
    expect(await store.findRedelivery(id(1))).toBeUndefined();
  });

  test('a refused delivery is accepted once, whoever asks again', async () => {
    const store = await open();
    const again = (n: number) => {
      const acceptance = acceptanceOf(n);
      const delivery = aDelivery({ ...acceptance.delivery, redeliveredFrom: id(500) });
      return store.accept({ ...acceptance, delivery });
    };
    const results = await Promise.all([again(1), again(2), again(3)]);
    expect(results).toEqual([
      { kind: 'accepted', runId: id(1001), isReplay: false },
      { kind: 'duplicate', runId: id(1001), isReplay: false },
      { kind: 'duplicate', runId: id(1001), isReplay: false },
    ]);
    expect(await runIds(store)).toEqual([id(1001)]);
    expect(await deliveryIds(store)).toEqual([id(1)]);
    expect(await again(4)).toEqual({ kind: 'duplicate', runId: id(1001), isReplay: false });
  });

  test('a delivery whose idempotency key was known keeps its own body', async () => {
    const store = await open();
    await store.accept(acceptanceOf(1, { idempotencyKey: 'key' }));
    const body = Buffer.from('its own bytes');
    const run = aRun({ id: id(1002), trigger: { key: 'github', body, contentType: null, headers: {} } });
    const result = await store.accept({ ...acceptanceOf(2), run, idempotencyKey: 'key' });
    expect(result.kind).toBe('duplicate');
    expect(Buffer.from((await store.findDelivery(id(2)))?.body ?? []).toString()).toBe('its own bytes');
  });

  test('finds the run of a nonce that was accepted, at its own trigger and since then alone', async () => {
    const store = await open();
    const acceptance = acceptanceOf(1);
    await store.accept({ ...acceptance, delivery: aDelivery({ ...acceptance.delivery, story }) });
    await store.recordDelivery(refused(2, { story }));
    const search = { flowId, triggerKey: 'github', nonce: 'say "n"', since: T0 };
    expect(await store.findAcceptedNonce(search)).toBe(id(1001));
    for (const other of [{ nonce: 'n' }, { triggerKey: 'x' }, { flowId: 'x' }, { since: T0 + 1 }]) {
      expect(await store.findAcceptedNonce({ ...search, ...other })).toBeUndefined();
    }
  });

  test('lists what was refused between two instants', async () => {
    const store = await open();
    await store.accept(acceptanceOf(1));
    for (const n of [2, 3, 4]) await store.recordDelivery(refused(n, { receivedAt: T0 + n }));
    await store.recordDelivery(aDelivery({ id: id(5), receivedAt: T0 + 3 }));
    const query = { skip: 0, take: 10, refusedOnly: true, since: T0 + 3, until: T0 + 4, includeTotal: true };
    const { items, total } = await store.listDeliveries(query);
    expect([items.map((item) => item.id), total]).toEqual([[id(3)], 1]);
  });

  test('sums up by trigger, mode and what was found wrong', async () => {
    const store = await open();
    await store.accept(acceptanceOf(1));
    await store.accept(acceptanceOf(2, { at: T0 + 1 }));
    await store.recordDelivery(refused(3));
    await store.recordDelivery(refused(4, { flowId: null, triggerKey: null }));
    await store.recordDelivery(refused(5, { receivedAt: T0 - 1 }));
    await store.recordDelivery(refused(6, { redeliveredFrom: id(3), runId: id(7) }));
    const group = { flowId, triggerKey: 'github', mode: 'Enforce', firstAt: T0 };
    const groups = [
      { ...group, violations: [], count: 2, firstId: id(1), lastId: id(2) },
      { ...group, violations: ['signature_mismatch'], count: 1, firstId: id(3), lastId: id(3) },
    ];
    expect(await store.summariseDeliveries({ since: T0 })).toEqual(groups);
    expect(await store.summariseDeliveries({ since: T0, flowId })).toEqual(groups);
    expect(await store.summariseDeliveries({ since: T0, flowId: 'other' })).toEqual([]);
  });

  test.skipIf(place === 'a ring')('forgets what is too old, in chunks, and still counts it', async () => {
    const store = await open();
    for (let n = 1; n <= 5; n += 1) await store.recordDelivery(refused(n, { receivedAt: T0 + n * minute }));
    const before = T0 + 4 * minute;
    expect(await store.purgeDeliveries({ before, limit: 2 })).toBe(2);
    expect(await deliveryIds(store)).toEqual([5, 4, 3].map(id));
    expect(await store.purgeDeliveries({ before, limit: 2 })).toBe(1);
    expect(await store.purgeDeliveries({ before, limit: 2 })).toBe(0);
    expect((await store.deliveryStats(T0)).total).toBe(5);
    expect((await store.deliveryStats(T0 + 4 * minute)).counts).toEqual({ signature_mismatch: 2 });
  });

  test.skipIf(place === 'a ring')(
    'holds no more refused records than it may, and never lets go of an accepted one for them',
    async () => {
      const store = await open();
      await store.accept(acceptanceOf(1));
      for (let n = 2; n <= 11; n += 1) await store.recordDelivery(refused(n));
      const bounds = { maxRows: 4, maxBytes: 1e9, limit: 5 };
      expect(await store.trimRefused(bounds)).toBe(5);
      expect(await store.trimRefused(bounds)).toBe(1);
      expect(await store.trimRefused(bounds)).toBe(0);
      expect(await deliveryIds(store)).toEqual([11, 10, 9, 8, 1].map(id));
      expect(await store.trimRefused({ maxRows: 100, maxBytes: 299, limit: 100 })).toBe(2);
      expect(await store.trimRefused({ maxRows: 0, maxBytes: 0, limit: 100 })).toBe(2);
      expect(await deliveryIds(store)).toEqual([id(1)]);
      expect(await store.deliveryStats(T0)).toMatchObject({ accepted: 1, rejected: 10, total: 11 });
    },
  );

  test.skipIf(place === 'a ring')('gives space back once much is free', async () => {
    const store = await open();
    expect(await store.releaseSpace({ pages: 100 })).toBe(0);
    for (let n = 1; n <= 12; n += 1) await store.recordDelivery(refused(n, { body: Buffer.alloc(1 << 20) }));
    await store.trimRefused({ maxRows: 0, maxBytes: 0, limit: 100 });
    // A database in memory has no file to shrink.
    if (place === 'memory') return;
    expect(await store.releaseSpace({ pages: 100 })).toBe(100);
  });
});

describe('the ring of deliveries', () => {
  async function open(bounds: { size: number; maxBytes: number }): Promise<{ ring: Store; database: Store }> {
    const database = await openSqliteStore({ path: ':memory:' });
    onTestFinished(() => database.close());
    return { ring: withDeliveryRing(database, bounds), database };
  }

  test('holds the newest, counts all, and leaves none in the database', async () => {
    const { ring, database } = await open({ size: 3, maxBytes: 1e6 });
    await ring.accept(acceptanceOf(1));
    for (const n of [2, 3, 4, 5]) await ring.recordDelivery(refused(n, { receivedAt: T0 + n }));
    expect(await deliveryIds(ring)).toEqual([5, 4, 3].map(id));
    expect(await ring.deliveryStats(T0)).toEqual({
      counts: { signature_mismatch: 4 },
      accepted: 1,
      rejected: 4,
      total: 5,
    });
    expect((await ring.deliveryStats(T0 + 4)).total).toBe(2);
    expect(await deliveryIds(database)).toEqual([]);
    expect(await runIds(database)).toEqual([id(1001)]);
  });

  test('holds no more of bodies than it may', async () => {
    const { ring } = await open({ size: 100, maxBytes: 250 });
    for (const n of [1, 2, 3]) await ring.recordDelivery(refused(n));
    expect(await deliveryIds(ring)).toEqual([3, 2].map(id));
  });

  test('shows the body of an accepted delivery from its run, and what a nonce that was known makes of its record', async () => {
    const { ring } = await open({ size: 10, maxBytes: 1e6 });
    const nonce = { value: 'n', bodySha256: 'a', expiresAt: T0 + minute, isEnforced: false };
    await ring.accept(acceptanceOf(1, { nonce }));
    await ring.accept(acceptanceOf(2, { nonce }));
    expect(Buffer.from((await ring.findDelivery(id(1)))?.body ?? []).toString()).toBe('{}');
    const replay = { rejected: true, reason: 'nonce_replayed', violations: ['nonce_replayed'], runId: id(1002) };
    expect(await ring.findDelivery(id(2))).toMatchObject(replay);
  });

  test.each([
    [{ reason: 'signature_mismatch' }, [2]],
    [{ rejectedOnly: true }, [2]],
    [{ acceptedOnly: true }, [3, 1]],
    [{ search: 'MISMATCH' }, [2]],
    [{ flowId: 'other' }, [3]],
    [{ refusedOnly: true, until: T0 }, []],
    [{ skip: 1, take: 1 }, [2]],
  ] as const)('lists by %j', async (query, expected) => {
    const { ring } = await open({ size: 10, maxBytes: 1e6 });
    await ring.recordDelivery(aDelivery({ id: id(3), flowId: 'other' }));
    await ring.recordDelivery(refused(2));
    await ring.recordDelivery(aDelivery({ id: id(1) }));
    const { items } = await ring.listDeliveries({ skip: 0, take: 10, ...query });
    expect(items.map((item) => item.id)).toEqual(expected.map(id));
  });
});
