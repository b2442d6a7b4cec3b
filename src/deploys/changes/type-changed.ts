import { isSame } from '../../manifest/diff.ts';
import { type ChangeRule, DRAIN, findingAt, type StepChange } from './change.ts';
import { jsonOf } from './json-of.ts';
import { standing } from './standing.ts';

/** The one change of a step that reaches runs in flight: type and inputs belong together, and only the type is pinned. */
export const typeChanged: ChangeRule = ({ graphs, live }) =>
  graphs.flatMap(({ kept }) =>
    kept
      .filter(({ before, after }) => before.type !== after.type)
      .map((step) =>
        findingAt([...step.path, 'type'], {
          rule: 'type-changed',
          class: 'caution',
          before: step.before.type,
          after: step.after.type,
          message: `The type of \`${step.stepKey}\` changed.`,
          consequence: `${inFlight(step)} Re-runs of kept runs use ${step.after.type}.`,
          advice: `${DRAIN} Or leave this step as it is and give the new type to a new step.`,
          live: standing(live, [step.recordKey]),
        }),
      ),
  );

function inFlight({ stepKey, before, after }: StepChange): string {
  const pinned = `Runs in flight are pinned to their revision, so \`${stepKey}\` stays a step of the type ${before.type} in them`;
  if (before.steps !== undefined) return `${pinned}: the loop runs its children as it did.`;
  if (isSame(jsonOf(before.inputs), jsonOf(after.inputs))) {
    return `${pinned}; inputs are read from the newest revision, and are the same there, so nothing of them changes.`;
  }
  return (
    `${pinned}, but inputs are read from the newest revision when a step starts, goes on or is tried again: ` +
    `${before.type} gets inputs that were written for ${after.type}. Such a run may fail at \`${stepKey}\`, or do what nobody meant.`
  );
}
