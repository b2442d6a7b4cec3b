import { mapStrings } from '../../expressions/map-strings.ts';
import type { Recipe } from '../../model/finding.ts';
import type { Json } from '../../model/json.ts';
import type { Edge, Graph, StepDefinition } from '../../model/manifest.ts';
import { type Change, type GraphChange, ownStep } from '../changes/change.ts';
import { jsonOf } from '../changes/json-of.ts';
import { stepsReadBy } from '../changes/steps-read.ts';
import { MASK } from '../mask-secrets.ts';

const DAY_MS = 86_400_000;

/**
 * Keeps the key of a step that is gone or renamed: a step with upstream is guarded by conditions that are false, an entry
 * step does nothing. What it ran after is kept too where that is gone as well, guarded in the same way.
 */
export function removedStepRecipe(
  { live, retentionDays }: Pick<Change, 'live' | 'retentionDays'>,
  graph: GraphChange,
  { oldKey, newKey }: { oldKey: string; newKey?: string },
): Recipe {
  const kept = keptSteps(graph, oldKey);
  const isEntry = Object.keys(kept[oldKey]?.runAfter ?? {}).length === 0;
  const lastRun = live.lastRunOfStep[graph.loopKey ?? oldKey];
  const removableFrom = lastRun === undefined ? undefined : new Date(lastRun + retentionDays * DAY_MS).toISOString();
  const how = isEntry ? 'with the type NoOp' : 'with the condition "false" on what it runs after';
  const beside = newKey === undefined ? 'Take' : `Leave \`${newKey}\` as it is, and take`;
  const steps = [
    `${beside} \`${oldKey}\` into the manifest again, ${how}: the patch does that.`,
    ...alsoKept(kept, oldKey),
    ...secretsToRestore(kept),
    'Drain the flow and deploy: the guard itself is a caution.',
    whenToRemove(graph, oldKey, removableFrom),
  ];
  return {
    title:
      newKey === undefined ? `Keep \`${oldKey}\`, and have it do nothing` : `Keep \`${oldKey}\` beside \`${newKey}\``,
    steps,
    patch: patchAt(graph.path, jsonOf(kept)),
    ...(removableFrom === undefined ? {} : { removableFrom }),
  };
}

function whenToRemove({ loopKey }: GraphChange, oldKey: string, removableFrom: string | undefined): string {
  if (removableFrom === undefined) return `Remove \`${oldKey}\` when no kept run has a record of it.`;
  const when = `Remove \`${oldKey}\` when the runs that ran it have expired, not before ${removableFrom}`;
  // History is known by top-level step: the loop around has some as long as it runs at all.
  return loopKey === null
    ? `${when}.`
    : `${when}; of a step in a loop that cannot be checked, so allow it with --allow breaking.`;
}

/** The step and, transitively, what it ran after or reads and the new manifest lacks. */
function keptSteps(graph: GraphChange, oldKey: string): Record<string, StepDefinition> {
  const kept: Record<string, StepDefinition> = {};
  const waiting = [oldKey];
  for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
    const step = ownStep(graph.before, key);
    if (step === undefined || Object.hasOwn(kept, key)) continue;
    const guarded = retired(step);
    kept[key] = guarded;
    const needed = [...Object.keys(step.runAfter), ...stepsReadBy(guarded)];
    waiting.push(...needed.filter((other) => ownStep(graph.after, other) === undefined));
  }
  return kept;
}

/** Type and inputs stay where a condition guards the step: runs in flight go on to read the inputs. */
function retired(step: StepDefinition): StepDefinition {
  const guarded = Object.entries(step.runAfter).map(([key, { statuses }]): [string, Edge] => {
    return [key, { statuses, when: 'false' }];
  });
  const runAfter = Object.fromEntries(guarded);
  // A merge patch takes null for a removal: what holds one cannot be written in it.
  if (hasNull(jsonOf(step))) return { type: 'NoOp', inputs: {}, runAfter };
  return guarded.length === 0 ? { type: 'NoOp', inputs: step.inputs, runAfter } : { ...step, runAfter };
}

function hasNull(value: Json): boolean {
  return value === null || (typeof value === 'object' && Object.values(value).some(hasNull));
}

function alsoKept(kept: Graph, oldKey: string): string[] {
  const others = Object.keys(kept).filter((key) => key !== oldKey);
  if (others.length === 0) return [];
  return [
    `The patch keeps ${others.map((key) => `\`${key}\``).join(', ')} in the same way: the step runs after it, or reads it.`,
  ];
}

/** A secret that was written out is in no snapshot, and so in no patch. */
function secretsToRestore(kept: Graph): string[] {
  const hasMask = (inputs: Json) => {
    let isFound = false;
    mapStrings(inputs, (text) => {
      isFound ||= text === MASK;
      return text;
    });
    return isFound;
  };
  const keys = Object.keys(kept).filter((key) => hasMask(kept[key]?.inputs ?? null));
  if (keys.length === 0) return [];
  const names = keys.map((key) => `\`${key}\``).join(', ');
  return [`Inputs of ${names} hold a secret that is not kept, shown as "${MASK}": name it by env:NAME or file:PATH.`];
}

function patchAt(path: GraphChange['path'], value: Json): Json {
  return path.reduceRight((inner, key) => ({ [key]: inner }), value);
}
