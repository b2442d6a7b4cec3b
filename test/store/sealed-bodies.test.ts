import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { DeliveryRecord } from '../../src/model/delivery.ts';
import { withSealedBodies } from '../../src/store/open-store.ts';
import { bodySealer, sealedBytes } from '../../src/store/sealed-body.ts';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { aDelivery, id } from './samples.ts';

const sealer = bodySealer('correct horse battery staple');
const otherSealer = bodySealer('another key');
const CANARY = Buffer.from('canary of a refused body');

describe('a sealed body', () => {
  const sizes = [0, 1, 65_535, 65_536, 65_537, 200_000];

  it.each(sizes)('of %i bytes opens to the same bytes, and to the first chunk from its beginning', (size) => {
    const body = Buffer.alloc(size, 'payload ');
    const sealed = sealer.seal(body, 'a');
    expect(sealed.byteLength).toBe(sealedBytes(size));
    const about = { deliveryId: 'a', bodyBytes: size };
    expect(sealer.open(sealed, about)?.equals(body)).toBe(true);
    const beginning = sealed.subarray(0, sealedBytes(65_536));
    expect(sealer.open(beginning, about)?.equals(body.subarray(0, 65_536))).toBe(true);
  });

  it('opens for its own delivery, length and key alone', () => {
    const sealed = sealer.seal(CANARY, 'a');
    const about = { deliveryId: 'a', bodyBytes: CANARY.byteLength };
    expect(sealer.open(sealed, { ...about, deliveryId: 'b' })).toBeUndefined();
    expect(sealer.open(sealed, { ...about, bodyBytes: CANARY.byteLength - 1 })).toBeUndefined();
    expect(otherSealer.open(sealed, about)).toBeUndefined();
  });

  it('does not open once any bit of it is changed, whatever its size', () => {
    const bodies = fc.uint8Array({ minLength: 0, maxLength: 300 });
    fc.assert(
      fc.property(bodies, fc.nat(), fc.integer({ min: 0, max: 7 }), (body, at, bit) => {
        const sealed = sealer.seal(body, 'a');
        sealed[at % sealed.length] = (sealed[at % sealed.length] ?? 0) ^ (1 << bit);
        return sealer.open(sealed, { deliveryId: 'a', bodyBytes: body.byteLength }) === undefined;
      }),
    );
  });

  it('never looks the same twice', () => {
    expect(sealer.seal(CANARY, 'a').equals(sealer.seal(CANARY, 'a'))).toBe(false);
  });
});

describe('a store with sealed bodies', () => {
  async function openStores() {
    const plain = await openSqliteStore({ path: ':memory:' });
    onTestFinished(() => plain.close());
    return { plain, sealed: withSealedBodies(plain, sealer) };
  }
  const record = (body: Uint8Array): DeliveryRecord => aDelivery({ body, bodyBytes: body.byteLength });

  it('keeps no byte of a body readable and gives it back whole, in a list its first 64 KiB', async () => {
    const { plain, sealed } = await openStores();
    const body = Buffer.alloc(100_000, CANARY);
    await sealed.recordDelivery(record(body));
    const kept = Buffer.from((await plain.findDelivery(id(1)))?.body ?? []);
    expect(kept.includes(CANARY)).toBe(false);
    expect(body.equals((await sealed.findDelivery(id(1)))?.body ?? Buffer.alloc(0))).toBe(true);
    const [listed] = (await sealed.listDeliveries({ skip: 0, take: 1 })).items;
    expect(body.subarray(0, 65_536).equals(listed?.body ?? Buffer.alloc(0))).toBe(true);
    expect(listed?.bodyKey).toBeUndefined();
  });

  it('shows what was stored before there was a key', async () => {
    const { plain, sealed } = await openStores();
    await plain.recordDelivery(record(CANARY));
    expect(CANARY.equals((await sealed.findDelivery(id(1)))?.body ?? Buffer.alloc(0))).toBe(true);
  });

  it.each([undefined, otherSealer])('shows no body that another key sealed', async (other) => {
    const { plain, sealed } = await openStores();
    await sealed.recordDelivery(record(CANARY));
    const found = await withSealedBodies(plain, other).findDelivery(id(1));
    expect(found).toMatchObject({ body: null, bodyKey: sealer.keyId });
  });
});
