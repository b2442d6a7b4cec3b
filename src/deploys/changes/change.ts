import { formatPath, type JsonPath } from '../../expressions/json-path.ts';
import { shownSnapshot } from '../../manifest/secrets.ts';
import type { Finding, LiveFlow } from '../../model/finding.ts';
import type { Json } from '../../model/json.ts';
import type { Graph, Manifest, StepDefinition, Trigger } from '../../model/manifest.ts';
import { findRenames, withRenames } from './renames.ts';

/** Two revisions of a flow and what is live of it, as the rules look at them. */
export interface Change {
  readonly before: Manifest;
  readonly after: Manifest;
  readonly live: LiveFlow;
  readonly retentionDays: number;
  /** The flow's own graph, then those of the loops that both revisions have. */
  readonly graphs: readonly GraphChange[];
}

/** The steps of one scope before and after. */
export interface GraphChange {
  /** Where the graph stands in the manifest. */
  readonly path: JsonPath;
  readonly before: Graph;
  readonly after: Graph;
  /** Old key to new key of steps that only changed their name. */
  readonly renames: ReadonlyMap<string, string>;
  /** Key of the outermost loop around; null for the flow's own graph. */
  readonly loopKey: string | null;
  /** Steps that both sides have under one key. */
  readonly kept: readonly StepChange[];
}

export interface StepChange {
  readonly stepKey: string;
  readonly path: JsonPath;
  readonly before: StepDefinition;
  /** Its edges and conditions with the new names of renamed steps: what is left to differ is a change of its own. */
  readonly renamed: StepDefinition;
  readonly after: StepDefinition;
  /** The step by whose record a run says where it stands: the outermost loop around, or the step itself. */
  readonly recordKey: string;
}

/** Finds one kind of difference. Pure. */
export type ChangeRule = (change: Change) => readonly Finding[];

/** Snapshots were written from loaded manifests, so their form is known. */
export function readChange(input: { before: Json; after: Json; live: LiveFlow; retentionDays: number }): Change {
  const before = shownSnapshot(input.before) as unknown as Manifest;
  const after = shownSnapshot(input.after) as unknown as Manifest;
  const top = { path: ['steps'], before: before.steps, after: after.steps, loopKey: null };
  return { before, after, live: input.live, retentionDays: input.retentionDays, graphs: graphChanges(top) };
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

export function ownStep(graph: Graph, stepKey: string): StepDefinition | undefined {
  return Object.hasOwn(graph, stepKey) ? graph[stepKey] : undefined;
}

/** Keys of steps that only one side has, renamed ones left out. */
export function removedKeys({ before, after, renames }: GraphChange): string[] {
  return Object.keys(before).filter((key) => ownStep(after, key) === undefined && !renames.has(key));
}

export function addedKeys({ before, after, renames }: GraphChange): string[] {
  const renamed = new Set(renames.values());
  return Object.keys(after).filter((key) => ownStep(before, key) === undefined && !renamed.has(key));
}

/** Triggers that both revisions have under one key. */
export function keptTriggers({ before, after }: Change): { key: string; before: Trigger; after: Trigger }[] {
  return Object.entries(before.triggers).flatMap(([key, trigger]) => {
    const other = Object.hasOwn(after.triggers, key) ? after.triggers[key] : undefined;
    return other === undefined ? [] : [{ key, before: trigger, after: other }];
  });
}

/** A finding with its path written out. */
export function findingAt(path: JsonPath, finding: Omit<Finding, 'path'>): Finding {
  return { ...finding, path: formatPath(path) };
}

export const DRAIN =
  'Drain the flow first: pause its cron triggers, hold its webhook triggers, wait until no run of it is in flight.';
