import type { Finding } from '../../model/finding.ts';
import { type Change, type ChangeRule, DRAIN, findingAt, type GraphChange } from './change.ts';
import { removedStepRecipe } from './recipes/removed-step.ts';
import { standing } from './standing.ts';

export const stepRenamed: ChangeRule = (change) =>
  change.graphs.flatMap((graph) =>
    [...graph.renames].map(([oldKey, newKey]) => judge(change, graph, { oldKey, newKey })),
  );

function judge(change: Change, graph: GraphChange, names: { oldKey: string; newKey: string }): Finding {
  const { oldKey, newKey } = names;
  const { live } = change;
  const recordKey = graph.loopKey ?? oldKey;
  const found = {
    rule: 'step-renamed',
    before: oldKey,
    after: newKey,
    message: `The step \`${oldKey}\` has the new key \`${newKey}\`, and is the same otherwise.`,
    live: standing(live, [recordKey]),
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
      'Keep the old key beside the new one, guarded, as the recipe says, until retention has let its last run go.',
    recipe: removedStepRecipe(change, graph, names),
  });
}
