import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import pino from 'pino';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { SluiceApp } from '../../../src/app.ts';
import { stepTypes } from '../../../src/config/steps.ts';
import { type AlertSender, createSendAlertHandler } from '../../../src/features/alerts/send.ts';
import { alertsStore } from '../../../src/features/alerts/store.ts';
import { readAlerts } from '../../../src/features/alerts/targets.ts';
import { type AlertWatch, createAlertWatch, noAlerts } from '../../../src/features/alerts/watch.ts';
import { createCatalog } from '../../../src/flows/catalog.ts';
import { handlerTable } from '../../../src/flows/handlers/index.ts';
import { createIdSource } from '../../../src/model/ids.ts';
import { ALERT_FLOW_ID } from '../../../src/model/manifest.ts';
import type { StepResult, Store } from '../../../src/store/store.ts';
import { buildApp } from '../../database.ts';
import { createWorkspace, eventually } from '../../e2e/service.ts';
import { type FakeClock, fakeClock, openStore, recordingLogger, until } from '../../flows/fixture.ts';
import { claimAll, failed, finish, flowId, graphOf, id, startRun, succeeded, T0 } from '../../store/samples.ts';

const OPS = { ops: { type: 'slack', url: 'https://hooks.example.com/canary-path-0123' } };
const PAGER = { pager: { type: 'pagerduty', routingKey: 'canary-routing-key-0123456789ab' } };

function alertsOf(targets: object) {
  const read = readAlerts({ targets }, () => ({ error: 'there are no secrets' }));
  if ('lines' in read) throw new Error(read.lines.join());
  return read.alerts;
}

const general = { flowId: null, triggerKey: null } as const;
const overdue = {
  kind: 'schedule_overdue',
  severity: 'error',
  link: '/flows/schedules',
  flowId,
  triggerKey: 'nightly',
} as const;
const failingThings: Awaited<ReturnType<Parameters<typeof createAlertWatch>[0]['concerns']>> = [
  { ...general, kind: 'failed_runs', severity: 'error', message: 'counted elsewhere', link: '/flows/runs' },
  { ...general, kind: 'schedule_paused', severity: 'info', message: 'a note', link: '/flows/schedules' },
  { ...overdue, message: 'The schedule nightly was due' },
  { ...overdue, message: 'The schedule hourly was due', triggerKey: 'hourly' },
];

interface Watched {
  readonly watch: AlertWatch;
  readonly store: Store;
  readonly clock: FakeClock;
  readonly sent: Parameters<AlertSender>[0][];
  readonly log: ReturnType<typeof recordingLogger>;
  /** Why the process is not ready. */
  unready: { reason: string; message: string } | undefined;
  concerns: typeof failingThings;
  looks: number;
  /** The page's address is known. */
  hasPage: boolean;
  /** The flow whose runs fail is no longer deployed. */
  isGone: boolean;
}

interface Watching {
  readonly store: Store;
  readonly clock?: FakeClock;
  readonly targets?: object;
  readonly replica?: string;
}

/** A watch over a store, as each replica has one. */
function watching({ store, clock = fakeClock(), targets = OPS, replica = 'Sluice' }: Watching): Watched {
  const log = recordingLogger();
  const sent: Parameters<AlertSender>[0][] = [];
  const send = async (attempt: Parameters<AlertSender>[0]) => {
    sent.push(attempt);
    return { kind: 'succeeded', output: null } as const;
  };
  const handlers = handlerTable([
    ...stepTypes().handlers.filter(({ type }) => type !== 'SendAlert'),
    createSendAlertHandler(send),
  ]);
  const kept = { store, clock, sent, log, unready: undefined, concerns: [], looks: 0, hasPage: true, isGone: false };
  const watched: Omit<Watched, 'watch'> = kept;
  const catalog = createCatalog(store, clock);
  const orders = { record: { id: flowId, name: 'Orders' } } as ReturnType<typeof catalog.find>;
  const find = (each: string) => (each === flowId && !watched.isGone ? orders : catalog.find(each));
  const watch = createAlertWatch({
    alerts: alertsOf(targets),
    send,
    store,
    catalog: { deploy: (flow) => catalog.deploy(flow), list: () => catalog.list(), find },
    announce() {},
    rules: { strict: false, handlers, readSecret: () => ({ error: 'none' }), checks: [] },
    clock,
    logger: log.logger,
    newId: createIdSource(),
    service: 'Sluice',
    pageUrl: () => (watched.hasPage ? 'https://ops.example.com' : undefined),
    concerns: async () => {
      watched.looks += 1;
      return watched.concerns;
    },
    unready: async () => watched.unready,
    replica,
    lookEveryMs: 1,
  });
  onTestFinished(() => watch.stop());
  return Object.assign(watched, { watch });
}

/** Waits until whole looks have passed. */
async function looksOf(...watches: readonly Watched[]): Promise<void> {
  for (const watched of watches) {
    const before = watched.looks;
    await until(() => watched.looks >= before + 3);
  }
}

async function prepared(given: Watching): Promise<Watched> {
  const watched = watching(given);
  await watched.watch.prepare();
  return watched;
}

/** Starts to look, and waits for whole looks. */
async function begin(watched: Watched): Promise<void> {
  watched.watch.start();
  await looksOf(watched);
}

async function started(given: Watching): Promise<Watched> {
  const watched = await prepared(given);
  await begin(watched);
  return watched;
}

async function failRun(store: Store, runId = id(100)): Promise<void> {
  await startRun(store, graphOf({ a: [] }), { id: runId });
  const claim = (await claimAll(store)).find((each) => each.runId === runId);
  if (claim === undefined) throw new Error('nothing was due');
  await finish(store, claim, failed());
}

/** Bodies of the runs that send alerts to targets. */
async function messagesIn(store: Store): Promise<object[]> {
  const { items } = await store.listRuns({ flowId: ALERT_FLOW_ID, skip: 0, take: 50 });
  const runs = await Promise.all(items.map((run) => store.findRun(run.id)));
  return runs.map((run) => JSON.parse(Buffer.from(run?.trigger.body ?? []).toString())).reverse();
}

describe('a watch', () => {
  it('makes one durable run for each message, which a start takes up where the process died after the commit', async () => {
    const store = await openStore();
    const watched = await prepared({ store });
    await failRun(store);
    await begin(watched);
    expect(await messagesIn(store)).toEqual([
      {
        target: 'ops',
        text: expect.stringMatching(
          /^Sluice: firing error: A run of Orders failed at a: No\. \(Orders\/github, since (?:\d+ \w+, )?\d\d:\d\d \S+\)$/,
        ),
        link: `https://ops.example.com/flows/runs/${id(100)}`,
        lines: [],
        more: 0,
      },
    ]);
    // No process announced it, as after a crash, but it is due.
    expect((await claimAll(store, watched.clock.now())).map(({ stepType }) => stepType)).toEqual(['SendAlert']);
    expect(JSON.stringify(await messagesIn(store))).not.toContain('canary');
  });

  it('tells of a failure once, however many replicas look', async () => {
    const store = await openStore();
    const replicas = [watching({ store }), watching({ store }), watching({ store })];
    await Promise.all(replicas.map(({ watch }) => watch.prepare()));
    for (let n = 0; n < 5; n += 1) await failRun(store, id(100 + n));
    for (const { watch } of replicas) watch.start();
    await looksOf(...replicas);
    expect(await messagesIn(store)).toHaveLength(1);
    expect((await store.of(alertsStore).readAlerts({ limit: 9 })).failures).toEqual([]);
  });

  it('tells of what needs attention, but for notes and what it tells of anyway', async () => {
    const store = await openStore();
    const watched = watching({ store });
    watched.concerns = failingThings;
    await watched.watch.prepare();
    await begin(watched);
    const [message] = await messagesIn(store);
    expect(message).toMatchObject({
      text: 'Sluice: 2 firing',
      lines: ['nightly', 'hourly'].map((key) => ({
        text: expect.stringContaining(`firing error: The schedule ${key} was due (Orders/${key}, since `),
      })),
    });
  });

  it('tells of a deploy by which more get in, and why', async () => {
    const store = await openStore();
    const watched = await prepared({ store });
    const routes = [
      { route: 'in', trigger: 't', access: 'wider', before: null, after: '', reasons: ['No gate.'] },
    ] as const;
    await watched.watch.deployTold([{ flowId, name: 'Orders', refusal: null, findings: [], routes }]);
    expect(await messagesIn(store)).toMatchObject([
      { text: expect.stringContaining('firing warning: More deliveries get in to Orders: in: No gate. (Orders/t, ') },
    ]);
  });

  it('tells of secrets that have other values', async () => {
    const store = await openStore();
    const watched = await prepared({ store });
    const findings = [{ rule: 'secret-changed', message: 'The value of env:KEY changed.' }];
    await watched.watch.deployTold([{ flowId, name: 'Orders', refusal: null, findings, routes: [] }]);
    const text = expect.stringContaining('Secrets of Orders changed: The value of env:KEY changed.');
    expect(await messagesIn(store)).toMatchObject([{ text }]);
  });

  it('tells of a deploy that was refused, at the start too', async () => {
    const store = await openStore();
    const watched = watching({ store });
    const refused = [{ flowId, name: 'Orders', refusal: 'A run is\nin flight.', findings: [], routes: [] }];
    await watched.watch.deployTold(refused);
    expect(await messagesIn(store)).toEqual([]);
    await watched.watch.prepare();
    await watched.watch.deployTold(refused);
    expect(await messagesIn(store)).toMatchObject([
      { text: expect.stringContaining('firing warning: A deploy of Orders was refused: A run is in flight.') },
    ]);
  });

  it('has no link while it is not known where the page is', async () => {
    const store = await openStore();
    const watched = watching({ store });
    watched.hasPage = false;
    await watched.watch.prepare();
    await failRun(store);
    await begin(watched);
    expect(await messagesIn(store)).toMatchObject([
      { text: expect.stringContaining('A run of Orders failed'), link: null },
    ]);
  });

  it('says nothing of a run that could not tell a target, which the attention list names', async () => {
    const store = await openStore();
    const watched = await prepared({ store });
    await failRun(store);
    await begin(watched);
    const [claim] = await claimAll(store, watched.clock.now());
    if (claim === undefined) throw new Error('nothing was due');
    await finish(store, claim, failed(), watched.clock.now());
    await looksOf(watched);
    watched.clock.pass(7_200_000);
    await looksOf(watched);
    expect(await messagesIn(store)).toHaveLength(1);
  });

  it('tells nobody while the flow is disabled', async () => {
    const store = await openStore();
    const watched = await prepared({ store });
    await watched.watch.stop();
    await store.setFlowEnabled({ flowId: ALERT_FLOW_ID, isEnabled: false, at: 0 });
    const again = await prepared({ store });
    await failRun(store);
    await begin(again);
    expect(await messagesIn(store)).toEqual([]);
    expect((await store.of(alertsStore).readAlerts({ limit: 9 })).failures).toEqual([]);
  });

  it('tells directly that the process is not ready, once, and that it is ready again', async () => {
    const store = await openStore();
    const watched = await prepared({ store });
    watched.unready = { reason: 'store_unavailable', message: 'the disk is full' };
    await begin(watched);
    expect(watched.sent).toEqual([]);
    watched.clock.pass(15_000);
    await looksOf(watched);
    watched.clock.pass(60_000);
    await looksOf(watched);
    watched.unready = undefined;
    await looksOf(watched);
    expect(watched.sent).toMatchObject([
      {
        target: 'ops',
        message: { text: expect.stringMatching(/^Sluice: firing error: Sluice is not ready: the disk is full \(/) },
      },
    ]);
    expect(await messagesIn(store)).toMatchObject([
      { text: expect.stringMatching(/^Sluice: resolved error: Sluice is ready again \(/) },
    ]);
    watched.unready = { reason: 'stopping', message: 'The process is stopping' };
    await looksOf(watched);
    watched.clock.pass(3_600_000);
    await looksOf(watched);
    expect(watched.sent).toHaveLength(1);
  });

  it('forgets what was kept where nobody is to be told any more', async () => {
    const store = await openStore();
    await watching({ store }).watch.prepare();
    await failRun(store);
    await noAlerts(store).prepare();
    expect(await store.of(alertsStore).readAlerts({ limit: 9 })).toEqual({ version: 0, state: null, failures: [] });
  });
});

describe('an alert', () => {
  /** Runs a flow of one step, and sends pending alerts meanwhile. */
  const runAt = async (store: Store, { runId, result, at }: { runId: string; result: StepResult; at: number }) => {
    await startRun(store, graphOf({ a: [] }), { id: runId, startedAt: at });
    for (const claim of await claimAll(store, T0))
      await finish(store, claim, claim.runId === runId ? result : succeeded(), at);
  };
  const brokenBy = (code: string): StepResult => ({
    kind: 'failed',
    error: { code, message: `${code}.`, retryable: false },
  });
  const failAt = (store: Store, { code = 'broken', ...given }: { runId: string; code?: string; at: number }) =>
    runAt(store, { ...given, result: brokenBy(code) });
  const succeedAt = (store: Store, runId: string, at: number) => runAt(store, { runId, result: succeeded(), at });
  /** Ends the runs that send alerts, as a dispatcher does. */
  const deliver = async (store: Store, at: number) => {
    for (const claim of await claimAll(store, T0)) await finish(store, claim, succeeded(), at);
  };
  const pagedIn = async (store: Store) =>
    (await messagesIn(store)).map((body) => (body as { alert: { status: string; dedupKey: string } }).alert);

  it('tells a program what it is about, and has its own for each cause', async () => {
    const store = await openStore();
    const watched = await started({ store, targets: PAGER });
    const at = watched.clock.now();
    await failAt(store, { runId: id(100), at });
    await failAt(store, { runId: id(101), code: 'other', at });
    await failAt(store, { runId: id(102), at });
    await looksOf(watched);
    watched.clock.pass(5000);
    await looksOf(watched);
    const alerts = await pagedIn(store);
    expect(alerts).toHaveLength(2);
    expect(alerts[0]).toEqual({
      status: 'firing',
      kind: 'run.failed',
      severity: 'error',
      flow: { id: flowId, name: 'Orders' },
      trigger: 'github',
      since: expect.stringMatching(/^2026-.*Z$/),
      dedupKey: expect.stringMatching(/^run\.failed:[0-9a-f]{16}$/),
    });
    expect(new Set(alerts.map(({ dedupKey }) => dedupKey)).size).toBe(2);
  });

  it('fires once for a cause, and resolves once a later run got past the step, whichever replica sees it', async () => {
    const store = await openStore();
    const clock = fakeClock();
    const given = { store, clock, targets: PAGER };
    const replicas = [await started({ ...given, replica: 'one' }), await started({ ...given, replica: 'two' })];
    await failAt(store, { runId: id(100), at: clock.now() });
    await looksOf(...replicas);
    await deliver(store, clock.now());
    clock.pass(60_000);
    await looksOf(...replicas);
    expect(await pagedIn(store)).toMatchObject([{ status: 'firing' }]);
    await succeedAt(store, id(101), clock.now());
    await looksOf(...replicas);
    clock.pass(15_000);
    await looksOf(...replicas);
    const alerts = await pagedIn(store);
    expect(alerts).toMatchObject([{ status: 'firing' }, { status: 'resolved' }]);
    expect(alerts[1]?.dedupKey).toBe(alerts[0]?.dedupKey);
    await deliver(store, clock.now());
    clock.pass(3_600_000);
    await looksOf(...replicas);
    expect(await pagedIn(store)).toHaveLength(2);
  });

  it('is not told again by a restart, which resolves what ended meanwhile', async () => {
    const store = await openStore();
    const clock = fakeClock();
    const first = watching({ store, clock, targets: PAGER });
    first.concerns = [{ ...overdue, message: 'nightly was due' }];
    await first.watch.prepare();
    first.watch.start();
    await failAt(store, { runId: id(100), at: clock.now() });
    await looksOf(first);
    await first.watch.stop();
    await deliver(store, clock.now());
    clock.pass(5000);
    const second = watching({ store, clock, targets: PAGER });
    second.concerns = [{ ...overdue, message: 'nightly was due' }];
    await second.watch.prepare();
    await begin(second);
    await second.watch.stop();
    const fired = await pagedIn(store);
    expect(fired.map(({ status }) => status)).toEqual(['firing', 'firing']);
    await deliver(store, clock.now());
    await succeedAt(store, id(101), clock.now());
    const third = await started({ store, clock, targets: PAGER });
    await looksOf(third);
    clock.pass(15_000);
    await looksOf(third);
    clock.pass(5000);
    await looksOf(third);
    const all = await pagedIn(store);
    expect(all.map(({ status }) => status)).toEqual(['firing', 'firing', 'resolved', 'resolved']);
    expect(new Set(all.map(({ dedupKey }) => dedupKey))).toEqual(new Set(fired.map(({ dedupKey }) => dedupKey)));
  });

  it('of a failed run resolves with the run itself, and with its flow', async () => {
    const store = await openStore();
    const clock = fakeClock();
    const watched = await started({ store, clock, targets: PAGER });
    await failAt(store, { runId: id(100), at: clock.now() });
    await looksOf(watched);
    await deliver(store, clock.now());
    watched.isGone = true;
    await looksOf(watched);
    clock.pass(15_000);
    await looksOf(watched);
    expect((await pagedIn(store)).map(({ status }) => status)).toEqual(['firing', 'resolved']);
    watched.isGone = false;
    await deliver(store, clock.now());
    clock.pass(3_600_000);
    await failAt(store, { runId: id(101), at: clock.now() });
    await looksOf(watched);
    await deliver(store, clock.now());
    await store.retryStep({ runId: id(101), stepKey: 'a', at: clock.now() });
    const [claim] = (await claimAll(store, T0)).filter(({ runId }) => runId === id(101));
    if (claim === undefined) throw new Error('nothing was due');
    await finish(store, claim, succeeded(), clock.now());
    await looksOf(watched);
    clock.pass(3_600_000);
    await looksOf(watched);
    expect((await pagedIn(store)).map(({ status }) => status)).toEqual(['firing', 'resolved', 'firing', 'resolved']);
  });

  it('of a refused deploy resolves once the flow is deployed', async () => {
    const store = await openStore();
    const watched = await started({ store, targets: PAGER });
    const deploy = { flowId, name: 'Orders', findings: [], routes: [] };
    await watched.watch.deployTold([{ ...deploy, refusal: 'No.' }]);
    await deliver(store, watched.clock.now());
    await watched.watch.deployTold([{ ...deploy, refusal: null }]);
    watched.clock.pass(15_000);
    await looksOf(watched);
    expect((await pagedIn(store)).map(({ status }) => status)).toEqual(['firing', 'resolved']);
  });

  it('about a mode that somebody chose calls nobody, nor does a deploy that was let through', async () => {
    const store = await openStore();
    const watched = watching({ store, targets: PAGER });
    watched.concerns = [
      {
        ...general,
        kind: 'trigger_not_enforced',
        severity: 'info',
        message: 'its mode is Audit',
        link: '/flows/flows/1',
      },
    ];
    await watched.watch.prepare();
    watched.watch.start();
    const routes = [
      { route: 'in', trigger: 't', access: 'wider', before: null, after: '', reasons: ['Its mode is Off.'] },
    ] as const;
    await watched.watch.deployTold([{ flowId, name: 'Orders', refusal: null, findings: [], routes }]);
    await looksOf(watched);
    expect(await messagesIn(store)).toEqual([]);
  });

  it('that the process is not ready has one key from the direct message to its end', async () => {
    const store = await openStore();
    const watched = await prepared({ store, targets: PAGER });
    watched.unready = { reason: 'store_unavailable', message: 'the disk is full' };
    await begin(watched);
    watched.clock.pass(15_000);
    await looksOf(watched);
    watched.unready = undefined;
    await looksOf(watched);
    const [direct] = watched.sent;
    const [resolved] = await pagedIn(store);
    expect(direct?.message.alert).toMatchObject({ status: 'firing', kind: 'not_ready' });
    expect(resolved).toMatchObject({ status: 'resolved', dedupKey: direct?.message.alert?.dedupKey });
  });

  it('that a process may have told of before it was killed is resolved by the next one, and not after a stop', async () => {
    const store = await openStore();
    await prepared({ store, targets: PAGER });
    const next = await prepared({ store, targets: { ...OPS, ...PAGER } });
    expect(await messagesIn(store)).toMatchObject([
      { target: 'pager', alert: { status: 'resolved', kind: 'not_ready' } },
    ]);
    await next.watch.stop();
    const last = watching({ store, targets: PAGER });
    last.clock.pass(3_600_000);
    await last.watch.prepare();
    expect(await messagesIn(store)).toHaveLength(1);
  });
});

describe('a service with alerts', () => {
  it.each([
    ['at its public address', 'https://ops.example.com'],
    ['at the port that the system chose', undefined],
  ])('tells a real receiver where to look, %s, and says what became of it', async (_, publicUrl) => {
    const bodies: { path: string; text: string }[] = [];
    const server = createServer((request, response) => {
      let body = '';
      request.on('data', (piece) => {
        body += piece;
      });
      request.on('end', () => {
        bodies.push({ path: request.url ?? '', text: JSON.parse(body).text });
        response.end('ok');
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const workspace = await createWorkspace();
    const orders = '0b7c9d10-0000-4000-8000-000000000001';
    await workspace.writeManifest('orders.json', {
      id: orders,
      name: 'Orders',
      version: '1',
      steps: { book: { type: 'Fail', inputs: { message: 'no stock' } } },
    });
    const lines: string[] = [];
    const app: SluiceApp = await buildApp({
      settings: {
        port: 0,
        egressAllow: ['127.0.0.1'],
        ...(publicUrl !== undefined && { publicUrl }),
        serviceName: 'shop',
        alerts: {
          targets: {
            ops: { type: 'slack', url: 'env:SLACK', intervalSeconds: 1 },
            idle: { type: 'slack', url: 'env:SLACK', flows: ['x'] },
          },
        } as never,
      },
      environment: { SLACK: `http://127.0.0.1:${(server.address() as AddressInfo).port}/canary-path-0123` },
      folder: workspace.folder,
      logger: pino({ level: 'trace' }, { write: (line: string) => lines.push(line) }),
    });
    const address = await app.listen();
    const trigger = { method: 'POST', url: `/flows/api/flows/${orders}/trigger`, payload: {} } as const;
    const { runId } = (await app.fastify.inject(trigger)).json();
    await eventually(
      async () => bodies.length,
      (count) => count > 0,
    );
    expect(bodies).toEqual([
      {
        path: '/canary-path-0123',
        text: expect.stringMatching(
          `^shop: firing error: A run of Orders failed at book: no stock \\(.*\\) <${publicUrl ?? address}/flows/runs/${runId}\\|open>$`,
        ),
      },
    ]);
    const targets = async () => (await app.fastify.inject('/flows/api/alerts')).json();
    await eventually(targets, ([ops]) => ops.lastMessage?.status === 'Succeeded');
    const [, idle] = await targets();
    expect(idle).toMatchObject({ name: 'idle', flows: ['x'], waiting: 0, lastMessage: null });
    const answers = [
      '/flows/api/alerts',
      `/flows/api/runs?flowId=${ALERT_FLOW_ID}`,
      `/flows/api/flows/${ALERT_FLOW_ID}`,
    ];
    const shown = await Promise.all(answers.map(async (url) => (await app.fastify.inject(url)).body));
    expect([...lines, ...shown].join()).not.toContain('canary');
  });
});
