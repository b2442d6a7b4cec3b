import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import type { Claim } from '../../src/store/store.ts';
import { aRun, claimAll, finish, flowId, graphOf, id, succeeded, T0 } from '../store/samples.ts';
import { deploy } from '../store/sub-run-samples.ts';

/**
 * Queues many runs behind few keys. Prints the time of an acceptance, a claim and a run's end, next to those of runs
 * that may overlap, and the memory of the process. Figures of two machines cannot be compared.
 */
const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '100000' },
    keys: { type: 'string', default: '1000' },
    /** Concurrent acceptances. */
    width: { type: 'string', default: '32' },
  },
});
const [runs, keys, width] = [Number(values.runs), Number(values.keys), Number(values.width)];
const PLAIN_ID = '6f2b1c1e-9999-4222-8333-444455556666';
const MEASURED = 1000;

const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
const store = await openSqliteStore({ path: join(folder, 'bench.db') });
await deploy(store, flowId, { steps: graphOf({ first: [] }), serialize: 'trigger.body' } as Parameters<
  typeof deploy
>[2]);
await deploy(store, PLAIN_ID, { steps: graphOf({ first: [] }) });

const rss = () => {
  globalThis.gc?.();
  return process.memoryUsage.rss() / 1024 / 1024;
};

/** Accepts this many runs; returns the total time in seconds. */
async function acceptAll(count: number, runOf: (n: number) => ReturnType<typeof aRun>): Promise<number> {
  const begunAt = performance.now();
  let next = 0;
  const lane = async () => {
    while (next < count) {
      next += 1;
      await store.accept({ run: runOf(next) });
    }
  };
  await Promise.all(Array.from({ length: width }, lane));
  return (performance.now() - begunAt) / 1000;
}

/** Claims sixteen at a time and ends them one after the other. */
async function work(isOf: (claim: Claim) => boolean): Promise<{ claims: number[]; ends: number[] }> {
  const [claims, ends]: [number[], number[]] = [[], []];
  while (ends.length < MEASURED) {
    const claimedAt = performance.now();
    const claimed = await claimAll(store, T0, 16);
    claims.push(performance.now() - claimedAt);
    if (claimed.length === 0) break;
    for (const claim of claimed) {
      const endedAt = performance.now();
      await finish(store, claim, succeeded());
      if (isOf(claim)) ends.push(performance.now() - endedAt);
    }
  }
  return { claims, ends };
}

function percentiles(times: readonly number[]): string {
  const sorted = times.toSorted((one, other) => one - other);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  return `p50 ${at(0.5).toFixed(2)} ms, p99 ${at(0.99).toFixed(2)} ms`;
}

const plain = { flowId: PLAIN_ID };
const warm = await acceptAll(MEASURED, (n) => aRun({ id: id(n), ...plain }));
const idle = await work(() => true);
const before = rss();
const free = await acceptAll(10_000, (n) => aRun({ id: id(10_000 + n), ...plain }));
const busy = await work(() => true);
while ((await work(() => false)).ends.length > 0);
const ordered = await acceptAll(runs, (n) =>
  aRun({ id: id(1_000_000 + n), order: { key: `key ${n % keys}`, problem: null, isTrusted: true } }),
);
const after = rss();
const waiting = await work(() => true);

console.log(`${runs} runs of ${keys} keys, ${width} accepted at once`);
console.log(`accepted: ${(10_000 / free).toFixed(0)}/s that may overlap, ${(runs / ordered).toFixed(0)}/s that wait`);
console.log(`memory: ${before.toFixed(0)} MiB before, ${after.toFixed(0)} MiB with all of them waiting`);
console.log(`a claim of 16, nothing waits: ${percentiles(idle.claims)}; 10 000 due: ${percentiles(busy.claims)}`);
console.log(`a claim of 16, ${runs - keys} wait: ${percentiles(waiting.claims)}`);
console.log(`the end of a run: ${percentiles(busy.ends)}; one that lets the next start: ${percentiles(waiting.ends)}`);
console.log(`(${warm.toFixed(1)} s of warm-up)`);
await store.close();
await rm(folder, { recursive: true, force: true });
