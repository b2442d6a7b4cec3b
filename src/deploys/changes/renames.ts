import { mapStrings } from '../../expressions/map-strings.ts';
import { isSame } from '../../manifest/diff.ts';
import type { Json } from '../../model/json.ts';
import type { Edge, Graph, StepDefinition } from '../../model/manifest.ts';
import { jsonOf } from './json-of.ts';

/**
 * Old key to new key of steps that are the same step under another name: same definition, same upstream, and the same
 * steps after it. Renames in a chain are found from its head.
 */
export function findRenames(before: Graph, after: Graph): ReadonlyMap<string, string> {
  const renames = new Map<string, string>();
  // Sorted, so that of steps that are alike the same ones are paired in whatever order the manifest has them.
  const gone = onlyIn(before, after).sort();
  const fresh = new Set(onlyIn(after, before).sort());
  if (fresh.size === 0) return renames;
  for (let isSettled = false; !isSettled; ) {
    isSettled = true;
    for (const oldKey of gone.filter((key) => !renames.has(key))) {
      const newKey = [...fresh].find((key) => isRenamed({ before, after, renames }, oldKey, key));
      if (newKey === undefined) continue;
      renames.set(oldKey, newKey);
      fresh.delete(newKey);
      isSettled = false;
    }
  }
  return renames;
}

function onlyIn(graph: Graph, other: Graph): string[] {
  return Object.keys(graph).filter((key) => !Object.hasOwn(other, key));
}

interface Search {
  readonly before: Graph;
  readonly after: Graph;
  readonly renames: ReadonlyMap<string, string>;
}

function isRenamed({ before, after, renames }: Search, oldKey: string, newKey: string): boolean {
  const one = before[oldKey];
  const other = after[newKey];
  if (one === undefined || other === undefined) return false;
  const renamed = { ...withRenames(one, renames), inputs: renameReferences(one.inputs, renames) };
  if (!isSame(jsonOf(renamed), jsonOf(other))) return false;
  // Who ran after it runs after its new name; a step of which only one side knows says nothing about that.
  const next = downstreamKeys(before, oldKey).filter((key) => Object.hasOwn(after, key));
  const nextAfter = downstreamKeys(after, newKey).filter((key) => Object.hasOwn(before, key));
  return next.length === nextAfter.length && next.every((key) => nextAfter.includes(key));
}

export function downstreamKeys(graph: Graph, stepKey: string): string[] {
  return Object.entries(graph).flatMap(([key, { runAfter }]) => (Object.hasOwn(runAfter, stepKey) ? [key] : []));
}

/** A step with the new names in its edges, conditions and items; its inputs are left alone. */
export function withRenames(step: StepDefinition, renames: ReadonlyMap<string, string>): StepDefinition {
  if (renames.size === 0) return step;
  const edges = Object.entries(step.runAfter).map(([key, edge]): [string, Edge] => {
    const when = edge.when === undefined ? {} : { when: renameText(edge.when, renames) };
    return [renames.get(key) ?? key, { ...edge, ...when }];
  });
  const items = step.forEach === undefined ? {} : { forEach: renameReferences(step.forEach, renames) };
  return { ...step, ...items, runAfter: Object.fromEntries(edges) };
}

function renameReferences(value: Json, renames: ReadonlyMap<string, string>): Json {
  return mapStrings(value, (text) => renameText(text, renames));
}

function renameText(text: string, renames: ReadonlyMap<string, string>): string {
  return text.replace(/\bsteps(?:\.(\w+)|\["([\w-]+)"\])/g, (found, dotted?: string, quoted?: string) => {
    const name = dotted ?? quoted ?? '';
    const renamed = renames.get(name);
    if (renamed === undefined) return found;
    return /^[A-Za-z_]\w*$/.test(renamed) ? `steps.${renamed}` : `steps["${renamed}"]`;
  });
}
