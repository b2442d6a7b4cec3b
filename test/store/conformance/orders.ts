import { describe, expect } from 'vitest';
import { flowsStore } from '../../../src/features/flows/store.ts';
import { holdStore } from '../../../src/features/hold/store.ts';
import { orderStore } from '../../../src/features/order/store.ts';
import { schedulesStore } from '../../../src/features/schedules/store.ts';
import type { Acceptance, Claim, NewRun, Store } from '../../../src/store/store.ts';
import { openCircle } from '../circles.ts';
import type { StoreUnderTest } from '../conformance.ts';
import {
  acceptanceOf,
  aDelivery,
  aNonce,
  aRun,
  claimAll,
  failed,
  finish,
  flowId,
  graphOf,
  id,
  minute,
  succeeded,
  T0,
} from '../samples.ts';
import { asking, CHILD, deploy, PARENT, running, statusOf } from '../sub-run-samples.ts';

const verified = (key: string | null, isTrusted: boolean | null = true): NewRun['order'] => ({
  key,
  problem: key === null ? 'gives null' : null,
  isTrusted,
});

type Flow = Parameters<typeof deploy>[2] & {
  readonly serialize?: string;
  readonly serializeOnFailure?: 'continue' | 'stop';
};

const deployOrdered = (store: Store, flow: Flow = {}) =>
  deploy(store, flowId, { steps: graphOf({ first: [] }), serialize: 'trigger.body.key', ...flow } as Flow);

const startOf = (n: number, key: string | null, change: Partial<NewRun> = {}): Acceptance => ({
  run: aRun({ id: id(n), order: verified(key), ...change }),
});

async function startAll(store: Store, ...keys: (string | null)[]): Promise<void> {
  for (const [at, key] of keys.entries()) await store.accept(startOf(at + 1, key));
}

const dueRuns = (claims: readonly Claim[]) => claims.map(({ runId }) => runId).sort();

/** Ends the only due step. */
async function endOne(store: Store, result = succeeded(), at = T0) {
  const [claim, ...others] = await claimAll(store, at);
  if (claim === undefined || others.length > 0) throw new Error(`${others.length + 1} steps were due`);
  return { runId: claim.runId, advance: await finish(store, claim, result, at) };
}

const waitingOf = async (store: Store, ...running: string[]) =>
  (await store.describeRuns({ running, ended: [], dueBefore: T0 - 1 })).waits.map(({ runId, kind, awaitedRunId }) => [
    runId,
    kind,
    awaitedRunId,
  ]);

const listWaiting = async (store: Store, flow?: string) =>
  (await store.listRuns({ skip: 0, take: 99, flowId: flow, waiting: { kind: 'order', dueBefore: T0 } })).items.map(
    (run) => run.id,
  );

export function orders({ test }: StoreUnderTest): void {
  describe('runs of one key', () => {
    test('the first runs, the others wait behind each other in the order of their commits', async (store) => {
      await deployOrdered(store);
      expect(await store.accept(startOf(1, 'a'))).toEqual({ kind: 'accepted', runId: id(1), isReplay: false });
      expect(await store.accept(startOf(2, 'a'))).toMatchObject({ kind: 'accepted', isWaiting: true });
      await store.accept(startOf(3, 'a'));
      expect(await waitingOf(store, id(1), id(2), id(3))).toEqual([
        [id(2), 'order', id(1)],
        [id(3), 'order', id(2)],
      ]);
      expect(await listWaiting(store)).toEqual([id(3), id(2)]);
      expect(await listWaiting(store, 'another flow')).toEqual([]);
      expect(await store.findRun(id(2))).toMatchObject({ status: 'Running', order: { state: 'waiting', key: 'a' } });
      for (const n of [1, 2, 3]) {
        const { runId, advance } = await endOne(store);
        expect(runId).toBe(id(n));
        const next = n === 3 ? undefined : { runId: id(n + 1), flowId, timeoutAt: null };
        expect(advance?.next).toEqual(next);
        expect(await statusOf(store, id(n))).toBe('Succeeded');
      }
      expect(await listWaiting(store)).toEqual([]);
    });

    test('runs of other keys, other flows and none at all do not wait for them', async (store) => {
      await deployOrdered(store);
      await startAll(store, 'a', 'b');
      await store.accept(startOf(3, 'a', { flowId: 'another flow' }));
      await store.accept({ run: aRun({ id: id(4) }) });
      expect(dueRuns(await claimAll(store))).toEqual([id(1), id(2), id(3), id(4)]);
    });

    test('keys are told apart whatever their length and characters', async (store) => {
      await deployOrdered(store);
      const keys = ['', ' ', 'a', 'A', 'x'.repeat(100_000), `${'x'.repeat(100_000)}y`, '\u0000', "'; --", 'null'];
      await startAll(store, ...keys, null);
      expect(await claimAll(store)).toHaveLength(keys.length + 1);
    });

    test('those without a key share one, and that is reported', async (store) => {
      await deployOrdered(store);
      await startAll(store, null, null);
      expect(dueRuns(await claimAll(store))).toEqual([id(1)]);
      const { keyless } = await store.of(orderStore).reportOrders({ since: 0 });
      expect(keyless).toEqual([{ flowId, count: 2, runId: id(2), problem: 'gives null' }]);
      expect(await store.of(orderStore).reportOrders({ since: Date.UTC(2100, 0) })).toEqual({
        stopped: [],
        keyless: [],
      });
    });

    test('what was not verified waits for nothing that was, and holds none of it up', async (store) => {
      await deployOrdered(store, { serializeOnFailure: 'stop' });
      for (const n of [1, 2]) await store.accept(startOf(n, 'a', { order: verified('a', false) }));
      expect(await store.accept(startOf(3, 'a'))).not.toHaveProperty('isWaiting');
      const claims = await claimAll(store);
      expect(dueRuns(claims)).toEqual([id(1), id(3)]);
      const strangers = claims.find(({ runId }) => runId === id(1));
      if (strangers === undefined) throw new Error('it was not due');
      // Not even other unverified runs: otherwise a stranger could stop those of a publisher that is being set up.
      expect((await finish(store, strangers, failed()))?.next).toMatchObject({ runId: id(2) });
      expect((await store.of(orderStore).reportOrders({ since: 0 })).stopped).toEqual([]);
    });

    test('what repeats a run counts as verified where that does, by its lane or its delivery', async (store) => {
      await deployOrdered(store);
      const gateResults = (outcome: 'passed' | 'failed') => [
        { gate: 'signature', outcome, reason: null, detail: null, facts: {} } as const,
      ];
      for (const [n, outcome] of [
        [1, 'passed'],
        [2, 'failed'],
      ] as const) {
        const delivery = aDelivery({ id: id(n), runId: id(1000 + n), gateResults: gateResults(outcome) });
        await store.accept({ delivery, run: aRun({ id: id(1000 + n), deliveryId: id(n) }) });
      }
      await store.accept(startOf(3, 'a'));
      await store.accept(startOf(4, 'a', { order: verified('a', false) }));
      const repeats = [
        [id(1001), true],
        [id(1002), false],
        [id(3), true],
        [id(4), false],
        [id(999), false],
      ] as const;
      for (const [n, [sourceRunId, isTrusted]] of repeats.entries()) {
        await store.accept(startOf(10 + n, `repeat ${n}`, { sourceRunId, order: verified(`repeat ${n}`, null) }));
        expect(await store.findRun(id(10 + n)), sourceRunId).toMatchObject({ order: { isTrusted } });
      }
      // Started by hand, or by a schedule.
      await store.accept(startOf(20, 'c', { triggerType: 'manual', order: undefined }));
      await store.accept(startOf(21, 'd', { sourceRunId: id(20), order: verified('d', null) }));
      expect(await store.findRun(id(21))).toMatchObject({ order: { isTrusted: true } });
    });

    test('a lease that is given with a run is not taken by one that waits', async (store) => {
      await deployOrdered(store);
      const lease = { holder: 'me/1', leasedUntil: T0 + minute, limit: 5 };
      await store.accept(startOf(1, 'a'), lease);
      expect(await store.accept(startOf(2, 'a'), lease)).toMatchObject({ isWaiting: true });
      expect(await store.outlineSteps(id(2), ['first'])).toEqual([]);
      expect(await store.outlineSteps(id(1), ['first'])).toMatchObject([{ status: 'Running' }]);
    });

    test('the time limit of a run begins when it may run', async (store) => {
      await deployOrdered(store, { timeoutSeconds: 60 });
      const timeoutAt = T0 + minute;
      await store.accept(startOf(1, 'a', { timeoutAt }));
      await store.accept(startOf(2, 'a', { timeoutAt }));
      expect(await store.findRun(id(2))).toMatchObject({ timeoutAt: null });
      const { advance } = await endOne(store, succeeded(), T0 + 1000);
      expect(advance?.next).toEqual({ runId: id(2), flowId, timeoutAt: T0 + 1000 + minute });
      expect(await store.findRun(id(2))).toMatchObject({ timeoutAt: T0 + 1000 + minute });
      const overdue = { owner: 'me', now: T0 + 1000 + minute, leasedUntil: T0 + 9 * minute, limit: 9 };
      await store.accept(startOf(3, 'a'));
      const { timedOut } = await store.claimOverdue(overdue);
      expect(timedOut).toMatchObject([{ runId: id(2), next: { runId: id(3) } }]);
    });

    test('a failed run lets the next start', async (store) => {
      await deployOrdered(store);
      await startAll(store, 'a', 'a');
      expect((await endOne(store, failed())).advance?.next).toMatchObject({ runId: id(2) });
    });

    test('under `stop` a failed run holds its key until it succeeds by a retry', async (store) => {
      await deployOrdered(store, { serializeOnFailure: 'stop' });
      await startAll(store, 'a', 'a', 'b');
      const claims = await claimAll(store);
      for (const claim of claims) await finish(store, claim, claim.runId === id(1) ? failed() : succeeded());
      await store.accept(startOf(4, 'a'));
      expect(await claimAll(store)).toEqual([]);
      expect(await store.findRun(id(1))).toMatchObject({ status: 'Failed', order: { state: 'stopped' } });
      expect((await store.of(orderStore).reportOrders({ since: 0 })).stopped).toEqual([
        { runId: id(1), flowId, key: 'a', status: 'Failed', waiting: 2 },
      ]);
      await store.retryStep({ runId: id(1), stepKey: 'first', at: T0 });
      expect(await store.findRun(id(1))).toMatchObject({ order: { state: 'running' } });
      expect((await endOne(store, failed())).runId).toBe(id(1));
      expect(await claimAll(store)).toEqual([]);
      await store.retryStep({ runId: id(1), stepKey: 'first', at: T0 });
      expect((await endOne(store)).advance?.next).toMatchObject({ runId: id(2) });
      expect((await store.of(orderStore).reportOrders({ since: 0 })).stopped).toEqual([]);
    });

    test('a run that timed out holds its key too; a cancelled one does not', async (store) => {
      await deployOrdered(store, { serializeOnFailure: 'stop' });
      await store.accept(startOf(1, 'a', { timeoutAt: T0 + 1 }));
      await store.accept(startOf(2, 'a'));
      await startAllFrom(store, 3, 'b', 'b');
      const claim = { owner: 'me', now: T0 + 1, leasedUntil: T0 + minute, limit: 9 };
      expect((await store.claimOverdue(claim)).timedOut).toMatchObject([{ runId: id(1) }]);
      expect(await store.findRun(id(1))).toMatchObject({ status: 'TimedOut', order: { state: 'stopped' } });
      const cancelled = await store.cancelRun({ runId: id(3), reason: null, at: T0 });
      expect(cancelled).toMatchObject({ run: { next: { runId: id(4) } } });
      expect(dueRuns(await claimAll(store, T0 + 1))).toEqual([id(4)]);
    });

    test('a key that is held can be released, once', async (store) => {
      await deployOrdered(store, { serializeOnFailure: 'stop' });
      await startAll(store, 'a', 'a');
      await endOne(store, failed());
      for (const runId of [id(2), id(99), 'no id']) {
        const kind = runId === id(2) ? 'notHolding' : 'unknown';
        expect(await store.of(orderStore).releaseOrder({ runId, at: T0 })).toEqual({ kind });
      }
      const released = await store.of(orderStore).releaseOrder({ runId: id(1), at: T0 });
      expect(released).toEqual({ kind: 'accepted', flowId, next: { runId: id(2), flowId, timeoutAt: null } });
      expect(await store.of(orderStore).releaseOrder({ runId: id(1), at: T0 })).toEqual({ kind: 'notHolding' });
      expect((await endOne(store)).runId).toBe(id(2));
    });

    test('a run that waits can be cancelled, and those behind it keep their order', async (store) => {
      await deployOrdered(store);
      await startAll(store, 'a', 'a', 'a');
      const cancelled = await store.cancelRun({ runId: id(2), reason: null, at: T0 });
      expect(cancelled).toMatchObject({ kind: 'accepted', run: { runId: id(2), completedAt: T0 } });
      expect(cancelled).not.toHaveProperty('run.next');
      expect(await waitingOf(store, id(3))).toEqual([[id(3), 'order', id(1)]]);
      expect((await endOne(store)).advance?.next).toMatchObject({ runId: id(3) });
    });

    test('a retry of a run that let the next start waits behind all of its key', async (store) => {
      await deployOrdered(store);
      await startAll(store, 'a', 'a', 'a');
      await endOne(store, failed());
      expect(await store.retryStep({ runId: id(1), stepKey: 'first', at: T0 })).toMatchObject({ kind: 'accepted' });
      expect(await waitingOf(store, id(1))).toEqual([[id(1), 'order', id(3)]]);
      const retrying = { skip: 0, take: 9, waiting: { kind: 'retry', dueBefore: T0 - 1 } } as const;
      expect((await store.listRuns(retrying)).items).toEqual([]);
      for (const n of [2, 3, 1]) expect((await endOne(store)).runId).toBe(id(n));
      expect(await statusOf(store, id(1))).toBe('Succeeded');
    });

    test('a retry of a run whose key nobody has runs at once', async (store) => {
      await deployOrdered(store);
      await startAll(store, 'a');
      await endOne(store, failed());
      await store.retryStep({ runId: id(1), stepKey: 'first', at: T0 });
      await store.accept(startOf(2, 'a'));
      expect((await endOne(store)).advance?.next).toMatchObject({ runId: id(2) });
    });

    test('released deliveries wait in the order of their arrival, by the newest expression', async (store) => {
      await deployOrdered(store);
      await store.setFlowEnabled({ flowId, isEnabled: false, holdsDeliveries: true, at: T0 });
      const body = (key: string) => Buffer.from(JSON.stringify({ key }));
      const held = [
        [1, 'a', true],
        [2, 'a', true],
        [3, 'a', false],
        [4, 'b', true],
      ] as const;
      for (const [n, key, isTrusted] of held) {
        const acceptance = acceptanceOf(n, { nonce: aNonce({ value: `n${n}`, isTrusted }) });
        const trigger = { ...acceptance.run.trigger, body: body(key) };
        await store.holdDelivery({ ...acceptance, run: { ...acceptance.run, trigger } });
      }
      await store.setFlowEnabled({ flowId, isEnabled: true, at: T0 });
      const { runs } = await store.of(holdStore).releaseHeld({ flowId, limit: 9, at: T0 });
      expect(runs.map(({ id: runId, steps }) => [runId, steps.length])).toEqual([
        [id(1001), 1],
        [id(1002), 0],
        [id(1003), 1],
        [id(1004), 1],
      ]);
      expect(dueRuns(await claimAll(store))).toEqual([id(1001), id(1003), id(1004)]);
    });

    test('the run of a schedule takes part', async (store) => {
      await deployOrdered(store);
      await startAll(store, null);
      const schedule = { flowId, triggerKey: 'cron', cron: '* * * * *', timeZone: 'UTC', cronOverride: null };
      await store
        .of(schedulesStore)
        .changeSchedule({ ...schedule, isPaused: false, nextAt: T0, lastAt: null, revision: 0 });
      const { run } = startOf(2, null);
      const tick = { flowId, triggerKey: 'cron', dueAt: T0, nextAt: T0 + minute, run, at: T0 };
      expect(await store.of(schedulesStore).fireSchedule(tick)).toBe('fired');
      expect(await waitingOf(store, id(2))).toEqual([[id(2), 'order', id(1)]]);
    });

    test('a run that a step starts waits too, for no longer than the step does', async (store) => {
      await deploy(store, CHILD, { serialize: 'trigger.body.total', timeoutSeconds: 600 } as Flow);
      await deploy(store, PARENT, { steps: running(CHILD) });
      const limits = { timeoutAt: T0 + 9 * minute };
      for (const n of [1, 2]) {
        const steps = [{ stepKey: 'go', stepType: 'RunFlow', dueAt: T0 }];
        await store.accept({ run: aRun({ id: id(n), flowId: PARENT, steps, ...limits, pins: { [CHILD]: 1 } }) });
      }
      const started: string[] = [];
      for (const claim of await claimAll(store)) {
        const advance = await finish(store, claim, asking(CHILD, { limitAt: T0 + minute }));
        started.push(advance?.subRun?.run?.id ?? '');
      }
      const [first = '', second = ''] = started;
      expect(await waitingOf(store, second)).toEqual([[second, 'order', first]]);
      expect(await store.findRun(second)).toMatchObject({ timeoutAt: T0 + minute });
      expect((await endOne(store)).advance?.next).toEqual({ runId: second, flowId: CHILD, timeoutAt: T0 + minute });
    });

    test('a run that would wait for one that waits for it is not started', async (store) => {
      // A plan refuses flows that run each other; a revision of an earlier release may contain them.
      const circle = await openCircle(store, 1);
      const refused = await circle.ask(id(1), 0, 1);
      expect(refused?.subRun).toMatchObject({ run: null, result: { error: { code: 'order_deadlock' } } });
      expect(refused?.subRun).toHaveProperty('result.error.message', expect.stringContaining(id(1)));
      expect(refused?.runStatus).toBe('Failed');
    });

    test('nor one that would wait for it by way of lanes of other flows', async (store) => {
      for (const size of [2, 3, 5]) {
        const circle = await openCircle(store, size, 100 * size);
        const heads = circle.heads;
        for (const [at, runId] of heads.slice(0, -1).entries()) {
          expect((await circle.ask(runId, at + 1, at + 2))?.subRun).toHaveProperty('result.kind', 'waiting');
        }
        const refused = await circle.ask(heads.at(-1) ?? '', 0, 1);
        expect(refused?.subRun).toMatchObject({ run: null, result: { error: { code: 'order_deadlock' } } });
        // The run before the last can run now, and so can all others.
        for (let left = 2 * size - 2; left > 0; left -= 1) {
          const due = await claimAll(store);
          for (const claim of due) await finish(store, claim, succeeded());
        }
        for (const runId of heads) expect(await statusOf(store, runId)).not.toBe('Running');
      }
    });

    test('nor one whose turn comes after a run that a run that runs waits for', async (store) => {
      const circle = await openCircle(store, 2, 1);
      const [first = '', second = ''] = circle.heads;
      // The second waits for a run that does not wait, and that run for the first.
      const between = (await circle.ask(second, 1, 9))?.subRun?.run?.id ?? '';
      expect((await circle.ask(between, 0, 1))?.subRun).toHaveProperty('result.kind', 'waiting');
      expect((await circle.ask(first, 1, 2))?.subRun).toMatchObject({ result: { error: { code: 'order_deadlock' } } });
    });

    test('one that would wait long, but not for itself, is started', async (store) => {
      const circle = await openCircle(store, 3, 1);
      const [first = '', second = '', third = ''] = circle.heads;
      expect((await circle.ask(first, 1, 2))?.subRun).toHaveProperty('result.kind', 'waiting');
      expect((await circle.ask(second, 2, 3))?.subRun).toHaveProperty('result.kind', 'waiting');
      // No run waits for it.
      const unawaited = await circle.ask(third, 0, 1, { isAwaited: false });
      expect(unawaited?.subRun).toMatchObject({ result: { kind: 'succeeded' } });
    });

    test('a retry that would make a run wait for itself is refused', async (store) => {
      const circle = await openCircle(store, 2, 1);
      const [first = '', second = ''] = circle.heads;
      const child = (await circle.ask(second, 0, 9))?.subRun?.run?.id ?? '';
      const own = await circle.claimOf(child);
      await finish(store, own, failed());
      // The next run of the child's key runs, and waits for the second, whose step has not seen the child's end yet.
      const next = (await circle.ask(first, 0, 9))?.subRun?.run?.id ?? '';
      expect((await circle.ask(next, 1, 2))?.subRun).toHaveProperty('result.kind', 'waiting');
      const retry = { runId: child, stepKey: 'go', at: T0 };
      expect(await store.retryStep(retry)).toEqual({ kind: 'orderDeadlock', runId: second });
      expect(await statusOf(store, child)).toBe('Failed');
      // Once that step has continued, nothing waits for the child any more.
      await finish(store, await circle.claimOf(second), failed());
      expect(await store.retryStep(retry)).toMatchObject({ kind: 'accepted' });
    });

    test('the run that a failure starts takes part', async (store) => {
      await deploy(store, CHILD, { serialize: 'trigger.body.run.flowId' } as Flow);
      await deployOrdered(store, { onFailure: CHILD });
      await startAll(store, 'a', 'b');
      const [one, other] = await claimAll(store);
      if (one === undefined || other === undefined) throw new Error('they were not due');
      const first = await finish(store, one, failed());
      const second = await finish(store, other, failed());
      if (first?.failure?.kind !== 'started' || second?.failure?.kind !== 'started') throw new Error('none started');
      expect(await waitingOf(store, second.failure.run.id)).toEqual([
        [second.failure.run.id, 'order', first.failure.run.id],
      ]);
    });

    test('retention leaves a run that holds its key, and removes the others whole', async (store) => {
      await deployOrdered(store, { serializeOnFailure: 'stop' });
      await startAll(store, 'a', 'b');
      for (const claim of await claimAll(store)) {
        await finish(store, claim, claim.runId === id(1) ? failed() : succeeded(), T0 + 1);
      }
      while (!(await store.purgeRuns({ before: T0 + minute, maxRows: 100 })).isDone);
      expect(await statusOf(store, id(1))).toBe('Failed');
      expect(await statusOf(store, id(2))).toBeUndefined();
      await store.accept(startOf(2, 'b'));
      await store.accept(startOf(3, 'a'));
      expect(dueRuns(await claimAll(store))).toEqual([id(2)]);
    });

    test('what waits is in flight', async (store) => {
      await deployOrdered(store);
      await startAll(store, 'a', 'a');
      expect(await store.of(flowsStore).countRuns()).toEqual([{ flowId, status: 'Running', count: 2 }]);
      expect(await store.deliverSignal({ runId: id(2), name: 'go', body: 1, at: T0 })).toMatchObject({
        kind: 'accepted',
      });
    });
  });
}

async function startAllFrom(store: Store, from: number, ...keys: string[]): Promise<void> {
  for (const [at, key] of keys.entries()) await store.accept(startOf(from + at, key));
}
