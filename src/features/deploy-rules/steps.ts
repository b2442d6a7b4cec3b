import { DRAIN, findingAt, jsonOf } from '../../deploys/changes/revisions.ts';
import { mapStrings } from '../../expressions/json-path.ts';
import { hasPlaceholder } from '../../expressions/template.ts';
import { MASK } from '../../manifest/mask.ts';
import { DAY_MS } from '../../model/clock.ts';
import type { Finding } from '../../model/finding.ts';
import { downstreamKeys, inOrder } from '../../model/graph.ts';
import type { Json, JsonObject } from '../../model/json.ts';
import type { Edge, Graph, StepDefinition } from '../../model/manifest.ts';
import { oncePer, setOf } from '../../model/once-per.ts';
import { isGuarded, isIdle } from '../../model/retired.ts';
import { type Change, type ChangeRule, type GraphChange, ownStep } from './change.ts';
import { whereRunsAre } from './live-runs.ts';
import { stepsReadBy } from './step-fields.ts';

/** A new step is inserted if existing steps wait for it; otherwise it is added. */
const stepAdded: ChangeRule = (change) =>
  change.graphs.flatMap((graph) => addedKeys(graph).map((key) => judgeAdded(change, graph, key)));

function judgeAdded({ live }: Change, graph: GraphChange, key: string): Finding {
  const { loopKey, path, after } = graph;
  const place = [...path, key];
  const found = { after: jsonOf(after[key]) };
  const waiting = oldStepsBehind(graph, key);
  if (waiting.length > 0) {
    const names = waiting.map((each) => `\`${each}\``).join(', ');
    return findingAt(place, {
      ...found,
      rule: 'step-inserted',
      class: 'caution',
      message: `The new step \`${key}\` was inserted into an existing path: ${names} ${waiting.length === 1 ? 'waits' : 'wait'} for it.`,
      consequence:
        `Runs in flight are pinned to the revision that they started with: they continue without \`${key}\`, and nothing ` +
        'else changes for them. Runs that start after the deploy have it, so runs differ for a while.',
      advice: `${DRAIN} If runs in flight may miss the step, allow the caution.`,
      live: whereRunsAre(live, loopKey === null ? waiting.map((each) => oldKeyOf(graph, each)) : [loopKey]),
    });
  }
  if (loopKey === null && hasHistory(live, key)) {
    return findingAt(place, {
      ...found,
      rule: 'step-key-reused',
      class: 'caution',
      message: `The new step \`${key}\` has the key of an earlier step of which stored runs have records.`,
      consequence:
        'Records of two different steps then share one key. A run in flight whose own revision has the earlier step keeps its ' +
        'type and wiring, and takes the inputs of the new one if it starts it.',
      advice: `Give the step a key that was not used before. ${DRAIN}`,
      live: whereRunsAre(live, [key]),
    });
  }
  return findingAt(place, {
    ...found,
    rule: 'step-added',
    class: 'safe',
    message: `The step \`${key}\` is new, and no existing step waits for it.`,
    consequence: 'Runs in flight are pinned to their revision and end without it; runs that start from now on have it.',
  });
}

/** The most waiting steps that are listed for an inserted step. */
const MAX_WAITING = 20;

/** Steps of both revisions that wait for the new one, directly or through other new steps; the first of many. */
const oldStepsBehind = (graph: GraphChange, newKey: string): readonly string[] => stepsBehind(graph).get(newKey) ?? [];

const stepsBehind = oncePer(({ after, before, renames }: GraphChange): ReadonlyMap<string, readonly string[]> => {
  const old = new Set([...Object.keys(before), ...renames.values()]);
  const found = new Map<string, readonly string[]>();
  for (const key of inOrder(after).reverse()) {
    if (old.has(key)) continue;
    const next = downstreamKeys(after, key).flatMap((each) => (old.has(each) ? [each] : (found.get(each) ?? [])));
    found.set(key, [...new Set(next)].slice(0, MAX_WAITING));
  }
  return found;
});

/** Runs in flight know a renamed step by its old key. */
const oldKeyOf = (graph: GraphChange, key: string): string => oldKeys(graph).get(key) ?? key;

const oldKeys = oncePer(
  ({ renames }: GraphChange) => new Map([...renames].map(([oldKey, newKey]) => [newKey, oldKey])),
);

/** Keys of steps that only one side has, without renamed ones. */
function removedKeys({ before, after, renames }: GraphChange): string[] {
  return Object.keys(before).filter((key) => ownStep(after, key) === undefined && !renames.has(key));
}

function addedKeys({ before, after, renames }: GraphChange): string[] {
  const renamed = new Set(renames.values());
  return Object.keys(after).filter((key) => ownStep(before, key) === undefined && !renamed.has(key));
}

/** A step without a record in any run can be removed; one with history has to stay readable. */
const stepRemoved: ChangeRule = (change) =>
  change.graphs.flatMap((graph) => removedKeys(graph).map((key) => judgeRemoved(change, graph, key)));

function judgeRemoved(change: Change, graph: GraphChange, key: string): Finding {
  const { live } = change;
  const recordKey = graph.loopKey ?? key;
  const found = { before: jsonOf(graph.before[key]), live: whereRunsAre(live, [recordKey]) };
  const pinned =
    `Runs in flight are pinned to their revision: they still run \`${key}\`, with its inputs from there, except ` +
    'plain-text secrets of the manifest: those are not stored, and a step that needs one fails.';
  if (!hasHistory(live, recordKey)) {
    return findingAt([...graph.path, key], {
      ...found,
      rule: 'step-removed',
      class: 'caution',
      message: `The step \`${key}\` was removed; no stored run did anything in it.`,
      consequence: `${lossOf(graph, key)} ${pinned} They would leave records under a key that no manifest explains.`,
      advice: DRAIN,
    });
  }
  const recipe = removedStepRecipe(change, graph, { oldKey: key });
  return findingAt([...graph.path, key], {
    ...found,
    rule: 'step-removed',
    class: 'breaking',
    message:
      graph.loopKey === null
        ? `The step \`${key}\` was removed, and stored runs have records of it.`
        : `The step \`${key}\` of the loop \`${graph.loopKey}\` was removed, and stored runs have records of that loop.`,
    consequence:
      `The manifest would no longer explain the records under \`${key}\`, a re-run of such a run would leave the step out, ` +
      `and records of a later step with the same key would mix with them. ${pinned}`,
    advice: 'Keep the step but make it do nothing, as the recipe describes, until retention has deleted its last run.',
    recipe,
  });
}

const hasHistory = ({ stepsWithHistory }: Change['live'], key: string): boolean => setOf(stepsWithHistory).has(key);

function lossOf({ before }: GraphChange, key: string): string {
  const step = before[key];
  const isRetired = step !== undefined && (isGuarded(step) || isIdle(before, key));
  return isRetired ? 'Records that say that it was skipped, or did nothing, are left alone.' : 'No history is lost.';
}

const stepRenamed: ChangeRule = (change) =>
  change.graphs.flatMap((graph) =>
    [...graph.renames].map(([oldKey, newKey]) => judgeRenamed(change, graph, { oldKey, newKey })),
  );

function judgeRenamed(change: Change, graph: GraphChange, names: { oldKey: string; newKey: string }): Finding {
  const { oldKey, newKey } = names;
  const { live } = change;
  const recordKey = graph.loopKey ?? oldKey;
  const found = {
    rule: 'step-renamed',
    before: oldKey,
    after: newKey,
    message: `The step \`${oldKey}\` was renamed to \`${newKey}\` and is otherwise the same.`,
    live: whereRunsAre(live, [recordKey]),
  };
  const pinned = `Runs in flight are pinned to their revision: they continue with \`${oldKey}\` and its inputs from there.`;
  if (!hasHistory(live, recordKey)) {
    return findingAt([...graph.path, oldKey], {
      ...found,
      class: 'caution',
      consequence: `No stored run has a record of \`${oldKey}\`, so no history is lost. ${pinned} They would leave records under it.`,
      advice: DRAIN,
    });
  }
  return findingAt([...graph.path, oldKey], {
    ...found,
    class: 'breaking',
    consequence:
      `The key is part of the stored runs: their records stay under \`${oldKey}\`, which no manifest would explain. ` +
      `A retry or re-run finds nothing under the new key. ${pinned}`,
    advice:
      'Keep the old key next to the new one, disabled, as the recipe describes, until retention has deleted its last run.',
    recipe: removedStepRecipe(change, graph, names),
  });
}

export const stepRules: readonly ChangeRule[] = [stepRemoved, stepRenamed, stepAdded];

/**
 * Keeps the key of a removed or renamed step, so that runs end as they would without it. A step with upstream steps
 * gets false conditions. An entry step, or a step whose skipping would end runs as Skipped, does nothing instead. Also
 * keeps the steps that it ran after, if those were removed too.
 */
function removedStepRecipe(
  { live, settings }: Pick<Change, 'live' | 'settings'>,
  graph: GraphChange,
  { oldKey, newKey }: { oldKey: string; newKey?: string },
): NonNullable<Finding['recipe']> {
  const kept = keptSteps(graph, oldKey);
  if (kept === undefined) {
    const title = `Remove the steps in parts, the last ones first`;
    const why = `\`${oldKey}\` would be kept with more than ${MAX_KEPT} other steps that it runs after or reads, too many for one recipe.`;
    return { title, steps: [`${why} Put all of them back, and remove those that no other step runs after.`] };
  }
  const lastRun = live.lastRunOfStep[graph.loopKey ?? oldKey];
  const removableFrom =
    lastRun === undefined ? undefined : new Date(lastRun + settings.runRetentionDays * DAY_MS).toISOString();
  const placing = newKey === undefined ? 'Put' : `Leave \`${newKey}\` as it is, and put`;
  const steps = [
    `${placing} \`${oldKey}\` back into the manifest, ${howKept(kept[oldKey])}: the patch does that.`,
    ...loopOutput(graph, oldKey),
    ...alsoKept(kept, oldKey),
    ...secretsToRestore(kept),
    'Drain the flow and deploy: keeping the step in this way is itself a caution.',
    whenToRemove(graph, oldKey, removableFrom),
  ];
  return {
    title:
      newKey === undefined ? `Keep \`${oldKey}\`, but make it do nothing` : `Keep \`${oldKey}\` next to \`${newKey}\``,
    steps,
    patch: patchAt(graph.path, jsonOf(kept)),
    ...(removableFrom === undefined ? {} : { removableFrom }),
  };
}

function howKept(step: StepDefinition | undefined): string {
  const [upstream] = Object.entries(step?.runAfter ?? {});
  if (upstream === undefined) return 'with the type NoOp';
  if (upstream[1].when === 'false') return 'with the condition "false" on what it runs after';
  return `with the type NoOp after \`${upstream[0]}\` (a condition would skip it, and every run would end as Skipped)`;
}

function loopOutput({ before, loopKey }: GraphChange, oldKey: string): string[] {
  if (loopKey === null || downstreamKeys(before, oldKey).length > 0) return [];
  return [
    `Check what reads the output of the loop \`${loopKey}\`: an iteration leaves the output of its last steps, and ` +
      `\`${oldKey}\`, which leaves null, is one of them while it is kept.`,
  ];
}

function whenToRemove({ loopKey }: GraphChange, oldKey: string, removableFrom: string | undefined): string {
  if (removableFrom === undefined) return `Remove \`${oldKey}\` when no stored run has a record of it.`;
  const when = `Remove \`${oldKey}\` when the runs that ran it have expired, not before ${removableFrom}`;
  // History is known only for top-level steps: a loop has some from its first run on.
  return loopKey === null
    ? `${when}.`
    : `${when}; of a step in a loop that cannot be checked, so allow it with --allow breaking.`;
}

/** Nobody reads a longer recipe, and each step of a removed chain would carry all steps that it ran after. */
const MAX_KEPT = 50;

const echoesOf = oncePer(findEchoes);

/** The step and all removed steps that it ran after or reads, transitively; undefined if there are too many. */
function keptSteps(graph: GraphChange, oldKey: string): Record<string, StepDefinition> | undefined {
  const retiredStep = retiredStepsOf(graph);
  const kept: Record<string, StepDefinition> = {};
  const waiting = [oldKey];
  for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
    const retired = Object.hasOwn(kept, key) ? undefined : retiredStep(key);
    if (retired === undefined) continue;
    kept[key] = retired.step;
    if (Object.keys(kept).length > MAX_KEPT) return undefined;
    waiting.push(...retired.needed);
  }
  return kept;
}

interface RetiredStep {
  readonly step: StepDefinition;
  /** Removed steps that it ran after or reads. */
  readonly needed: readonly string[];
}

/** By key. In a removed chain, up to fifty others ask for each step, so it is retired only once. */
const retiredStepsOf = oncePer((graph: GraphChange) => {
  const echoes = echoesOf(graph);
  const known = new Map<string, RetiredStep>();
  return (key: string): RetiredStep | undefined => {
    const before = ownStep(graph.before, key);
    const retired = known.get(key);
    if (before === undefined || retired !== undefined) return retired;
    const step = retire(before, echoes.get(key));
    const needed = [...Object.keys(step.runAfter), ...stepsReadBy(step)];
    const made = { step, needed: needed.filter((other) => ownStep(graph.after, other) === undefined) };
    known.set(key, made);
    return made;
  };
});

/**
 * The steps that must not be skipped, each with the step whose end it repeats. A run is Skipped when all its leaves
 * are: a guarded step after a leaf would become the leaf, and every run would end as Skipped.
 */
function findEchoes({ before, after }: GraphChange): ReadonlyMap<string, string> {
  const echoes = new Map<string, string>();
  const isLeaf = (key: string) => ownStep(after, key) !== undefined && downstreamKeys(after, key).length === 0;
  // If the graph has no steps left, a run can succeed only by the retired entry steps.
  const isEmpty = Object.keys(after).length === 0;
  const isLastEntry = (key: string) => isEmpty && Object.keys(ownStep(before, key)?.runAfter ?? {}).length === 0;
  const gone = Object.entries(before).filter(([key]) => ownStep(after, key) === undefined);
  const isGone = new Set(gone.map(([key]) => key));
  // The list grows during the loop: a step after one that must not be skipped must not be skipped either.
  const waiting = [...isGone];
  for (const key of waiting) {
    if (echoes.has(key)) continue;
    const upstream = Object.keys(before[key]?.runAfter ?? {});
    const repeated = upstream.find(isLeaf) ?? upstream.find((other) => echoes.has(other) || isLastEntry(other));
    if (repeated === undefined) continue;
    echoes.set(key, repeated);
    waiting.push(...downstreamKeys(before, key).filter((next) => isGone.has(next) && !echoes.has(next)));
  }
  return echoes;
}

/** Guards the step by conditions, unless it is an entry step or repeats another's end. */
function retire(step: StepDefinition, repeated: string | undefined): StepDefinition {
  const isEntry = Object.keys(step.runAfter).length === 0;
  // One edge without a condition: the step succeeds if the other did, and handles no failure.
  if (repeated !== undefined) {
    return { type: 'NoOp', inputs: idleInputs(step), runAfter: { [repeated]: { statuses: ['Succeeded'] } } };
  }
  if (isEntry) return { type: 'NoOp', inputs: marked(step, hasNull(jsonOf(step)) ? {} : step.inputs), runAfter: {} };
  const guarded = Object.entries(step.runAfter).map(([key, { statuses }]): [string, Edge] => {
    return [key, { statuses, when: 'false' }];
  });
  const runAfter = Object.fromEntries(guarded);
  // A merge patch reads null as a removal, so it cannot contain steps with a null.
  if (hasNull(jsonOf(step))) return { type: 'NoOp', inputs: {}, runAfter };
  // Type and inputs stay: runs in flight still read the inputs.
  return { ...step, runAfter };
}

/**
 * Without placeholders: the step now runs in cases where it did not, and an unresolvable placeholder would fail the
 * run.
 */
function idleInputs(step: StepDefinition): JsonObject {
  let isRendered = false;
  mapStrings(step.inputs, (text) => {
    isRendered ||= hasPlaceholder(text);
    return text;
  });
  return marked(step, isRendered || hasNull(jsonOf(step)) ? {} : step.inputs);
}

/** Marks a step that always was a NoOp: nothing else shows that it is retired. */
function marked({ type }: StepDefinition, inputs: JsonObject): JsonObject {
  return type === 'NoOp' ? { ...inputs, retired: true } : inputs;
}

function hasNull(value: Json): boolean {
  return value === null || (typeof value === 'object' && Object.values(value).some(hasNull));
}

function alsoKept(kept: Graph, oldKey: string): string[] {
  const others = Object.keys(kept).filter((key) => key !== oldKey);
  if (others.length === 0) return [];
  return [`The patch keeps ${others.map((key) => `\`${key}\``).join(', ')} too: the step runs after it, or reads it.`];
}

/** A secret written out in the manifest is in no snapshot, and so in no patch. */
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
  return [`Inputs of ${names} contain a secret that is not stored, shown as "${MASK}": use env:NAME or file:PATH.`];
}

function patchAt(path: GraphChange['path'], value: Json): Json {
  return path.reduceRight((inner, key) => ({ [key]: inner }), value);
}
