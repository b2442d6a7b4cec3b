import type { Json } from '../../src/model/json.ts';
import type { Graph } from '../../src/model/manifest.ts';
import { entryOf, planRun } from '../../src/model/planner.ts';
import type { Advance, Claim, FlowRecord, NewRun, StepResult, Store } from '../../src/store/store.ts';
import { claimAll, finish, graphOf, id, minute, succeeded, T0 } from './samples.ts';

export const PARENT = '6f2b1c1e-1111-4222-8333-444455556666';
export const CHILD = '6f2b1c1e-2222-4222-8333-444455556666';
export const GRANDCHILD = '6f2b1c1e-3333-4222-8333-444455556666';

/** A graph of one step that runs a flow. */
export const running = (flow: string): Graph => ({ go: { type: 'RunFlow', inputs: { flow }, runAfter: {} } });

interface Deployed {
  readonly steps?: Graph;
  readonly version?: string;
  readonly timeoutSeconds?: number;
  readonly onFailure?: string;
}

type Flow = Parameters<typeof planRun>[0]['flow'] & { readonly record: FlowRecord };

export async function deploy(store: Store, flowId: string, manifest: Deployed = {}): Promise<Flow> {
  const { steps = graphOf({ work: [] }), version = '1', ...fields } = manifest;
  const snapshot = { id: flowId, name: `Flow ${flowId.slice(9, 13)}`, version, steps, ...fields } as unknown as Json;
  const flow = {
    id: flowId,
    name: `Flow ${flowId.slice(9, 13)}`,
    version,
    hash: JSON.stringify(snapshot),
    snapshot,
    at: T0,
  };
  const record = await store.deployFlow(flow);
  return { record, prepared: { entry: entryOf({ steps, timeoutSeconds: fields.timeoutSeconds }) } };
}

export async function start(store: Store, flow: Flow, change: Partial<NewRun> = {}): Promise<string> {
  const planned = planRun({
    runId: change.id ?? id(100),
    flow,
    triggerType: 'webhook',
    trigger: { key: 'in', contentType: null, headers: {}, body: new Uint8Array() },
    deliveryId: null,
    sourceRunId: null,
    traceparent: '00-0123456789abcdef0123456789abcdef-0123456789abcdef-01',
    at: T0,
  });
  await store.accept({ run: { ...planned, ...change } });
  return planned.id;
}

export const asking = (flowId = CHILD, change: Partial<Extract<StepResult, { kind: 'runFlow' }>> = {}): StepResult => ({
  kind: 'runFlow',
  flowId,
  body: { total: 7 },
  isAwaited: true,
  retryAt: null,
  ...change,
});

export async function claimOne(store: Store, at = T0): Promise<Claim> {
  const claims = await claimAll(store, at);
  const [claim] = claims;
  if (claim === undefined || claims.length > 1) throw new Error(`${claims.length} steps were due`);
  return claim;
}

/** Ends the only due step. */
export async function end(store: Store, result: StepResult = succeeded(), at = T0): Promise<Advance> {
  const advance = await finish(store, await claimOne(store, at), result, at);
  if (advance === undefined) throw new Error('the lease was lost');
  return advance;
}

/** Starts a run of a parent whose only step has started a sub-run; returns both ids. */
export async function startBoth(
  store: Store,
  { flow = {}, run = {}, ask = asking() }: { flow?: Deployed; run?: Partial<NewRun>; ask?: StepResult } = {},
) {
  await deploy(store, CHILD);
  const parent = await start(store, await deploy(store, PARENT, { steps: running(CHILD), ...flow }), run);
  const { subRun } = await end(store, ask);
  if (!subRun?.run) throw new Error('no run was started');
  return { parent, child: subRun.run.id };
}

/** A parent and its sub-run end, and retention removes both. */
export async function endAndPurgeBoth(store: Store): Promise<void> {
  const runs = Object.values(await startBoth(store));
  for (const _each of runs) await end(store);
  while (!(await store.purgeRuns({ before: T0 + minute, maxRows: 100 })).isDone);
  for (const runId of runs) if ((await statusOf(store, runId)) !== undefined) throw new Error('a run is left');
}

export const statusOf = async (store: Store, runId: string) => (await store.findRun(runId))?.status;
