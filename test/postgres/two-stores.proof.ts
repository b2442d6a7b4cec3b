import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from 'vitest';
import { holdStore } from '../../src/features/hold/store.ts';
import { reviewStore } from '../../src/features/review/store.ts';
import type { Acceptance, AcceptResult } from '../../src/store/store.ts';
import { eventually } from '../eventually.ts';
import {
  aDelivery,
  aNonce,
  aRun,
  countHeld,
  deployOf,
  graphOf,
  id,
  minute,
  PLAN,
  runIdOf,
  T0,
} from '../store/samples.ts';
import { openEmpty, openStore } from './schemas.ts';

const ROUNDS = 50;

type Opened = Awaited<ReturnType<typeof openEmpty>>;
let left: Opened;
let right: Opened;
const schema = `test_${randomUUID().replaceAll('-', '')}`;
beforeAll(async () => {
  left = await openEmpty({ schema });
  right = await openStore({ schema });
});
afterAll(async () => {
  await right.close();
  await left.close();
});

let count = 0;
const nextId = () => {
  count += 1;
  return id(count);
};

/** Each round uses a different flow, deliveries and runs. */
async function inEachRound(round: (flowId: string, n: number) => Promise<void>): Promise<void> {
  for (let n = 0; n < ROUNDS; n += 1) await round(`flow ${nextId()}`, n);
}

function acceptanceTo(flowId: string, change: Partial<Acceptance> & { redeliveredFrom?: string } = {}) {
  const { redeliveredFrom, ...rest } = change;
  const delivery = aDelivery({ id: nextId(), flowId, redeliveredFrom });
  return { delivery, run: aRun({ id: nextId(), flowId, deliveryId: delivery.id }), ...rest };
}

/** Calls both stores at once, several times each, so that calls also share transactions. */
async function acceptAtBoth(make: () => Acceptance): Promise<AcceptResult[]> {
  return Promise.all([left, right, right, left, left, right].map((store) => store.accept(make())));
}

/** Deploys the flow with its trigger renamed from `former` to `github`. */
async function renameTrigger(flowId: string): Promise<void> {
  const triggers = { keys: ['github'], moved: [{ from: 'former', to: 'github' }] };
  await left.applyDeploys([{ ...deployOf(graphOf({ a: [] }), { id: flowId }), ...PLAN, triggers }]);
}

/** Keeps runs from being inserted until it opens. */
async function blockRuns() {
  const client = new pg.Client({ connectionString: inject('postgresUrl') });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('BEGIN');
  await client.query(`LOCK TABLE "${schema}".runs IN SHARE MODE`);
  // Not pg_stat_activity: within a transaction its rows never change.
  const waiting = `WITH RECURSIVE waiting AS (
    SELECT pid FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))
    UNION SELECT l.pid FROM pg_locks AS l JOIN waiting AS w ON w.pid = ANY(pg_blocking_pids(l.pid)) WHERE NOT l.granted
  ) SELECT count(*)::integer AS count FROM waiting`;
  return {
    /** Resolves when this many transactions wait for it, directly or behind another one. */
    async waitedFor(expected: number) {
      await eventually(
        async () => (await client.query<{ count: number }>(waiting)).rows[0]?.count ?? 0,
        (count) => count >= expected,
      );
    },
    open: () => client.query('ROLLBACK'),
  };
}

const page = { skip: 0, take: 100, includeTotal: true };
const runsOf = async (flowId: string) => (await right.listRuns({ ...page, flowId })).items.map((run) => run.id);
const deliveriesOf = async (flowId: string) => (await right.listDeliveries({ ...page, flowId })).items;

/** The run of the winner: checks that there is exactly one, that only it has a run, and that all others name it. */
async function winnerOf(flowId: string, results: readonly AcceptResult[]): Promise<string | undefined> {
  const winners = results.filter(({ kind }) => kind === 'accepted');
  expect(winners).toHaveLength(1);
  const winner = runIdOf(winners[0]);
  expect(new Set(results.map(runIdOf))).toEqual(new Set([winner]));
  expect(await runsOf(flowId)).toEqual([winner]);
  return winner;
}

describe('of two processes on one database', () => {
  it('one accepts a nonce, and the other answers with its run', async () => {
    await inEachRound(async (flowId) => {
      const results = await acceptAtBoth(() => acceptanceTo(flowId, { nonce: aNonce() }));
      await winnerOf(flowId, results);
      expect(results.filter(({ kind }) => kind === 'replayed')).toHaveLength(5);
      expect(await deliveriesOf(flowId)).toHaveLength(1);
    });
  });

  it('one starts the run of a key, and what the other accepts joins it', async () => {
    const coalesce = { key: 'key', isTrusted: true, quietMs: 1000, maxMs: 5000, collect: 4 };
    await inEachRound(async (flowId) => {
      const results = await acceptAtBoth(() => {
        const given = acceptanceTo(flowId, { coalesce, nonce: aNonce({ value: `${count}` }) });
        const steps = given.run.steps.map((step) => ({ ...step, dueAt: T0 + 1000 }));
        return { ...given, run: { ...given.run, steps } };
      });
      const kinds = results.map(({ kind }) => kind).sort();
      expect(kinds).toEqual(['accepted', 'accepted', 'coalesced', 'coalesced', 'coalesced', 'coalesced']);
      const sizes: number[] = [];
      for (const runId of await runsOf(flowId)) {
        const own = await left.readRunInput({ runId });
        const ids = own?.kind === undefined ? (own?.deliveries.map((delivery) => delivery.id) ?? []) : [];
        expect(new Set(ids).size).toBe(results.filter((result) => runIdOf(result) === runId).length);
        sizes.push(ids.length);
      }
      expect(sizes.toSorted()).toEqual([2, 4]);
    });
  });

  it('one claims the run of a key while the other joins it: it is joined before, or has a next one', async () => {
    await inEachRound(async (flowId) => {
      const coalesce = { key: 'key', isTrusted: true, quietMs: 1000, maxMs: 5000, collect: 100 };
      const make = (startedAt: number) => {
        const given = acceptanceTo(flowId, { coalesce, nonce: aNonce({ value: `${count}` }) });
        const steps = given.run.steps.map((step) => ({ ...step, dueAt: startedAt + 1000 }));
        return { ...given, run: { ...given.run, startedAt, steps } };
      };
      await left.accept(make(T0));
      const request = { owner: right.replica, now: T0 + 1000, leasedUntil: T0 + minute, limit: 9 };
      const [claimed, ...results] = await Promise.all([
        right.claimDue(request),
        ...[1, 2, 3].map((n) => left.accept(make(T0 + 990 + n))),
      ]);
      const runs = await runsOf(flowId);
      const [first] = runs.toReversed();
      const hasBegun = claimed.claims.some(({ runId }) => runId === first);
      const joins = results.filter((result) => runIdOf(result) === first).length;
      // An earlier claim leaves nothing to join; a later one finds nothing due.
      expect(hasBegun ? joins === 0 : joins === 3 || joins === 0).toBe(true);
      const counted = await Promise.all(runs.map((runId) => left.readRunInput({ runId })));
      const all = counted.flatMap((input) => (input?.kind === undefined ? (input?.deliveries ?? []) : []));
      expect(new Set(all.map((delivery) => delivery.id)).size).toBe(4);
      expect(all).toHaveLength(4);
    });
  });

  it('one starts the run of an event, and the other answers with it', async () => {
    const event = { id: 'evt', arrivedAt: T0, expiresAt: T0 + minute };
    await inEachRound(async (flowId, n) => {
      // Each has a new nonce, as when a publisher signs each retry again; some are also filtered.
      const results = await acceptAtBoth(() => {
        const nonce = aNonce({ value: `${count}` });
        return acceptanceTo(flowId, { event, nonce, isFiltered: n % 2 === 0 && count % 3 === 0 ? true : undefined });
      });
      const winners = results.filter(({ kind }) => kind === 'accepted');
      expect(winners).toHaveLength(1);
      const others = results.filter(({ kind }) => kind === 'duplicate').map(runIdOf);
      expect(new Set(others)).toEqual(new Set([runIdOf(winners[0])]));
      expect(await runsOf(flowId)).toEqual([runIdOf(winners[0])]);
      expect(await deliveriesOf(flowId)).toHaveLength(6);
    });
  });

  it('one accepts a nonce and a key of a trigger that was renamed, whichever of its keys they name', async () => {
    await inEachRound(async (flowId) => {
      await renameTrigger(flowId);
      // Each process uses another key of the trigger, so that neither blocks the other's rows.
      const acceptAll = (changeOf: (n: number) => Partial<Acceptance>) =>
        Promise.all(
          [left, right, left, right].map((store, n) => {
            const { run, ...rest } = acceptanceTo(flowId, changeOf(n));
            return store.accept({ ...rest, run: { ...run, triggerKey: store === left ? 'github' : 'former' } });
          }),
        );
      const [nonces, keys] = await Promise.all([
        acceptAll((n) => ({ nonce: aNonce(), idempotencyKey: `own ${n}` })),
        acceptAll((n) => ({ nonce: aNonce({ value: `own nonce ${n}` }), idempotencyKey: 'key' })),
      ]);
      expect(nonces.filter(({ kind }) => kind === 'accepted')).toHaveLength(1);
      expect(keys.filter(({ kind }) => kind === 'accepted')).toHaveLength(1);
      for (const results of [nonces, keys]) expect(new Set(results.map(runIdOf)).size).toBe(1);
      expect(await runsOf(flowId)).toHaveLength(2);
    });
  });

  it.each([
    ['one that comes', () => ({})],
    ['one that is redelivered', () => ({ redeliveredFrom: nextId() })],
  ])('%s waits until the other has stored the same under another key of a renamed trigger', async (_name, change) => {
    const flowId = `flow ${nextId()}`;
    await renameTrigger(flowId);
    // Neither can commit, so neither sees the other's rows.
    const hurdle = await blockRuns();
    const results = [left, right].map((store, n) => {
      const { run, ...rest } = acceptanceTo(flowId, { nonce: aNonce(), ...change() });
      return store.accept({ ...rest, run: { ...run, triggerKey: n === 0 ? 'github' : 'former' } });
    });
    await hurdle.waitedFor(2);
    await hurdle.open();
    expect((await Promise.all(results)).map(({ kind }) => kind).sort()).toEqual(['accepted', 'replayed']);
  });

  it('one takes over a nonce that has expired', async () => {
    const expired = aNonce({ expiresAt: T0 });
    const flows = Array.from({ length: ROUNDS }, () => `flow ${nextId()}`);
    for (const flowId of flows)
      await left.accept({ run: aRun({ id: nextId(), flowId, startedAt: T0 - 1 }), nonce: expired });
    for (const flowId of flows) {
      const results = await acceptAtBoth(() => acceptanceTo(flowId, { nonce: aNonce() }));
      expect(results.filter(({ kind }) => kind === 'accepted')).toHaveLength(1);
      expect(await runsOf(flowId)).toHaveLength(2);
    }
  });

  it('each accepts a nonce that is not enforced, and one alone is no replay', async () => {
    await inEachRound(async (flowId) => {
      const nonce = aNonce({ isEnforced: false });
      const results = await acceptAtBoth(() => acceptanceTo(flowId, { nonce }));
      expect(results.map(({ kind }) => kind)).toEqual(results.map(() => 'accepted'));
      expect(results.filter((result) => 'isReplay' in result && !result.isReplay)).toHaveLength(1);
      expect(await runsOf(flowId)).toHaveLength(6);
      const { total } = await right.listDeliveries({ ...page, flowId, reason: 'nonce_replayed' });
      expect(total).toBe(5);
    });
  });

  it('one starts the run of an idempotency key', async () => {
    await inEachRound(async (flowId) => {
      const results = await acceptAtBoth(() => acceptanceTo(flowId, { idempotencyKey: 'key' }));
      const winner = await winnerOf(flowId, results);
      const kept = await deliveriesOf(flowId);
      expect(kept.map(({ runId }) => runId)).toEqual(Array.from({ length: 6 }, () => winner));
      expect(kept.every(({ body }) => body?.byteLength === 2)).toBe(true);
    });
  });

  it('one starts the run of a nonce and a key together, and what is refused uses neither up', async () => {
    await inEachRound(async (flowId, n) => {
      const nonces = [aNonce({ value: 'a' }), aNonce({ value: 'b' })];
      let call = 0;
      const results = await acceptAtBoth(() => {
        call += 1;
        // One nonce comes with different keys, the other with the same key.
        const isSame = call % 2 === 0;
        return acceptanceTo(flowId, { nonce: nonces[Number(isSame)], idempotencyKey: isSame ? 'same' : `key ${call}` });
      });
      const accepted = results.filter(({ kind }) => kind === 'accepted').map(runIdOf);
      expect(accepted).toHaveLength(2);
      expect((await runsOf(flowId)).sort()).toEqual(accepted.sort());
      for (let key = 1; key <= call; key += 2) {
        const nonce = aNonce({ value: `another ${key} ${n}` });
        const result = await left.accept(acceptanceTo(flowId, { nonce, idempotencyKey: `key ${key}` }));
        expect(result.kind).toBe(accepted.includes(runIdOf(result)) ? 'duplicate' : 'accepted');
      }
      expect(await runsOf(flowId)).toHaveLength(4);
    });
  });

  it('one accepts a refused delivery again', async () => {
    await inEachRound(async (flowId) => {
      const source = nextId();
      const results = await acceptAtBoth(() => acceptanceTo(flowId, { redeliveredFrom: source }));
      const winner = await winnerOf(flowId, results);
      expect(await deliveriesOf(flowId)).toHaveLength(1);
      expect(await right.of(reviewStore).findRedelivery(source)).toMatchObject({ runId: winner });
    });
  });

  it.each([
    ['disabled', (flowId: string) => right.setFlowEnabled({ flowId, isEnabled: false, at: T0 })],
    ['drained', (flowId: string) => right.setFlowDraining({ flowId, isDraining: true, at: T0 })],
    ['deployed', (flowId: string) => right.deployFlow({ ...deployOf(graphOf({ b: [] })), id: flowId })],
  ])('none accepts a run once the other has %s its flow', async (_name, close) => {
    await inEachRound(async (flowId, n) => {
      await left.deployFlow({ ...deployOf(graphOf({ a: [] })), id: flowId });
      const accepting = acceptAtBoth(() => acceptanceTo(flowId));
      // Close before, between or after the acceptances.
      for (let turn = 0; turn < n; turn += 1) await Promise.resolve();
      await close(flowId);
      const seen = await runsOf(flowId);
      const results = await accepting;
      expect(await runsOf(flowId)).toEqual(seen);
      expect(results.filter(({ kind }) => kind === 'accepted')).toHaveLength(seen.length);
      expect(results.filter(({ kind }) => kind === 'outdated')).toHaveLength(6 - seen.length);
      expect(await deliveriesOf(flowId)).toHaveLength(seen.length);
    });
  });

  it('a deploy that needs an idle flow sees every run that was accepted before it', async () => {
    await inEachRound(async (flowId) => {
      await left.deployFlow({ ...deployOf(graphOf({ a: [] })), id: flowId });
      const planned = {
        ...deployOf(graphOf({ b: [] })),
        ...PLAN,
        id: flowId,
        basedOn: 1,
        needsIdle: true,
      };
      const [results, deployed] = await Promise.all([
        acceptAtBoth(() => acceptanceTo(flowId)),
        right.applyDeploys([planned]),
      ]);
      const accepted = results.filter(({ kind }) => kind === 'accepted').length;
      expect(await runsOf(flowId)).toHaveLength(accepted);
      if (deployed.kind === 'applied') expect(accepted).toBe(0);
      else expect(deployed).toMatchObject({ kind: 'busy', flowId });
    });
  });

  it('a delivery that is held while the other releases is started once, or held, or told to start itself', async () => {
    await inEachRound(async (flowId) => {
      await left.deployFlow({ ...deployOf(graphOf({ a: [] })), id: flowId });
      await left.setFlowDraining({ flowId, isDraining: true, at: T0 });
      const first = acceptanceTo(flowId);
      await left.holdDelivery(first);
      await left.setFlowDraining({ flowId, isDraining: false, at: T0 });
      const second = acceptanceTo(flowId);
      const [held, one, two] = await Promise.all([
        left.holdDelivery(second),
        right.of(holdStore).releaseHeld({ flowId, limit: 9, at: T0 + minute }),
        left.of(holdStore).releaseHeld({ flowId, limit: 9, at: T0 + minute }),
      ]);
      const released = [...one.runs, ...two.runs].map((run) => run.id);
      const stillHeld = (await countHeld(left))[flowId] ?? 0;
      expect(released[0]).toBe(first.run.id);
      expect([
        ['open', 1, 0],
        ['held', 2, 0],
        ['held', 1, 1],
      ]).toContainEqual([held.kind, released.length, stillHeld]);
      expect((await runsOf(flowId)).sort()).toEqual(released.sort());
    });
  });

  it('both keep to the same bounds', async () => {
    const bounded = {
      schema: `test_${randomUUID().replaceAll('-', '')}`,
      held: { maxRows: 7, maxBytes: 1e9 },
      log: { maxRows: 9, maxBytes: 1e9 },
    };
    const one = await openEmpty(bounded);
    const other = await openStore(bounded);
    const stores = [one, other];
    const flows = ['flow x', 'flow y', 'flow z'];
    for (const flowId of flows) {
      await one.deployFlow({ ...deployOf(graphOf({ a: [] })), id: flowId });
      await one.setFlowDraining({ flowId, isDraining: true, at: T0 });
    }
    const each = <Value>(call: (store: Opened, flowId: string) => Promise<Value>) =>
      Array.from({ length: 60 }, (_, n) => call(stores[n % 2] ?? one, flows[n % 3] ?? ''));
    const holds = await Promise.allSettled(each((store, flowId) => store.holdDelivery(acceptanceTo(flowId))));
    expect(holds.filter(({ status }) => status === 'fulfilled')).toHaveLength(7);
    const refused = { rejected: true, statusCode: 401, reason: 'signature_mismatch' } as const;
    await Promise.all(each((store) => store.recordDelivery(aDelivery({ id: nextId(), ...refused }))));
    expect((await one.listDeliveries({ ...page, rejectedOnly: true })).items).toHaveLength(9);
    expect((await other.listDeliveries({ ...page, rejectedOnly: true })).total).toBe(9);
    await other.close();
    await one.close();
  });
});
