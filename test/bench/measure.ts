import { setTimeout as wait } from 'node:timers/promises';
import { type Candidate, deliverFirst } from './candidates.ts';
import {
  type CpuSeconds,
  cpuOf,
  cpuOfFamily,
  cpuWithWaited,
  type Io,
  ioOf,
  machineCpu,
  pagesLogged,
  residentMb,
  sumOf,
  writtenBetween,
} from './counters.ts';
import type { Figures, Load, Loader } from './load.ts';

/** One line of the table. */
export interface Row {
  readonly name: string;
  /** Starts the server to load, in a separate process. */
  readonly make: () => Promise<Candidate>;
  /** The row that the ratio refers to. */
  readonly base: string;
  readonly closes?: boolean;
  readonly rate?: number;
  /** Overrides the number for all rows. */
  readonly connections?: number;
  /** Measured from the first delivery, without a warm-up. */
  readonly isCold?: boolean;
}

export interface Measured extends Figures {
  readonly cpu: CpuSeconds | null;
  /** CPU seconds of the processes that work for it, such as its database server; null if it has none. */
  readonly helperCpu: number | null;
  readonly writtenBytes: number | null;
  /** Pages of its write-ahead log. */
  readonly pages: number | null;
  /** Runs that ended during the load, and the longest wait of a due step at any time of it; null if nothing is run. */
  readonly executed: number | null;
  readonly oldestDueMs: number | null;
  readonly firstStepP99Ms?: number | null | undefined;
  /** From the start of the process to its first answer. */
  readonly firstAnswerMs?: number;
  /** Resident memory before the first load, and the maximum during this one. */
  readonly idleMb?: number;
  readonly loadedMb: number;
  /** Cores that other programs used meanwhile. */
  readonly foreignCores: number;
}

export interface Conditions {
  readonly loader: Loader;
  readonly seconds: number;
  readonly connections: number;
  /** Deliveries before a measurement. */
  readonly warmUp: number;
  /** How often a load is repeated if other programs used the machine. */
  readonly repeats: number;
  /** Called with each process under load. */
  readonly onStarted: (pid: number) => void;
}

/** Other programs may use this much of one core; above it, a load is repeated. */
const MAX_FOREIGN_CORES = 0.1;
/** For servers so slow that the whole warm-up would take minutes. */
const WARM_UP_MOST_SECONDS = 30;
const IDLE_MS = 3000;
const LOOK_EVERY_MS = 250;

async function measure(candidate: Candidate, load: Load, { loader }: Conditions): Promise<Measured> {
  const { pid, helpers = [] } = candidate;
  const state = async () => ({
    cpu: cpuOf(pid),
    helperCpu: helpers.length === 0 ? null : helpers.reduce((sum, helper) => sum + cpuOfFamily(helper), 0),
    io: [pid, ...helpers].map(ioOf),
    pages: pagesLogged(pid),
    machine: machineCpu(),
    own: cpuWithWaited(process.pid) + cpuWithWaited(loader.pid),
    runs: await candidate.runs?.(),
  });
  const before = await state();
  const startedAt = performance.now();
  let oldestDueMs = 0;
  let loadedMb = 0;
  const look = async () => {
    loadedMb = Math.max(loadedMb, residentMb(pid));
    oldestDueMs = Math.max(oldestDueMs, (await candidate.runs?.())?.oldestDueMs ?? 0);
  };
  let lastLook = Promise.resolve();
  const lookAgain = () => {
    lastLook = look();
  };
  const looking = setInterval(lookAgain, LOOK_EVERY_MS);
  const figures = await loader.run(load).finally(() => clearInterval(looking));
  // Wait for it: it reads the candidate's database, and the candidate is stopped next.
  await lastLook;
  const elapsed = (performance.now() - startedAt) / 1000;
  const after = await state();
  if (figures.failed > 0 || figures.status !== candidate.expectedStatus)
    throw new Error(`${figures.failed} requests failed, status ${figures.status}: the figure is void`);
  const more = (of: (counted: typeof before) => number | null | undefined) => {
    const [first, last] = [of(before), of(after)];
    return typeof first === 'number' && typeof last === 'number' ? last - first : null;
  };
  const cpu = before.cpu &&
    after.cpu && {
      loop: after.cpu.loop - before.cpu.loop,
      writer: after.cpu.writer - before.cpu.writer,
      rest: after.cpu.rest - before.cpu.rest,
    };
  const helperCpu = more((counted) => counted.helperCpu);
  const known = (cpu === null ? 0 : sumOf(cpu)) + (more((counted) => counted.own) ?? 0) + (helperCpu ?? 0);
  return {
    ...figures,
    cpu,
    helperCpu,
    writtenBytes: writtenIn(before.io, after.io),
    pages: more((counted) => counted.pages),
    executed: more((counted) => counted.runs?.executed),
    oldestDueMs: before.runs === undefined ? null : oldestDueMs,
    firstStepP99Ms: after.runs?.firstStepP99Ms,
    loadedMb,
    foreignCores: Math.max(0, (after.machine - before.machine - known) / elapsed),
  };
}

/** Bytes of all processes; null if the kernel does not say. */
function writtenIn(before: readonly (Io | null)[], after: readonly (Io | null)[]): number | null {
  const all = after.map((io, at) => {
    const earlier = before[at];
    return io && earlier ? writtenBetween(earlier, io) : Number.NaN;
  });
  const sum = all.reduce((bytes, more) => bytes + more, 0);
  return Number.isNaN(sum) ? null : sum;
}

/** One load on a fresh process; repeated if other programs used the machine meanwhile. */
export async function measureQuietly(row: Row, conditions: Conditions): Promise<Measured> {
  const { repeats, seconds } = conditions;
  const connections = row.connections ?? conditions.connections;
  for (let attempt = 0; ; attempt += 1) {
    const candidate = await row.make();
    try {
      const load = { ...candidate.load, seconds, connections, closes: row.closes, rate: row.rate };
      const started = await start(candidate, conditions);
      if (row.isCold !== true) await warmUp(candidate, load, conditions);
      await candidate.ready?.();
      const measured = { ...started, ...(await measure(candidate, load, conditions)) };
      if (measured.foreignCores <= MAX_FOREIGN_CORES || attempt >= repeats) return measured;
      process.stderr.write(`${row.name}: others used ${measured.foreignCores.toFixed(2)} cores; once more\n`);
    } catch (error) {
      throw new Error(`${row.name} could not be measured`, { cause: error });
    } finally {
      await candidate.stop();
    }
  }
}

async function start(candidate: Candidate, { onStarted }: Conditions) {
  onStarted(candidate.pid);
  await deliverFirst(candidate);
  const firstAnswerMs = performance.now() - candidate.startedAt;
  await wait(IDLE_MS);
  return { firstAnswerMs, idleMb: residentMb(candidate.pid) };
}

/** Sends the warm-up deliveries at full speed, and waits until their runs have ended. */
async function warmUp(candidate: Candidate, load: Load, { loader, warmUp: count }: Conditions): Promise<void> {
  await loader.run({ ...load, count, rate: undefined, seconds: WARM_UP_MOST_SECONDS });
  await settled(candidate);
}

/** A rate is sustained if no due step waits longer than this, and nearly as many runs end as deliveries arrive. */
const MAX_DUE_MS = 1000;
const MIN_SHARE = 0.95;

const keepsUp = (measured: Measured, rate: number) =>
  (measured.oldestDueMs ?? 0) < MAX_DUE_MS &&
  measured.requestsPerSecond > rate * MIN_SHARE &&
  (measured.executed ?? 0) > measured.requests * MIN_SHARE;

/** Halves the range of rates until it is narrow; returns the figures of the highest rate at which runs keep up. */
export async function measureSustained(
  make: () => Promise<Candidate>,
  range: { low: number; high: number },
  conditions: Conditions,
): Promise<Measured | undefined> {
  const { seconds, connections, repeats } = conditions;
  const candidate = await make();
  try {
    const load = { ...candidate.load, connections, seconds };
    await start(candidate, conditions);
    await warmUp(candidate, load, conditions);
    let best: Measured | undefined;
    let { low, high } = range;
    let disturbed = 0;
    while (high - low > low * 0.05) {
      await settled(candidate);
      const rate = Math.round((low + high) / 2);
      const measured = await measure(candidate, { ...load, rate }, conditions);
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

/** Waits until no step is due and no run ends any more. */
async function settled({ runs }: Candidate): Promise<void> {
  if (runs === undefined) return;
  for (;;) {
    const { executed, oldestDueMs } = await runs();
    await wait(LOOK_EVERY_MS);
    if (oldestDueMs === 0 && (await runs()).executed === executed) return;
  }
}
