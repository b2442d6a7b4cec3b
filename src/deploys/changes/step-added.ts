import type { Finding } from '../../model/finding.ts';
import { addedKeys, type Change, type ChangeRule, DRAIN, findingAt, type GraphChange } from './change.ts';
import { jsonOf } from './json-of.ts';
import { downstreamKeys } from './renames.ts';
import { standing } from './standing.ts';

/** A new step that steps of old wait for is inserted; any other is only added. */
export const stepAdded: ChangeRule = (change) =>
  change.graphs.flatMap((graph) => addedKeys(graph).map((key) => judge(change, graph, key)));

function judge({ live }: Change, graph: GraphChange, key: string): Finding {
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
      live: standing(live, loopKey === null ? waiting.map((each) => oldKeyOf(graph, each)) : [loopKey]),
    });
  }
  if (loopKey === null && live.stepsWithHistory.includes(key)) {
    return findingAt(place, {
      ...found,
      rule: 'step-key-reused',
      class: 'caution',
      message: `The new step \`${key}\` has the key of an earlier step that kept runs have records of.`,
      consequence:
        'Records of two steps stand under one key. A run in flight whose own revision has the earlier step keeps its ' +
        'type and wiring, and takes the inputs of the new one if it starts it.',
      advice: `Give the step a key that was not used before. ${DRAIN}`,
      live: standing(live, [key]),
    });
  }
  return findingAt(place, {
    ...found,
    rule: 'step-added',
    class: 'safe',
    message: `The step \`${key}\` is new, and no step that there was waits for it.`,
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
