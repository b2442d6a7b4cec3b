import { isGuarded, isIdle } from '../../manifest/retired.ts';
import type { Finding } from '../../model/finding.ts';
import {
  type Change,
  type ChangeRule,
  DRAIN,
  downstreamKeys,
  findingAt,
  type GraphChange,
  jsonOf,
  ownStep,
} from './change.ts';
import { whereRunsAre } from './live-runs.ts';
import { removedStepRecipe } from './recipes.ts';

/** A new step that steps of old wait for is inserted; any other is only added. */
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
        `Runs in flight are pinned to the revision that they started from: they go on without \`${key}\`, and nothing ` +
        'else of them changes. Runs that start after the deploy have it, so that for a while runs differ.',
      advice: `${DRAIN} Where it does not matter that runs in flight miss the step, allow the caution.`,
      live: whereRunsAre(live, loopKey === null ? waiting.map((each) => oldKeyOf(graph, each)) : [loopKey]),
    });
  }
  if (loopKey === null && live.stepsWithHistory.includes(key)) {
    return findingAt(place, {
      ...found,
      rule: 'step-key-reused',
      class: 'caution',
      message: `The new step \`${key}\` has the key of an earlier step that kept runs have records of.`,
      consequence:
        'Records of two steps then share one key. A run in flight whose own revision has the earlier step keeps its ' +
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

/** Steps of both revisions that cannot start before the new one has ended, whatever new steps stand between. */
function oldStepsBehind({ after, before, renames }: GraphChange, newKey: string): string[] {
  const known = new Set([...Object.keys(before), ...renames.values()]);
  const found = new Set<string>();
  const seen = new Set([newKey]);
  const waiting = [newKey];
  for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
    for (const next of downstreamKeys(after, key)) {
      if (known.has(next)) found.add(next);
      else if (!seen.has(next)) {
        seen.add(next);
        waiting.push(next);
      }
    }
  }
  return [...found];
}

/** Runs in flight know a renamed step by its old key. */
function oldKeyOf({ renames }: GraphChange, key: string): string {
  return [...renames].find(([, newKey]) => newKey === key)?.[0] ?? key;
}

/** Keys of steps that only one side has, renamed ones left out. */
function removedKeys({ before, after, renames }: GraphChange): string[] {
  return Object.keys(before).filter((key) => ownStep(after, key) === undefined && !renames.has(key));
}

function addedKeys({ before, after, renames }: GraphChange): string[] {
  const renamed = new Set(renames.values());
  return Object.keys(after).filter((key) => ownStep(before, key) === undefined && !renamed.has(key));
}

/** A step that no run has a record of may go; one with history has to stay readable. */
const stepRemoved: ChangeRule = (change) =>
  change.graphs.flatMap((graph) => removedKeys(graph).map((key) => judgeRemoved(change, graph, key)));

function judgeRemoved(change: Change, graph: GraphChange, key: string): Finding {
  const { live } = change;
  const recordKey = graph.loopKey ?? key;
  const found = { before: jsonOf(graph.before[key]), live: whereRunsAre(live, [recordKey]) };
  const pinned =
    `Runs in flight are pinned to their revision: they still run \`${key}\`, with the inputs that it had there, but for ` +
    'secrets that were written out in the manifest: those are not kept, and a step that needs one fails.';
  if (!live.stepsWithHistory.includes(recordKey)) {
    return findingAt([...graph.path, key], {
      ...found,
      rule: 'step-removed',
      class: 'caution',
      message: `The step \`${key}\` was removed; no kept run did anything in it.`,
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
        ? `The step \`${key}\` was removed, and kept runs have records of it.`
        : `The step \`${key}\` of the loop \`${graph.loopKey}\` was removed, and kept runs have records of that loop.`,
    consequence:
      `The manifest would no longer explain the records under \`${key}\`, a re-run of such a run would leave the step out, ` +
      `and a later step of the same key would mix with them. ${pinned}`,
    advice: 'Keep the step and have it do nothing, as the recipe says, until retention has let its last run go.',
    recipe,
  });
}

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
  const pinned = `Runs in flight are pinned to their revision: they go on with \`${oldKey}\`, with the inputs that it had there.`;
  if (!live.stepsWithHistory.includes(recordKey)) {
    return findingAt([...graph.path, oldKey], {
      ...found,
      class: 'caution',
      consequence: `No kept run has a record of \`${oldKey}\`, so no history is lost. ${pinned} They would leave records under it.`,
      advice: DRAIN,
    });
  }
  return findingAt([...graph.path, oldKey], {
    ...found,
    class: 'breaking',
    consequence:
      `The key is a part of the stored runs: their records stay under \`${oldKey}\`, which no manifest would explain. ` +
      `A retry or re-run finds nothing under the new key. ${pinned}`,
    advice:
      'Keep the old key next to the new one, guarded, as the recipe says, until retention has let its last run go.',
    recipe: removedStepRecipe(change, graph, names),
  });
}

export const stepRules: readonly ChangeRule[] = [stepRemoved, stepRenamed, stepAdded];
