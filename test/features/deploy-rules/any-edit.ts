import fc from 'fast-check';

/** Steps of a manifest as an author writes them. */
export type Steps = Readonly<Record<string, AnyStep>>;

interface AnyStep {
  readonly type: string;
  readonly inputs: object;
  readonly runAfter: Readonly<Record<string, AnyEdge>>;
  readonly retry?: object;
  readonly timeoutSeconds?: number;
}

interface AnyEdge {
  readonly statuses: readonly string[];
  readonly when?: string;
}

const KINDS: readonly (readonly [string, object])[] = [
  ['NoOp', {}],
  ['LogMessage', { message: 'hello' }],
  ['Transform', { value: 1 }],
  ['Delay', { seconds: 5 }],
  ['Fail', { message: 'no' }],
  ['WaitForSignal', { signalName: 'go' }],
];
const anyKind = fc.constantFrom(...KINDS);
const anyEdge: fc.Arbitrary<AnyEdge> = fc.record(
  {
    statuses: fc.subarray(['Succeeded', 'Failed', 'Skipped'], { minLength: 1 }),
    when: fc.constantFrom('true', 'false'),
  },
  { requiredKeys: ['statuses'] },
);
const anyStep = fc.record({ kind: anyKind, edges: fc.dictionary(fc.nat(6).map(String), anyEdge, { maxKeys: 3 }) });

/** Any acyclic graph: steps run after earlier ones. */
export const anySteps: fc.Arbitrary<Steps> = fc.array(anyStep, { minLength: 1, maxLength: 7 }).map((rows) =>
  Object.fromEntries(
    rows.map(({ kind: [type, inputs], edges }, index) => {
      const earlier = Object.entries(edges).filter(([upstream]) => Number(upstream) < index);
      return [
        `s${index}`,
        { type, inputs, runAfter: Object.fromEntries(earlier.map(([key, edge]) => [`s${key}`, edge])) },
      ];
    }),
  ),
);

/** Edits a manifest, or leaves it alone if the edit does not fit. Never makes a cycle: edges lead to earlier steps. */
type Edit = (steps: Steps, key: string) => Steps;

const withStep = (steps: Steps, key: string, change: Partial<AnyStep>): Steps => {
  const step = steps[key];
  return step === undefined ? steps : { ...steps, [key]: { ...step, ...change } };
};
const withoutEdges = (steps: Steps, key: string, onto?: string): Steps =>
  Object.fromEntries(
    Object.entries(steps).map(([name, step]) => {
      const edges = Object.entries(step.runAfter).flatMap(([upstream, edge]): [string, AnyEdge][] => {
        if (upstream !== key) return [[upstream, edge]];
        return onto === undefined ? [] : [[onto, edge]];
      });
      return [name, { ...step, runAfter: Object.fromEntries(edges) }];
    }),
  );

const fresh = (steps: Steps, name: string): string => (Object.hasOwn(steps, name) ? fresh(steps, `${name}-`) : name);

const EDITS: readonly Edit[] = [
  (steps, key) => ({
    ...steps,
    [fresh(steps, 'leaf')]: { type: 'NoOp', inputs: {}, runAfter: { [key]: { statuses: ['Succeeded'] } } },
  }),
  (steps) => ({
    ...steps,
    [fresh(steps, 'entry')]: { type: 'LogMessage', inputs: { message: 'first' }, runAfter: {} },
  }),
  (steps, key) => {
    const name = fresh(steps, 'inserted');
    const inserted = { type: 'NoOp', inputs: {}, runAfter: steps[key]?.runAfter ?? {} };
    return { ...withStep(steps, key, { runAfter: { [name]: { statuses: ['Succeeded'] } } }), [name]: inserted };
  },
  (steps, key) => {
    const { [key]: _gone, ...others } = steps;
    return withoutEdges(others, key);
  },
  (steps, key) => {
    const { [key]: gone, ...others } = steps;
    const name = fresh(steps, 'renamed');
    return gone === undefined ? steps : { ...withoutEdges(others, key, name), [name]: gone };
  },
  (steps, key) => withStep(steps, key, { type: 'NoOp', inputs: {} }),
  (steps, key) => withStep(steps, key, { type: 'Transform', inputs: { value: 2 } }),
  (steps, key) => withStep(steps, key, { runAfter: {} }),
  (steps, key) => withStep(steps, key, { retry: { maxAttempts: 2 }, timeoutSeconds: 1000 }),
  (steps, key) => {
    const edges = Object.entries(steps[key]?.runAfter ?? {});
    const guarded = edges.map(([upstream, { statuses }]) => [upstream, { statuses, when: '1 == 2' }]);
    return withStep(steps, key, { runAfter: Object.fromEntries(guarded) });
  },
  (steps, key) => {
    const edges = Object.entries(steps[key]?.runAfter ?? {});
    const open = edges.map(([upstream]) => [upstream, { statuses: ['Skipped', 'Failed', 'Succeeded'] }]);
    return withStep(steps, key, { runAfter: Object.fromEntries(open) });
  },
];

/** A graph, and the same after one to three edits. */
export const anyEdit: fc.Arbitrary<{ before: Steps; after: Steps }> = fc
  .tuple(anySteps, fc.array(fc.tuple(fc.nat(EDITS.length - 1), fc.nat(6)), { minLength: 1, maxLength: 3 }))
  .map(([before, edits]) => {
    let after = before;
    for (const [edit, position] of edits) {
      const keys = Object.keys(after);
      const key = keys[position % Math.max(1, keys.length)];
      if (key !== undefined) after = EDITS[edit]?.(after, key) ?? after;
    }
    return { before, after };
  });

/** The same manifest with the keys of every object in another order. */
export function shuffled<Value>(value: Value): Value {
  if (Array.isArray(value) || typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, shuffled(inner)] as const);
  return Object.fromEntries(entries.reverse()) as Value;
}
