import { activityStore } from '../../src/features/activity/store.ts';
import { alertsStore } from '../../src/features/alerts/store.ts';
import { consumersStore } from '../../src/features/consumers/store.ts';
import { driftStore } from '../../src/features/drift/store.ts';
import { figuresStore } from '../../src/features/figures/store.ts';
import { flowsStore } from '../../src/features/flows/store.ts';
import { httpRequestStore } from '../../src/features/http-request/store.ts';
import { keysStore } from '../../src/features/keys/store.ts';
import { learnedKeysStore } from '../../src/features/learned-keys/store.ts';
import { loginStore } from '../../src/features/login/store.ts';
import { reconcileStore } from '../../src/features/reconcile/store.ts';
import { reviewStore } from '../../src/features/review/store.ts';
import { revisionsStore } from '../../src/features/revisions/store.ts';
import { rhythmStore } from '../../src/features/rhythm/store.ts';
import { runsStore } from '../../src/features/runs/store.ts';
import { schedulesStore } from '../../src/features/schedules/store.ts';
import type { JsonObject } from '../../src/model/json.ts';
import type { Graph } from '../../src/model/manifest.ts';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import type { PlannedDeploy, StepResult, Store } from '../../src/store/store.ts';
import {
  acceptanceOf,
  aDelivery,
  aNonce,
  aRun,
  claimAll,
  countHeld,
  deployOf,
  failed,
  finish,
  flowId,
  graphOf,
  id,
  minute,
  PLAN,
  startRun,
  succeeded,
  T0,
} from '../store/samples.ts';

export const graph: Graph = {
  ...graphOf({ first: [], broken: ['first'], signalled: ['first'], polled: ['first'] }),
  each: {
    type: 'ForEach',
    inputs: {},
    runAfter: { first: { statuses: ['Succeeded'] } },
    steps: graphOf({ child: [], after: ['child'] }),
  },
};

function resultOf(stepKey: string): StepResult {
  if (stepKey === 'each') return { kind: 'loop', items: [1, 'zwei', null], concurrency: 2 };
  if (stepKey === 'broken' || stepKey === 'each.1.child') return failed();
  if (stepKey === 'signalled') return { kind: 'waiting', state: { a: 1 }, dueAt: null, signalName: 'go' };
  const state = { lastPoll: { status: 503, text: 'ü\u0000' } };
  if (stepKey === 'polled') return { kind: 'waiting', state, dueAt: T0 + 9 * minute, signalName: null };
  return succeeded({ of: stepKey, text: 'Grüße \u0000 "\\', large: 'x'.repeat(5000), numbers: [0.1, 1e21] });
}

async function advanceAll(store: Store, isLeft = false): Promise<void> {
  for (let at = T0; ; at += 7) {
    const claims = await claimAll(store, at);
    if (claims.length === 0 || isLeft) return;
    for (const claim of claims) await finish(store, claim, resultOf(claim.stepKey), at + 3);
  }
}

const renaming: Omit<PlannedDeploy, keyof ReturnType<typeof deployOf>> = {
  ...PLAN,
  basedOn: 1,
  source: 'api',
  reason: 'a new name',
  access: 'narrower',
  needs: {
    files: { 'file:schema.json': '{}' },
    sealed: { keyId: 'k', bytes: 2, text: 'AAAA' },
    digestedWith: { keyId: 'k' },
    digests: { 'env:KEY': 'd' },
    signed: ['github'],
    settings: { enforcementMode: 'Off' },
  },
  findings: [{ rule: 'r', class: 'caution', path: 'steps.a', message: 'm', consequence: 'c' }],
  overrides: ['caution'],
  triggers: { keys: ['github'], moved: [{ from: 'old', to: 'github' }] },
};

const SUB_FLOW = '6f2b1c1e-2222-4222-8333-444455556666';

/** Starts a run that runs another flow, after a newer revision of that flow, and cancels it. */
async function startSubRun(store: Store): Promise<void> {
  const subFlow = (graph: Graph) => deployOf(graph, { id: SUB_FLOW, name: 'Sub' });
  await store.deployFlow(subFlow(graphOf({ work: [] })));
  const steps = [{ stepKey: 'go', stepType: 'RunFlow', dueAt: T0 + 5 }];
  await store.accept({
    run: aRun({ id: id(150), flowId: 'parent', startedAt: T0 + 5, subFlows: [SUB_FLOW], steps }),
  });
  await store.deployFlow(subFlow(graphOf({ other: [] })));
  const go = (await claimAll(store, T0 + 6)).find(({ runId }) => runId === id(150));
  if (go === undefined) throw new Error('the step was not due');
  const ask = { kind: 'runFlow', flowId: SUB_FLOW, body: { a: 1 }, isAwaited: true, retryAt: null } as const;
  await finish(store, go, ask, T0 + 6);
  await store.cancelRun({ runId: id(150), reason: null, at: T0 + 7 });
}

/** Writes something into every table. */
async function fill(store: Store): Promise<void> {
  // From now on failed runs are noted.
  await store.of(alertsStore).commitAlerts({ version: 0, state: { told: 'ü' }, taken: [], runs: [] });
  await store.deployFlow(deployOf(graphOf({ broken: [] }), { id: 'failing', name: 'Failing' }));
  const steps = [{ stepKey: 'broken', stepType: 'NoOp', dueAt: T0 }];
  await store.accept({ run: aRun({ id: id(90), flowId: 'failing', startedAt: T0 - 2, steps }) });
  await advanceAll(store);
  const circuit = { openedAt: T0 };
  await store.of(httpRequestStore).changeCircuit({ queue: 'https://example.com', version: null, next: 3, circuit });
  const consumer = {
    name: 'ada',
    flowId: null,
    triggerKey: null,
    since: T0,
    at: T0,
    idleBefore: 0,
    most: 1,
    mostOfFlow: 1,
  };
  await store.of(consumersStore).openConsumer(consumer);
  await startRun(store, graph, { id: id(1), startedAt: T0 - 1 });
  await store.cancelRun({ runId: id(1), reason: 'ended', at: T0 });
  await store.purgeRuns({ before: T0 + 1, maxRows: 1 });
  await startRun(store, graph, { id: id(101) });
  await startRun(store, graph, {
    id: id(102),
    startedAt: T0 + 1,
    sourceRunId: id(101),
    timeoutAt: T0 + 99 * minute,
    traceparent: '00-a',
  });
  await store.deliverSignal({ runId: id(102), name: 'early', body: [1], at: T0 });
  await advanceAll(store);
  await store.deliverSignal({ runId: id(102), name: 'go', body: { big: 1 }, at: T0 + 50 });
  await startRun(store, graph, { id: id(103), startedAt: T0 + 2 });
  await store.cancelRun({ runId: id(103), reason: 'twice', at: T0 + 1 });
  await startRun(store, graph, { id: id(104), startedAt: T0 + 3 });
  await advanceAll(store, true);

  const accepted = (n: number, change: object) => acceptanceOf(n, { at: T0 + 10 + n, ...change });
  await store.accept(accepted(1, { nonce: aNonce(), idempotencyKey: 'key ü', verifiedBy: 'c0ffee00' }));
  await store.accept(accepted(2, { nonce: aNonce() }));
  // Nothing waits for this signal yet.
  const signal = { step: 'approval', key: 'schlüssel', choice: undefined, deliveryId: id(11), at: T0, body: '{"ü":1}' };
  await store.accept({ ...accepted(11, {}), signal });
  await store.accept(accepted(3, { idempotencyKey: 'key ü', verifiedBy: 'deadbeef' }));
  const noted = { flowId, triggerKey: 'github' };
  const roles = [
    { ...noted, keyName: 'c0ffee00', role: 'current' },
    { ...noted, keyName: 'deadbeef', role: 'previous' },
  ] as const;
  await store.of(keysStore).noteKeys({ keys: [...roles], at: T0 });
  await store.of(keysStore).noteKeys({ keys: roles.slice(0, 1), at: T0 + 1 });
  const event = { id: 'evt ü', arrivedAt: T0, expiresAt: T0 + 30 * 86_400_000 };
  await store.accept(accepted(6, { event }));
  await store.accept(
    accepted(7, { event: { ...event, id: 'filtered' }, nonce: aNonce({ value: 'filtered' }), isFiltered: true }),
  );
  const coalesce = { key: 'schlüssel', isTrusted: true, quietMs: 1000, maxMs: 9000, collect: 5 };
  for (const n of [8, 9]) {
    const given = accepted(n, { coalesce, idempotencyKey: `key ${n}` });
    const steps = given.run.steps.map((step) => ({ ...step, dueAt: given.run.startedAt + 1000 }));
    await store.accept({ ...given, run: { ...given.run, steps } });
  }
  const { run: turn, ...ordered } = accepted(10, {});
  await store.accept({ ...ordered, run: { ...turn, order: { key: 'schlüssel', problem: null, isTrusted: true } } });
  await store.accept(accepted(4, { nonce: aNonce({ value: 'again', expiresAt: T0 + 15 }) }));
  await store.accept(accepted(5, { nonce: aNonce({ value: 'again' }) }));
  const refused = { rejected: true, reason: 'ip_denied', violations: ['ip_denied'], statusCode: 401 } as const;
  const body = new Uint8Array([0, 255, 10, 128]);
  await store.recordDelivery(aDelivery({ id: id(20), ...refused, body, gateResults: [], requestUrl: '/x?y=%00' }));
  await store.recordDelivery(aDelivery({ id: id(21), ...refused, flowId: null, triggerKey: null }));
  const { delivery, run } = accepted(22, {});
  const searchKeys = { order: 'SO-1010', note: 'grüße' };
  if (delivery !== undefined) {
    await store.accept({ delivery: { ...delivery, redeliveredFrom: id(20) }, run: { ...run, searchKeys } });
  }
  const shares = ['flow', 'another'].map((each) => ({
    flowId: each,
    triggerKey: 'github',
    runId: null,
    outcome: null,
  }));
  await store.recordDelivery(aDelivery({ id: id(23), ...refused, searchKeys, shares }));

  await store.deployFlow(deployOf(graph, { id: 'held flow', name: 'Held' }));
  await store.setFlowDraining({ flowId: 'held flow', isDraining: true, at: T0 });
  const held = accepted(30, { nonce: aNonce({ value: 'held' }), idempotencyKey: 'held key' });
  await store.holdDelivery({ ...held, run: { ...held.run, flowId: 'held flow' } });
  for (const n of [31, 32]) {
    const given = accepted(n, { coalesce });
    await store.holdDelivery({ ...given, run: { ...given.run, flowId: 'held flow' } });
  }

  const two = deployOf(graphOf({ other: [] }), { id: 'renamed', name: 'ändern' });
  await store.deployFlow(deployOf(graph, { id: 'renamed' }));
  await store.accept({
    run: aRun({
      id: id(140),
      flowId: 'renamed',
      triggerKey: 'old',
      startedAt: T0 + 4,
      status: 'Succeeded',
      completedAt: T0 + 77,
    }),
    nonce: aNonce({ value: 'before the rename' }),
  });
  const triggers = { github: { type: 'webhook', inputs: { webhookSlug: 'renamed' } } };
  await store.applyDeploys([{ ...two, snapshot: { ...(two.snapshot as JsonObject), triggers }, ...renaming }]);
  await store.setFlowEnabled({ flowId: 'renamed', isEnabled: false, at: T0 + 5 });
  const schedule = { flowId, triggerKey: 'nightly', cron: '0 3 * * *', timeZone: 'Europe/Berlin', cronOverride: null };
  await store.of(schedulesStore).changeSchedule({ ...schedule, isPaused: true, nextAt: null, lastAt: T0, revision: 0 });
  await startSubRun(store);
  await store
    .of(learnedKeysStore)
    .learnKey({ flowId, triggerKey: 'tasks', scheme: 'Asana', secret: body, sealedWith: 'k1', learnedAt: T0 });
  const path = { event: 'pä"sh', path: 'body["a b"].x', firstId: id(1) };
  await store.of(driftStore).commitPayloadWatch({
    ...{ flowId, triggerKey: 'github', version: 0, lastId: id(23) },
    drifts: [{ ...path, was: 'string', now: 'absent', firstAt: T0, before: 30, differing: 3, failed: 0 }],
    counts: [{ ...path, hour: 5, type: 'absent', count: 3, lastId: id(2) }],
  });
  await store.of(rhythmStore).commitRhythm({
    ...{
      flowId,
      triggerKey: 'github',
      version: 0,
      lastId: id(23),
      lastAt: T0,
      state: { since: T0 },
      found: [{ kind: 'ä' }],
    },
    hours: [{ event: 'pä"sh', hour: 5, count: 3, firstAt: T0, lastAt: T0 + 1, longestGapMs: 1 }],
  });
  const asking = { flowId, triggerKey: 'github', owner: 'a' };
  await store.of(reconcileStore).takeReconciliation({ ...asking, until: T0 + minute, now: T0, lastBefore: T0 });
  await store.of(reconcileStore).endReconciliation({ ...asking, lastAt: T0, state: { settledTo: T0 } });
  await store.of(rhythmStore).noteDowntime({ startedAt: T0, endedAt: T0 + 5, offsetMs: 7, keptSince: 0 });
  const target = { type: 'run', id: id(103) } as const;
  const details = { stepKey: 'a' };
  const done = { at: T0, actor: 'oncall', clientIp: null, action: 'cancelRun', target, details, reason: null };
  await store.of(activityStore).beginIntervention({ id: id(50), ...done });
  await store.of(activityStore).endIntervention({ id: id(50), statusCode: 202 });
  await store.of(loginStore).endSession({ id: id(51), lastsUntil: T0 + minute, now: T0 });
  await store.keepTime({ now: T0 });
  await store.noteCredentials({ credentials: [{ id: 'user', mark: 'ü' }], now: T0 });
  await store.keepSecret({ name: 'plans', secret: new Uint8Array([7, 0, 255]) });
}

export type Reads = Pick<
  Store,
  Extract<keyof Store, `list${string}` | `find${string}` | `read${string}` | `count${string}`>
> &
  Pick<Store, 'outlineSteps' | 'pageSteps'> &
  Pick<Store, 'of'>;

const sorted = (rows: readonly unknown[]) => rows.map((row) => JSON.stringify(row)).sort();

/** All answers of the store. */
export async function answers(store: Reads): Promise<Record<string, unknown>> {
  const page = { skip: 0, take: 500, includeTotal: true };
  const runs = await store.listRuns(page);
  const deliveries = await store.listDeliveries(page);
  const limits = { valueBytes: 1000, answerBytes: 9000 };
  const range = { since: T0 - 9 * minute, until: T0 + 3_600_000, bucketMs: 3_600_000, flowId: undefined };
  const ofRun = async (runId: string) => {
    const steps = (await store.listSteps(runId)) ?? [];
    const keys = steps.map(({ stepKey }) => stepKey);
    const value = { runId, stepKey: 'first', value: 'output', offset: 3, bytes: 90 } as const;
    return [
      await store.findRun(runId),
      steps,
      await store.outlineSteps(runId, keys),
      await store.of(runsStore).listStepEvents({ runId, limit: 7 }),
      await store.of(runsStore).listLoops(runId),
      sorted(await store.of(runsStore).countChildren(runId)),
      await store.of(runsStore).findIterations({ runId, loopKey: 'each', status: 'Failed', limit: 9 }),
      await store.pageSteps({ runId, planned: Object.keys(graph), skip: 1, take: 9, limits }),
      await store.findStep(runId, 'first'),
      await store.of(runsStore).readValue({ ...value, attempt: undefined }),
      await store.of(runsStore).readValue({ ...value, attempt: 1 }),
      await store.readRunInput({ runId }),
      await store.readRunInput({ runId, stepKeys: ['first'], maxBytes: 9 }),
      await store.of(runsStore).listSignals(runId),
      await store.of(runsStore).findLineage(runId),
    ];
  };
  return {
    runs,
    deliveries,
    flows: await store.listFlows(),
    live: await Promise.all(['renamed', 'held flow', flowId].map((each) => store.readLiveFlow(each))),
    revisions: await store.of(revisionsStore).listRevisions({ flowId: 'renamed', skip: 0, take: 9 }),
    deployed: await store.listDeployed(),
    schedules: await store.of(schedulesStore).listSchedules(),
    keys: await store.of(learnedKeysStore).listLearnedKeys(),
    paths: await store.of(driftStore).listPathCounts({ flowId, triggerKey: 'github' }),
    watch: await store.of(driftStore).readPayloadWatch({ flowId, triggerKey: 'github' }),
    drifts: await store.of(driftStore).listPathDrifts(),
    circuits: await store.of(httpRequestStore).listCircuits(),
    reconciliations: await store.of(reconcileStore).listReconciliations(),
    alerts: await store.of(alertsStore).readAlerts({ limit: 9 }),
    keyFigures: await store.of(keysStore).listKeyFigures({ recentSince: T0 }),
    details: await Promise.all(runs.items.map((run) => ofRun(run.id))),
    found: await Promise.all(deliveries.items.map((each) => store.findDelivery(each.id))),
    redelivery: await store.of(reviewStore).findRedelivery(id(20)),
    held: await countHeld(store),
    ofStatus: await Promise.all(
      (['Running', 'Failed', 'Cancelled'] as const).map((status) => store.listRuns({ ...page, status })),
    ),
    searched: await store.listRuns({ ...page, search: 'ORDERS', flowId }),
    interventions: await store.of(activityStore).listInterventions(page),
    isSessionEnded: await store.of(loginStore).isSessionEnded({ id: id(51), credential: 'user', begunAt: T0 }),
    stats: await store.of(figuresStore).deliveryStats({ since: T0 - 30_000 }),
    summary: await store.of(reviewStore).summariseDeliveries({ since: T0 }),
    counted: sorted(await store.countDeliveries({ since: T0 - minute, recentSince: T0 })),
    timeseries: [
      await store.of(figuresStore).deliveryTimeseries(range),
      await store.of(figuresStore).runTimeseries(range),
    ],
    totals: [sorted(await store.of(flowsStore).countRuns()), sorted(await store.countEndedRuns(T0))],
  };
}

/** A SQLite database with rows in every table, and its store's answers. */
export async function filled(path: string): Promise<{ path: string; expected: Record<string, unknown> }> {
  const store = await openSqliteStore({ path });
  await fill(store);
  const expected = await answers(store);
  await store.close();
  return { path, expected };
}
