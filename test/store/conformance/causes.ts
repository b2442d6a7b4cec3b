import { describe, expect } from 'vitest';
import { figuresStore } from '../../../src/features/figures/store.ts';
import { runsStore } from '../../../src/features/runs/store.ts';
import { ALERT_FLOW_ID } from '../../../src/model/manifest.ts';
import type { StepError } from '../../../src/model/run.ts';
import type { CauseFilter, DeliveryFilter, RunFilter, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { aDelivery, aRun, claimAll, deployOf, finish, flowId, graphOf, id, minute, startRun, T0 } from '../samples.ts';

const api = 'https://api.example.com';
const page = { skip: 0, take: 50, includeTotal: true };
const hour = 60 * minute;
const trend = { since: T0, until: T0 + 4000, parts: 4 };

const refusal = (order: number, host?: string): StepError => ({
  code: 'unexpected_status',
  message: `422 unknown order ${order} · POST /orders/${order}`,
  retryable: false,
  ...(host !== undefined && { host }),
});

interface Failure {
  readonly step?: string;
  readonly error: StepError;
  /** When it failed, in milliseconds after T0. */
  readonly at?: number;
  readonly flow?: string;
}

/** Starts run n of each list a second after the previous one, and fails the named steps. */
async function failRuns(store: Store, runs: readonly (readonly Failure[])[]): Promise<void> {
  for (const [n, failures] of runs.entries()) {
    const flow = failures[0]?.flow ?? flowId;
    const keys = failures.map(({ step = 'book' }) => step);
    const graph = graphOf(Object.fromEntries([...keys, 'last'].map((key) => [key, []])));
    const entries = Object.keys(graph).map((stepKey) => ({ stepKey, stepType: 'NoOp', dueAt: T0 }));
    const { revision } = await store.deployFlow(deployOf(graph, { id: flow }));
    const startedAt = T0 + n * 1000;
    await store.accept({ run: aRun({ id: id(n + 1), flowId: flow, revision, startedAt, steps: entries }) });
    for (const claim of await claimAll(store, startedAt)) {
      const failure = failures.find(({ step = 'book' }) => step === claim.stepKey);
      const at = failure?.at === undefined ? startedAt : T0 + failure.at;
      await finish(
        store,
        claim,
        failure === undefined ? { kind: 'succeeded', output: null } : { kind: 'failed', error: failure.error },
        at,
      );
    }
  }
}

async function listed(store: Store, filter: Partial<RunFilter>): Promise<(string | number | undefined)[]> {
  const { items, total } = await store.listRuns({ ...page, ...filter });
  expect(total).toBe(items.length);
  return items.map((run) => run.id);
}

export function causes({ test, seeded }: StoreUnderTest): void {
  describe('runs by what they failed by', () => {
    const timeout: StepError = { code: 'timeout', message: 'no answer "in time" 100%\n· GET /ÄB_C', retryable: true };
    const onSeeded = seeded((store) =>
      failRuns(store, [
        [{ error: refusal(1000, api) }],
        [{ error: refusal(2000, 'http://api.example.com') }],
        [{ step: 'ship', error: refusal(3000, `${api}:8443`) }],
        [{ error: timeout }],
        [
          { step: 'book', error: timeout },
          { step: 'ship', error: refusal(4000, api) },
        ],
        [],
      ]),
    );

    onSeeded.each<[string, CauseFilter, number[]]>([
      ['any failed step', {}, [5, 4, 3, 2, 1]],
      ['a step', { step: 'ship' }, [5, 3]],
      ['a step, and not one whose key begins so', { step: 'shi' }, []],
      ['a code', { code: 'timeout' }, [5, 4]],
      ['a code, and not one that begins so', { code: 'time' }, []],
      ['a host without its scheme', { host: 'API.example.com' }, [5, 2, 1]],
      ['a host with its scheme', { host: api }, [5, 1]],
      ['a host with its port', { host: 'api.example.com:8443' }, [3]],
      ['part of the message, in any case', { error: 'Unknown ORDER 2' }, [2]],
      ['part of the message beyond ASCII, in any case', { error: 'äb_c' }, [5, 4]],
      ['a message in which something varies', { error: '422 unknown order … · POST /orders/…' }, [5, 3, 2, 1]],
      ['a message with an end of line', { error: 'no answer "in time" 100%…· GET' }, [5, 4]],
      ['a message with a quotation mark', { error: '"in time"' }, [5, 4]],
      ['a percent sign, taken literally', { error: '42%unknown' }, []],
      ['an underline, taken literally', { error: 'unknown_order' }, []],
      ['a text that only the code has', { error: 'unexpected_status' }, []],
      ['a text that only the host has', { error: '8443' }, []],
      ['all of one and the same step', { step: 'ship', code: 'unexpected_status', host: api, error: '4000' }, [5]],
      ['parts that two steps have, and none alone', { step: 'ship', code: 'timeout' }, []],
      ['a quotation mark in a host', { host: 'a"b' }, []],
    ])('are filtered by %s, and so is their total', async (store, _name, cause, expected) => {
      expect(await listed(store, { cause })).toEqual(expected.map(id));
    });

    onSeeded.each<[string, Partial<RunFilter>, number[]]>([
      ['a status', { status: 'Failed' }, [5, 4, 3, 2, 1]],
      ['another status', { status: 'Succeeded' }, []],
      ['a span of time', { since: T0 + 1000, until: T0 + 3000 }, [3, 2]],
      ['a flow', { flowId: 'another' }, []],
      ['a search', { search: id(3) }, [3]],
      ['a flow that is left out', { withoutFlow: flowId }, []],
    ])('are filtered by %s besides', async (store, _name, filter, expected) => {
      expect(await listed(store, { ...filter, cause: {} })).toEqual(expected.map(id));
      const { groups } = await store.of(runsStore).groupFailures({ ...filter, trend });
      expect(groups.reduce((sum, { count }) => sum + count, 0)).toBe(expected.length + Number(expected.includes(5)));
    });

    onSeeded.each<[Partial<RunFilter>]>([
      [{ cause: { code: 'timeout' } }],
      [{ cause: {}, status: 'Failed' }],
      [{ search: id(4) }],
    ])('are the runs of a chart with the same filter: %j', async (store, filter) => {
      for (const bucketMs of [minute, hour]) {
        const buckets = await store
          .of(figuresStore)
          .runTimeseries({ ...filter, since: T0, until: T0 + hour, bucketMs });
        expect(buckets).toMatchObject([{ at: T0, counts: { Failed: (await listed(store, filter)).length } }]);
      }
    });

    test('leave out steps within loops, and steps that are tried again', async (store) => {
      await startRun(store, graphOf({ book: [] }));
      const [claim] = await claimAll(store);
      if (claim === undefined) throw new Error('a step should be due');
      await finish(store, claim, { kind: 'retry', error: refusal(1), dueAt: T0 + 1 });
      expect(await listed(store, { cause: {} })).toEqual([]);
      const [again] = await claimAll(store, T0 + 1);
      if (again === undefined) throw new Error('the step should be due again');
      await finish(store, again, { kind: 'failed', error: refusal(1) }, T0 + 2);
      expect(await listed(store, { cause: {} })).toEqual([again.runId]);
      await store.retryStep({ runId: again.runId, stepKey: 'book', at: T0 + 3 });
      expect(await listed(store, { cause: {} })).toEqual([]);
      expect(await store.of(runsStore).groupFailures({ trend })).toEqual({ groups: [] });
    });
  });

  describe('failures are grouped', () => {
    test('by flow, step, code, host and what does not vary of the message; the most frequent first', async (store) => {
      await failRuns(store, [
        [{ error: refusal(1000, api), at: 500 }],
        [{ error: refusal(2000, api), at: 1500 }],
        [{ error: refusal(3000, api), at: 9000 }],
        [{ error: refusal(4000), at: 3100 }],
        [{ error: refusal(5000), flow: 'another', at: 4200 }],
      ]);
      const cause = { step: 'book', code: 'unexpected_status', error: '422 unknown order … · POST /orders/…' };
      const group = { flowId, ...cause, host: null, count: 1, firstAt: T0 + 4200, lastAt: T0 + 4200 };
      const { groups } = await store.of(runsStore).groupFailures({ trend });
      expect(groups).toEqual([
        { ...group, host: api, count: 3, firstAt: T0 + 500, lastAt: T0 + 9000, trend: [1, 1, 0, 0] },
        { ...group, flowId: 'another', trend: [0, 0, 0, 0] },
        { ...group, firstAt: T0 + 3100, lastAt: T0 + 3100, trend: [0, 0, 0, 1] },
      ]);
      for (const { flowId: own, step, code, host, error, count } of groups) {
        const found = await listed(store, {
          flowId: own,
          cause: { step, code, error, ...(host !== null && { host }) },
        });
        // Without a host, the filter matches any host.
        expect(found.length).toBeGreaterThanOrEqual(count);
      }
    });
  });

  describe('a flow that is left out', () => {
    test('is in no list, total or chart of the others', async (store) => {
      const ended = { status: 'Succeeded', steps: [] } as const;
      const run = (n: number, flow: string) =>
        aRun({ id: id(n), flowId: flow, startedAt: T0 + n, completedAt: T0 + n + 5, ...ended });
      await store.accept({ run: run(1, flowId) });
      for (const n of [2, 3]) await store.accept({ run: run(n, ALERT_FLOW_ID) });
      const withoutFlow = ALERT_FLOW_ID;
      expect(await listed(store, { withoutFlow })).toEqual([id(1)]);
      expect(await listed(store, { withoutFlow, status: 'Succeeded' })).toEqual([id(1)]);
      expect(await listed(store, { withoutFlow, search: 'github' })).toEqual([id(1)]);
      expect(await listed(store, {})).toEqual([3, 2, 1].map(id));
      for (const bucketMs of [minute, hour]) {
        const range = { since: T0, until: T0 + hour, bucketMs };
        const alone = { at: T0, counts: { Succeeded: 1 }, p50DurationMs: 5, p95DurationMs: 5 };
        expect(await store.of(figuresStore).runTimeseries({ ...range, withoutFlow })).toEqual([alone]);
        expect(await store.of(figuresStore).runTimeseries(range)).toMatchObject([{ counts: { Succeeded: 3 } }]);
      }
    });
  });

  describe('a chart of deliveries', () => {
    const refused = { rejected: true, reason: 'ip_denied', violations: ['ip_denied'] } as const;
    const onSeeded = seeded(async (store) => {
      await store.recordDelivery(aDelivery({ id: id(1), receivedAt: T0, ...refused }));
      await store.recordDelivery(aDelivery({ id: id(2), receivedAt: T0, clientIp: '192.0.2.99' }));
      await store.recordDelivery(aDelivery({ id: id(3), receivedAt: T0, flowId: 'another', ...refused }));
    });

    onSeeded.each<[Partial<DeliveryFilter>]>([
      [{}],
      [{ reason: 'ip_denied' }],
      [{ rejectedOnly: true }],
      [{ acceptedOnly: true }],
      [{ heldOnly: true }],
      [{ search: '2.99' }],
      [{ searchKeys: { order: '1' } }],
      [{ flowId: 'another', rejectedOnly: true }],
      [{ flowId, search: 'ip_denied' }],
    ])('counts what a list with the same filter has: %j', async (store, filter) => {
      const { items } = await store.listDeliveries({ ...page, ...filter });
      const rejected = items.filter((delivery) => delivery.rejected).length;
      const counted = { at: T0, accepted: items.length - rejected, rejected };
      for (const bucketMs of [minute, hour]) {
        const buckets = await store
          .of(figuresStore)
          .deliveryTimeseries({ ...filter, since: T0, until: T0 + hour, bucketMs });
        expect(buckets).toEqual(items.length === 0 ? [] : [counted]);
      }
    });
  });

  describe('a delivery', () => {
    test('says the status of its run, as long as that is kept', async (store) => {
      const runId = await startRun(store, graphOf({ book: [] }));
      await store.recordDelivery(aDelivery({ id: id(1), runId }));
      await store.recordDelivery(aDelivery({ id: id(2), runId: id(999) }));
      const statusOf = async (n: number) => (await store.findDelivery(id(n)))?.runStatus;
      expect(await statusOf(1)).toBe('Running');
      for (const claim of await claimAll(store)) await finish(store, claim, { kind: 'failed', error: refusal(1) });
      const { items } = await store.listDeliveries(page);
      expect(items.map(({ runStatus }) => runStatus)).toEqual([undefined, 'Failed']);
      expect([await statusOf(1), await statusOf(2)]).toEqual(['Failed', undefined]);
    });
  });
}
