import module from 'node:module';
import { join } from 'node:path';
import { PerformanceObserver } from 'node:perf_hooks';
import v8 from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Sets Node up for a quick start in little memory. Call it before anything large is loaded.
 *
 * Node caches compiled code next to the code, where only accounts can write that may change the code itself; a start
 * with a filled cache takes 40 ms of CPU less. If the folder is not writable, nothing is cached or logged.
 * `NODE_COMPILE_CACHE` names another folder, `NODE_DISABLE_COMPILE_CACHE=1` turns the cache off.
 */
export function prepareNode(): void {
  module.enableCompileCache(join(import.meta.dirname, 'compile-cache'));
  setYoungGenerationGrowth(1);
}

/** V8's own factor. */
const USUAL_GROWTH = 2;

/**
 * Half of the young generation grows to 16 MiB, less its page headers. V8 would continue to 64 on Node 24 and 32 on 26:
 * under load the process then has 90 MB more, and a delivery costs just as much.
 */
const ENOUGH_YOUNG_BYTES = 16_000_000;

const IDLE_CHECK_MS = 10_000;
const IDLE_UTILIZATION = 0.1;
/** Heap growth that is worth a collection. */
const GROWTH_BYTES = 8_388_608;

/**
 * Call it once the service is up. From then on the young generation grows with the load until it is large enough, and
 * gives memory back after the load: V8 collects only while something is allocated, so 100 MB would stay after a flood.
 */
export function balanceYoungGeneration(): void {
  setYoungGenerationGrowth(USUAL_GROWTH);
  const bound = () => setYoungGenerationGrowth(youngBytes() < ENOUGH_YOUNG_BYTES ? USUAL_GROWTH : 1);
  new PerformanceObserver(bound).observe({ entryTypes: ['gc'] });
  let before = performance.eventLoopUtilization();
  let settledBytes = heapBytes();
  let isCollected = false;
  const check = () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    if (utilization > IDLE_UTILIZATION) return;
    const bytes = heapBytes();
    // Memory that survived a collection is in use: collecting again pays only after more growth.
    settledBytes = isCollected ? bytes : Math.min(settledBytes, bytes);
    isCollected = bytes > settledBytes + GROWTH_BYTES;
    if (isCollected) collectYoungGeneration();
  };
  setInterval(check, IDLE_CHECK_MS).unref();
}

/** The size of one half. V8's own number counts both on Node 22 and 24, and sometimes one on 26. */
function youngBytes(): number {
  const young = v8.getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
  return young === undefined ? 0 : young.space_used_size + young.space_available_size;
}

function heapBytes(): number {
  return v8.getHeapStatistics().total_physical_size;
}

/**
 * Takes 2 to 10 ms. On Node 24 and 26 it wakes V8's memory reducer, which does the rest in small steps within some
 * seconds; on Node 22 the freed memory stays with the process.
 */
function collectYoungGeneration(): void {
  v8.setFlagsFromString('--expose-gc');
  const collect: NodeJS.GCFunction = runInNewContext('gc');
  v8.setFlagsFromString('--no-expose-gc');
  collect({ type: 'minor' });
}

/**
 * While code is loaded almost everything survives, so V8 would let the young generation grow to 16 MB, which an idle
 * service then keeps. V8 reads this flag before each growth, on Node 22, 24 and 26; it reads the largest size only
 * once, before any code of ours runs.
 */
function setYoungGenerationGrowth(factor: number): void {
  v8.setFlagsFromString(`--semi-space-growth-factor=${factor}`);
}
