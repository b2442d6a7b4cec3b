import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import pino from 'pino';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type AlertSender, createSendAlertHandler } from '../../src/alerts/send.ts';
import { readAlerts } from '../../src/alerts/targets.ts';
import { type AlertWatch, createAlertWatch, noAlerts } from '../../src/alerts/watch.ts';
import { buildApp, type SluiceApp } from '../../src/app.ts';
import { createCatalog } from '../../src/flows/catalog.ts';
import { builtInHandlers, handlerTable } from '../../src/flows/handlers/index.ts';
import { createIdSource } from '../../src/model/ids.ts';
import { ALERT_FLOW_ID } from '../../src/model/manifest.ts';
import type { Store } from '../../src/store/store.ts';
import { createWorkspace, eventually } from '../e2e/service.ts';
import { type FakeClock, fakeClock, openStore, recordingLogger } from '../flows/fixture.ts';
import { claimAll, failed, finish, flowId, graphOf, id, startRun } from '../store/samples.ts';

const told = readAlerts(
  { targets: { ops: { type: 'slack', url: 'https://hooks.example.com/canary-path-0123' } } },
  () => ({
    error: 'there are no secrets',
  }),
);
const alerts = 'alerts' in told ? told.alerts : undefined;
const failingThings: Awaited<ReturnType<Parameters<typeof createAlertWatch>[0]['concerns']>> = [
  { kind: 'failed_runs', severity: 'error', message: 'counted elsewhere', link: `/flows/runs?flowId=${flowId}` },
  { kind: 'schedule_paused', severity: 'info', message: 'a note', link: '/flows/schedules' },
  { kind: 'schedule_overdue', severity: 'error', message: 'The schedule nightly was due', link: '/flows/schedules' },
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
}

/** A watch over a store, as each replica has one. */
function watching({ store, clock = fakeClock() }: { store: Store; clock?: FakeClock }): Watched {
  if (alerts === undefined) throw new Error('the file does not fit');
  const log = recordingLogger();
  const sent: Parameters<AlertSender>[0][] = [];
  const send = async (attempt: Parameters<AlertSender>[0]) => {
    sent.push(attempt);
    return { kind: 'succeeded', output: null } as const;
  };
  const handlers = handlerTable([...builtInHandlers({ egressAllow: [] }), createSendAlertHandler(send)]);
  const watched: Omit<Watched, 'watch'> = { store, clock, sent, log, unready: undefined, concerns: [], looks: 0 };
  const watch = createAlertWatch({
    alerts,
    send,
    store,
    catalog: createCatalog(store, clock),
    announce() {},
    rules: { strict: false, handlers, readSecret: () => ({ error: 'none' }), checks: [] },
    clock,
    logger: log.logger,
    newId: createIdSource(),
    pageUrl: 'https://ops.example.com',
    concerns: async () => {
      watched.looks += 1;
      return watched.concerns;
    },
    unready: async () => watched.unready,
    replica: 'Sluice',
    lookEveryMs: 1,
  });
  onTestFinished(() => watch.stop());
  return Object.assign(watched, { watch });
}

/** Lets whole looks pass. */
async function looksOf(...watches: readonly Watched[]): Promise<void> {
  for (const watched of watches) {
    const until = watched.looks + 3;
    while (watched.looks < until) await setImmediate();
  }
}

async function failRun(store: Store, runId = id(100)): Promise<void> {
  await startRun(store, graphOf({ a: [] }), { id: runId });
  const claim = (await claimAll(store)).find((each) => each.runId === runId);
  if (claim === undefined) throw new Error('nothing was due');
  await finish(store, claim, failed());
}

/** Bodies of the runs that tell targets. */
async function messagesIn(store: Store): Promise<object[]> {
  const { items } = await store.listRuns({ flowId: ALERT_FLOW_ID, skip: 0, take: 50 });
  const runs = await Promise.all(items.map((run) => store.findRun(run.id)));
  return runs.map((run) => JSON.parse(Buffer.from(run?.trigger.body ?? []).toString())).reverse();
}

describe('a watch', () => {
  it('makes one durable run for each message, which a start takes up where the process died after the commit', async () => {
    const store = await openStore();
    const watched = watching({ store });
    await watched.watch.prepare();
    await failRun(store);
    watched.watch.start();
    await looksOf(watched);
    expect(await messagesIn(store)).toEqual([
      {
        target: 'ops',
        text: 'Sluice: A run of Orders failed at a: No.',
        link: `https://ops.example.com/flows/runs/${id(100)}`,
        lines: [],
        more: 0,
      },
    ]);
    // Nobody has announced it, as after a crash: it is due.
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
    expect((await store.readAlerts({ limit: 9 })).failures).toEqual([]);
  });

  it('tells of what needs attention, but for notes and what it tells of anyway', async () => {
    const store = await openStore();
    const watched = watching({ store });
    watched.concerns = failingThings;
    await watched.watch.prepare();
    watched.watch.start();
    await looksOf(watched);
    expect(await messagesIn(store)).toMatchObject([{ text: 'Sluice: The schedule nightly was due' }]);
  });

  it('tells of a deploy by which more get in, and why', async () => {
    const store = await openStore();
    const watched = watching({ store });
    await watched.watch.prepare();
    const routes = [
      { route: 'in', trigger: 't', access: 'wider', before: null, after: '', reasons: ['No gate.'] },
    ] as const;
    await watched.watch.deployTold([{ flowId, name: 'Orders', refusal: null, findings: [], routes }]);
    expect(await messagesIn(store)).toMatchObject([{ text: 'Sluice: More deliveries get in to Orders: in: No gate.' }]);
  });

  it('tells of secrets that have other values', async () => {
    const store = await openStore();
    const watched = watching({ store });
    await watched.watch.prepare();
    const findings = [{ rule: 'secret-changed', message: 'The value of env:KEY is another one than before.' }];
    await watched.watch.deployTold([{ flowId, name: 'Orders', refusal: null, findings, routes: [] }]);
    const text = 'Sluice: Secrets of Orders changed: The value of env:KEY is another one than before.';
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
      { text: 'Sluice: A deploy of Orders was refused: A run is in flight.' },
    ]);
  });

  it('says nothing of a run that could not tell a target, which the attention list names', async () => {
    const store = await openStore();
    const watched = watching({ store });
    await watched.watch.prepare();
    await failRun(store);
    watched.watch.start();
    await looksOf(watched);
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
    const watched = watching({ store });
    await watched.watch.prepare();
    await watched.watch.stop();
    await store.setFlowEnabled({ flowId: ALERT_FLOW_ID, isEnabled: false, at: 0 });
    const again = watching({ store });
    await again.watch.prepare();
    await failRun(store);
    again.watch.start();
    await looksOf(again);
    expect(await messagesIn(store)).toEqual([]);
    expect((await store.readAlerts({ limit: 9 })).failures).toEqual([]);
  });

  it('tells directly that the process is not ready, once, and that it is ready again', async () => {
    const store = await openStore();
    const watched = watching({ store });
    await watched.watch.prepare();
    watched.unready = { reason: 'store_unavailable', message: 'the disk is full' };
    watched.watch.start();
    await looksOf(watched);
    expect(watched.sent).toEqual([]);
    watched.clock.pass(15_000);
    await looksOf(watched);
    watched.clock.pass(60_000);
    await looksOf(watched);
    watched.unready = undefined;
    await looksOf(watched);
    expect(watched.sent.map(({ target, message }) => [target, message.text])).toEqual([
      ['ops', 'Sluice: Sluice is not ready: the disk is full'],
      ['ops', 'Sluice: Sluice is ready again'],
    ]);
    watched.unready = { reason: 'stopping', message: 'The process is stopping' };
    await looksOf(watched);
    watched.clock.pass(3_600_000);
    await looksOf(watched);
    expect(watched.sent).toHaveLength(2);
  });

  it('forgets what was kept where nobody is to be told any more', async () => {
    const store = await openStore();
    await watching({ store }).watch.prepare();
    await failRun(store);
    await noAlerts(store).prepare();
    expect(await store.readAlerts({ limit: 9 })).toEqual({ version: 0, state: null, failures: [] });
  });
});

describe('a service with alerts', () => {
  it('tells a real receiver, and says what became of it', async () => {
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
    onTestFinished(() => workspace.remove());
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
        publicUrl: 'https://ops.example.com',
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
    onTestFinished(() => app.close());
    await app.listen();
    const trigger = { method: 'POST', url: `/flows/api/flows/${orders}/trigger`, payload: {} } as const;
    const { runId } = (await app.fastify.inject(trigger)).json();
    await eventually(
      async () => bodies.length,
      (count) => count > 0,
    );
    expect(bodies).toEqual([
      {
        path: '/canary-path-0123',
        text: `Sluice: A run of Orders failed at book: no stock <https://ops.example.com/flows/runs/${runId}|open>`,
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
