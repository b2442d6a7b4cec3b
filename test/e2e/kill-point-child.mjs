// A runtime on a store file, without HTTP, that kills itself at one of its writes to the store. It starts in a third of
// the time of the whole service. Plain JavaScript on the built code: compiling TypeScript would cost more.

import { appendFileSync, writeFileSync, writeSync } from 'node:fs';
import { pino } from 'pino';
import { z } from 'zod';
import { loopsStepTypes } from '../../dist/features/loops/step-types.js';
import { subFlowsStepTypes } from '../../dist/features/sub-flows/step-types.js';
import { createCatalog } from '../../dist/flows/catalog.js';
import { defineHandler } from '../../dist/flows/handlers/handler.js';
import { delay, fail, logMessage, noOp, transform } from '../../dist/flows/handlers/plain-steps.js';
import { waitForSignal } from '../../dist/flows/handlers/wait-for-signal.js';
import { createRuntime } from '../../dist/flows/runtime.js';
import { snapshotOf } from '../../dist/manifest/secrets.js';
import { createServiceClock } from '../../dist/model/clock.js';
import { openSqliteStore } from '../../dist/store/sqlite/client.js';
import { createMetrics } from '../../dist/telemetry/metrics.js';

/** `killAt` counts writes from 1. If it is 0 or beyond the last write, every run ends and `report` gets the results. */
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
      // The writer thread is handling the call now; how far it got varies.
      if (moment === 'during') setImmediate(die);
      await written;
      die();
    },
  ]);
  return { ...store, ...Object.fromEntries(members) };
}

/** Fails its first try. Each try writes a line that survives every crash. */
const flaky = defineHandler({
  type: 'Flaky',
  inputs: z.unknown(),
  run({ idempotencyKey, attempt }) {
    appendFileSync(journal, `${idempotencyKey} ${process.pid}\n`);
    if (attempt === 1) return { kind: 'failed', code: 'down', message: 'down', retryable: true };
    return { kind: 'succeeded', output: attempt };
  },
});

// Imported one by one: the full table would load an HTTP client, a quarter of the start time.
const handlers = [
  noOp,
  logMessage,
  delay,
  transform,
  fail,
  ...loopsStepTypes.make().handlers,
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
  // Written synchronously: a stream could lose the acknowledgement when the process dies.
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
