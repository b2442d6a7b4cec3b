// A runtime on a store file, without HTTP, that kills itself at one of its store's writes: every start costs a third of
// the whole service's. It is plain JavaScript on the built code because a child that compiled itself would cost more.

import { appendFileSync, writeFileSync, writeSync } from 'node:fs';
import { pino } from 'pino';
import { z } from 'zod';
import { subFlowsStepTypes } from '../../dist/features/sub-flows/step-types.js';
import { createCatalog } from '../../dist/flows/catalog.js';
import { forEach } from '../../dist/flows/handlers/for-each.js';
import { defineHandler } from '../../dist/flows/handlers/handler.js';
import { delay, fail, logMessage, noOp, transform } from '../../dist/flows/handlers/plain-steps.js';
import { waitForSignal } from '../../dist/flows/handlers/wait-for-signal.js';
import { createRuntime } from '../../dist/flows/runtime.js';
import { snapshotOf } from '../../dist/manifest/secrets.js';
import { createServiceClock } from '../../dist/model/clock.js';
import { openSqliteStore } from '../../dist/store/sqlite/client.js';
import { createMetrics } from '../../dist/telemetry/metrics.js';

/** `killAt` counts the writes from 1 on; where it is 0, or beyond the last, every run ends and `report` says how. */
const { file, journal, report, flow, inner, runs, killAt, moment } = JSON.parse(process.argv[2]);

const WRITES = [
  'accept',
  'claimDue',
  'beginAttempts',
  'advance',
  'recover',
  'renewLeases',
  'deliverSignal',
  'deployFlow',
];
const die = () => process.kill(process.pid, 'SIGKILL');

function dyingAt(store) {
  let writes = 0;
  const members = WRITES.map((name) => [
    name,
    async (...args) => {
      writes += 1;
      if (writes !== killAt) return store[name](...args);
      if (moment === 'before') die();
      const written = store[name](...args);
      // The writer thread works at the call now; how far it is differs from time to time.
      if (moment === 'during') setImmediate(die);
      await written;
      die();
    },
  ]);
  return { ...store, ...Object.fromEntries(members) };
}

/** Fails its first try; each try leaves a line that no crash takes back. */
const flaky = defineHandler({
  type: 'Flaky',
  inputs: z.unknown(),
  run({ idempotencyKey, attempt }) {
    appendFileSync(journal, `${idempotencyKey} ${process.pid}\n`);
    if (attempt === 1) return { kind: 'failed', code: 'down', message: 'down', retryable: true };
    return { kind: 'succeeded', output: attempt };
  },
});

// One by one: the table of all would load an HTTP client, a quarter of the start.
const handlers = [
  noOp,
  logMessage,
  delay,
  transform,
  fail,
  forEach,
  ...subFlowsStepTypes.make().handlers,
  waitForSignal,
  flaky,
];

const clock = createServiceClock({ now: () => Date.now(), monotonic: () => performance.now() });
const logger = pino({ level: 'silent' });
const store = dyingAt(await openSqliteStore({ path: file }));
const catalog = createCatalog(store, clock);
for (const manifest of [inner, flow]) {
  const snapshot = snapshotOf(manifest, () => []);
  const hash = JSON.stringify(snapshot);
  await catalog.deploy({ file: 'flow.json', manifest, snapshot, files: {}, hash, webhooks: [] });
}
const runtime = createRuntime({
  store,
  catalog,
  clock,
  logger,
  handlers: new Map(handlers.map((handler) => [handler.type, handler])),
  readSecret: () => ({ error: 'there are no secrets' }),
  metrics: createMetrics(),
});
await runtime.start();

for (let started = 0; started < runs; started += 1) {
  const result = await runtime.engine.triggerFlow({
    flowId: flow.id,
    triggerKey: 'manual',
    triggerType: 'manual',
    body: Buffer.from('{"items":[1,2,3]}'),
    contentType: 'application/json',
    headers: {},
  });
  // Acknowledged: written at once, for a stream could be lost with the process.
  writeSync(1, `${result.runId}\n`);
}
for (;;) {
  const { items } = await store.listRuns({ status: 'Running', skip: 0, take: 500 });
  if (items.length === 0) break;
  for (const { id } of items) await runtime.control.signal({ runId: id, name: 'go', body: { by: 'a person' } });
  await new Promise((again) => setTimeout(again, 10));
}
await runtime.stop(1000);
const { items } = await store.listRuns({ skip: 0, take: 500 });
const ended = await Promise.all(
  items.map(async ({ id, flowId, sourceRunId, status }) => ({
    ...{ id, flowId, sourceRunId, status },
    steps: await store.listSteps(id),
  })),
);
await store.close();
writeFileSync(report, JSON.stringify(ended));
