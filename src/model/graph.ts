import type { Graph } from './manifest.ts';
import { oncePer } from './once-per.ts';
import { wire } from './planner.ts';

const wired = oncePer(wire);

/** Keys of the steps that run after a step, in the order of the graph. */
export function downstreamKeys(graph: Graph, stepKey: string): readonly string[] {
  return wired(graph)[stepKey]?.downstream.map(([key]) => key) ?? [];
}

/** Keys of all steps, each after its upstream steps. Leaves out the steps of a cycle, and those behind one. */
export function inOrder(graph: Graph): string[] {
  const left = new Map<string, number>();
  const ordered: string[] = [];
  for (const [key, { runAfter }] of Object.entries(graph)) {
    const upstreams = Object.keys(runAfter).filter((upstream) => Object.hasOwn(graph, upstream)).length;
    if (upstreams === 0) ordered.push(key);
    else left.set(key, upstreams);
  }
  // The list grows during the loop.
  for (const key of ordered) {
    for (const next of downstreamKeys(graph, key)) {
      const upstreams = (left.get(next) ?? 0) - 1;
      left.set(next, upstreams);
      if (upstreams === 0) ordered.push(next);
    }
  }
  return ordered;
}

/** Whether a step starts only after another has ended. Always true for steps of a cycle, where order is undefined. */
export type RunsAfter = (stepKey: string, upstream: string) => boolean;

/** A bit for each pair of steps: 12 MB for the largest manifest. A walk per reference took 20 s for 8000 of them. */
export function createRunsAfter(graph: Graph): RunsAfter {
  let rows: ReadonlyMap<string, Uint32Array> | undefined;
  const places = new Map(Object.keys(graph).map((key, at) => [key, at]));
  return (stepKey, upstream) => {
    if (Object.hasOwn(graph[stepKey]?.runAfter ?? {}, upstream)) return true;
    rows ??= readRows(graph, places);
    const row = rows.get(stepKey);
    if (row === undefined) return true;
    const place = places.get(upstream);
    return place !== undefined && ((row[place >>> 5] ?? 0) & (1 << (place & 31))) !== 0;
  };
}

function readRows(graph: Graph, places: ReadonlyMap<string, number>): ReadonlyMap<string, Uint32Array> {
  const rows = new Map<string, Uint32Array>();
  for (const stepKey of inOrder(graph)) {
    const row = new Uint32Array(Math.ceil(places.size / 32));
    for (const upstream of Object.keys(graph[stepKey]?.runAfter ?? {})) {
      const place = places.get(upstream);
      if (place === undefined) continue;
      rows.get(upstream)?.forEach((word, at) => {
        row[at] = (row[at] ?? 0) | word;
      });
      row[place >>> 5] = (row[place >>> 5] ?? 0) | (1 << (place & 31));
    }
    rows.set(stepKey, row);
  }
  return rows;
}
