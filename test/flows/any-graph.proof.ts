import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { defineHandler } from '../../src/flows/handlers/handler.ts';
import { createServiceClock } from '../../src/model/clock.ts';
import type { Json } from '../../src/model/json.ts';
import type { Edge, Graph, StepDefinition } from '../../src/model/manifest.ts';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import type { StepDetail, Store } from '../../src/store/store.ts';
import { type Chance, chanceOf, SEED } from '../chance.ts';
import { eventually } from '../eventually.ts';
import { openEmpty } from '../postgres/schemas.ts';
import { cel, loadedFlow, manifestOf, openFlowService, stepOf } from './fixture.ts';

const GRAPHS = Number(process.env.TEST_GRAPHS ?? 500);
/** Runs in flight at once. */
const LANES = 8;
/** Flows that steps can run; each may run earlier ones. */
const LIBRARY = 6;

type Ending = 'Succeeded' | 'Failed' | 'Skipped';

interface AnyEdge {
  readonly statuses: readonly Ending[];
  readonly when?: 'true' | 'false' | 'broken' | 'hasFailed' | 'isOdd';
}

type Work =
  | { readonly kind: 'passes' | 'fails' | 'waits' }
  | { readonly kind: 'counts'; readonly plus: number }
  | { readonly kind: 'copies'; readonly from: string }
  | { readonly kind: 'flaky'; readonly failures: number; readonly maxAttempts: number }
  | { readonly kind: 'loop'; readonly items: readonly number[]; readonly limit: number; readonly steps: AnyGraph }
  | { readonly kind: 'runs'; readonly flow: number; readonly isAwaited: boolean };

interface AnyStep {
  readonly work: Work;
  readonly edges: Readonly<Record<string, AnyEdge>>;
}

type AnyGraph = Readonly<Record<string, AnyStep>>;

const STATUSES: readonly (readonly Ending[])[] = [
  ...[['Succeeded'], ['Succeeded'], ['Failed'], ['Skipped']],
  ...[
    ['Succeeded', 'Failed'],
    ['Succeeded', 'Skipped'],
    ['Succeeded', 'Failed', 'Skipped'],
  ],
] as const as readonly (readonly Ending[])[];

/** Any acyclic graph: steps run after earlier ones; loops are nested up to `depth`. */
function drawGraph(chance: Chance, { depth, library }: { depth: number; library: number }): AnyGraph {
  const { below, once, pick } = chance;
  const steps: Record<string, AnyStep> = {};
  const size = 1 + below(depth === 2 ? 6 : 3);
  for (let index = 0; index < size; index += 1) {
    const edges: Record<string, AnyEdge> = {};
    for (let count = index === 0 ? 0 : below(3); count > 0; count -= 1) {
      const when = once(3) ? pick(['true', 'false', 'broken', 'hasFailed', 'isOdd'] as const) : undefined;
      edges[`s${below(index)}`] = { statuses: pick(STATUSES), ...(when !== undefined && { when }) };
    }
    steps[`s${index}`] = { work: drawWork(chance, { depth, library, edges }), edges };
  }
  return steps;
}

function drawWork(
  chance: Chance,
  { depth, library, edges }: { depth: number; library: number; edges: Readonly<Record<string, AnyEdge>> },
): Work {
  const { below, once, pick } = chance;
  const [from] = Object.entries(edges).flatMap(([key, { statuses }]) => (statuses.join() === 'Succeeded' ? [key] : []));
  const kind = below(16);
  if (kind < 3) return { kind: 'counts', plus: below(9) };
  if (kind < 5 && from !== undefined) return { kind: 'copies', from };
  if (kind < 7) return { kind: 'fails' };
  if (kind < 9) return { kind: 'flaky', failures: below(4), maxAttempts: 1 + below(3) };
  if (kind < 10) return { kind: 'waits' };
  if (kind < 13 && depth > 0) {
    const items = Array.from({ length: below(4) }, () => below(100));
    return { kind: 'loop', items, limit: 1 + below(3), steps: drawGraph(chance, { depth: depth - 1, library }) };
  }
  if (kind < 15 && library > 0) return { kind: 'runs', flow: below(library), isAwaited: !once(4) };
  return { kind: pick(['passes', 'passes', 'waits'] as const) };
}

/** The predicted result of a run. */
interface Outcome {
  readonly status: Ending;
  readonly output: Json;
  readonly steps: ReadonlyMap<string, StepOutcome>;
  /** Runs of the library that its steps started, in any order. */
  readonly started: readonly Started[];
}

interface StepOutcome {
  readonly status: Ending;
  readonly output: Json;
  readonly attempts: number;
}

interface Started {
  readonly flow: number;
  readonly n: number;
  readonly status: Ending;
}

interface Context {
  readonly n: number;
  /** The item of the innermost loop. */
  readonly item?: number;
}

/** Goes through steps in order, so that everything upstream is known. */
function predict(graph: AnyGraph, library: readonly AnyGraph[], context: Context): Outcome {
  const ended = new Map<string, StepOutcome>();
  const inside = new Map<string, StepOutcome>();
  const started: Started[] = [];
  const statusOf = (key: string) => ended.get(key)?.status ?? 'Skipped';
  for (const [key, { work, edges }] of Object.entries(graph)) {
    const all = Object.entries(edges);
    const says = ([upstream, { when }]: [string, AnyEdge]): boolean => {
      if (when === 'hasFailed') return statusOf(upstream) === 'Failed';
      return when === 'isOdd' ? context.n % 2 === 1 : when !== 'false';
    };
    if (!all.every(([upstream, { statuses }]) => statuses.includes(statusOf(upstream)))) ended.set(key, SKIPPED);
    else if (all.some(([, { when }]) => when === 'broken')) ended.set(key, { ...FAILED, attempts: 1 });
    else if (!all.every(says)) ended.set(key, SKIPPED);
    else {
      const done = predictWork(work, { library, context, outputOf: (upstream) => ended.get(upstream)?.output ?? null });
      ended.set(key, done.own);
      for (const [child, outcome] of done.inside ?? []) inside.set(`${key}.${child}`, outcome);
      started.push(...(done.started ?? []));
    }
  }
  const after = (key: string) => Object.entries(graph).filter(([, { edges }]) => key in edges);
  const isHandled = (key: string) =>
    after(key).some(([next, { edges }]) => statusOf(next) === 'Succeeded' && edges[key]?.statuses.includes('Failed'));
  const leaves = Object.keys(graph).filter((key) => after(key).length === 0);
  const hasFailed = [...ended].some(([key, { status }]) => status === 'Failed' && !isHandled(key));
  const isSkipped = leaves.every((key) => statusOf(key) === 'Skipped');
  return {
    status: hasFailed ? 'Failed' : isSkipped ? 'Skipped' : 'Succeeded',
    output: predictLeft(graph, (key) => ended.get(key)?.output ?? null),
    steps: new Map([...ended, ...inside]),
    started,
  };
}

/** The output of the last step, or of each last step by key. */
function predictLeft(graph: AnyGraph, outputOf: (key: string) => Json): Json {
  const leaves = Object.keys(graph).filter((key) => Object.values(graph).every(({ edges }) => !(key in edges)));
  const left = leaves.map((key) => [key, outputOf(key)] as const);
  return left.length === 1 ? (left[0]?.[1] ?? null) : Object.fromEntries(left);
}

const SKIPPED: StepOutcome = { status: 'Skipped', output: null, attempts: 0 };
const FAILED: StepOutcome = { status: 'Failed', output: null, attempts: 1 };
const succeeded = (output: Json, attempts = 1): StepOutcome => ({ status: 'Succeeded', output, attempts });

interface Done {
  readonly own: StepOutcome;
  readonly inside?: ReadonlyMap<string, StepOutcome>;
  readonly started?: readonly Started[];
}

function predictWork(
  work: Work,
  { library, context, outputOf }: { library: readonly AnyGraph[]; context: Context; outputOf(key: string): Json },
): Done {
  switch (work.kind) {
    case 'passes':
    case 'waits':
      return { own: succeeded(null) };
    case 'fails':
      return { own: FAILED };
    case 'counts':
      return { own: succeeded((context.item ?? context.n) + work.plus) };
    case 'copies':
      return { own: succeeded(outputOf(work.from)) };
    case 'flaky': {
      const { failures, maxAttempts } = work;
      return {
        own: failures < maxAttempts ? succeeded(failures + 1, failures + 1) : { ...FAILED, attempts: maxAttempts },
      };
    }
    case 'loop':
      return predictLoop(work, library, context);
    case 'runs': {
      const { flow, isAwaited } = work;
      const n = context.item ?? context.n;
      const run = predict(library[flow] ?? {}, library, { n });
      const own =
        isAwaited && run.status === 'Failed'
          ? { ...FAILED, output: { status: 'Failed' } }
          : succeeded(isAwaited ? { status: run.status, output: run.output } : {});
      return { own, started: [{ flow, n, status: run.status }, ...run.started] };
    }
  }
}

/** Every iteration ends alike: after the first failure none starts, except those that ran at the same time. */
function predictLoop(
  { items, limit, steps }: Extract<Work, { kind: 'loop' }>,
  library: readonly AnyGraph[],
  { n }: Context,
): Done {
  const runs = items.map((item) => predict(steps, library, { n, item }));
  const isFailed = runs.some(({ status }) => status === 'Failed');
  const begun = isFailed ? runs.slice(0, limit) : runs;
  const inside = new Map(
    begun.flatMap((run, at) => [...run.steps].map(([key, step]) => [`${at}.${key}`, step] as const)),
  );
  // The output of an iteration that never began.
  const nothing = predictLeft(steps, () => null);
  const output = runs.map((run, at) => (at < begun.length ? run.output : nothing));
  const own = isFailed ? { ...FAILED, output } : succeeded(output);
  return { own, inside, started: begun.flatMap(({ started }) => started) };
}

const flowId = (index: number) => `0b7c9d10-0000-4000-8000-${String(index).padStart(12, '0')}`;
const retry = (maxAttempts: number) => ({
  maxAttempts,
  backoffSeconds: 0.01,
  factor: 1,
  maxBackoffSeconds: 1,
  jitter: false,
});
const CONDITIONS = { true: 'true', false: 'false', broken: 'trigger.body.none == 1', isOdd: 'trigger.body.n % 2 == 1' };

function definitionOf({ work, edges }: AnyStep, isInLoop: boolean): StepDefinition {
  const here = isInLoop ? 'loop.item' : 'trigger.body.n';
  const runAfter = Object.fromEntries(
    Object.entries(edges).map(([key, { statuses, when }]): [string, Edge] => {
      if (when === undefined) return [key, { statuses: [...statuses] }];
      const condition = when === 'hasFailed' ? `steps.${key}.status == 'Failed'` : CONDITIONS[when];
      return [key, { statuses: [...statuses], when: condition }];
    }),
  );
  switch (work.kind) {
    case 'passes':
      return stepOf('NoOp', { runAfter });
    case 'waits':
      return stepOf('Delay', { inputs: { seconds: 0.01 }, runAfter });
    case 'fails':
      return stepOf('Fail', { inputs: { message: 'no' }, runAfter });
    case 'counts':
      return stepOf('Transform', { inputs: { value: cel(`${here} + ${work.plus}`) }, runAfter });
    case 'copies':
      return stepOf('Transform', { inputs: { value: cel(`steps.${work.from}.output`) }, runAfter });
    case 'flaky':
      return stepOf('Flaky', { inputs: { failures: work.failures }, retry: retry(work.maxAttempts), runAfter });
    case 'loop': {
      const steps = graphOf(work.steps, true);
      return stepOf('ForEach', { forEach: [...work.items], concurrencyLimit: work.limit, steps, runAfter });
    }
    case 'runs': {
      const inputs = { flow: flowId(work.flow), body: { n: cel(here) }, wait: work.isAwaited };
      return stepOf('RunFlow', { inputs, runAfter });
    }
  }
}

const graphOf = (graph: AnyGraph, isInLoop = false): Graph =>
  Object.fromEntries(Object.entries(graph).map(([key, step]) => [key, definitionOf(step, isInLoop)]));

const flaky = defineHandler({
  type: 'Flaky',
  inputs: z.strictObject({ failures: z.number() }),
  run: ({ inputs: { failures }, attempt }) =>
    attempt <= failures
      ? { kind: 'failed', code: 'down', message: 'is down', retryable: true }
      : { kind: 'succeeded', output: attempt },
});

const STORES: Readonly<Record<string, () => Promise<Store>>> = {
  SQLite: () => openSqliteStore({ path: ':memory:' }),
  PostgreSQL: openEmpty,
};

async function openService(store: Store) {
  onTestFinished(() => store.close());
  const clock = createServiceClock({ now: () => Date.now(), monotonic: () => performance.now() });
  const service = await openFlowService({ store, own: [flaky], goesBy: () => clock, concurrency: 16 });
  const deploy = async (index: number, graph: AnyGraph) => {
    await service.catalog.deploy(loadedFlow(manifestOf(graphOf(graph), { id: flowId(index) }), [flaky]));
  };
  const start = async (index: number, n: number) => {
    const started = await service.runtime.engine.triggerFlow({
      ...{ flowId: flowId(index), triggerKey: 'manual', triggerType: 'manual', contentType: 'application/json' },
      ...{ body: Buffer.from(JSON.stringify({ n })), headers: {} },
    });
    if (started.kind !== 'started') throw new Error(`the run was not started: ${started.kind}`);
    return started.runId;
  };
  return { ...service, deploy, start };
}

/** The step without the ids of runs, which the model does not know. */
const shown = ({ status, output, attemptCount }: StepDetail): object => ({
  status,
  output: JSON.parse(JSON.stringify(output ?? null, (key, value) => (key === 'runId' ? undefined : value))),
  attempts: attemptCount,
});

test.each(Object.keys(STORES))(`${GRAPHS} random graphs end as predicted, step by step, on %s`, async (name) => {
  const chance = chanceOf('graphs');
  const library: AnyGraph[] = [];
  for (let at = 0; at < LIBRARY; at += 1) library.push(drawGraph(chance, { depth: 1, library: at }));
  const store = await (STORES[name] as () => Promise<Store>)();
  const { deploy, start, runtime, ended } = await openService(store);
  for (const [at, graph] of library.entries()) await deploy(at, graph);
  await runtime.start();
  const graphs = Array.from({ length: GRAPHS }, () => drawGraph(chance, { depth: 2, library: LIBRARY }));
  const numbers = graphs.map(() => chance.below(1000));
  const asked: Started[] = [];
  let next = 0;
  const lane = async () => {
    for (let at = next; at < GRAPHS; at = next) {
      next += 1;
      const [graph, n] = [graphs[at] as AnyGraph, numbers[at] as number];
      await deploy(LIBRARY + at, graph);
      const runId = await start(LIBRARY + at, n);
      const run = await ended(runId);
      const expected = predict(graph, library, { n });
      const steps = ((await store.listSteps(runId)) ?? []).map((step) => [step.stepKey, shown(step)] as const);
      const about = `TEST_SEED=${SEED}, graph ${at}: ${JSON.stringify(graph)}`;
      expect({ status: run.status, steps: Object.fromEntries(steps) }, about).toEqual({
        status: expected.status,
        steps: Object.fromEntries(expected.steps),
      });
      asked.push(...expected.started);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  // Each run that a step started exists once, and ended as predicted.
  for (let flow = 0; flow < LIBRARY; flow += 1) {
    const own = asked.filter((each) => each.flow === flow);
    const { items } = await eventually(
      () => store.listRuns({ flowId: flowId(flow), skip: 0, take: own.length + 10 }),
      (page) => page.items.every(({ status }) => status !== 'Running'),
    );
    expect(items.map(({ status }) => status).sort(), `TEST_SEED=${SEED}, flow ${flow}`).toEqual(
      own.map(({ status }) => status).sort(),
    );
  }
  expect(asked.length).toBeGreaterThan(0);
});
