import fc from 'fast-check';
import { expect, it } from 'vitest';
import { runFlow } from '../../src/features/rehearsal/testing.ts';
import type { Graph, StepDefinition, StepStatus } from '../../src/model/manifest.ts';

type Ending = 'Succeeded' | 'Failed' | 'Skipped';

interface AnyStep {
  readonly behaves: 'succeeds' | 'fails' | 'waits';
  /** By upstream key: the statuses that satisfy the edge, and its condition. */
  readonly edges: Readonly<Record<string, { statuses: readonly Ending[]; when?: 'true' | 'false' | 'steps.none' }>>;
}

const anyEdge = fc.record(
  {
    statuses: fc.subarray<Ending>(['Succeeded', 'Failed', 'Skipped'], { minLength: 1 }),
    when: fc.constantFrom('true', 'true', 'false', 'steps.none' as const),
  },
  { requiredKeys: ['statuses'] },
);
const anyStep = fc.record({
  behaves: fc.constantFrom('succeeds', 'succeeds', 'fails', 'waits' as const),
  edges: fc.dictionary(fc.nat(6).map(String), anyEdge, { maxKeys: 3 }),
});
/** Any acyclic graph: steps run after earlier ones. */
const anyGraph = fc.array(anyStep, { minLength: 1, maxLength: 7 }).map(
  (rows): Record<string, AnyStep> =>
    Object.fromEntries(
      rows.map(({ behaves, edges }, index) => {
        const earlier = Object.entries(edges).filter(([upstream]) => Number(upstream) < index);
        return [
          `s${index}`,
          { behaves, edges: Object.fromEntries(earlier.map(([key, edge]) => [`s${key}`, edge])) } as AnyStep,
        ];
      }),
    ),
);

/** A simple version of the rules: goes through steps in order, so that everything upstream is known. */
function expected(steps: Record<string, AnyStep>): { run: string; steps: Record<string, StepStatus> } {
  const ended = new Map<string, Ending>();
  for (const [key, { behaves, edges }] of Object.entries(steps)) {
    const all = Object.entries(edges);
    const isReached = all.every(([upstream, { statuses }]) => statuses.includes(ended.get(upstream) ?? 'Skipped'));
    const isBroken = all.some(([, { when }]) => when === 'steps.none');
    const isUnwanted = all.some(([, { when }]) => when === 'false');
    if (!isReached) ended.set(key, 'Skipped');
    else if (isBroken) ended.set(key, 'Failed');
    else if (isUnwanted) ended.set(key, 'Skipped');
    else ended.set(key, behaves === 'fails' ? 'Failed' : 'Succeeded');
  }
  const after = (key: string) => Object.entries(steps).filter(([, { edges }]) => key in edges);
  const isHandled = (key: string) =>
    after(key).some(([next, { edges }]) => ended.get(next) === 'Succeeded' && edges[key]?.statuses.includes('Failed'));
  const leaves = Object.keys(steps).filter((key) => after(key).length === 0);
  const hasFailed = [...ended].some(([key, status]) => status === 'Failed' && !isHandled(key));
  const isSkipped = leaves.every((key) => ended.get(key) === 'Skipped');
  return { run: hasFailed ? 'Failed' : isSkipped ? 'Skipped' : 'Succeeded', steps: Object.fromEntries(ended) };
}

function definitionOf({ behaves, edges }: AnyStep): Partial<StepDefinition> {
  const types = { succeeds: 'NoOp', fails: 'Fail', waits: 'Delay' } as const;
  const inputs = { succeeds: {}, fails: { message: 'no' }, waits: { seconds: 60 } }[behaves];
  const runAfter = Object.entries(edges).map(([key, { statuses, when }]) => {
    // Fails when evaluated: there is no such field.
    const condition = when === 'steps.none' ? 'trigger.body.none == 1' : when;
    return [key, condition === undefined ? statuses : { statuses, when: condition }] as const;
  });
  return { type: types[behaves], inputs, runAfter: Object.fromEntries(runAfter) as StepDefinition['runAfter'] };
}

const flowOf = (steps: object) => ({ id: '0b7c9d10-0000-4000-8000-000000000001', version: '1', steps });
const definitions = (steps: Record<string, AnyStep>) =>
  Object.fromEntries(Object.entries(steps).map(([key, step]) => [key, definitionOf(step)])) as unknown as Graph;

it('ends any run of any graph as the rules have it, with conditions, failures and waits', async () => {
  await fc.assert(
    fc.asyncProperty(anyGraph, async (steps) => {
      const run = await runFlow(flowOf(definitions(steps)), { body: {} });
      const statuses = Object.fromEntries(Object.values(run.steps).map((step) => [step.stepKey, step.status]));
      expect({ run: run.status, steps: statuses }).toEqual(expected(steps));
      for (const { status, attempts, attemptCount, completedAt, dueAt } of Object.values(run.steps)) {
        expect(attempts).toHaveLength(attemptCount);
        expect(attemptCount).toBe(status === 'Skipped' ? 0 : 1);
        expect([completedAt === null, dueAt]).toEqual([false, null]);
      }
    }),
    { numRuns: 25 },
  );
});

it('ends any graph the same inside a loop as outside', async () => {
  await fc.assert(
    fc.asyncProperty(anyGraph, fc.integer({ min: 1, max: 3 }), async (steps, concurrencyLimit) => {
      const loop = { type: 'ForEach', forEach: [1, 2, 3], concurrencyLimit, steps: definitions(steps) };
      const run = await runFlow(flowOf({ each: loop }), { body: {} });
      const one = expected(steps);
      expect(run.status).toBe(one.run === 'Failed' ? 'Failed' : 'Succeeded');
      for (const [key, status] of Object.entries(one.steps)) expect(run.steps[`each.0.${key}`]?.status).toBe(status);
      const last = run.steps['each.2.s0'];
      if (one.run === 'Failed' && concurrencyLimit < 3) expect(last).toBeUndefined();
      else expect(last?.status).toBe(one.steps.s0);
    }),
    { numRuns: 25 },
  );
});
