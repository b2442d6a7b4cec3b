import {
  jsonOf,
  manifestsOf,
  type Revisions,
  renamedTriggers,
  type ServiceSettings,
} from '../../deploys/changes/revisions.ts';
import { type JsonPath, mapStrings } from '../../expressions/json-path.ts';
import type { Manifest, Trigger } from '../../manifest/schema.ts';
import type { WebhookInputs } from '../../manifest/webhook-fields.ts';
import type { Finding, LiveFlow } from '../../model/finding.ts';
import { downstreamKeys } from '../../model/graph.ts';
import { isJsonObject, type Json } from '../../model/json.ts';
import type { Edge, Graph, StepDefinition } from '../../model/manifest.ts';

/** Two revisions of a flow and its live state, the input of the rules. */
export interface Change {
  readonly before: Manifest;
  readonly after: Manifest;
  readonly live: LiveFlow;
  readonly settings: ServiceSettings;
  /** The flow's own graph, then those of the loops that both revisions have. */
  readonly graphs: readonly GraphChange[];
}

/** The steps of one scope before and after. */
export interface GraphChange {
  /** Path of the graph in the manifest. */
  readonly path: JsonPath;
  readonly before: Graph;
  readonly after: Graph;
  /** Old key to new key of steps that were only renamed. */
  readonly renames: ReadonlyMap<string, string>;
  /** Key of the outermost loop around it; null for the flow's own graph. */
  readonly loopKey: string | null;
  /** Steps with the same key on both sides. */
  readonly kept: readonly StepChange[];
}

export interface StepChange {
  readonly stepKey: string;
  readonly path: JsonPath;
  readonly before: StepDefinition;
  /** `before` with renamed steps replaced in edges and conditions, so that the rest is separate changes. */
  readonly renamed: StepDefinition;
  readonly after: StepDefinition;
  /** The step whose record shows where a run is: the outermost loop around it, or the step itself. */
  readonly recordKey: string;
}

/** Finds one kind of difference. Pure. */
export type ChangeRule = (change: Change) => readonly Finding[];

export function readChange({ live, settings, ...snapshots }: Revisions): Change {
  const { before, after } = manifestsOf(snapshots);
  const top = { path: ['steps'], before: before.steps, after: after.steps, loopKey: null };
  return { before, after, live, settings, graphs: graphChanges(top) };
}

function graphChanges(scope: Pick<GraphChange, 'path' | 'before' | 'after' | 'loopKey'>): GraphChange[] {
  const { path, before, after, loopKey } = scope;
  const renames = findRenames(before, after);
  const kept = Object.entries(before).flatMap(([stepKey, step]): StepChange[] => {
    const other = ownStep(after, stepKey);
    if (other === undefined) return [];
    const renamed = withRenames(step, renames);
    return [{ stepKey, path: [...path, stepKey], before: step, renamed, after: other, recordKey: loopKey ?? stepKey }];
  });
  const inner = kept.flatMap(({ stepKey, before: one, after: other }) => {
    if (one.steps === undefined || other.steps === undefined) return [];
    const innerPath = [...path, stepKey, 'steps'];
    return graphChanges({ path: innerPath, before: one.steps, after: other.steps, loopKey: loopKey ?? stepKey });
  });
  return [{ ...scope, renames, kept }, ...inner];
}

/**
 * Old key to new key of renamed steps: same definition, same upstream, and same downstream steps. Renames in a chain
 * are found from its head.
 */
function findRenames(before: Graph, after: Graph): ReadonlyMap<string, string> {
  const renames = new Map<string, string>();
  // Sorted, so that equal steps are paired in the same way, whatever their order in the manifest.
  const gone = onlyIn(before, after).sort();
  const candidates = new Map<string, string[]>();
  for (const key of onlyIn(after, before).sort()) {
    const look = looksOf(after, key, { others: before, renames });
    addTo(candidates, look, key);
  }
  // Renaming a step changes the text of the steps that name it.
  const namedBy = new Map<string, string[]>();
  for (const key of gone) {
    for (const name of namesIn(before[key])) addTo(namedBy, name, key);
  }
  for (let waiting: readonly string[] = gone; waiting.length > 0; ) {
    const changed = new Set<string>();
    for (const oldKey of waiting) {
      if (renames.has(oldKey)) continue;
      const newKey = candidates.get(looksOf(before, oldKey, { others: after, renames }))?.shift();
      if (newKey === undefined) continue;
      renames.set(oldKey, newKey);
      for (const key of namedBy.get(oldKey) ?? []) changed.add(key);
    }
    waiting = [...changed].sort();
  }
  return renames;
}

function onlyIn(graph: Graph, other: Graph): string[] {
  return Object.keys(graph).filter((key) => !Object.hasOwn(other, key));
}

function addTo(lists: Map<string, string[]>, name: string, key: string): void {
  const list = lists.get(name);
  if (list === undefined) lists.set(name, [key]);
  else list.push(key);
}

/** The same text for equal steps. */
function looksOf(
  graph: Graph,
  stepKey: string,
  { others, renames }: { readonly others: Graph; readonly renames: ReadonlyMap<string, string> },
): string {
  const step = graph[stepKey];
  if (step === undefined) return '';
  const renamed =
    renames.size === 0 ? step : { ...withRenames(step, renames), inputs: renameReferences(step.inputs, renames) };
  // Downstream steps may have new names too; ones that only one side has prove nothing.
  const next = downstreamKeys(graph, stepKey).filter((key) => Object.hasOwn(others, key));
  return textOf({ renamed, next: [...next].sort() });
}

/** JSON with sorted keys. */
function textOf(value: object): string {
  return JSON.stringify(value, (_key, inner: Json) =>
    isJsonObject(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([one], [other]) => (one < other ? -1 : 1)))
      : inner,
  );
}

/** Keys of upstream steps, and of steps that it may read. */
function namesIn(step: StepDefinition | undefined): ReadonlySet<string> {
  const names = new Set(Object.keys(step?.runAfter ?? {}));
  mapStrings(step === undefined ? null : jsonOf(step), (text) => {
    for (const [, dotted, quoted] of text.matchAll(STEP_NAME)) names.add(dotted ?? quoted ?? '');
    return text;
  });
  return names;
}

/** A step with the new names in its edges, conditions and items, but not in its inputs. */
function withRenames(step: StepDefinition, renames: ReadonlyMap<string, string>): StepDefinition {
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

const STEP_NAME = /\bsteps(?:\.(\w+)|\["([\w-]+)"\])/g;

function renameText(text: string, renames: ReadonlyMap<string, string>): string {
  return text.replace(STEP_NAME, (found, dotted?: string, quoted?: string) => {
    const name = dotted ?? quoted ?? '';
    const renamed = renames.get(name);
    if (renamed === undefined) return found;
    return /^[A-Za-z_]\w*$/.test(renamed) ? `steps.${renamed}` : `steps["${renamed}"]`;
  });
}

export function ownStep(graph: Graph, stepKey: string): StepDefinition | undefined {
  return Object.hasOwn(graph, stepKey) ? graph[stepKey] : undefined;
}

/** Triggers with the same key in both revisions. */
export function keptTriggers({ before, after }: Change): { key: string; before: Trigger; after: Trigger }[] {
  return Object.entries(before.triggers).flatMap(([key, trigger]) => {
    const other = Object.hasOwn(after.triggers, key) ? after.triggers[key] : undefined;
    return other === undefined ? [] : [{ key, before: trigger, after: other }];
  });
}

/** Triggers of both revisions, under the new key if they were renamed. */
export function triggerPairs(change: Change): ReturnType<typeof keptTriggers> {
  const renamed = [...renamedTriggers(change)].flatMap(([oldKey, key]) => {
    const before = change.before.triggers[oldKey];
    const after = change.after.triggers[key];
    return before === undefined || after === undefined ? [] : [{ key, before, after }];
  });
  return [...keptTriggers(change), ...renamed];
}

/** The inputs of a webhook trigger before and after, under its new key if it was renamed. */
export interface WebhookPair {
  readonly key: string;
  readonly before: WebhookInputs;
  readonly after: WebhookInputs;
}

export function webhookPairs(change: Change): WebhookPair[] {
  return triggerPairs(change).flatMap(({ key, before, after }) =>
    before.type === 'webhook' && after.type === 'webhook' ? [{ key, before: before.inputs, after: after.inputs }] : [],
  );
}
