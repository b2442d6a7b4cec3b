import { holdStore } from '../../src/features/hold/store.ts';
import type { DeliveryRecord } from '../../src/model/delivery.ts';
import type { Json } from '../../src/model/json.ts';
import type { Edge, Graph, StepStatus } from '../../src/model/manifest.ts';
import type {
  Acceptance,
  AcceptResult,
  Claim,
  NewRun,
  NonceClaim,
  PlannedDeploy,
  RunInput,
  StepResult,
  Store,
} from '../../src/store/store.ts';

export const T0 = Date.UTC(2026, 10, 20, 12);
export const minute = 60_000;

/** The n-th of a series of ids that grow as UUID v7 do. */
export function id(n: number): string {
  return `019aa000-0000-7000-8000-${n.toString(16).padStart(12, '0')}`;
}

export const flowId = '6f2b1c1e-1111-4222-8333-444455556666';

export function aDelivery(change: Partial<DeliveryRecord> = {}): DeliveryRecord {
  return {
    id: id(1),
    flowId,
    triggerKey: 'github',
    receivedAt: T0,
    clientIp: '192.0.2.7',
    mode: 'Enforce',
    scheme: 'GitHub',
    rejected: false,
    enforced: false,
    statusCode: 200,
    reason: null,
    violations: [],
    detail: null,
    bodyBytes: 2,
    body: null,
    headers: { 'content-type': 'application/json' },
    processingMs: 0.75,
    runId: null,
    usedPreviousKey: false,
    ...change,
  };
}

export function aRun(change: Partial<NewRun> = {}): NewRun {
  const triggerKey = change.triggerKey ?? 'github';
  return {
    id: id(100),
    flowId,
    flowName: 'Orders',
    flowVersion: '1.0',
    revision: 1,
    status: 'Running',
    triggerKey,
    triggerType: 'webhook',
    deliveryId: null,
    sourceRunId: null,
    startedAt: T0,
    completedAt: null,
    timeoutAt: null,
    traceparent: null,
    trigger: {
      key: triggerKey,
      body: new TextEncoder().encode('{}'),
      contentType: 'application/json',
      headers: { 'content-type': 'application/json' },
    },
    steps: [{ stepKey: 'first', stepType: 'NoOp', dueAt: T0 }],
    ...change,
  };
}

/** The run that a result names. */
export function runIdOf(result: AcceptResult | undefined): string | undefined {
  return result !== undefined && 'runId' in result ? (result.runId ?? undefined) : undefined;
}

export function aNonce(change: Partial<NonceClaim> = {}): NonceClaim {
  const { header = '', value = 'nonce-1' } = change;
  const digest = header === '' ? value : 'd'.repeat(64);
  const times = { arrivedAt: T0, expiresAt: T0 + 5 * minute };
  const claim = { header, value, digest, bodySha256: 'a'.repeat(64), ...times };
  return { ...claim, isTrusted: true, isAsked: true, isEnforced: true, ...change };
}

/** The n-th delivery to a flow, with its run. */
export function acceptanceOf(n: number, change: Partial<Acceptance> & { at?: number } = {}): Acceptance {
  const { at = T0, nonce, ...rest } = change;
  const delivery = aDelivery({ id: id(n), receivedAt: at, runId: id(1000 + n) });
  return {
    delivery,
    run: aRun({ id: id(1000 + n), deliveryId: id(n), startedAt: at }),
    ...(nonce && { nonce: { ...nonce, arrivedAt: at } }),
    ...rest,
  };
}

/** A graph from step keys to the upstream keys that must have succeeded, or to complete edges. */
export function graphOf(steps: Record<string, readonly string[] | Record<string, readonly StepStatus[]>>): Graph {
  const edgesOf = (upstream: readonly string[] | Record<string, readonly StepStatus[]>): Record<string, Edge> => {
    if (Array.isArray(upstream)) return Object.fromEntries(upstream.map((key) => [key, { statuses: ['Succeeded'] }]));
    return Object.fromEntries(Object.entries(upstream).map(([key, statuses]) => [key, { statuses }]));
  };
  return Object.fromEntries(
    Object.entries(steps).map(([key, upstream]) => [key, { type: 'NoOp', inputs: {}, runAfter: edgesOf(upstream) }]),
  );
}

type FlowDeploy = Parameters<Store['deployFlow']>[0];

/** A plan's data for an ordinary deploy. */
export const PLAN = {
  source: 'folder',
  actor: 'somebody',
  reason: null,
  access: 'same',
  isUnchanged: false,
  basedOn: null,
  needsIdle: false,
  withoutHistory: [],
  findings: [],
  overrides: [],
  triggers: { keys: [], moved: [] },
  needs: null,
} satisfies Omit<PlannedDeploy, keyof FlowDeploy>;

export function deployOf(graph: Graph, change: Partial<FlowDeploy> = {}): FlowDeploy {
  const snapshot = { id: flowId, steps: graph } as unknown as Json;
  return { id: flowId, name: 'Orders', version: '1.0', hash: JSON.stringify(graph), snapshot, at: T0, ...change };
}

/** Deploys a graph and starts one run of it; returns the run's id. */
export async function startRun(store: Store, graph: Graph, change: Partial<NewRun> = {}): Promise<string> {
  const { revision } = await store.deployFlow(deployOf(graph));
  const entries = Object.entries(graph).filter(([, { runAfter }]) => Object.keys(runAfter).length === 0);
  const steps = entries.map(([stepKey, { type }]) => ({ stepKey, stepType: type, dueAt: T0 }));
  const run = aRun({ revision, steps, ...change });
  await store.accept({ run });
  return run.id;
}

export async function claimAll(store: Store, now = T0, limit = 100): Promise<Claim[]> {
  return (await store.claimDue({ owner: 'me', now, leasedUntil: now + minute, limit })).claims;
}

/** The data that expressions of a run's steps read, whatever its size. */
export async function readInput(store: Store, runId: string): Promise<RunInput> {
  const input = await store.readRunInput({ runId });
  if (input === undefined || input.kind !== undefined) throw new Error('nothing was read');
  // In the caller's own thread it is a Buffer, which `expect` does not equate with other bytes.
  return { ...input, trigger: { ...input.trigger, body: Uint8Array.from(input.trigger.body) } };
}

/** Ends the attempt of a claim. */
export function finish(store: Store, claim: Claim, result: StepResult, at = T0) {
  const { token, runId, stepKey } = claim;
  return store.advance({ token, runId, stepKey, at, input: { of: stepKey }, result });
}

export const succeeded = (output: Json = null): StepResult => ({ kind: 'succeeded', output });
export const failed = (): StepResult => ({
  kind: 'failed',
  error: { code: 'broken', message: 'No.', retryable: false },
});
export const retryAt = (dueAt: number, output: Json = null): StepResult => ({
  kind: 'retry',
  error: { code: 'busy', message: 'Not now.', retryable: true },
  output,
  dueAt,
});

export async function deliveryIds(store: Store): Promise<string[]> {
  return (await store.listDeliveries({ skip: 0, take: 500 })).items.map((delivery) => delivery.id);
}

export async function runIds(store: Store): Promise<string[]> {
  return (await store.listRuns({ skip: 0, take: 500 })).items.map((run) => run.id);
}

/** Held deliveries by flow id; flows without any are absent. */
export async function countHeld(store: Pick<Store, 'of'>): Promise<Record<string, number>> {
  return Object.fromEntries((await store.of(holdStore).listHeld()).map(({ flowId: own, held }) => [own, held]));
}
