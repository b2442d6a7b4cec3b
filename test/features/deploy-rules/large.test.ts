// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.

import { expect, it } from 'vitest';
import { compareRevisions } from '../../../src/deploys/changes/index.ts';
import { prepareRevision } from '../../../src/flows/prepared-revision.ts';
import { checkGraph } from '../../../src/manifest/check-steps.ts';
import type { LiveFlow } from '../../../src/model/finding.ts';
import type { Json } from '../../../src/model/json.ts';
import type { Graph, StepDefinition } from '../../../src/model/manifest.ts';
import { QUIET, SETTINGS, withHistory } from './samples.ts';

type Shape = (count: number, name: string, message: (at: number) => string) => Graph;

const say = (message: string, ...after: string[]): StepDefinition => ({
  type: 'NoOp',
  inputs: { message },
  runAfter: Object.fromEntries(after.map((key) => [key, { statuses: ['Succeeded' as const] }])),
});
const steps = (count: number, make: (at: number) => [string, StepDefinition]): Graph =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => make(at)));

const chain: Shape = (count, name, message) =>
  steps(count, (at) => [`${name}${at}`, say(message(at), ...(at === 0 ? [] : [`${name}${at - 1}`]))]);
/** Runs from its last step to its first, in reverse order of the manifest. */
const backwards: Shape = (count, name, message) =>
  steps(count, (at) => [`${name}${at}`, say(message(at), ...(at === count - 1 ? [] : [`${name}${at + 1}`]))]);
const apart: Shape = (count, name, message) => steps(count, (at) => [`${name}${at}`, say(message(at))]);

const plain = (at: number) => `says ${at}`;
const reads = (at: number) => (at === 0 ? 'first' : '${steps.s0.output}');

/** The graph, with a count of all reads of its steps. */
function counted(graph: Graph, work: { asks: number }): Graph {
  const counting = <Part extends object>(part: Part): Part =>
    new Proxy(part, {
      get(target, name) {
        work.asks += 1;
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'object' && value !== null && !Array.isArray(value) ? counting(value) : value;
      },
      ownKeys(target) {
        work.asks += 1;
        return Reflect.ownKeys(target);
      },
      getOwnPropertyDescriptor(target, name) {
        work.asks += 1;
        return Reflect.getOwnPropertyDescriptor(target, name);
      },
    });
  return Object.fromEntries(Object.entries(graph).map(([key, step]) => [key, counting(step)]));
}

/** Compares the reads of a graph with those of a graph four times as large. */
function expectLinear(work: (count: number) => number): void {
  const [few, many] = [work(60), work(240)];
  expect(few).toBeGreaterThan(0);
  expect(many).toBeLessThan(few * 6);
}

const SHAPES: readonly (readonly [string, Shape])[] = [
  ['a chain', chain],
  ['a chain against the order of the manifest', backwards],
  ['steps apart', apart],
];

it.each(SHAPES)('prepares a revision with work that grows as its steps do: %s', (_name, shape) => {
  expectLinear((count) => {
    const work = { asks: 0 };
    prepareRevision({ steps: counted(shape(count, 's', plain), work) }, 'folder');
    return work.asks;
  });
});

it.each(SHAPES)('checks references with work that grows as the steps do: %s', (_name, shape) => {
  expectLinear((count) => {
    const work = { asks: 0 };
    const graph = counted(shape(count, 's', reads), work);
    const isBroken = () => {
      work.asks += 1;
      return false;
    };
    const known = { graph, stepKeys: Object.keys(graph), path: ['steps'], outer: [], isBroken };
    checkGraph(known, { handlers: new Map(), readSecret: () => ({ value: '' }) });
    return work.asks;
  });
});

const only = { only: say('only') };
const CHANGES: readonly (readonly [string, (shape: Shape, count: number) => readonly [Graph, Graph]])[] = [
  ['added', (shape, count) => [only, { ...only, ...shape(count, 's', plain) }]],
  ['removed', (shape, count) => [{ ...only, ...shape(count, 's', plain) }, only]],
  ['renamed', (shape, count) => [shape(count, 's', plain), shape(count, 't', plain)]],
  ['replaced', (shape, count) => [shape(count, 's', plain), shape(count, 't', (at) => `says otherwise ${at}`)]],
  ['given other inputs', (shape, count) => [shape(count, 's', plain), shape(count, 's', reads)]],
  ['rewired', (shape, count) => [apart(count, 's', plain), shape(count, 's', plain)]],
];

it.each(CHANGES.flatMap(([what, make]) => SHAPES.map(([name, shape]) => [name, what, make, shape] as const)))(
  'compares revisions with work that grows as their steps do: %s is %s',
  (_name, _what, make, shape) => {
    for (const liveOf of [() => QUIET, (keys: string[]) => withHistory(...keys)] as const) {
      expectLinear((count) => {
        const work = { asks: 0 };
        const [before, after] = make(shape, count);
        const manifest = (graph: Graph) => ({ id: '', name: '', version: '1', triggers: {}, steps: graph });
        const live: LiveFlow = liveOf(Object.keys(before));
        const revisions = [before, after].map((graph) => manifest(counted(graph, work)) as unknown as Json);
        compareRevisions({ before: revisions[0] ?? null, after: revisions[1] ?? null, live, settings: SETTINGS });
        return work.asks;
      });
    }
  },
);
