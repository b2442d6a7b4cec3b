// The built service on a store that answers acceptances and outcomes at once and stores none of them; an in-memory
// database answers all other calls. Prints its address.
import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { buildApp } from '../../dist/app.js';
import { firstClaim } from '../../dist/flows/attempt.js';
import { holderOf } from '../../dist/model/runtime-keys.js';
import { balanceYoungGeneration, prepareNode } from '../../dist/prepare-node.js';
import { openStore } from '../../dist/store/open-store.js';

// As the service itself does.
prepareNode();
const unbounded = { maxRows: Number.POSITIVE_INFINITY, maxBytes: Number.POSITIVE_INFINITY };
const store = await openStore({
  kind: 'sqlite',
  path: ':memory:',
  log: { inMemory: false, ...unbounded },
  held: unbounded,
});
/** Accepted runs whose first step is not leased to the runtime. */
const due = [];

const instantStore = {
  ...store,
  async accept({ run }, lease) {
    if (lease === undefined) due.push(run);
    return { kind: 'accepted', runId: run.id, isReplay: false };
  },
  async advance({ at, startedAt = at }) {
    const endedRun = { flowId: app.catalog.list()[0].record.id, startedAt, completedAt: at };
    return { runStatus: 'Succeeded', endedRun, dispatched: [], skipped: [], loops: [] };
  },
  async claimDue(request) {
    if (due.length === 0) return store.claimDue(request);
    const { owner, leasedUntil, now: startedAt } = request;
    const lease = { holder: holderOf(owner, randomUUID()), leasedUntil, limit: 1 };
    const claims = due
      .splice(0, request.limit)
      .map((run) => firstClaim({ ...run, ...run.steps[0], runId: run.id, startedAt, loop: null, stop: null }, lease));
    return { claims, nextDueAt: due[0]?.startedAt ?? null, isKept: false };
  },
};

const app = await buildApp({
  environment: process.env,
  settings: { port: 0 },
  logger: pino({ level: 'warn' }),
  store: instantStore,
});
const url = await app.listen();
balanceYoungGeneration();
process.stdout.write(`${url}\n`);
process.on('SIGTERM', () => app.close().then(() => process.exit(0)));
