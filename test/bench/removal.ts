import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import Database from 'better-sqlite3';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { acceptanceOf, aRun, deployOf, graphOf } from '../store/samples.ts';

/**
 * Removes old runs of loops with many children while accepting deliveries. Prints the time of an acceptance before and
 * during the removal. Figures of two machines cannot be compared.
 */
const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '5' },
    children: { type: 'string', default: '10000' },
    /** Bytes of a child's output. */
    bytes: { type: 'string', default: '200' },
    slice: { type: 'string', default: '200' },
    /** Concurrent acceptances. */
    width: { type: 'string', default: '1' },
  },
});
const now = Date.now();
const old = now - 40 * 86_400_000;
const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
const path = join(folder, 'bench.db');
const store = await openSqliteStore({ path });
await store.deployFlow(deployOf(graphOf({ a: [] })));

function fill(): void {
  const db = new Database(path);
  for (let run = 0; run < Number(values.runs); run += 1) {
    const runId = randomUUID();
    const output = `json_quote(hex(randomblob(${Math.floor(Number(values.bytes) / 2)})))`;
    const children = `WITH RECURSIVE k (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM k WHERE i + 1 < ${values.children})`;
    db.transaction(() => {
      db.exec(`
        INSERT INTO runs (id, flow_id, flow_name, flow_version, revision, status, trigger_key, trigger_type, started_at,
          completed_at)
        VALUES ('${runId}', '${aRun().flowId}', 'orders', '1', 1, 'Succeeded', 'hook', 'webhook', ${old + run}, ${old + run});
        INSERT INTO run_inputs VALUES ('${runId}', NULL, '{}', x'');
        ${children} INSERT INTO steps (run_id, flow_id, step_key, step_type, status, attempt_count, started_at, completed_at,
          input, output)
        SELECT '${runId}', '', 'each.' || i || '.child', 'NoOp', 'Succeeded', 1, ${old}, ${old}, '{}', ${output} FROM k;
        ${children} INSERT INTO attempts (run_id, step_key, attempt, status, due_at, started_at, completed_at, input, output)
        SELECT '${runId}', 'each.' || i || '.child', 1, 'Succeeded', ${old}, ${old}, ${old}, '{}', ${output} FROM k;`);
    })();
  }
  db.pragma('wal_checkpoint(PASSIVE)');
  db.close();
}

let accepted = 0;
/** Accepts deliveries one after the other in each lane, until stopped; returns the time of each. */
async function accepting(isOver: () => boolean): Promise<number[]> {
  const times: number[] = [];
  const lane = async () => {
    while (!isOver()) {
      accepted += 1;
      const acceptance = acceptanceOf(accepted, { at: now });
      const startedAt = performance.now();
      await store.accept(acceptance);
      times.push(performance.now() - startedAt);
    }
  };
  await Promise.all(Array.from({ length: Number(values.width) }, lane));
  return times;
}

function percentiles(times: readonly number[]): string {
  const sorted = times.toSorted((one, other) => one - other);
  const at = (share: number) =>
    (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0).toFixed(1);
  const slow = times.filter((ms) => ms > 20).length;
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms, ${slow} of ${times.length} above 20 ms`;
}

fill();
const maxRows = Number(values.slice);
await accepting(() => accepted >= 500);
const quietUntil = performance.now() + 5000;
const without = await accepting(() => performance.now() >= quietUntil);
let isRemoved = false;
const slices: number[] = [];
const removing = (async () => {
  for (let isDone = false; !isDone; ) {
    const startedAt = performance.now();
    ({ isDone } = await store.purgeRuns({ before: old + 1000, maxRows }));
    slices.push(performance.now() - startedAt);
    await new Promise((turn) => setImmediate(turn));
  }
  isRemoved = true;
})();
const removedAt = performance.now();
const during = await accepting(() => isRemoved);
await removing;
console.log(
  `${values.runs} runs of ${values.children} children with ${values.bytes} bytes each, removed in ${slices.length} slices of ${maxRows} rows: ${((performance.now() - removedAt) / 1000).toFixed(1)} s`,
);
console.log(`accept without removal: ${percentiles(without)}`);
console.log(`accept during removal:  ${percentiles(during)}`);
console.log(`a slice:                ${percentiles(slices)}`);
await store.close();
await rm(folder, { recursive: true, force: true });
