import type { ItemChunk, LoopReads, LoopRow, LoopWrites } from '../../../src/features/loops/rows.ts';
import type { Json } from '../../../src/model/json.ts';
import type { Graph, RunStatus, StepStatus } from '../../../src/model/manifest.ts';
import { entryOf, type WiredGraph, wire } from '../../../src/model/planner.ts';
import type { StepError } from '../../../src/model/run.ts';
import { leasedStep, tokenOf } from '../../../src/model/runtime-keys.ts';
import { type Answers, asking, known } from '../../../src/store/decisions/decision.ts';
import { Made, type Port } from '../../../src/store/decisions/port.ts';
import type { FoundRun, RunReads, RunRows, RunWrites } from '../../../src/store/decisions/rows.ts';

interface Attempt {
  status: 'Running' | 'Succeeded' | 'Failed';
  error: StepError | null;
}

interface Step {
  status: StepStatus;
  dueAt: number | null;
  token: string | null;
  attempt: number;
  wait: string | null;
  signalName: string | null;
  output: string | null;
  error: StepError | null;
  readonly attempts: Map<number, Attempt>;
}

interface Signal {
  readonly id: number;
  readonly name: string;
  readonly body: Json;
  readonly at: number;
  stepKey: string | null;
}

type Mutable<Row> = { -readonly [Name in keyof Row]: Row[Name] };

/** Features' questions and writes about a run that waits for no other and has no sub-runs. */
const WITHOUT_OTHERS = { findOrdered: () => known(undefined), orphanSubRuns() {} };

/** The rows of one run in memory: the simplest backend for decisions. */
export interface MemoryRun {
  readonly run: Mutable<FoundRun>;
  readonly steps: Map<string, Step>;
  readonly loops: Map<string, Mutable<LoopRow>>;
  readonly items: Map<string, ItemChunk[]>;
  readonly signals: Signal[];
}

const unstarted = { wait: null, signalName: null, output: null, error: null } as const;

export function aMemoryRun(entry: readonly string[]): MemoryRun {
  const step = (): Step => ({
    ...unstarted,
    status: 'Pending',
    dueAt: 0,
    token: null,
    attempt: 0,
    attempts: new Map(),
  });
  return {
    run: {
      flowId: 'flow',
      revision: 1,
      status: 'Running',
      triggerType: 'webhook',
      startedAt: 0,
      timeoutAt: null,
      cancelRequestedAt: null,
      timedOutAt: null,
    },
    steps: new Map(entry.map((key) => [key, step()])),
    loops: new Map(),
    items: new Map(),
    signals: [],
  };
}

/** Changes how questions are answered. */
export type Answering = <Reads extends object>(reads: Answers<Reads>) => Answers<Reads>;

export function memoryRows(memory: MemoryRun, graph: Graph, answering: Answering): RunRows {
  const loops = { ...asking<LoopReads>(answering(loopReads(memory))), ...loopWrites(memory) };
  const kept = new Made();
  const own = () => ({ ...WITHOUT_OTHERS, ...loops });
  const port = { own, kept: (make: () => unknown) => kept.of(make, make) } as unknown as Port;
  const reads = { ...memoryReads(memory, graph), port: () => port };
  return { ...asking<RunReads>(answering<RunReads>(reads)), ...memoryWrites(memory) };
}

function memoryReads({ run, steps, items, signals }: MemoryRun, graph: Graph): Answers<Omit<RunReads, 'port'>> {
  const wired: WiredGraph = wire(graph);
  const of = (stepKey: string) => signals.filter((signal) => signal.stepKey === stepKey);
  const found = (signal: Signal | undefined) => signal && { id: signal.id, body: signal.body, deliveredAt: signal.at };
  return {
    findHeld({ stepKey, token }) {
      const step = steps.get(stepKey);
      return step?.token === token ? { attempt: step.attempt, run: { ...run } } : undefined;
    },
    findRun: () => ({ ...run }),
    graphOf: () => wired,
    revisionOf: () => ({ graph: wired, entry: entryOf({ steps: graph }), onFailure: null }),
    findOrigin: () => undefined,
    findNewest: () => ({}),
    findFlow: () => undefined,
    newId: () => 'new',
    statesIn: (_runId, scope, own) =>
      new Map(
        Object.keys(own).flatMap((key) => {
          const step = steps.get(`${scope}${key}`);
          return step === undefined ? [] : [[key, step.status] as const];
        }),
      ),
    statesOf: (_runId, scope, keys) =>
      new Map(
        keys.flatMap((key) => {
          const step = steps.get(`${scope}${key}`);
          return step === undefined ? [] : [[key, step.status] as const];
        }),
      ),
    hasOpenStep: (_runId, scope) =>
      [...steps].some(([key, { status }]) => key.startsWith(scope) && (status === 'Pending' || status === 'Running')),
    findStep: (_runId, stepKey) => steps.get(stepKey),
    findWait: (_runId, stepKey) => steps.get(stepKey)?.wait ?? null,
    findItem(_runId, loopKey, index) {
      const chunk = items.get(loopKey)?.findLast(({ firstIndex }) => firstIndex <= index);
      return chunk === undefined ? null : (JSON.parse(chunk.items)[index - chunk.firstIndex] ?? null);
    },
    hasLease: () => [...steps.values()].some(({ token }) => token !== null),
    awaitKey: () => false,
    listOverdueRuns: () => [],
    reopenRun() {
      run.status = 'Running';
    },
    findSignal: ({ stepKey }, name, used) =>
      found(of(stepKey).find((signal) => signal.name === name && !used.includes(signal.id))),
    takeSignal({ stepKey }, name) {
      const free = signals.find((signal) => signal.name === name && signal.stepKey === null);
      if (free !== undefined) free.stepKey = stepKey;
      return free !== undefined;
    },
    hasSignal: (_runId, name) => signals.some((signal) => signal.name === name),
    findWaiting: (_runId, name) => [...steps].find(([, { signalName }]) => signalName === name)?.[0],
    findAttemptStart: () => 0,
  };
}

function loopReads({ steps, loops }: MemoryRun): Answers<LoopReads> {
  const leaves = function* ({ loopKey, started, keys }: Parameters<LoopReads['listLeaves']>[0]) {
    for (let n = 0; n < started; n += 1) {
      for (const [leafIndex, key] of keys.entries()) {
        const output = steps.get(`${loopKey}.${n}.${key}`)?.output ?? null;
        if (output !== null) yield { n, leafIndex, output };
      }
    }
  };
  return {
    findLoop: (_runId, loopKey) => loops.get(loopKey) && { ...(loops.get(loopKey) as LoopRow) },
    listFailed: (_runId, loopKey) =>
      [...steps].flatMap(([key, { status }]) => (key.startsWith(`${loopKey}.`) && status === 'Failed' ? [key] : [])),
    measureLeaves: (request) => [...leaves(request)].reduce((sum, { output }) => sum + output.length, 0),
    listLeaves: leaves,
    reopenLoop(_runId, loopKey) {
      const step = steps.get(loopKey);
      if (step === undefined || step.status === 'Running') return false;
      Object.assign(step, { status: 'Running', output: null, error: null });
      step.attempts.set(step.attempt, { status: 'Running', error: null });
      return true;
    },
  };
}

function memoryWrites({ run, steps, signals }: MemoryRun): RunWrites {
  const change = changing(steps);
  const insert = (stepKey: string, step: Pick<Step, 'status' | 'dueAt' | 'token'>) => {
    if (steps.has(stepKey)) throw new Error(`The step ${stepKey} is planned twice.`);
    steps.set(stepKey, { ...unstarted, ...step, attempt: 0, attempts: new Map() });
  };
  return {
    keepTrace() {},
    insertRun() {},
    setDeadline() {},
    makeDue() {},
    beginAttempt({ token }) {
      const { stepKey } = leasedStep(token);
      if (steps.get(stepKey)?.attempt !== 0) return;
      change(stepKey, { attempt: 1 }).attempts.set(1, { status: 'Running', error: null });
    },
    endAttempt({ stepKey, written, status, output, error, retryAt }) {
      const ended = { status: retryAt === null ? status : ('Pending' as const), dueAt: retryAt, token: null };
      const kept = output === undefined ? null : JSON.stringify(output);
      const attempt = Math.max(written, 1);
      const step = change(stepKey, { ...ended, attempt, wait: null, signalName: null, output: kept, error });
      step.attempts.set(attempt, { status, error });
    },
    skipStep({ stepKey }, attempt) {
      const step = change(stepKey, { status: 'Skipped', dueAt: null, token: null });
      step.attempts.delete(attempt);
      step.attempt = Math.max(0, step.attempt - 1);
    },
    keepWait: ({ stepKey, wait, dueAt, signalName }) =>
      change(stepKey, { status: 'Pending', dueAt, token: null, wait, signalName }),
    insertNext: ({ runId, stepKey, status, dueAt, holder }) =>
      insert(stepKey, { status, dueAt, token: holder && tokenOf(runId, stepKey, holder) }),
    insertSkipped: ({ stepKey }) => insert(stepKey, { status: 'Skipped', dueAt: null, token: null }),
    endRun(_run, status: RunStatus) {
      if (run.status !== 'Running') throw new Error('The run ends twice.');
      run.status = status;
    },
    markCancelled(_runId, _reason, at) {
      run.cancelRequestedAt ??= at;
    },
    markTimedOut(_runId, at) {
      run.timedOutAt = at;
    },
    closeSteps(_runId, error) {
      for (const step of steps.values()) {
        if (step.status !== 'Pending' && step.status !== 'Running') continue;
        const hasBegun = step.attempt > 0;
        Object.assign(step, { ...unstarted, dueAt: null, status: hasBegun ? 'Failed' : 'Skipped' });
        if (hasBegun) Object.assign(step, { error }).attempts.set(step.attempt, { status: 'Failed', error });
      }
    },
    retryStep: ({ stepKey }, at) => change(stepKey, { status: 'Pending', dueAt: at, output: null, error: null }),
    forgetSkipped(_runId, stepKey) {
      if (steps.get(stepKey)?.status === 'Skipped') steps.delete(stepKey);
    },
    insertSignal: ({ name, body, at, stepKey }) => signals.push({ id: signals.length + 1, name, body, at, stepKey }),
    wakeStep: ({ stepKey }, at) => change(stepKey, { dueAt: at, signalName: null }),
    interruptAttempt: ({ stepKey, attempt, error }) =>
      change(stepKey, {}).attempts.set(attempt, { status: 'Failed', error }),
    leaseStep: ({ stepKey, token, attempt }, leasedUntil) =>
      change(stepKey, { status: 'Running', token, attempt, dueAt: leasedUntil, signalName: null }),
    insertAttempt: ({ stepKey, attempt }) =>
      change(stepKey, {}).attempts.set(attempt, { status: 'Running', error: null }),
  };
}

function loopWrites({ steps, loops, items }: MemoryRun): LoopWrites {
  const change = changing(steps);
  const loopOf = (loopKey: string) => loops.get(loopKey) as Mutable<LoopRow>;
  return {
    insertLoop(_runId, { loopKey, total, concurrency }) {
      change(loopKey, { dueAt: null, token: null, wait: null, signalName: null });
      loops.set(loopKey, { total, concurrency, started: 0, ended: 0, failed: 0 });
      items.set(loopKey, []);
    },
    insertItems: (_runId, loopKey, chunk) => items.get(loopKey)?.push(chunk),
    startIteration(_runId, loopKey) {
      loopOf(loopKey).started += 1;
    },
    endIteration(_runId, loopKey, isFailed) {
      loopOf(loopKey).ended += 1;
      loopOf(loopKey).failed += Number(isFailed);
    },
    endLoop({ stepKey, status, output, error }) {
      const step = change(stepKey, { status, output, error });
      step.attempts.set(step.attempt, { status, error });
    },
    uncountIteration(_runId, loopKey, isFailed) {
      loopOf(loopKey).ended -= 1;
      loopOf(loopKey).failed -= Number(isFailed);
    },
  };
}

function changing(steps: MemoryRun['steps']) {
  return (stepKey: string, changed: Partial<Step>) => {
    const step = steps.get(stepKey);
    if (step === undefined) throw new Error(`There is no step ${stepKey}.`);
    return Object.assign(step, changed);
  };
}
