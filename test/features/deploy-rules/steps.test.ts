// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.
import { describe, expect, it } from 'vitest';
import { gravest } from '../../../src/deploys/changes/index.ts';
import type { FindingClass } from '../../../src/model/finding.ts';
import { compare, flow, noOp, QUIET, verdicts, withHistory } from './samples.ts';

const when = (step: object, upstream: string, condition?: string) => ({
  ...step,
  runAfter: { [upstream]: { statuses: ['Succeeded'], ...(condition === undefined ? {} : { when: condition }) } },
});
const say = (message: string, ...after: string[]) => ({ ...noOp(...after), type: 'LogMessage', inputs: { message } });
const loop = (steps: object, rest: object = {}) => ({ type: 'ForEach', forEach: [1, 2], steps, ...rest });
const chain = { a: noOp(), b: noOp('a'), c: noOp('b') };
const ran = withHistory('a', 'b', 'c', 'each');

type Row = [string, object, object, string[]];

const rows: Row[] = [
  ['nothing', chain, chain, []],
  ['the order of keys', chain, { c: noOp('b'), b: noOp('a'), a: noOp() }, []],
  ['a leaf is added', chain, { ...chain, d: noOp('c') }, ['step-added safe steps.d']],
  ['an entry step is added', chain, { ...chain, d: noOp() }, ['step-added safe steps.d']],
  [
    'a chain of new leaves',
    chain,
    { ...chain, d: noOp('c'), e: noOp('d') },
    ['step-added safe steps.d', 'step-added safe steps.e'],
  ],
  [
    'a step is inserted into a path',
    chain,
    { ...chain, n: noOp('a'), b: noOp('n') },
    ['step-inserted caution steps.n', 'run-after-changed caution steps.b.runAfter'],
  ],
  [
    'a step is inserted in front of the entry',
    chain,
    { ...chain, n: noOp(), a: noOp('n') },
    ['step-inserted caution steps.n', 'run-after-changed caution steps.a.runAfter'],
  ],
  [
    'two steps are inserted, one behind the other',
    chain,
    { ...chain, m: noOp('a'), n: noOp('m'), b: noOp('n') },
    ['step-inserted caution steps.m', 'step-inserted caution steps.n', 'run-after-changed caution steps.b.runAfter'],
  ],
  ['a leaf with history is removed', chain, { a: noOp(), b: noOp('a') }, ['step-removed breaking steps.c']],
  [
    'a step with history is removed from a path',
    chain,
    { a: noOp(), c: noOp('a') },
    ['step-removed breaking steps.b', 'run-after-changed caution steps.c.runAfter'],
  ],
  ['a step without history is removed', { ...chain, d: noOp('c') }, chain, ['step-removed caution steps.d']],
  ['a step is renamed', chain, { a: noOp(), b2: noOp('a'), c: noOp('b2') }, ['step-renamed breaking steps.b']],
  [
    'two steps in a row are renamed',
    chain,
    { a: noOp(), b2: noOp('a'), c2: noOp('b2') },
    ['step-renamed breaking steps.b', 'step-renamed breaking steps.c'],
  ],
  [
    'a step that conditions and items read is renamed',
    {
      a: noOp(),
      b: when(noOp(), 'a', 'steps.a.status == "Succeeded"'),
      each: { ...loop({ x: noOp() }), runAfter: { a: ['Succeeded'] }, forEach: '${steps.a.output}' },
    },
    {
      'a-2': noOp(),
      b: when(noOp(), 'a-2', 'steps["a-2"].status == "Succeeded"'),
      each: { ...loop({ x: noOp() }), runAfter: { 'a-2': ['Succeeded'] }, forEach: '${steps["a-2"].output}' },
    },
    ['step-renamed breaking steps.a'],
  ],
  [
    'a step is renamed and rewired',
    chain,
    { a: noOp(), b: noOp('a'), c2: noOp('a') },
    ['step-removed breaking steps.c', 'step-added safe steps.c2'],
  ],
  [
    'a step without history is renamed',
    { ...chain, d: noOp('c') },
    { ...chain, d2: noOp('c') },
    ['step-renamed caution steps.d'],
  ],
  [
    'statuses of an edge change',
    chain,
    { ...chain, c: { type: 'NoOp', runAfter: { b: ['Succeeded', 'Failed'] } } },
    ['run-after-changed caution steps.c.runAfter'],
  ],
  [
    'statuses of an edge stand in another order',
    { ...chain, c: { type: 'NoOp', runAfter: { b: ['Failed', 'Succeeded'] } } },
    { ...chain, c: { type: 'NoOp', runAfter: { b: ['Succeeded', 'Failed'] } } },
    ['statuses-reordered safe steps.c.runAfter'],
  ],
  ['an edge is added', chain, { ...chain, c: noOp('b', 'a') }, ['run-after-changed caution steps.c.runAfter']],
  ['an edge is removed', chain, { ...chain, c: noOp() }, ['run-after-changed caution steps.c.runAfter']],
  [
    'a condition is added',
    chain,
    { ...chain, c: when(noOp(), 'b', 'true') },
    ['when-added caution steps.c.runAfter.b.when'],
  ],
  [
    'a condition is changed',
    { ...chain, c: when(noOp(), 'b', 'true') },
    { ...chain, c: when(noOp(), 'b', 'false') },
    ['when-changed caution steps.c.runAfter.b.when'],
  ],
  [
    'a condition is removed',
    { ...chain, c: when(noOp(), 'b', 'true') },
    chain,
    ['when-removed caution steps.c.runAfter.b.when'],
  ],
  ['a type is changed', chain, { ...chain, c: { ...noOp('b'), type: 'Loud' } }, ['type-changed caution steps.c.type']],
  [
    'a type and its inputs are changed',
    chain,
    { ...chain, c: say('x', 'b') },
    ['type-changed caution steps.c.type', 'step-inputs-changed safe steps.c.inputs.message'],
  ],
  ['a step becomes a loop', { each: noOp() }, { each: loop({ x: noOp() }) }, ['type-changed caution steps.each.type']],
  ['inputs are changed', { a: say('x') }, { a: say('y') }, ['step-inputs-changed safe steps.a.inputs.message']],
  [
    'inputs read a step that was inserted with them',
    { a: noOp(), b: say('x', 'a') },
    { a: noOp(), n: noOp('a'), b: say('${steps.n.output}', 'n') },
    [
      'step-inserted caution steps.n',
      'run-after-changed caution steps.b.runAfter',
      'inputs-read-unknown-step caution steps.b.inputs',
    ],
  ],
  [
    'inputs read a step that ran before all along',
    { a: noOp(), b: say('x', 'a') },
    { a: noOp(), b: say('${steps.a.output}', 'a') },
    ['step-inputs-changed safe steps.b.inputs.message'],
  ],
  [
    'a retry policy is changed',
    chain,
    { ...chain, c: { ...noOp('b'), retry: { maxAttempts: 3 } } },
    ['retry-changed safe steps.c.retry'],
  ],
  [
    'a time limit is changed',
    chain,
    { ...chain, c: { ...noOp('b'), timeoutSeconds: 3 } },
    ['step-timeout-changed safe steps.c.timeoutSeconds'],
  ],
  [
    'items of a loop are changed',
    { each: loop({ x: noOp() }) },
    { each: loop({ x: noOp() }, { forEach: [1] }) },
    ['for-each-changed safe steps.each.forEach'],
  ],
  [
    'the concurrency of a loop is changed',
    { each: loop({ x: noOp() }) },
    { each: loop({ x: noOp() }, { concurrencyLimit: 3 }) },
    ['concurrency-changed safe steps.each.concurrencyLimit'],
  ],
  [
    'a limit of a step type is set',
    chain,
    { ...chain, c: { ...noOp('b'), concurrency: 2 } },
    ['step-slots-changed safe steps.c.concurrency'],
  ],
  [
    'a limit of a step type is changed, and one in a loop is taken away',
    { a: { ...noOp(), concurrency: 2 }, each: loop({ x: { ...noOp(), concurrency: 2 } }) },
    { a: { ...noOp(), concurrency: 9 }, each: loop({ x: noOp() }) },
    ['step-slots-changed safe steps.a.concurrency', 'step-slots-changed safe steps.each.steps.x.concurrency'],
  ],
  [
    'a child is added',
    { each: loop({ x: noOp() }) },
    { each: loop({ x: noOp(), y: noOp('x') }) },
    ['step-added safe steps.each.steps.y'],
  ],
  [
    'a child is removed from a loop that ran',
    { each: loop({ x: noOp(), y: noOp('x') }) },
    { each: loop({ x: noOp() }) },
    ['step-removed breaking steps.each.steps.y'],
  ],
  [
    'a child is renamed in a loop that ran',
    { each: loop({ x: noOp(), y: noOp('x') }) },
    { each: loop({ x: noOp(), z: noOp('x') }) },
    ['step-renamed breaking steps.each.steps.y'],
  ],
  [
    'children of a loop in a loop are changed',
    { each: loop({ in: loop({ x: noOp(), y: noOp('x') }) }) },
    { each: loop({ in: loop({ x: noOp(), y: noOp() }) }) },
    ['run-after-changed caution steps.each.steps.in.steps.y.runAfter'],
  ],
];

describe('the class of an edit of steps', () => {
  it.each(rows)('%s', (_, before, after, expected) => {
    expect(verdicts(compare(flow(before), flow(after), ran)).sort()).toEqual([...expected].sort());
  });

  it('counts a key as reused where kept runs have records of it', () => {
    expect(verdicts(compare(flow(chain), flow({ ...chain, old: noOp('c') }), withHistory('old')))).toEqual([
      'step-key-reused caution steps.old',
    ]);
  });

  it('puts the gravest findings first', () => {
    const after = flow({ a: say('x'), b: noOp('a'), d: when(noOp(), 'b', 'true') }, { version: '2' });
    const classes = compare(flow({ a: say('y'), b: noOp('a'), c: noOp('b') }), after, ran).map((each) => each.class);
    expect(classes).toEqual(['breaking', 'safe', 'safe', 'safe']);
  });
});

describe('the gravest class', () => {
  it.each<[FindingClass[], FindingClass]>([
    [[], 'safe'],
    [['safe', 'safe'], 'safe'],
    [['safe', 'caution'], 'caution'],
    [['caution', 'breaking', 'safe'], 'breaking'],
  ])('of %j is %s', (classes, expected) => {
    expect(gravest(classes.map((each) => ({ class: each })))).toBe(expected);
  });
});

describe('a step that runs a flow', () => {
  const inputs = { flow: '0f8fad5b-d9cb-469f-a165-70867728950f', body: 1 };
  const running = (change: object) => flow({ go: { type: 'RunFlow', inputs: { ...inputs, ...change } } });
  const other = '0f8fad5b-d9cb-469f-a165-708677289510';

  it.each([
    [{ flow: other }, ['sub-flow-changed safe steps.go.inputs.flow']],
    [{ wait: false }, ['sub-flow-changed safe steps.go.inputs.wait']],
    [{ body: 2 }, ['step-inputs-changed safe steps.go.inputs.body']],
    [
      { flow: other, body: 2 },
      ['step-inputs-changed safe steps.go.inputs.body', 'sub-flow-changed caution steps.go.inputs.flow'],
    ],
  ])('%j', (change, expected) => {
    expect(verdicts(compare(running({}), running(change), QUIET)).sort()).toEqual(expected);
  });
});

describe('labels and limits of a flow', () => {
  it.each([
    [{ version: '2' }, 'version-changed safe version'],
    [{ name: 'Other' }, 'name-changed safe name'],
    [{ timeoutSeconds: 60 }, 'flow-timeout-changed safe timeoutSeconds'],
    [{ onFailure: '0f8fad5b-d9cb-469f-a165-70867728950f' }, 'failure-flow-changed safe onFailure'],
    [{ concurrency: 2 }, 'step-slots-changed safe concurrency'],
    [{ id: '0f8fad5b-d9cb-469f-a165-70867728950f' }, 'flow-id-changed breaking id'],
  ])('%j', (change, expected) => {
    expect(verdicts(compare(flow(chain), flow(chain, change), QUIET))).toEqual([expected]);
  });
});

it.each([
  [{}, 3, 'Inputs of `a` were changed. This affects 3 runs in flight.'],
  [{}, 1, 'Inputs of `a` were changed. This affects 1 run in flight.'],
  [{}, 0, 'Inputs of `a` were changed.'],
  [{ pinInputs: true }, 3, 'Inputs of `a` were changed.'],
])('changed inputs of a flow with %j and %i runs in flight say whom they affect', (rest, runsInFlight, message) => {
  const [before, after] = [flow({ a: say('x') }, rest), flow({ a: say('y') }, rest)];
  expect(compare(before, after, { ...QUIET, runsInFlight })).toMatchObject([{ class: 'safe', message }]);
});
