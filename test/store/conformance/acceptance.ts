import { describe, expect } from 'vitest';
import { StoreUnavailableError } from '../../../src/errors.ts';
import type { Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  acceptanceOf,
  aDelivery,
  aNonce,
  aRun,
  claimAll,
  deliveryIds,
  deployOf,
  flowId,
  graphOf,
  id,
  minute,
  readInput,
  runIdOf,
  runIds,
  T0,
} from '../samples.ts';

export function acceptance({ test }: StoreUnderTest): void {
  describe('acceptance', () => {
    test('stores delivery, run and due steps together', async (store) => {
      const body = Buffer.from('{"order":1}');
      const trigger = { key: 'github', body, contentType: 'application/json', headers: { 'x-a': 'b' } };
      const run = aRun({
        deliveryId: id(1),
        sourceRunId: id(7),
        timeoutAt: T0 + minute,
        traceparent: '00-a-b-01',
        trigger,
        steps: [
          { stepKey: 'left', stepType: 'NoOp', dueAt: T0 },
          { stepKey: 'right', stepType: 'LogMessage', dueAt: T0 + 1 },
        ],
      });
      const delivery = aDelivery({ runId: run.id, bodyBytes: body.length });
      const notStopped = { timedOutAt: null, cancelRequestedAt: null, cancelReason: null };
      const result = await store.accept({ delivery, run, idempotencyKey: 'key-1' });
      expect(result).toEqual({ kind: 'accepted', runId: run.id, isReplay: false });

      const { steps, traceparent, ...kept } = run;
      const storedTrigger = { ...trigger, body: new Uint8Array(body) };
      expect(await store.findRun(run.id)).toEqual({
        ...kept,
        trigger: storedTrigger,
        idempotencyKey: 'key-1',
        deliveries: null,
        ...notStopped,
        order: null,
      });
      expect(await store.findDelivery(id(1))).toEqual({
        ...delivery,
        runStatus: 'Running',
        body: new Uint8Array(body),
      });
      const unstarted = { status: 'Pending', input: null, output: null, error: null, skipReason: null };
      const rest = { evaluationTrace: null, attemptCount: 0, startedAt: null, completedAt: null, attempts: [] };
      expect(await store.listSteps(run.id)).toEqual(
        steps.map((step) => ({ runId: run.id, ...step, ...unstarted, ...rest })),
      );
    });

    test('needs no delivery', async (store) => {
      await store.accept({ run: aRun({ triggerType: 'manual', triggerKey: 'manual' }) });
      expect(await runIds(store)).toEqual([id(100)]);
      expect(await deliveryIds(store)).toEqual([]);
    });

    test('a run of a flow without steps has ended', async (store) => {
      await store.accept({ run: aRun({ status: 'Succeeded', completedAt: T0, steps: [] }) });
      expect(await store.findRun(id(100))).toMatchObject({ status: 'Succeeded', completedAt: T0 });
      expect(await store.listSteps(id(100))).toEqual([]);
    });

    test('keeps the exact bytes of a body', async (store) => {
      const bodies = {
        'every byte': Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)),
        'no byte': Buffer.alloc(0),
        'bytes that are not UTF-8': Buffer.from([0xff, 0xfe, 0x00, 0xc3, 0x28]),
        'a slice of a large buffer': Buffer.alloc(1 << 20, 'x').subarray(777, 1777),
        '1 MiB': Buffer.alloc(1 << 20, 'payload '),
      };
      const calls = Object.values(bodies).map((body, n) => {
        const { delivery, run } = acceptanceOf(n);
        return store.accept({ delivery, run: { ...run, trigger: { ...run.trigger, body } } });
      });
      await Promise.all(calls);
      for (const [n, [name, body]] of Object.entries(bodies).entries()) {
        for (const kept of [
          (await store.findRun(id(1000 + n)))?.trigger.body,
          (await readInput(store, id(1000 + n))).trigger.body,
          (await store.findDelivery(id(n)))?.body,
        ]) {
          expect(kept?.byteLength, name).toBe(body.length);
          expect(kept !== undefined && kept !== null && body.equals(kept), name).toBe(true);
        }
      }
    });

    test('the caller’s bytes stay the caller’s', async (store) => {
      const body = Buffer.from('before');
      await store.accept({ run: aRun({ trigger: { key: 'github', body, contentType: null, headers: {} } }) });
      expect(body.toString()).toBe('before');
    });

    test('the stored delivery names the run that it started, whatever its record says', async (store) => {
      await store.accept({ delivery: aDelivery({ runId: null }), run: aRun({ deliveryId: id(1) }) });
      expect((await store.findDelivery(id(1)))?.runId).toBe(id(100));
    });

    test('an acceptance that fails leaves nothing behind', async (store) => {
      await store.accept(acceptanceOf(1));
      const steps = Array.from({ length: 2 }, () => ({ stepKey: 'same', stepType: 'NoOp', dueAt: T0 }));
      const broken = { ...acceptanceOf(2, { nonce: aNonce(), idempotencyKey: 'key-2' }), run: aRun({ steps }) };
      await expect(store.accept(broken)).rejects.toThrow(StoreUnavailableError);

      expect(await runIds(store)).toEqual([id(1001)]);
      expect(await deliveryIds(store)).toEqual([id(1)]);
      expect((await claimAll(store)).map(({ runId }) => runId)).toEqual([id(1001)]);
      const again = acceptanceOf(2, { nonce: aNonce(), idempotencyKey: 'key-2' });
      expect(await store.accept(again)).toEqual({ kind: 'accepted', runId: id(1002), isReplay: false });
    });

    test('an error names its cause', async (store) => {
      await store.recordDelivery(aDelivery());
      const error = await store.recordDelivery(aDelivery()).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(StoreUnavailableError);
      expect((error as Error).cause).toBeInstanceOf(Error);
      expect((error as Error).message).not.toBe('');
    });

    test('calls of one turn succeed and fail each for itself', async (store) => {
      await store.recordDelivery(aDelivery({ id: id(3) }));
      const calls = [1, 2, 3, 4, 5].map((n) => store.recordDelivery(aDelivery({ id: id(n) })));
      const statuses = (await Promise.allSettled(calls)).map(({ status }) => status);
      expect(statuses).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
      expect(await deliveryIds(store)).toEqual([5, 4, 3, 2, 1].map(id));
    });

    test.each([
      ['a newer revision', (store: Store) => store.deployFlow(deployOf(graphOf({ other: [] })))],
      ['a disabled flow', (store: Store) => store.setFlowEnabled({ flowId, isEnabled: false, at: T0 })],
      ['a drained flow', (store: Store) => store.setFlowDraining({ flowId, isDraining: true, at: T0 })],
    ])('of a run that was planned before %s writes nothing', async (store, _, change) => {
      await store.deployFlow(deployOf(graphOf({ first: [] })));
      await change(store);
      const given = acceptanceOf(1, { nonce: aNonce(), idempotencyKey: 'key' });
      expect(await store.accept(given)).toEqual({ kind: 'outdated' });
      expect([await deliveryIds(store), await runIds(store)]).toEqual([[], []]);
      await store.setFlowEnabled({ flowId, isEnabled: true, at: T0 });
      await store.setFlowDraining({ flowId, isDraining: false, at: T0 });
      const revision = (await store.findFlow(flowId))?.revision ?? 0;
      const planned = { ...given, run: { ...given.run, revision } };
      expect(await store.accept(planned)).toMatchObject({ kind: 'accepted', isReplay: false });
    });

    test('hundreds of callers at once are all served', async (store) => {
      const results = await Promise.all(Array.from({ length: 700 }, (_, n) => store.accept(acceptanceOf(n))));
      expect(new Set(results.map(runIdOf)).size).toBe(700);
      expect((await store.listRuns({ flowId, skip: 0, take: 1, includeTotal: true })).total).toBe(700);
    });
  });
}
