import { isSame } from '../../manifest/diff.ts';
import { upstreamsOf } from '../../manifest/graph.ts';
import { type ChangeRule, DRAIN, findingAt, type GraphChange, ownStep, type StepChange } from './change.ts';
import { jsonOf } from './json-of.ts';
import { standing } from './standing.ts';
import { stepsReadIn } from './steps-read.ts';

/**
 * New inputs that read a step which the wiring of runs in flight does not run before this one. Inputs are not pinned and
 * wiring is: the two fit together only in runs that start after the deploy.
 */
export const inputsReadUnknownStep: ChangeRule = ({ graphs, live }) =>
  graphs.flatMap((graph) =>
    graph.kept.flatMap((step) => {
      const unknown = unknownStepsRead(graph, step);
      if (unknown.length === 0) return [];
      const names = unknown.map((key) => `\`${key}\``).join(', ');
      return [
        findingAt([...step.path, 'inputs'], {
          rule: 'inputs-read-unknown-step',
          class: 'caution',
          before: jsonOf(step.before.inputs),
          after: jsonOf(step.after.inputs),
          message: `Inputs of \`${step.stepKey}\` are changed, and read ${names}, which did not have to end before it.`,
          consequence:
            `Runs in flight take the new inputs and keep their old wiring: where ${names} has not run in one of them, ` +
            `\`${step.stepKey}\` fails there because its expression reads what is not there.`,
          advice: DRAIN,
          live: standing(live, [step.recordKey]),
        }),
      ];
    }),
  );

/** Empty where the inputs are the same. */
export function unknownStepsRead(graph: GraphChange, { stepKey, before, after }: StepChange): string[] {
  if (isSame(jsonOf(before.inputs), jsonOf(after.inputs))) return [];
  const ended = upstreamsOf(graph.before, stepKey);
  const names = stepsReadIn(after.inputs).filter((key) => ownStep(graph.after, key) !== undefined && !ended.has(key));
  // What was read before, and not waited for then either, is no news.
  const already = new Set(stepsReadIn(before.inputs));
  return [...new Set(names)].filter((key) => !already.has(key));
}
