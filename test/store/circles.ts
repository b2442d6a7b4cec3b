import type { Graph } from '../../src/model/manifest.ts';
import type { Claim, Store } from '../../src/store/store.ts';
import { aRun, claimAll, finish, id, T0 } from './samples.ts';
import { asking, CHILD, deploy, PARENT, running } from './sub-run-samples.ts';

const CIRCLE = [CHILD, PARENT, ...[4, 5, 6].map((n) => `6f2b1c1e-${String(n).repeat(4)}-4222-8333-444455556666`)];

/** Flows that may all run each other, each with a run whose first step is due: in round 0, the nth has key n. */
export async function openCircle(store: Store, size: number, from = 1, round = 0) {
  const flows = CIRCLE.slice(0, size);
  // Only the first step ever runs: the others only make the run pin their flows.
  const never = { runAfter: { go: { statuses: ['Skipped'] } } };
  const others = flows.slice(1).map((flow, at) => [`never ${at}`, { ...running(flow).go, ...never }] as const);
  const steps = { ...running(CHILD), ...Object.fromEntries(others) } as Graph;
  const keyOf = (at: number) => 100 * round + at + 1;
  const pins: Record<string, number> = {};
  for (const flow of flows) {
    const { record } = await deploy(store, flow, { steps, serialize: 'trigger.body.total' } as Parameters<
      typeof deploy
    >[2]);
    pins[flow] = record.revision;
  }
  const heads = flows.map((_, at) => id(from + at));
  for (const [at, flow] of flows.entries()) {
    const steps = [{ stepKey: 'go', stepType: 'RunFlow', dueAt: T0 }];
    const revision = pins[flow] ?? 0;
    const order = { key: String(keyOf(at)), problem: null, isTrusted: true };
    await store.accept({ run: aRun({ id: id(from + at), flowId: flow, revision, steps, pins, order }) });
  }
  const claims = new Map<string, Claim>();
  const claimOf = async (runId: string) => {
    for (const claim of await claimAll(store)) if (claim.stepKey === 'go') claims.set(claim.runId, claim);
    const claim = claims.get(runId);
    if (claim === undefined) throw new Error(`${runId} was not due`);
    claims.delete(runId);
    return claim;
  };
  return {
    flows,
    heads,
    keyOf,
    claimOf,
    /** The step `go` of a run runs a flow of the circle with a key. */
    ask: async (runId: string, flow: number, total: number, change: Parameters<typeof asking>[1] = {}) =>
      finish(store, await claimOf(runId), asking(flows[flow], { body: { total }, ...change })),
  };
}
