import { describe, expect, it } from 'vitest';
import { type CronTrigger, STRUCTURAL_KEYS } from '../../../src/manifest/schema.ts';
import type { StepDefinition } from '../../../src/model/manifest.ts';
import { compare, flow } from './samples.ts';

type Pair = readonly [unknown, unknown];

const steps = { a: { type: 'NoOp' }, b: { type: 'NoOp', runAfter: { a: ['Succeeded'] } } };
const cron = { cronExpression: '0 2 * * *' };

/** Two values of every field; `undefined` leaves it out. */
const FLOW: Readonly<Record<string, Pair>> = {
  id: [undefined, '1f8fad5b-d9cb-469f-a165-70867728950e'],
  name: ['Orders', 'Returns'],
  version: ['1', '2'],
  timeoutSeconds: [undefined, 60],
  concurrency: [undefined, 2],
  pinInputs: [undefined, true],
  serialize: [undefined, 'trigger.body.id'],
  serializeOnFailure: [undefined, 'stop'],
  onFailure: [undefined, '2f8fad5b-d9cb-469f-a165-70867728950e'],
  triggers: [{}, { byHand: { type: 'manual' } }],
  steps: [steps, { ...steps, c: { type: 'NoOp' } }],
};
const STEP: Readonly<Record<keyof StepDefinition, Pair>> = {
  type: ['NoOp', 'Loud'],
  inputs: [undefined, { hint: 1 }],
  runAfter: [undefined, { a: ['Failed'] }],
  retry: [undefined, { maxAttempts: 2 }],
  timeoutSeconds: [undefined, 60],
  concurrency: [undefined, 2],
  forEach: [[1], [1, 2]],
  concurrencyLimit: [undefined, 2],
  steps: [{ x: { type: 'NoOp' } }, { x: { type: 'NoOp' }, y: { type: 'NoOp' } }],
};
const CRON: Readonly<Record<keyof CronTrigger['inputs'], Pair>> = {
  cronExpression: ['0 2 * * *', '0 3 * * *'],
  timeZone: [undefined, 'Europe/Berlin'],
  onMissed: [undefined, 'skip'],
};
const EDGE: Readonly<Record<string, Pair>> = { statuses: [['Succeeded'], ['Failed']], when: [undefined, 'true'] };
const RETRY: Readonly<Record<string, Pair>> = {
  maxAttempts: [2, 3],
  backoffSeconds: [1, 2],
  factor: [1, 2],
  maxBackoffSeconds: [1, 2],
  jitter: [true, false],
};

const ordered = (field: string) => (field === 'serializeOnFailure' ? { serialize: 'trigger.key' } : {});
const having = (rest: object, field: string, value: unknown) =>
  value === undefined ? rest : { ...rest, [field]: value };
const loop = { type: 'ForEach', forEach: [1], steps: { x: { type: 'NoOp' } } };
const stepWith = (field: string, value: unknown) =>
  flow({
    ...steps,
    b: having(['forEach', 'concurrencyLimit', 'steps'].includes(field) ? loop : steps.b, field, value),
  });
const cases: readonly (readonly [
  place: string,
  fields: Readonly<Record<string, Pair>>,
  (field: string, value: unknown) => object,
])[] = [
  ['flow', FLOW, (field, value) => having(flow(steps, ordered(field)), field, value)],
  ['step', STEP, stepWith],
  ['edge', EDGE, (field, value) => stepWith('runAfter', { a: having({}, field, value) })],
  ['retry policy', RETRY, (field, value) => stepWith('retry', { [field]: value })],
  [
    'cron trigger',
    CRON,
    (field, value) => flow(steps, { triggers: { t: { type: 'cron', inputs: having(cron, field, value) } } }),
  ],
];

describe.each(cases)('a field of a %s', (_place, fields, manifestWith) => {
  it.each(
    Object.entries(fields).flatMap(([field, [one, other]]) => [
      { field, from: one, to: other },
      { field, from: other, to: one },
    ]),
  )('has a rule for $field from $from to $to', ({ field, from, to }) => {
    const found = compare(manifestWith(field, from), manifestWith(field, to)).map(({ rule }) => rule);
    expect(found).not.toEqual([]);
    expect(found).not.toContain('other-changed');
  });
});

it.each([
  ['manifest', FLOW, ['$schema']],
  ['step', STEP, []],
  ['edge', EDGE, []],
  ['retry', RETRY, []],
] as const)('tests every field of the schema: %s', (place, fields, besides) => {
  const names = STRUCTURAL_KEYS[place].filter((name) => !besides.some((each) => each === name));
  expect(Object.keys(fields).sort()).toEqual([...names].sort());
});
