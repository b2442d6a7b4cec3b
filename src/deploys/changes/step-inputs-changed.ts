import { differences } from '../../manifest/diff.ts';
import { isReference } from '../../manifest/secrets.ts';
import type { Json } from '../../model/json.ts';
import { type ChangeRule, findingAt, type StepChange } from './change.ts';
import { unknownStepsRead } from './inputs-read-unknown-step.ts';
import { jsonOf } from './json-of.ts';
import { standing } from './standing.ts';

/** Inputs are the one part of a step that a deploy changes for runs in flight too, on purpose: so a mistake is mended. */
export const stepInputsChanged: ChangeRule = ({ graphs, live }) =>
  graphs.flatMap((graph) =>
    graph.kept
      .filter((step) => unknownStepsRead(graph, step).length === 0)
      .flatMap((step) => findingsOf(step, standing(live, [step.recordKey]))),
  );

function findingsOf({ stepKey, path, before, after }: StepChange, live: string | undefined) {
  return differences(jsonOf(before.inputs), jsonOf(after.inputs)).map((difference) => {
    const isSecret = isText(difference.before) || isText(difference.after);
    return findingAt([...path, 'inputs', ...difference.at], {
      rule: isSecret ? 'secret-reference-changed' : 'step-inputs-changed',
      class: 'safe',
      before: difference.before,
      after: difference.after,
      message: isSecret
        ? `\`${stepKey}\` takes a secret from elsewhere; its value is never shown.`
        : `Inputs of \`${stepKey}\` are ${difference.kind}.`,
      consequence:
        before.type === after.type
          ? `Inputs are read when a step starts: runs in flight that start \`${stepKey}\` after the deploy, try it again, or ` +
            'go on with it after a wait, use the new ones, and so do retries of kept runs.'
          : `Inputs are read when a step starts, and the type of \`${stepKey}\` changes with them: see there.`,
      live,
    });
  });
}

function isText(value: Json | undefined): boolean {
  return typeof value === 'string' && isReference(value);
}
