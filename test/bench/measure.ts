import type { Candidate } from './candidates.ts';
import { type CpuSeconds, cpuBetween, cpuOf, machineCpu, ownCpu } from './cpu.ts';
import type { Figures, Load, Loader } from './load.ts';

/** One line of the table. */
export interface Row {
  readonly name: string;
  /** Starts what is loaded, in a process of its own. */
  readonly make: () => Promise<Candidate>;
  /** The row that the ratio is of. */
  readonly base: string;
  readonly closes?: boolean;
  readonly rate?: number;
  /** Kept open instead of as many as for the other rows. */
  readonly connections?: number;
}

export interface Measured extends Figures {
  readonly cpu: CpuSeconds | null;
  /** Answered requests. */
  readonly requests: number;
  /** Runs that ended during the load, and the longest that a due step had waited at any time of it; null where nothing is run. */
  readonly executed: number | null;
  readonly oldestDueMs: number | null;
  readonly firstStepP99Ms?: number | null | undefined;
  /** CPU seconds of its database server; 0 where it has none. */
  readonly databaseCpu?: number;
  /** Cores that other programs used meanwhile. */
  readonly foreignCores: number;
}

export interface Conditions {
  readonly loader: Loader;
  readonly seconds: number;
  readonly connections: number;
  /** How often a load is repeated during which others used the machine. */
  readonly repeats: number;
  /** Called with each process that is loaded. */
  readonly onStarted: (pid: number) => void;
}

/** Other programs may take this much of one core before a load is repeated. */
const MAX_FOREIGN_CORES = 0.1;
const WARM_UP_SECONDS = 2;
const LOOK_EVERY_MS = 250;

async function measure(candidate: Candidate, load: Load, { loader }: Conditions): Promise<Measured> {
  const state = async () => ({
    cpu: cpuOf(candidate.pid),
    machine: machineCpu(),
    own: ownCpu(),
    other: candidate.otherCpu?.() ?? 0,
    runs: await candidate.runs?.(),
  });
  const before = await state();
  const startedAt = performance.now();
  let oldestDueMs = 0;
  const look = async () => {
    oldestDueMs = Math.max(oldestDueMs, (await candidate.runs?.())?.oldestDueMs ?? 0);
  };
  let lastLook = Promise.resolve();
  const lookAgain = () => {
    lastLook = look();
  };
  const looking = candidate.runs === undefined ? undefined : setInterval(lookAgain, LOOK_EVERY_MS);
  const figures = await loader.run(load).finally(() => clearInterval(looking));
  // The candidate is stopped next, and a look reads its database.
  await lastLook;
  const elapsed = (performance.now() - startedAt) / 1000;
  const after = await state();
  if (figures.failed > 0 || figures.status !== candidate.expectedStatus)
    throw new Error(`${figures.failed} requests failed, status ${figures.status}: the figure is void`);
  const cpu = before.cpu === null || after.cpu === null ? null : cpuBetween(before.cpu, after.cpu);
  const databaseCpu = after.other - before.other;
  const known = (cpu?.all ?? 0) + (after.own - before.own) + databaseCpu;
  return {
    ...figures,
    cpu,
    requests: figures.requestsPerSecond * load.seconds,
    executed: before.runs === undefined || after.runs === undefined ? null : after.runs.executed - before.runs.executed,
    oldestDueMs: before.runs === undefined ? null : oldestDueMs,
    firstStepP99Ms: after.runs?.firstStepP99Ms,
    databaseCpu,
    foreignCores: Math.max(0, (after.machine - before.machine - known) / elapsed),
  };
}

/** One load on a fresh process; repeated where other programs used the machine meanwhile. */
export async function measureQuietly(row: Row, conditions: Conditions): Promise<Measured> {
  const { loader, seconds, repeats, onStarted } = conditions;
  const connections = row.connections ?? conditions.connections;
  for (let attempt = 0; ; attempt += 1) {
    const candidate = await row.make();
    try {
      onStarted(candidate.pid);
      const load = { ...candidate.load, seconds, connections, closes: row.closes, rate: row.rate };
      await loader.run({ ...load, seconds: WARM_UP_SECONDS });
      const measured = await measure(candidate, load, conditions);
      if (measured.foreignCores <= MAX_FOREIGN_CORES || attempt >= repeats) return measured;
      process.stderr.write(`${row.name}: others used ${measured.foreignCores.toFixed(2)} cores; once more\n`);
    } catch (error) {
      throw new Error(`${row.name} could not be measured`, { cause: error });
    } finally {
      await candidate.stop();
    }
  }
}

/** A rate is sustained while no due step waits longer than this, and nearly as many runs end as deliveries come. */
const MAX_DUE_MS = 1000;
const MIN_SHARE = 0.95;

const keepsUp = (measured: Measured, rate: number) =>
  (measured.oldestDueMs ?? 0) < MAX_DUE_MS &&
  measured.requestsPerSecond > rate * MIN_SHARE &&
  (measured.executed ?? 0) > measured.requests * MIN_SHARE;

/** Halves the range of rates until it is narrow; yields the figures of the highest rate at which the runs keep up. */
export async function measureSustained(
  make: () => Promise<Candidate>,
  range: { low: number; high: number },
  conditions: Conditions,
): Promise<Measured | undefined> {
  const { seconds, connections, repeats, onStarted, loader } = conditions;
  const candidate = await make();
  try {
    onStarted(candidate.pid);
    const load = { ...candidate.load, connections };
    await loader.run({ ...load, seconds: WARM_UP_SECONDS, rate: range.low });
    let best: Measured | undefined;
    let { low, high } = range;
    let disturbed = 0;
    while (high - low > low * 0.05) {
      await settled(candidate);
      const rate = Math.round((low + high) / 2);
      const measured = await measure(candidate, { ...load, seconds, rate }, conditions);
      if (keepsUp(measured, rate)) {
        best = measured;
        low = rate;
      } else if (measured.foreignCores > MAX_FOREIGN_CORES && disturbed < repeats) {
        disturbed += 1;
        process.stderr.write(`sustained ${rate}/s: others used ${measured.foreignCores.toFixed(2)} cores; once more\n`);
      } else {
        high = rate;
      }
    }
    return best;
  } finally {
    await candidate.stop();
  }
}

/** Waits until no step is due any more. */
async function settled(candidate: Candidate): Promise<void> {
  for (;;) {
    const { executed, oldestDueMs } = (await candidate.runs?.()) ?? { executed: 0, oldestDueMs: 0 };
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    if (oldestDueMs === 0 && (await candidate.runs?.())?.executed === executed) return;
  }
}
