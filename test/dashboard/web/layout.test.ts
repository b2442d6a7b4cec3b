import * as dagre from '@dagrejs/dagre';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  ARROWS,
  chooseLayout,
  fittingScale,
  type GraphLayout,
  layOut,
  neighbour,
  pathData,
} from '../../../src/features/runs/page/graph-layout.ts';
import type { Edge, Graph, StepDefinition } from '../../../src/model/manifest.ts';

const runsAfter = (...keys: string[]): Record<string, Edge> =>
  Object.fromEntries(keys.map((key) => [key, { statuses: ['Succeeded'] }]));
const step = (runAfter: Record<string, Edge> = {}, rest: Partial<StepDefinition> = {}): StepDefinition => ({
  type: 'NoOp',
  inputs: {},
  runAfter,
  ...rest,
});

type Box = Pick<GraphLayout['steps'][number], 'x' | 'y' | 'width' | 'height'>;

const overlap = (a: Box, b: Box) =>
  a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
const isInside = (inner: Box, outer: Box) =>
  inner.x >= outer.x &&
  inner.y >= outer.y &&
  inner.x + inner.width <= outer.x + outer.width + 0.01 &&
  inner.y + inner.height <= outer.y + outer.height + 0.01;

/** Acyclic: steps run only after earlier ones. */
const anyGraph = fc.integer({ min: 1, max: 14 }).chain((size) =>
  fc
    .array(fc.record({ upstream: fc.array(fc.nat(size), { maxLength: 3 }), isLoop: fc.boolean() }), {
      minLength: size,
      maxLength: size,
    })
    .map(
      (rows): Graph =>
        Object.fromEntries(
          rows.map(({ upstream, isLoop }, index) => {
            const keys = upstream.filter((other) => other < index).map((other) => `s${other}`);
            const steps = { a: step(), b: step(runsAfter('a')) };
            return [`s${index}`, step(runsAfter(...keys), isLoop ? { type: 'ForEach', steps } : {})];
          }),
        ),
    ),
);

it.each<[string, Graph]>([
  ['after one step', { z: step(), b: step(runsAfter('z')), c: step(runsAfter('z')), a: step(runsAfter('z')) }],
  ['before one step', { b: step(), c: step(), a: step(), z: step(runsAfter('c', 'a', 'b')) }],
  ['alone', { b: step(), c: step(), a: step() }],
])('siblings %s are in the order of their keys, however the manifest has them', (_, graph) => {
  const reversed = Object.fromEntries(Object.entries(graph).reverse());
  for (const each of [graph, reversed]) {
    const { steps } = layOut(each, { dagre, direction: 'LR' });
    const siblings = steps.filter(({ stepKey }) => stepKey !== 'z').sort((one, other) => one.y - other.y);
    expect(siblings.map(({ stepKey }) => stepKey)).toEqual(['a', 'b', 'c']);
  }
});

describe('the layout of a graph', () => {
  it('shows each step and edge once, nothing on top of another, children inside of their loop', () => {
    fc.assert(
      fc.property(anyGraph, fc.constantFrom('LR' as const, 'TB' as const), (graph, direction) => {
        const { steps, edges: laid, width, height } = layOut(graph, { dagre, direction });
        const loops = Object.values(graph).filter(({ steps: children }) => children !== undefined).length;
        expect(steps).toHaveLength(Object.keys(graph).length + 2 * loops);
        const wanted = Object.values(graph).flatMap(({ runAfter }) => Object.keys(runAfter)).length + loops;
        expect(laid).toHaveLength(wanted);
        const whole = { x: 0, y: 0, width, height };
        for (const box of steps) expect(isInside(box, whole)).toBe(true);
        for (const [index, box] of steps.entries()) {
          for (const other of steps.slice(index + 1)) {
            const isChild = other.path.startsWith(`${box.path}.`);
            expect(isChild ? isInside(other, box) : !overlap(box, other)).toBe(true);
          }
        }
      }),
      { numRuns: 60 },
    );
  });

  it('goes from left to right, or from top to bottom', () => {
    const graph = { first: step(), second: step(runsAfter('first')) };
    const [a, b] = layOut(graph, { dagre, direction: 'LR' }).steps;
    const [c, d] = layOut(graph, { dagre, direction: 'TB' }).steps;
    expect((b?.x ?? 0) > (a?.x ?? 0) + (a?.width ?? 0)).toBe(true);
    expect((d?.y ?? 0) > (c?.y ?? 0) + (c?.height ?? 0)).toBe(true);
  });

  it('keeps room for the label of an edge that is not the usual one', () => {
    const when = { statuses: ['Failed'], when: 'trigger.body.amount > 100' } as const;
    const { edges: laid } = layOut({ pay: step(), alarm: step({ pay: when }) }, { dagre, direction: 'LR' });
    expect(laid[0]?.label?.text).toBe('Failed, when body.amount > 100');
    expect(laid[0]?.label?.box.width).toBeGreaterThan(100);
  });

  it('lays out a hundred steps', () => {
    const keys = Array.from({ length: 100 }, (_, index) => `step-${index}`);
    const graph = Object.fromEntries(
      keys.map((key, index) => [key, step(index === 0 ? {} : runsAfter(`step-${Math.floor((index - 1) / 2)}`))]),
    );
    expect(layOut(graph, { dagre, direction: 'LR' }).steps).toHaveLength(100);
  });

  it('ignores an upstream step that the graph does not have', () => {
    expect(layOut({ only: step(runsAfter('gone')) }, { dagre, direction: 'LR' }).edges).toEqual([]);
  });
});

describe('a graph with names that objects treat in their own way', () => {
  it.each([['constructor'], ['toString'], ['__proto__'], ['0'], ['a b'], ['x'.repeat(64)]])(
    'shows the step %s',
    (key) => {
      const graph: Graph = Object.fromEntries([
        ['first', step()],
        [key, step(runsAfter('first'))],
      ]);
      const { steps, edges } = layOut(graph, { dagre, direction: 'LR' });
      expect(steps.map(({ stepKey }) => stepKey).sort()).toEqual(['first', key].sort());
      expect(edges).toHaveLength(1);
      for (const { x, y, width } of steps) {
        expect(Number.isFinite(x) && Number.isFinite(y)).toBe(true);
        expect(width).toBeLessThanOrEqual(252);
      }
    },
  );
});

describe('the direction of a picture', () => {
  const chain = (length: number): Graph =>
    Object.fromEntries(
      Array.from({ length }, (_, index) => [`step-${index}`, step(index === 0 ? {} : runsAfter(`step-${index - 1}`))]),
    );
  const isDown = ({ steps: [first, second] }: GraphLayout) => (second?.y ?? 0) > (first?.y ?? 0);

  it.each([
    ['a short flow on a wide screen goes across', 2, 1400, false],
    ['any flow on a phone goes down', 2, 360, true],
    ['a flow too long to scroll to goes down', 40, 1000, true],
  ])('%s', (_, length, width, expected) => {
    expect(isDown(chooseLayout(chain(length), dagre, width))).toBe(expected);
  });

  it('is laid out where there is no room at all', () => {
    expect(chooseLayout(chain(3), dagre, 0).steps).toHaveLength(3);
    expect(chooseLayout({}, dagre, 1000).steps).toEqual([]);
  });

  it('never shrinks letters until they cannot be read, nor enlarges them', () => {
    fc.assert(
      fc.property(fc.nat(10_000), fc.nat(4000), (width, frame) => {
        const scale = fittingScale({ width }, frame);
        expect(scale).toBeGreaterThanOrEqual(0.72);
        expect(scale).toBeLessThanOrEqual(1);
      }),
    );
  });
});

describe('moving with the arrow keys', () => {
  const box = (x: number, y: number) => ({ x, y, width: 10, height: 10 });
  const all = [box(0, 0), box(100, 0), box(100, 60), box(200, 0)];
  it.each([
    ['ArrowRight', all[1]],
    ['ArrowLeft', undefined],
    ['ArrowDown', all[2]],
  ] as const)('%s leads to the nearest step that way', (key, expected) => {
    expect(neighbour(box(0, 0), key, all)).toBe(expected);
  });
});

describe('moving with the arrow keys through any picture', () => {
  const place = fc.record({ x: fc.nat(500), y: fc.nat(500), width: fc.constant(10), height: fc.constant(10) });
  it('leads to another step that lies that way, or to none', () => {
    fc.assert(
      fc.property(fc.array(place), place, fc.constantFrom(...ARROWS), (all, from, key) => {
        const next = neighbour(from, key, [...all, from]);
        if (next === undefined) return;
        expect(next).not.toBe(from);
        const sign = key === 'ArrowRight' || key === 'ArrowDown' ? 1 : -1;
        const ahead = key === 'ArrowLeft' || key === 'ArrowRight' ? next.x - from.x : next.y - from.y;
        expect(sign * ahead).toBeGreaterThan(0);
      }),
    );
  });
});

describe('the line of an edge', () => {
  it.each([
    ['no point', [], ''],
    ['one point', [{ x: 1.04, y: -2.05 }], 'M1,-2'],
    [
      'two points',
      [
        { x: 0, y: 0 },
        { x: 0, y: 9 },
      ],
      'M0,0L0,9',
    ],
  ])('of %s is drawn as %j', (_, points, line) => {
    expect(pathData(points)).toBe(line);
  });

  it('starts and ends where the edge does', () => {
    const line = pathData([
      { x: 0, y: 0 },
      { x: 10, y: 5 },
      { x: 20, y: 0 },
    ]);
    expect(line).toBe('M0,0Q10,5 15,2.5L20,0');
  });
});
