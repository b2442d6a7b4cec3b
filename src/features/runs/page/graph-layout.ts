import { edgeLabel, type Graph } from './graph.ts';

type GraphStep = Graph[string];
type GraphEdge = GraphStep['runAfter'][string];

/** The part of dagre that the layout uses; dagre's own types do not resolve under the module rules of Node. */
export interface Dagre {
  readonly Graph: new (options: { multigraph: boolean }) => DagreGraph;
  readonly layout: (graph: DagreGraph) => void;
}

interface DagreGraph {
  setGraph(label: object): void;
  setDefaultEdgeLabel(make: () => object): void;
  setNode(id: string, label: object): void;
  setEdge(from: string, to: string, label: object): void;
  graph(): { width?: number; height?: number };
  node(id: string): { x: number; y: number; width: number; height: number };
  edge(from: string, to: string): { points?: Point[]; x?: number; y?: number };
}

type Direction = 'LR' | 'TB';

interface Point {
  readonly x: number;
  readonly y: number;
}

interface Box extends Point {
  readonly width: number;
  readonly height: number;
}

/** One step; `x` and `y` are its top left corner in the whole picture. */
interface LaidStep extends Box {
  /** Keys of the surrounding loops, outermost first, and of the step, joined with dots. */
  readonly path: string;
  readonly stepKey: string;
  readonly step: GraphStep;
  /** Number of loops around the step. */
  readonly depth: number;
}

interface LaidEdge {
  /** Paths of the steps at its ends. */
  readonly from: string;
  readonly to: string;
  readonly edge: GraphEdge;
  readonly points: readonly Point[];
  /** Null for the usual edge: after a success, without a condition. */
  readonly label: { readonly text: string; readonly box: Box } | null;
}

export interface GraphLayout {
  readonly width: number;
  readonly height: number;
  /** A loop comes before its children. */
  readonly steps: readonly LaidStep[];
  readonly edges: readonly LaidEdge[];
}

/** In pixels at full size. Letter widths are those of the page's fonts, rounded up. */
const STEP_HEIGHT = 54;
export const LOOP_HEADER = 58;
const LOOP_PADDING = 14;
const LABEL_LINE = 20;
const KEY_LETTER = 8;
const TYPE_LETTER = 7.2;
const LABEL_LETTER = 6.4;
const MAX_STEP_WIDTH = 252;
/** Room for the icon, and for a status after the type. */
const STEP_MARGIN = 52;
const STATUS_LETTERS = 14;

/**
 * Places the steps of a graph; a loop is a box with its children inside. Pure: the same graph gives the same picture.
 *
 * Each loop is laid out first and then becomes one large node of the surrounding graph. Edges then end at its border;
 * dagre's own nested graphs cannot have edges.
 */
export function layOut(graph: Graph, options: { dagre: Dagre; direction: Direction }): GraphLayout {
  return layScope(graph, { ...options, prefix: '', depth: 0 });
}

interface Scope {
  readonly dagre: Dagre;
  readonly direction: Direction;
  readonly prefix: string;
  readonly depth: number;
}

function layScope(graph: Graph, scope: Scope): GraphLayout {
  const { dagre, direction, prefix, depth } = scope;
  const plan = new dagre.Graph({ multigraph: false });
  plan.setGraph({ rankdir: direction, nodesep: 26, ranksep: 44, edgesep: 14, marginx: 2, marginy: 2 });
  plan.setDefaultEdgeLabel(() => ({}));
  const inner = new Map<string, GraphLayout>();
  for (const [stepKey, step] of byKey(graph)) {
    const own = sizeOf(stepKey, step);
    if (step.steps === undefined) {
      plan.setNode(idOf(stepKey), own);
      continue;
    }
    const children = layScope(step.steps, { ...scope, prefix: `${prefix}${stepKey}.`, depth: depth + 1 });
    inner.set(stepKey, children);
    const width = Math.max(own.width, children.width + 2 * LOOP_PADDING);
    plan.setNode(idOf(stepKey), { width, height: children.height + LOOP_HEADER + LOOP_PADDING });
  }
  // dagre breaks ties in the order of nodes, but in the reverse order of edges.
  for (const { from, to, edge } of edgesOf(graph).reverse()) plan.setEdge(idOf(from), idOf(to), labelSize(edge, from));
  dagre.layout(plan);

  const steps = byKey(graph).flatMap(([stepKey, step]): LaidStep[] => {
    const { x, y, width, height } = plan.node(idOf(stepKey));
    const box = { x: x - width / 2, y: y - height / 2, width, height };
    const children = inner.get(stepKey)?.steps ?? [];
    const corner = innerCorner(box);
    return [{ path: prefix + stepKey, stepKey, step, depth, ...box }, ...children.map((child) => moved(child, corner))];
  });
  const boxes = new Map(steps.map((step) => [step.path, step]));
  const edges = edgesOf(graph).map(({ from, to, edge }): LaidEdge => {
    const { points = [], x = 0, y = 0 } = plan.edge(idOf(from), idOf(to));
    const text = edgeLabel(edge, from);
    const { width, height } = labelSize(edge, from);
    const label = text === null ? null : { text, box: { x: x - width / 2, y: y - height / 2, width, height } };
    return { from: prefix + from, to: prefix + to, edge, points, label };
  });
  const innerEdges = [...inner].flatMap(([stepKey, { edges: own }]) => {
    const box = boxes.get(prefix + stepKey);
    return box === undefined ? [] : own.map((edge) => movedEdge(edge, innerCorner(box)));
  });
  const { width = 0, height = 0 } = plan.graph();
  return { width, height, steps, edges: [...edges, ...innerEdges] };
}

/** dagre keeps nodes as members of plain objects, where a key such as `constructor` has another meaning. */
const idOf = (stepKey: string) => `step ${stepKey}`;

/** Siblings have no order but that of their keys. */
const byKey = <Of>(named: Readonly<Record<string, Of>>) =>
  Object.entries(named).sort(([one], [other]) => (one < other ? -1 : 1));

function edgesOf(graph: Graph): { from: string; to: string; edge: GraphEdge }[] {
  return byKey(graph).flatMap(([to, { runAfter }]) =>
    byKey(runAfter)
      .filter(([from]) => Object.hasOwn(graph, from))
      .map(([from, edge]) => ({ from, to, edge })),
  );
}

function sizeOf(stepKey: string, { type }: GraphStep): { width: number; height: number } {
  const text = Math.max(stepKey.length * KEY_LETTER, (type.length + STATUS_LETTERS) * TYPE_LETTER);
  return { width: Math.min(Math.ceil(text) + STEP_MARGIN, MAX_STEP_WIDTH), height: STEP_HEIGHT };
}

function labelSize(edge: GraphEdge, from: string): { width: number; height: number; labelpos: string } {
  const text = edgeLabel(edge, from);
  if (text === null) return { width: 0, height: 0, labelpos: 'c' };
  return { width: Math.ceil(text.length * LABEL_LETTER) + 14, height: LABEL_LINE, labelpos: 'c' };
}

const innerCorner = ({ x, y }: Point): Point => ({ x: x + LOOP_PADDING, y: y + LOOP_HEADER });

const moved = <T extends Point>(place: T, by: Point): T => ({ ...place, x: place.x + by.x, y: place.y + by.y });

function movedEdge(edge: LaidEdge, by: Point): LaidEdge {
  const { points, label } = edge;
  return {
    ...edge,
    points: points.map((point) => moved(point, by)),
    label: label === null ? null : { ...label, box: moved(label.box, by) },
  };
}

/** Smaller letters are unreadable. */
const LEAST_SCALE = 0.72;
const NARROW = 560;
/** Left to right reads best, even if a part of the picture must be scrolled to. */
const MOST_OVERFLOW = 1.5;

/** Lays out from left to right, or from top to bottom if only the former would need much scrolling. */
export function chooseLayout(graph: Graph, dagre: Dagre, width: number): GraphLayout {
  if (width < NARROW) return layOut(graph, { dagre, direction: 'TB' });
  const across = layOut(graph, { dagre, direction: 'LR' });
  if (across.width * LEAST_SCALE <= width * MOST_OVERFLOW) return across;
  const down = layOut(graph, { dagre, direction: 'TB' });
  return down.width * LEAST_SCALE <= width ? down : across;
}

/** The scale at which a picture fits its frame, within the readable range; never above 1. */
export function fittingScale({ width }: { width: number }, frameWidth: number): number {
  return Math.min(1, Math.max(LEAST_SCALE, frameWidth / Math.max(1, width)));
}

/** An SVG path through the points of an edge, with rounded corners. */
export function pathData(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (first === undefined) return '';
  const last = rest.at(-1);
  if (last === undefined) return `M${at(first)}`;
  // Each corner is the control point of a curve between the midpoints of its sides.
  const corners = rest.slice(0, -1).map((corner, index) => {
    const next = rest[index + 1] ?? last;
    return `Q${at(corner)} ${at({ x: (corner.x + next.x) / 2, y: (corner.y + next.y) / 2 })}`;
  });
  return [`M${at(first)}`, ...corners, `L${at(last)}`].join('');
}

const at = ({ x, y }: Point) => `${round(x)},${round(y)}`;
const round = (value: number) => Math.round(value * 10) / 10;

export const ARROWS = ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown'] as const;
type ArrowKey = (typeof ARROWS)[number];

/**
 * The step that an arrow key leads to: the nearest whose centre lies in that direction. Sideways distance counts
 * double. Undefined if there is none.
 */
export function neighbour<T extends Box>(from: Box, key: ArrowKey, all: readonly T[]): T | undefined {
  const isAcross = key === 'ArrowLeft' || key === 'ArrowRight';
  const sign = key === 'ArrowRight' || key === 'ArrowDown' ? 1 : -1;
  let nearest: T | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const other of all) {
    const dx = middleX(other) - middleX(from);
    const dy = middleY(other) - middleY(from);
    const ahead = sign * (isAcross ? dx : dy);
    const aside = Math.abs(isAcross ? dy : dx);
    if (ahead < 1 || ahead + 2 * aside >= least) continue;
    nearest = other;
    least = ahead + 2 * aside;
  }
  return nearest;
}

const middleX = ({ x, width }: Box) => x + width / 2;
const middleY = ({ y, height }: Box) => y + height / 2;
