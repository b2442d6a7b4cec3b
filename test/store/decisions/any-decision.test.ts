import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Graph } from '../../../src/model/manifest.ts';
import { entryOf, wire } from '../../../src/model/planner.ts';
import { claim, type DueStep } from '../../../src/store/decisions/claim.ts';
import { type Answers, type Decision, decide, decideNow, known } from '../../../src/store/decisions/decision.ts';
import { advance } from '../../../src/store/decisions/follow.ts';
import { retryStep } from '../../../src/store/decisions/retry.ts';
import type { RunRows } from '../../../src/store/decisions/rows.ts';
import { deliverSignal } from '../../../src/store/decisions/signal.ts';
import { cancelRun } from '../../../src/store/decisions/stop.ts';
import type { StepResult } from '../../../src/store/store.ts';
import { graphOf } from '../../flows/graphs.ts';
import { type Answering, aMemoryRun, type MemoryRun, memoryRows } from './memory-rows.ts';

const runId = 'run';
const error = { code: 'network_error', message: 'no answer', retryable: true };

/** A fork, a handled failure, and a loop in a loop. */
const inner = graphOf({ c: [], d: ['c'] });
const outer = graphOf({ a: [], handled: { a: ['Failed'] } });
const loopOf = (steps: Graph, runAfter: Graph[string]['runAfter']) => ({
  type: 'ForEach',
  inputs: {},
  runAfter,
  steps,
});
const graph: Graph = {
  ...graphOf({ a: [], b: ['a'], handler: { b: ['Failed'] } }),
  l: loopOf({ ...outer, l: loopOf(inner, { a: { statuses: ['Succeeded'] } }) }, { a: { statuses: ['Succeeded'] } }),
  end: {
    type: 'NoOp',
    inputs: {},
    runAfter: { b: { statuses: ['Succeeded', 'Failed'] }, l: { statuses: ['Succeeded'] } },
  },
};
const isLoop = (stepKey: string) => stepKey.endsWith('l');

const waiting = { kind: 'waiting', state: 1, dueAt: null } as const;
const anyResult = fc.constantFrom<StepResult>(
  ...Array.from({ length: 12 }, (_, n): StepResult => ({ kind: 'succeeded', output: { n } })),
  { kind: 'failed', error },
  { kind: 'skipped', reason: 'not wanted' },
  { kind: 'retry', error, dueAt: 5 },
  { ...waiting, signalName: 'paid' },
  { ...waiting, signalName: null, dueAt: 9 },
);
const anyLoop = fc.record({
  kind: fc.constant('loop' as const),
  items: fc.array(fc.nat(9), { maxLength: 3 }),
  concurrency: fc.integer({ min: 1, max: 2 }),
});
const pick = fc.nat(100);
/** The next event of a run; `at` picks one of the steps that it may apply to. */
const anyEvent = fc.oneof(
  {
    weight: 40,
    arbitrary: fc.record({
      does: fc.constant('outcome' as const),
      at: pick,
      result: anyResult,
      loop: anyLoop,
      limit: fc.nat(2),
    }),
  },
  { weight: 2, arbitrary: fc.record({ does: fc.constant('retry' as const), at: pick }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant('signal' as const) }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant('interrupt' as const), at: pick }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant('cancel' as const) }) },
);
type AnyEvent = typeof anyEvent extends fc.Arbitrary<infer Event> ? Event : never;

interface World {
  readonly memory: MemoryRun;
  readonly rows: RunRows;
  perform<Value>(decision: Decision<Value>): Value | Promise<Value>;
}

function aWorld(perform: World['perform'], answering: Answering): World {
  const memory = aMemoryRun(entryOf({ steps: graph }).steps.map(({ stepKey }) => stepKey));
  return { memory, rows: memoryRows(memory, graph, answering), perform };
}

/** Answers asynchronously, as a remote database does; the graph is known, as it nearly always is. */
function later<Reads extends object>(reads: Answers<Reads>): Answers<Reads> {
  const delayed = Object.entries(reads as Record<string, (...given: unknown[]) => unknown>).map(
    ([name, read]) => [name, name === 'graphOf' ? read : async (...given: unknown[]) => read(...given)] as const,
  );
  return Object.fromEntries(delayed) as unknown as Answers<Reads>;
}

async function lease({ memory, rows, perform }: World, stepKey: string, holder: string): Promise<string> {
  const { run } = memory;
  const { status, attempt, token, wait, dueAt } = memory.steps.get(stepKey)!;
  const due: DueStep = {
    ...{ runId, stepKey, flowId: run.flowId, revision: run.revision, stepType: 'NoOp', status, wait },
    ...{ attemptCount: attempt, attemptBase: 0, interruptions: 0, deaths: 0, loneDeaths: 0, leaseToken: token },
    ...{ dueAt: dueAt ?? 0, triggerKey: 'manual', traceparent: null },
    ...{ cancelRequestedAt: run.cancelRequestedAt, timedOutAt: run.timedOutAt },
  };
  return (await perform(claim(rows, due, { holder, now: 1, leasedUntil: 30 }))).token;
}

async function happen(world: World, event: AnyEvent, at: number): Promise<unknown> {
  const { memory, rows, perform } = world;
  const stepOf = (
    pick: number,
    wanted: (step: typeof memory.steps extends Map<string, infer Step> ? Step : never) => boolean,
  ) => {
    const keys = [...memory.steps].flatMap(([key, step]) => (wanted(step) ? [key] : []));
    return keys[pick % keys.length];
  };
  if (event.does === 'signal') return perform(deliverSignal(rows, { runId, name: 'paid', body: at, at }));
  if (event.does === 'cancel') return perform(cancelRun(rows, { runId, reason: null, at }));
  if (event.does === 'retry') {
    const stepKey = stepOf(event.at, ({ status }) => status === 'Failed') ?? 'a';
    return perform(retryStep(rows, { runId, stepKey, at }));
  }
  if (event.does === 'interrupt') {
    const stepKey = stepOf(event.at, ({ token }) => token !== null);
    return stepKey && lease(world, stepKey, `again${at}`);
  }
  const stepKey = stepOf(event.at, ({ token, dueAt }) => token !== null || dueAt !== null);
  if (stepKey === undefined) return 'nothing is due';
  const token = memory.steps.get(stepKey)?.token ?? (await lease(world, stepKey, `holder${at}`));
  const result = isLoop(stepKey) && event.result.kind === 'succeeded' ? event.loop : event.result;
  const born = { holder: `born${at}`, leasedUntil: 30, limit: event.limit };
  return perform(advance(rows, { token, runId, stepKey, at, input: {}, result }, born));
}

/** A run continues while any step of it is due, running or waiting for a signal, and never after its end. */
function expectSound({ run, steps }: MemoryRun): void {
  const open = [...steps].filter(([, { status }]) => status === 'Pending' || status === 'Running');
  if (run.status !== 'Running') expect(open).toEqual([]);
  else expect(open.some(([, { dueAt, token, wait }]) => dueAt !== null || token !== null || wait !== null)).toBe(true);
}

it('decides the same whether answers come at once or later, whatever happens to a run', async () => {
  const ends = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(fc.array(anyEvent, { minLength: 5, maxLength: 80 }), async (events) => {
      const atOnce = aWorld(decideNow, (reads) => reads);
      const delayed = aWorld(decide, later);
      for (const [index, event] of events.entries()) {
        const answers = [await happen(atOnce, event, index + 1), await happen(delayed, event, index + 1)];
        expect(answers[1]).toEqual(answers[0]);
        expect(delayed.memory).toEqual(atOnce.memory);
        expectSound(atOnce.memory);
      }
      const { status } = atOnce.memory.run;
      ends.set(status, (ends.get(status) ?? 0) + 1);
    }),
    { numRuns: 300 },
  );
  expect([...ends.keys()]).toEqual(expect.arrayContaining(['Cancelled', 'Failed', 'Running', 'Succeeded']));
});

it('waits twice to advance a plain step: for its lease and for the states', async () => {
  const { memory, rows } = aWorld(decide, later);
  Object.assign(memory.steps.get('a')!, { status: 'Running', token: `${runId}/a/h` });
  const result = { kind: 'succeeded', output: null } as const;
  const decision = advance(rows, { token: `${runId}/a/h`, runId, stepKey: 'a', at: 1, input: {}, result });
  let waits = 0;
  let step = decision.next();
  for (; step.done !== true; step = decision.next(await step.value)) waits += 1;
  expect(waits).toBe(2);
  expect(step.value?.dispatched).toEqual(['b', 'l']);
});

it('retries the first of many steps at a cost for each that does not grow with their number, though it is listed last', () => {
  const costOf = (count: number) => {
    const chain = Array.from({ length: count }, (_, n) => [`s${n}`, n === 0 ? [] : [`s${n - 1}`]] as const);
    const long = graphOf(Object.fromEntries(chain.toReversed()));
    let reads = 0;
    const watched = new Proxy(wire(long), {
      get(steps, stepKey) {
        reads += 1;
        return Reflect.get(steps, stepKey);
      },
    });
    const memory = aMemoryRun(chain.map(([stepKey]) => stepKey));
    for (const step of memory.steps.values()) Object.assign(step, { status: 'Skipped', dueAt: null });
    Object.assign(memory.steps.get('s0') ?? {}, { status: 'Failed' });
    memory.run.status = 'Failed';
    const rows: RunRows = { ...memoryRows(memory, long, (reads) => reads), graphOf: () => known(watched) };
    const retried = decideNow(retryStep(rows, { runId, stepKey: 's0', at: 1 }));
    expect(retried).toEqual({ kind: 'accepted', steps: ['s0'] });
    expect([...memory.steps.keys()]).toEqual(['s0']);
    return reads / count;
  };
  expect(costOf(1000)).toBeLessThan(costOf(100) + 1);
});

it.each(['', 'each.0.'])('asks for no more states the more steps a graph has, in the scope "%s"', (scope) => {
  const askedOf = (count: number) => {
    const keys = Array.from({ length: count }, (_, n) => `s${n}`);
    const many = graphOf({ ...Object.fromEntries(keys.map((key) => [key, []])), join: keys });
    const whole = scope === '' ? many : { each: loopOf(many, {}) };
    const memory = aMemoryRun(keys.map((key) => `${scope}${key}`));
    for (const [key, step] of memory.steps) Object.assign(step, { status: 'Running', token: `${runId}/${key}/h` });
    const real = memoryRows(memory, whole, (reads) => reads);
    let asked = 0;
    const rows: RunRows = {
      ...real,
      statesIn(run, of, wired) {
        asked += Object.keys(wired).length;
        return real.statesIn(run, of, wired);
      },
      statesOf(run, of, stepKeys) {
        asked += stepKeys.length;
        return real.statesOf(run, of, stepKeys);
      },
    };
    for (const key of keys.slice(0, -1)) {
      const stepKey = `${scope}${key}`;
      const result = { kind: 'succeeded', output: null } as const;
      const token = `${runId}/${stepKey}/h`;
      decideNow(advance(rows, { token, runId, stepKey, at: 1, input: {}, result }));
    }
    return asked / count;
  };
  expect(askedOf(800)).toBeLessThan(askedOf(100) + 1);
});
