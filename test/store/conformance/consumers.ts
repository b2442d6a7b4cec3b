import { describe, expect } from 'vitest';
import { consumersStore } from '../../../src/features/consumers/store.ts';
import { holdStore } from '../../../src/features/hold/store.ts';
import type { Acceptance, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  acceptanceOf,
  aDelivery,
  aRun,
  claimAll,
  deployOf,
  finish,
  flowId,
  graphOf,
  id,
  minute,
  succeeded,
  T0,
} from '../samples.ts';

/** The time in the samples' ids. */
const MADE = 0x019aa0000000;
const DAY = 24 * 60 * minute;

const opened = {
  name: 'ada@laptop',
  flowId: null,
  triggerKey: null,
  since: MADE,
  at: T0,
  idleBefore: T0 - DAY,
  most: 3,
  mostOfFlow: 3,
};
const page = { name: opened.name, limit: 100, bytes: 1_000_000 };

async function idsFrom(store: Store, query: Partial<typeof page> = {}) {
  const found = await store.of(consumersStore).readForwarding({ ...page, ...query });
  return found?.deliveries.map(({ deliveryId }) => deliveryId);
}

/** Reads all remaining deliveries, one page at a time, and moves the consumer past them. */
async function drain(store: Store, query: Partial<typeof page> = {}): Promise<string[]> {
  const ids: string[] = [];
  for (;;) {
    const { consumer, deliveries, upTo } = (await store.of(consumersStore).readForwarding({ ...page, ...query })) ?? {};
    if (consumer === undefined || deliveries === undefined || upTo === undefined) throw new Error('no consumer');
    if (deliveries.length === 0) return ids;
    ids.push(...deliveries.map(({ deliveryId }) => deliveryId));
    const advance = { name: consumer.name, from: consumer.deliveryId, to: upTo, at: T0 };
    expect(await store.of(consumersStore).advanceConsumer(advance)).toBe('moved');
  }
}

/** A delivery that coalesces with others of its key. */
function joining(n: number, key: string, { body, headers }: { body?: string; headers?: Record<string, string> } = {}) {
  const { run, ...rest } = acceptanceOf(n);
  const coalesce = { key, isTrusted: true, quietMs: 2000, maxMs: 10_000, collect: 100 };
  const steps = run.steps.map((step) => ({ ...step, dueAt: T0 + 2000 }));
  const own = { contentType: 'text/plain', headers: headers ?? {}, body: Buffer.from(body ?? `${n}`) };
  const trigger = body === undefined ? run.trigger : { ...run.trigger, ...own };
  const delivery = aDelivery({ id: id(n), runId: run.id, headers: trigger.headers });
  return { ...rest, delivery, coalesce, run: { ...run, steps, trigger } } satisfies Acceptance;
}

async function endAll(store: Store) {
  for (const claim of await claimAll(store)) await finish(store, claim, succeeded());
}

export function consumers({ test }: StoreUnderTest): void {
  describe('consumers', () => {
    test('one gets deliveries in the order of their commits, with body and headers, and none twice', async (store) => {
      await store.of(consumersStore).openConsumer(opened);
      for (const n of [3, 1, 2]) await store.accept(acceptanceOf(n));
      const found = await store.of(consumersStore).readForwarding(page);
      expect(found?.deliveries.map(({ deliveryId }) => deliveryId)).toEqual([id(3), id(1), id(2)]);
      const [first] = found?.deliveries ?? [];
      expect({ ...first, body: Buffer.from(first?.body ?? []).toString(), position: 0 }).toEqual({
        position: 0,
        joined: 0,
        deliveryId: id(3),
        runId: id(1003),
        flowId,
        flowName: 'Orders',
        triggerKey: 'github',
        contentType: 'application/json',
        headers: { 'content-type': 'application/json' },
        hasRecord: true,
        body: '{}',
      });
      expect(await drain(store, { limit: 2 })).toEqual([id(3), id(1), id(2)]);
      await store.accept(acceptanceOf(0));
      expect(await drain(store)).toEqual([id(0)]);
    });

    test('a delivery has the headers of its record, which are fewer than those of its run', async (store) => {
      await store.of(consumersStore).openConsumer(opened);
      const { run } = acceptanceOf(1);
      const headers = { 'x-tenant': 'acme' };
      const delivery = aDelivery({ id: id(1), runId: run.id, headers: { 'x-tenant': '[redacted]' } });
      await store.accept({ delivery, run: { ...run, trigger: { ...run.trigger, headers } } });
      expect((await store.of(consumersStore).readForwarding(page))?.deliveries).toMatchObject([
        { headers: { 'x-tenant': '[redacted]' }, hasRecord: true },
      ]);
      await store.purgeDeliveries({ before: T0 + 1, limit: 10 });
      expect((await store.of(consumersStore).readForwarding(page))?.deliveries).toMatchObject([
        { headers, hasRecord: false },
      ]);
    });

    test('each has a place of its own', async (store) => {
      await store.of(consumersStore).openConsumer(opened);
      await store.of(consumersStore).openConsumer({ ...opened, name: 'bob' });
      await store.accept(acceptanceOf(1));
      expect(await drain(store)).toEqual([id(1)]);
      expect(await drain(store, { name: 'bob' })).toEqual([id(1)]);
    });

    test('a new one begins at an instant, and one that is there stays where it is', async (store) => {
      await store.accept(acceptanceOf(1));
      expect(await store.of(consumersStore).openConsumer({ ...opened, since: MADE + 1 })).toMatchObject({
        isNew: true,
      });
      expect(await idsFrom(store)).toEqual([]);
      await store.accept(acceptanceOf(2));
      expect(await store.of(consumersStore).openConsumer({ ...opened, since: MADE, at: T0 + 5 })).toMatchObject({
        isNew: false,
        consumer: { usedAt: T0 + 5, createdAt: T0 },
      });
      expect(await idsFrom(store)).toEqual([id(2)]);
      await store.of(consumersStore).openConsumer({ ...opened, name: 'bob' });
      expect(await idsFrom(store, { name: 'bob' })).toEqual([id(1), id(2)]);
    });

    test('a page has bodies up to a size, and one in any case', async (store) => {
      await store.of(consumersStore).openConsumer(opened);
      const large = { key: 'github', body: Buffer.alloc(5000, 'x'), contentType: null, headers: {} };
      for (const n of [1, 2, 3]) {
        const { run, ...rest } = acceptanceOf(n);
        await store.accept({ ...rest, run: { ...run, trigger: large } });
      }
      expect(await idsFrom(store, { bytes: 10_000 })).toEqual([id(1), id(2)]);
      expect(await idsFrom(store, { bytes: 1 })).toEqual([id(1)]);
      expect(await drain(store, { bytes: 1 })).toEqual([id(1), id(2), id(3)]);
    });

    test('one of a trigger passes over what others receive', async (store) => {
      await store.of(consumersStore).openConsumer({ ...opened, flowId, triggerKey: 'stripe' });
      await store.accept(acceptanceOf(1));
      const [delivery, run] = [
        aDelivery({ id: id(2), triggerKey: 'stripe', runId: id(1002) }),
        aRun({ id: id(1002), deliveryId: id(2), triggerKey: 'stripe' }),
      ];
      await store.accept({ delivery, run });
      await store.accept(acceptanceOf(3));
      expect(await drain(store)).toEqual([id(2)]);
      const { upTo, consumer } = (await store.of(consumersStore).readForwarding(page)) ?? {};
      expect([upTo?.deliveryId, consumer?.deliveryId]).toEqual([id(3), id(3)]);
    });

    test('runs that no delivery started, and deliveries without a run, are not forwarded', async (store) => {
      await store.of(consumersStore).openConsumer(opened);
      await store.accept({ run: aRun({ id: id(1000), triggerType: 'manual', triggerKey: 'manual' }) });
      await store.recordDelivery(
        aDelivery({ id: id(1), statusCode: 401, rejected: true, reason: 'signature_missing' }),
      );
      await store.accept(acceptanceOf(2));
      expect(await drain(store)).toEqual([id(2)]);
    });

    test('a held delivery is forwarded once its run starts', async (store) => {
      await store.of(consumersStore).openConsumer(opened);
      const { revision } = await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.setFlowDraining({ flowId, isDraining: true, at: T0 });
      const held = acceptanceOf(1);
      expect(await store.holdDelivery({ ...held, run: { ...held.run, revision } })).toMatchObject({ kind: 'held' });
      expect(await idsFrom(store)).toEqual([]);
      await store.setFlowDraining({ flowId, isDraining: false, at: T0 });
      await store.of(holdStore).releaseHeld({ flowId, limit: 10, at: T0 });
      expect(await drain(store)).toEqual([id(1)]);
    });

    test('every delivery that joins the run of another is forwarded, in the order of their commits', async (store) => {
      await store.of(consumersStore).openConsumer(opened);
      await store.accept(joining(5, 'a'));
      await store.accept(joining(9, 'b'));
      expect(await store.accept(joining(4, 'a'))).toMatchObject({ kind: 'coalesced', runId: id(1005) });
      expect(await drain(store)).toEqual([id(5), id(9), id(4)]);
      await store.accept(joining(3, 'b', { body: 'joined', headers: { 'x-own': 'yes' } }));
      await store.accept(joining(2, 'a'));
      const [first] = (await store.of(consumersStore).readForwarding(page))?.deliveries ?? [];
      expect({ ...first, body: Buffer.from(first?.body ?? []).toString() }).toMatchObject({
        deliveryId: id(3),
        runId: id(1009),
        flowId,
        flowName: 'Orders',
        triggerKey: 'github',
        contentType: 'text/plain',
        headers: { 'x-own': 'yes' },
        body: 'joined',
      });
      await store.accept(acceptanceOf(1));
      expect(await drain(store, { limit: 1 })).toEqual([id(3), id(2), id(1)]);
      await store.of(consumersStore).openConsumer({ ...opened, name: 'bob' });
      expect(await drain(store, { name: 'bob', limit: 2 })).toEqual([5, 9, 4, 3, 2, 1].map(id));
      await store.of(consumersStore).openConsumer({ ...opened, name: 'eve', flowId, triggerKey: 'stripe' });
      expect(await drain(store, { name: 'eve' })).toEqual([]);
    });

    test('a new one gets what joins a run from its instant on, and nothing that joined before', async (store) => {
      for (const n of [1, 2]) await store.accept(joining(n, 'a'));
      await store.of(consumersStore).openConsumer({ ...opened, since: MADE + 5000 });
      expect(await drain(store)).toEqual([]);
      // Like the id of a delivery that arrives six seconds later.
      const laterId = id(3).replace('-0000-7', '-1770-7');
      const { delivery, run, ...rest } = joining(3, 'a');
      await store.accept({ ...rest, delivery: { ...delivery, id: laterId }, run: { ...run, deliveryId: laterId } });
      await store.of(consumersStore).openConsumer({ ...opened, name: 'bob', since: MADE + 5000 });
      expect(await drain(store)).toEqual([laterId]);
      expect(await drain(store, { name: 'bob' })).toEqual([laterId]);
    });

    test('a page that ends among those that joined leaves none out, whatever their size', async (store) => {
      await store.of(consumersStore).openConsumer(opened);
      const large = 'x'.repeat(5000);
      for (const n of [6, 5, 4, 3, 2, 1]) await store.accept(joining(n, 'a', { body: large }));
      expect(await idsFrom(store, { bytes: 11_000 })).toEqual([id(6), id(5)]);
      expect(await drain(store, { bytes: 11_000, limit: 4 })).toEqual([6, 5, 4, 3, 2, 1].map(id));
    });

    test('a run that repeats one with several deliveries forwards none of them again', async (store) => {
      await store.of(consumersStore).openConsumer(opened);
      await store.accept(joining(1, 'a'));
      await store.accept(joining(2, 'a'));
      expect(await drain(store)).toEqual([id(1), id(2)]);
      const repeats = { id: id(3000), deliveryId: null, sourceRunId: id(1001), deliveriesOf: id(1001) };
      await store.accept({ run: aRun(repeats) });
      await store.accept(acceptanceOf(3));
      expect(await drain(store)).toEqual([id(3)]);
    });

    test('held deliveries of one run are forwarded once it starts', async (store) => {
      await store.of(consumersStore).openConsumer(opened);
      const { revision } = await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.setFlowDraining({ flowId, isDraining: true, at: T0 });
      for (const n of [2, 1]) {
        const held = joining(n, 'a');
        await store.holdDelivery({ ...held, run: { ...held.run, revision } });
      }
      expect(await idsFrom(store)).toEqual([]);
      await store.setFlowDraining({ flowId, isDraining: false, at: T0 });
      await store.of(holdStore).releaseHeld({ flowId, limit: 10, at: T0 });
      expect((await drain(store)).sort()).toEqual([id(1), id(2)]);
    });

    test('what joins after the newest that joined were removed is forwarded all the same', async (store) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.of(consumersStore).openConsumer(opened);
      for (const n of [1, 2, 3]) await store.accept(joining(n, 'a'));
      expect(await drain(store)).toEqual([id(1), id(2), id(3)]);
      for (const claim of await claimAll(store, T0 + minute)) await finish(store, claim, succeeded(), T0 + minute);
      while (!(await store.purgeRuns({ before: T0 + 2 * minute, maxRows: 100 })).isDone);
      for (const n of [4, 5]) await store.accept(joining(n, 'b'));
      expect(await drain(store)).toEqual([id(4), id(5)]);
    });

    test('what comes after the newest runs were removed is forwarded all the same', async (store) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.of(consumersStore).openConsumer(opened);
      for (const n of [1, 2, 3]) await store.accept(acceptanceOf(n));
      expect(await drain(store)).toEqual([id(1), id(2), id(3)]);
      await endAll(store);
      while (!(await store.purgeRuns({ before: T0 + 1, maxRows: 100 })).isDone);
      for (const n of [4, 5]) await store.accept(acceptanceOf(n));
      expect(await drain(store)).toEqual([id(4), id(5)]);
    });

    test.each([
      ['runs', (n: number) => acceptanceOf(n)],
      ['deliveries that joined', (n: number) => joining(n, n < 4 ? 'a' : 'b')],
    ])(
      'a page of %s that are removed before it is acknowledged hides nothing that comes after',
      async (store, _kind, each) => {
        await store.deployFlow(deployOf(graphOf({ first: [] })));
        await store.of(consumersStore).openConsumer(opened);
        for (const n of [1, 2, 3]) await store.accept(each(n));
        const { consumer, upTo } = (await store.of(consumersStore).readForwarding(page)) ?? {};
        if (consumer === undefined || upTo === undefined) throw new Error('nothing to forward');
        for (const claim of await claimAll(store, T0 + minute)) await finish(store, claim, succeeded(), T0 + minute);
        while (!(await store.purgeRuns({ before: T0 + 2 * minute, maxRows: 100 })).isDone);
        for (const n of [4, 5, 6]) await store.accept(each(n));
        const advance = { name: consumer.name, from: consumer.deliveryId, to: upTo, at: T0 };
        expect(await store.of(consumersStore).advanceConsumer(advance)).toBe('moved');
        expect(await drain(store)).toEqual([id(4), id(5), id(6)]);
      },
    );

    test('what joins a run after newer runs were removed comes after what joined it before', async (store) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await store.of(consumersStore).openConsumer(opened);
      await store.accept(joining(1, 'a'));
      await store.accept(acceptanceOf(2));
      await store.accept(joining(3, 'a'));
      await endAll(store);
      while (!(await store.purgeRuns({ before: T0 + 1, maxRows: 100 })).isDone);
      await store.accept(joining(4, 'a'));
      expect(await drain(store, { limit: 1 })).toEqual([id(1), id(3), id(4)]);
    });

    test('one moves only from where it is', async (store) => {
      await store.of(consumersStore).openConsumer(opened);
      await store.accept(acceptanceOf(1));
      await store.accept(acceptanceOf(2));
      const { consumer, deliveries = [] } = (await store.of(consumersStore).readForwarding(page)) ?? {};
      const [first, second] = deliveries;
      if (consumer === undefined || first === undefined || second === undefined) throw new Error('nothing to forward');
      const advance = { name: page.name, from: consumer.deliveryId, to: first, at: T0 };
      expect(await store.of(consumersStore).advanceConsumer(advance)).toBe('moved');
      expect(await store.of(consumersStore).advanceConsumer({ ...advance, to: second })).toBe('outdated');
      expect(await store.of(consumersStore).advanceConsumer({ ...advance, name: 'nobody' })).toBe('unknown');
      expect(await drain(store)).toEqual([id(2)]);
    });

    test('those of one flow leave others their room', async (store) => {
      const [one, another] = ['0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10', '1c8f3055-7d2e-4a1f-8b62-40109e2d3b21'] as const;
      const open = (name: string, flowId: string | null) =>
        store.of(consumersStore).openConsumer({ ...opened, name, flowId, most: 4, mostOfFlow: 1 });
      expect(await open('a', one)).toMatchObject({ isNew: true });
      expect(await open('b', one)).toBe('fullOfSubject');
      expect(await open('a', one)).toMatchObject({ isNew: false });
      expect(await open('c', null)).toMatchObject({ isNew: true });
      expect(await open('d', null)).toBe('fullOfSubject');
      expect(await open('e', another)).toMatchObject({ isNew: true });
      expect(await store.of(consumersStore).forgetConsumer('a')).toBe(true);
      expect(await open('b', one)).toMatchObject({ isNew: true });
    });

    test('those that nobody used for long are forgotten, and there are no more than may be', async (store) => {
      for (const name of ['a', 'b', 'c']) await store.of(consumersStore).openConsumer({ ...opened, name });
      expect(await store.of(consumersStore).openConsumer({ ...opened, name: 'd' })).toBe('full');
      expect(
        await store.of(consumersStore).openConsumer({ ...opened, name: 'a', at: T0 + 2 * DAY, idleBefore: 0 }),
      ).toMatchObject({
        isNew: false,
      });
      await store.of(consumersStore).openConsumer({ ...opened, name: 'd', at: T0 + 2 * DAY, idleBefore: T0 + DAY });
      expect((await store.of(consumersStore).listConsumers()).map(({ name }) => name)).toEqual(['a', 'd']);
      expect(await store.of(consumersStore).forgetConsumer('a')).toBe(true);
      expect(await store.of(consumersStore).forgetConsumer('a')).toBe(false);
      expect(await store.of(consumersStore).findConsumer('a')).toBeUndefined();
      expect(await store.of(consumersStore).readForwarding({ ...page, name: 'a' })).toBeUndefined();
    });
  });
}
