import { isSame } from '../../manifest/diff.ts';
import type { Finding } from '../../model/finding.ts';
import type { Json } from '../../model/json.ts';
import type { StepDefinition } from '../../model/manifest.ts';
import { type ChangeRule, DRAIN, findingAt, type StepChange } from './change.ts';
import { jsonOf } from './json-of.ts';
import { standing } from './standing.ts';

/** Upstream steps and the statuses that are waited for; conditions are `whenChanged`'s. */
export const runAfterChanged: ChangeRule = ({ graphs, live }) =>
  graphs.flatMap(({ kept }) =>
    kept.flatMap((step) => {
      if (isSame(jsonOf(edgesOf(step.renamed)), jsonOf(edgesOf(step.after)))) return reordered(step);
      return [changed(step, standing(live, [step.recordKey]))];
    }),
  );

function changed({ stepKey, path, before, after }: StepChange, live: string | undefined): Finding {
  return findingAt([...path, 'runAfter'], {
    rule: 'run-after-changed',
    class: 'caution',
    before: jsonOf(before.runAfter),
    after: jsonOf(after.runAfter),
    message: `\`${stepKey}\` now runs after different steps or statuses.`,
    consequence:
      `Runs in flight are pinned to the revision that they started from: \`${stepKey}\` starts in them as it was wired ` +
      'there, due steps included, and nothing of them changes. Runs that start after the deploy follow the new wiring, ' +
      'so that for a while runs differ.',
    advice: `${DRAIN} Where it does not matter that runs in flight follow the old wiring, allow the caution.`,
    live,
  });
}

/** The order in which statuses are listed means nothing, and is a difference all the same. */
function reordered({ stepKey, path, renamed, after }: StepChange): Finding[] {
  const isAsWritten = Object.entries(renamed.runAfter).every(([key, { statuses }]) =>
    isSame(jsonOf(statuses), jsonOf(after.runAfter[key]?.statuses ?? [])),
  );
  if (isAsWritten) return [];
  return [
    findingAt([...path, 'runAfter'], {
      rule: 'statuses-reordered',
      class: 'safe',
      before: jsonOf(renamed.runAfter),
      after: jsonOf(after.runAfter),
      message: `The statuses that \`${stepKey}\` waits for stand in another order.`,
      consequence: 'Any of them satisfies the edge, so the order means nothing.',
    }),
  ];
}

function edgesOf({ runAfter }: StepDefinition): Readonly<Record<string, Json>> {
  return Object.fromEntries(Object.entries(runAfter).map(([key, { statuses }]) => [key, [...statuses].sort()]));
}
