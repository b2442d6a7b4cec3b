import { isGuarded, isIdle } from '../../manifest/retired.ts';
import type { Finding } from '../../model/finding.ts';
import { type Change, type ChangeRule, DRAIN, findingAt, type GraphChange, removedKeys } from './change.ts';
import { jsonOf } from './json-of.ts';
import { removedStepRecipe } from './recipes/removed-step.ts';
import { standing } from './standing.ts';

/** A step that no run has a record of may go; one with history has to stay readable. */
export const stepRemoved: ChangeRule = (change) =>
  change.graphs.flatMap((graph) => removedKeys(graph).map((key) => judge(change, graph, key)));

function judge(change: Change, graph: GraphChange, key: string): Finding {
  const { live } = change;
  const recordKey = graph.loopKey ?? key;
  const found = { before: jsonOf(graph.before[key]), live: standing(live, [recordKey]) };
  const pinned =
    `Runs in flight are pinned to their revision: they still run \`${key}\`, with the inputs that it had there, but for ` +
    'secrets that were written out in the manifest: those are not kept, and a step that needs one fails.';
  if (!live.stepsWithHistory.includes(recordKey)) {
    return findingAt([...graph.path, key], {
      ...found,
      rule: 'step-removed',
      class: 'caution',
      message: `The step \`${key}\` is gone; no kept run did anything in it.`,
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
        ? `The step \`${key}\` is gone, and kept runs have records of it.`
        : `The step \`${key}\` of the loop \`${graph.loopKey}\` is gone, and kept runs have records of that loop.`,
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
