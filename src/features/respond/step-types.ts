import { stepPart } from '../../config/step-part.ts';
import { didYouMean, errorAt } from '../../manifest/issues.ts';
import type { ManifestRules } from '../../manifest/load.ts';
import type { Graph } from '../../model/manifest.ts';
import { isGuarded } from '../../model/retired.ts';
import { createUnfitAnswers } from './unfit-answers.ts';

/** Checks of triggers that steps answer, and the answers that could not be used; brings no step types. */
export const respondStepTypes = stepPart({
  name: 'respond',
  make: ({ clock }) => ({ handlers: [], checks: [checkResponders], made: createUnfitAnswers(clock) }),
});

/** Checks that the answering steps exist and that a run can reach them. */
const checkResponders: ManifestRules['checks'][number] = ({ manifest: { steps }, webhooks }) =>
  webhooks.flatMap(({ triggerKey, inputs: { webhookRespond: respond } }) => {
    if (respond === undefined) return [];
    const path = ['triggers', triggerKey, 'inputs', 'webhookRespond', 'step'];
    if (!Object.hasOwn(steps, respond.step)) {
      const isOfLoop = Object.values(steps).some((step) => Object.hasOwn(step.steps ?? {}, respond.step));
      const why = isOfLoop
        ? 'is a step of a loop, of which each run has several'
        : `is not a step of this flow${didYouMean(respond.step, Object.keys(steps))}`;
      return [errorAt(path, why)];
    }
    const blocked = whyNotReached(steps, respond.step);
    return blocked === undefined ? [] : [errorAt(path, `can never succeed: ${blocked}`)];
  });

/** Why no run can end the step with success; undefined if a run may. Examines each upstream step once. */
function whyNotReached(steps: Graph, answering: string): string | undefined {
  const needed = new Set([answering]);
  for (const stepKey of needed) {
    const step = Object.hasOwn(steps, stepKey) ? steps[stepKey] : undefined;
    if (step === undefined) continue;
    if (step.type === 'Fail') return `"${stepKey}" is a step that always fails`;
    if (isGuarded(step)) return `the condition of an edge to "${stepKey}" is false`;
    for (const [upstream, { statuses }] of Object.entries(step.runAfter))
      if (statuses.every((status) => status === 'Succeeded')) needed.add(upstream);
  }
  return undefined;
}
