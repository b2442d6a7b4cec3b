import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Graph, StepStatus } from '../../src/model/manifest.ts';
import { isAlone, isLarge, planAfter, planNext, type WiredGraph, wire } from '../../src/model/planner.ts';
import { graphOf } from '../flows/graphs.ts';

const chain = graphOf({ a: [], b: ['a'], c: ['b'] });
const diamond = graphOf({ a: [], b: ['a'], c: ['a'], d: ['b', 'c'] });
const handled = graphOf({ a: [], ok: ['a'], mend: { a: ['Failed'] } });
const afterSkip = graphOf({ a: [], b: { a: ['Failed'] }, c: { b: ['Skipped'] } });

const plans: [string, Graph, Record<string, StepStatus>, ReturnType<typeof summary>][] = [
  ['a flow without steps has succeeded', {}, {}, { start: [], skip: [], end: 'Succeeded' }],
  ['steps without edges start', graphOf({ a: [], b: [], c: ['a'] }), {}, { start: ['a', 'b'], skip: [], end: null }],
  ['nothing follows a step that waits', chain, { a: 'Pending' }, { start: [], skip: [], end: null }],
  ['nothing follows a step that runs', chain, { a: 'Running' }, { start: [], skip: [], end: null }],
  ['a step starts when its edge is satisfied', chain, { a: 'Succeeded' }, { start: ['b'], skip: [], end: null }],
  [
    'a failure skips everything after it and fails the run',
    chain,
    { a: 'Failed' },
    { start: [], skip: ['b', 'c'], end: 'Failed' },
  ],
  [
    'a join waits for all of its edges',
    diamond,
    { a: 'Succeeded', b: 'Succeeded', c: 'Running' },
    { start: [], skip: [], end: null },
  ],
  [
    'a join is skipped as soon as one edge is broken',
    diamond,
    { a: 'Succeeded', b: 'Failed', c: 'Running' },
    { start: [], skip: ['d'], end: null },
  ],
  [
    'a step that runs after Failed is skipped after a success',
    handled,
    { a: 'Succeeded' },
    { start: ['ok'], skip: ['mend'], end: null },
  ],
  [
    'a failure that a later step handled does not fail the run',
    handled,
    { a: 'Failed', ok: 'Skipped', mend: 'Succeeded' },
    { start: [], skip: [], end: 'Succeeded' },
  ],
  [
    'a failure whose handling failed too fails the run',
    handled,
    { a: 'Failed', ok: 'Skipped', mend: 'Failed' },
    { start: [], skip: [], end: 'Failed' },
  ],
  [
    'a skip satisfies an edge that lists Skipped',
    afterSkip,
    { a: 'Succeeded' },
    { start: ['c'], skip: ['b'], end: null },
  ],
  [
    'a run whose every leaf was skipped is skipped',
    graphOf({ a: [], b: { a: ['Failed'] } }),
    { a: 'Succeeded' },
    { start: [], skip: ['b'], end: 'Skipped' },
  ],
  [
    'one leaf that ran makes the run succeed',
    graphOf({ a: [], b: { a: ['Failed'] }, c: ['a'] }),
    { a: 'Succeeded', b: 'Skipped', c: 'Succeeded' },
    { start: [], skip: [], end: 'Succeeded' },
  ],
  [
    'skips cascade against the order of the manifest',
    graphOf({ c: ['b'], b: ['a'], a: [] }),
    { a: 'Failed' },
    { start: [], skip: ['b', 'c'], end: 'Failed' },
  ],
];

function summary(graph: Graph, states: Iterable<readonly [string, StepStatus]>) {
  const { start, skip, end } = planNext(wire(graph), new Map(states));
  return { start: [...start], skip: skip.map(({ stepKey }) => stepKey), end };
}

describe('planNext', () => {
  it.each(plans)('%s', (_rule, graph, states, expected) => {
    expect(summary(graph, Object.entries(states))).toEqual(expected);
  });

  it('says which edge skipped a step', () => {
    expect(planNext(wire(chain), new Map([['a', 'Failed']])).skip[0]).toEqual({
      stepKey: 'b',
      reason: '"a" ended Failed; this step runs after Succeeded',
    });
  });
});

const endings: StepStatus[] = ['Succeeded', 'Failed', 'Skipped'];

/** Any acyclic graph: steps run after earlier ones, and then the manifest's order is shuffled. */
const anyGraph = fc
  .array(fc.dictionary(fc.nat(8).map(String), fc.subarray(endings, { minLength: 1 }), { maxKeys: 4 }), { maxLength: 9 })
  .map((rows) =>
    rows.map((edges, index) => [
      `s${index}`,
      Object.fromEntries(
        Object.entries(edges)
          .filter(([upstream]) => Number(upstream) < index)
          .map(([upstream, statuses]) => [`s${upstream}`, statuses]),
      ),
    ]),
  )
  .chain((rows) => fc.shuffledSubarray(rows, { minLength: rows.length }))
  .map((rows) => graphOf(Object.fromEntries(rows)));

const anyRun = fc.record({
  graph: anyGraph,
  outcomes: fc.array(fc.constantFrom<StepStatus>('Succeeded', 'Failed'), { minLength: 9, maxLength: 9 }),
  /** Which of the running steps ends next. */
  order: fc.infiniteStream(fc.nat()),
});

/** Runs a graph to its end as the store does: plans after every step that ends. */
function execute(graph: Graph, outcomes: readonly StepStatus[], order: Iterator<number>) {
  const states = new Map<string, StepStatus>();
  const started: string[] = [];
  for (;;) {
    const { start, skip, end } = planNext(wire(graph), states);
    for (const { stepKey } of skip) {
      expect(states.has(stepKey)).toBe(false);
      states.set(stepKey, 'Skipped');
    }
    for (const stepKey of start) {
      expect(states.has(stepKey)).toBe(false);
      for (const [upstream, edge] of Object.entries(graph[stepKey]?.runAfter ?? {})) {
        expect(edge.statuses).toContain(states.get(upstream));
      }
      states.set(stepKey, 'Running');
      started.push(stepKey);
    }
    expect(summary(graph, states)).toMatchObject({ start: [], skip: [], end });
    const running = [...states].filter(([, status]) => status === 'Running').map(([stepKey]) => stepKey);
    expect(end === null).toBe(running.length > 0);
    if (end !== null) return { states, started, end };
    const next = running[order.next().value % running.length] ?? '';
    states.set(next, outcomes[Number(next.slice(1))] ?? 'Succeeded');
  }
}

describe('any run of any graph', () => {
  it('starts a step only when its edges are satisfied, none twice, and ends with every step ended', () => {
    fc.assert(
      fc.property(anyRun, ({ graph, outcomes, order }) => {
        const { states, started } = execute(graph, outcomes, order);
        expect(new Set(started).size).toBe(started.length);
        expect([...states.keys()].toSorted()).toEqual(Object.keys(graph).toSorted());
        for (const status of states.values()) expect(endings).toContain(status);
      }),
    );
  });

  it('ends the same in whatever order its steps end', () => {
    fc.assert(
      fc.property(anyRun, fc.infiniteStream(fc.nat()), ({ graph, outcomes, order }, otherOrder) => {
        const one = execute(graph, outcomes, order);
        const other = execute(graph, outcomes, otherOrder);
        expect(Object.fromEntries(other.states)).toEqual(Object.fromEntries(one.states));
        expect(other.end).toBe(one.end);
        expect(other.started.toSorted()).toEqual(one.started.toSorted());
      }),
    );
  });

  it('gives the same plan for the same states, whatever order they are listed in', () => {
    const someStates = fc.array(fc.constantFrom<StepStatus | undefined>(undefined, 'Pending', 'Running', ...endings), {
      minLength: 9,
      maxLength: 9,
    });
    fc.assert(
      fc.property(anyGraph, someStates, (graph, statuses) => {
        const states = Object.keys(graph).flatMap((stepKey): [string, StepStatus][] => {
          const status = statuses[Number(stepKey.slice(1))];
          return status === undefined ? [] : [[stepKey, status]];
        });
        expect(planNext(wire(graph), new Map(states.toReversed()))).toEqual(planNext(wire(graph), new Map(states)));
      }),
    );
  });
});

/** Plans after one step, and counts the steps whose states were asked. */
function localPlan(graph: WiredGraph, ended: string, states: ReadonlyMap<string, StepStatus>, lastOpen = new Map()) {
  let asked = 0;
  const statesOf = function* (stepKeys: readonly string[]) {
    asked += stepKeys.length;
    return new Map(stepKeys.flatMap((key) => (states.has(key) ? [[key, states.get(key) ?? 'Pending']] : [])));
  };
  const plan = planAfter(graph, ended, { statesOf, lastOpen }).next();
  if (plan.done !== true) throw new Error('it suspended');
  const { start, skip, isOpen } = plan.value;
  return { start: start.toSorted(), skip: skip.map(({ stepKey }) => stepKey).toSorted(), isOpen, asked };
}

describe('planAfter', () => {
  it('says of each step that ends what planNext says', () => {
    fc.assert(
      fc.property(anyRun, ({ graph, outcomes, order }) => {
        const { start, skip } = planNext(wire(graph), new Map());
        const states = new Map<string, StepStatus>([
          ...start.map((key) => [key, 'Running'] as const),
          ...skip.map(({ stepKey }) => [stepKey, 'Skipped'] as const),
        ]);
        for (;;) {
          const running = [...states].flatMap(([stepKey, status]) => (status === 'Running' ? [stepKey] : []));
          if (running.length === 0) return;
          const ended = running[(order.next().value ?? 0) % running.length] ?? '';
          states.set(ended, outcomes[Number(ended.slice(1))] ?? 'Succeeded');
          const whole = summary(graph, states);
          const local = localPlan(wire(graph), ended, states);
          expect(local).toMatchObject({ start: whole.start.toSorted(), skip: whole.skip.toSorted() });
          for (const stepKey of whole.start) states.set(stepKey, 'Running');
          for (const stepKey of whole.skip) states.set(stepKey, 'Skipped');
        }
      }),
    );
  });

  const many = Array.from({ length: 1000 }, (_, index) => `s${index}`);
  const wide = graphOf({ ...Object.fromEntries(many.map((key) => [key, []])), join: many });
  const ofAll = (status: StepStatus, others: Record<string, StepStatus> = {}) =>
    new Map<string, StepStatus>([...many.map((key) => [key, status] as const), ...Object.entries(others)]);

  it.each<[string, ReadonlyMap<string, StepStatus>, object]>([
    ['starts after the last of very many', ofAll('Succeeded'), { start: ['join'], skip: [] }],
    ['waits for one of very many', ofAll('Succeeded', { s500: 'Running' }), { start: [], skip: [] }],
    [
      'is skipped as soon as one of very many breaks its edge',
      ofAll('Running', { s7: 'Failed' }),
      { start: [], skip: ['join'] },
    ],
    ['starts once', ofAll('Succeeded', { join: 'Running' }), { start: [], skip: [] }],
  ])('a step %s', (_rule, states, plan) => {
    expect(localPlan(wire(wide), 's7', states)).toMatchObject(plan);
  });

  it('asks for few states while others have not ended', () => {
    expect(localPlan(wire(wide), 's7', ofAll('Running', { s7: 'Succeeded' })).asked).toBe(3);
    const long = graphOf(Object.fromEntries(many.map((key, index) => [key, index === 0 ? [] : [`s${index - 1}`]])));
    const reached = new Map<string, StepStatus>(many.slice(0, 500).map((key) => [key, 'Succeeded']));
    expect(localPlan(wire(long), 's499', reached)).toEqual({ start: ['s500'], skip: [], isOpen: true, asked: 2 });
  });

  /** Steps of which many run first and many after one of those, and two steps that run after all of them. */
  const anyWideRun = fc
    .record({
      first: fc.integer({ min: 35, max: 60 }),
      second: fc.integer({ min: 35, max: 60 }),
      /** Which steps need more than the end of a step before them, and what that is. */
      strict: fc.dictionary(fc.nat(120).map(String), fc.subarray(endings, { minLength: 1 }), { maxKeys: 6 }),
      failing: fc.array(fc.nat(120), { maxLength: 5 }),
      order: fc.infiniteStream(fc.nat()),
      /** Where steps that had not ended were found before. */
      found: fc.infiniteStream(fc.integer({ min: 1, max: 70 })),
    })
    .map(({ first, second, strict, ...run }) => {
      const keys = Array.from({ length: first + second }, (_, n) => `s${n}`);
      const edgeFrom = (n: number) => [`s${n}`, strict[String(n)] ?? endings] as const;
      const all = Object.fromEntries(keys.map((_, n) => edgeFrom(n)));
      const wiring = keys.map((key, n) => [key, n < first ? [] : Object.fromEntries([edgeFrom(n - first)])] as const);
      return { ...run, graph: graphOf({ ...Object.fromEntries(wiring), join: all, other: { ...all, join: endings } }) };
    });

  it('says so of a step with very many upstream steps, wherever one of them had not ended before', () => {
    fc.assert(
      fc.property(anyWideRun, ({ graph, failing, order, found }) => {
        const wired = wire(graph);
        const states = new Map<string, StepStatus>(planNext(wired, new Map()).start.map((key) => [key, 'Running']));
        const lastOpen = new Map<string, number>();
        for (let ends = 0; ; ends += 1) {
          const running = [...states].flatMap(([stepKey, status]) => (status === 'Running' ? [stepKey] : []));
          if (running.length === 0) break;
          const ended = running[(order.next().value ?? 0) % running.length] ?? '';
          states.set(ended, failing.includes(Number(ended.slice(1))) ? 'Failed' : 'Succeeded');
          if (ends % 7 === 0) lastOpen.set('join', found.next().value ?? 1);
          const whole = summary(graph, states);
          const local = localPlan(wired, ended, states, lastOpen);
          expect(local).toMatchObject({ start: whole.start.toSorted(), skip: whole.skip.toSorted() });
          if (local.isOpen) expect(whole.end).toBe(null);
          for (const stepKey of whole.start) states.set(stepKey, 'Running');
          for (const stepKey of whole.skip) states.set(stepKey, 'Skipped');
        }
        expect(states.size).toBe(Object.keys(graph).length);
      }),
      { numRuns: 30 },
    );
  });

  /** What is asked and read of the graph until all upstream steps of one step have ended. */
  function costOfJoin(count: number, nthOf: (n: number) => number): number {
    const keys = Array.from({ length: count }, (_, n) => `s${n}`);
    const { join, ...others } = wire(graphOf({ ...Object.fromEntries(keys.map((key) => [key, []])), join: keys }));
    if (join === undefined) throw new Error('there is no join');
    let cost = 0;
    const upstream = new Proxy(join.upstream, {
      get(edges, member) {
        if (typeof member === 'string' && /^\d+$/.test(member)) cost += 1;
        return Reflect.get(edges, member);
      },
    });
    const graph = { ...others, join: { ...join, upstream } };
    const states = new Map<string, StepStatus>(keys.map((key) => [key, 'Running']));
    const lastOpen = new Map<string, number>();
    const plans = keys.map((_, n) => {
      const ended = `s${nthOf(n)}`;
      states.set(ended, 'Succeeded');
      const { start, asked } = localPlan(graph, ended, states, lastOpen);
      cost += asked;
      return start;
    });
    expect(plans.flat()).toEqual(['join']);
    expect(plans.at(-1)).toEqual(['join']);
    return cost;
  }

  it.each<[string, (n: number, count: number) => number]>([
    ['in their order', (n) => n],
    ['from the last to the first', (n, count) => count - 1 - n],
    ['from the middle', (n, count) => (n + count / 2) % count],
    ['in a mixed order', (n, count) => (n * 7919) % count],
  ])('costs no more for each upstream step if they are many times more and end %s', (_, nthOf) => {
    const costOf = (count: number) => costOfJoin(count, (n) => nthOf(n, count)) / count;
    expect(costOf(1600)).toBeLessThan(1.5 * costOf(200));
  });
});

it('skips a chain at a cost for each step that does not grow with their number, though it is listed from its end', () => {
  const costOf = (count: number) => {
    const chain = Array.from({ length: count }, (_, n) => [`s${n}`, n === 0 ? [] : [`s${n - 1}`]] as const);
    let reads = 0;
    const watched = Object.entries(wire(graphOf(Object.fromEntries(chain.toReversed())))).map(([stepKey, step]) => {
      const upstream = new Proxy(step.upstream, {
        get(edges, member) {
          if (member === Symbol.iterator || member === 'every') reads += 1;
          return Reflect.get(edges, member);
        },
      });
      return [stepKey, { ...step, upstream }] as const;
    });
    const { skip, end } = planNext(Object.fromEntries(watched), new Map([['s0', 'Failed']]));
    expect({ skipped: skip.length, end }).toEqual({ skipped: count - 1, end: 'Failed' });
    return reads / count;
  };
  expect(costOf(1000)).toBeLessThan(costOf(100) + 1);
});

it('counts the steps of a graph once', () => {
  let reads = 0;
  const watched = new Proxy(wire(graphOf(Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`s${n}`, []])))), {
    ownKeys(graph) {
      reads += 1;
      return Reflect.ownKeys(graph);
    },
  });
  for (let ends = 0; ends < 9; ends += 1) expect([isLarge(watched), isAlone(watched)]).toEqual([true, false]);
  expect(reads).toBe(1);
});

it('reads a graph a bounded number of times, however many steps it has', () => {
  const keys = Array.from({ length: 500 }, (_, index) => `s${index}`);
  const long = graphOf(Object.fromEntries(keys.map((key, index) => [key, index === 0 ? [] : [`s${index - 1}`]])));
  let reads = 0;
  const watched = new Proxy(long, {
    ownKeys(graph) {
      reads += 1;
      return Reflect.ownKeys(graph);
    },
  });
  expect(planNext(wire(watched), new Map()).start).toEqual(['s0']);
  expect(reads).toBeLessThan(10);
});
