import { ExpressionError } from '../../expressions/compile.ts';
import { compileCondition } from '../../expressions/condition.ts';
import type { Reference } from '../../expressions/context.ts';
import { compileTemplate, TemplateError } from '../../expressions/template.ts';
import { upstreamsOf } from '../../manifest/check-steps.ts';
import { differences, isSame } from '../../manifest/diff.ts';
import { isReference } from '../../manifest/read-secret.ts';
import type { Json } from '../../model/json.ts';
import type { StepDefinition } from '../../model/manifest.ts';
import { type ChangeRule, DRAIN, findingAt, type GraphChange, jsonOf, ownStep, type StepChange } from './change.ts';
import { whereRunsAre } from './live-runs.ts';

/** Inputs are the one part of a step that a deploy changes for runs in flight too, on purpose: so a mistake is mended. */
export const stepInputsChanged: ChangeRule = ({ graphs, live }) =>
  graphs.flatMap((graph) =>
    graph.kept
      .filter((step) => unknownStepsRead(graph, step).length === 0)
      .flatMap((step) => findingsOf(step, whereRunsAre(live, [step.recordKey]))),
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
        : `Inputs of \`${stepKey}\` were ${difference.kind}.`,
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
          message: `The changed inputs of \`${step.stepKey}\` read ${names}, which did not have to end before it.`,
          consequence:
            `Runs in flight take the new inputs and keep their old wiring: where ${names} has not run in one of them, ` +
            `\`${step.stepKey}\` fails there because its expression reads a missing value.`,
          advice: DRAIN,
          live: whereRunsAre(live, [step.recordKey]),
        }),
      ];
    }),
  );

/** Empty where the inputs are the same. */
function unknownStepsRead(graph: GraphChange, { stepKey, before, after }: StepChange): string[] {
  if (isSame(jsonOf(before.inputs), jsonOf(after.inputs))) return [];
  const ended = upstreamsOf(graph.before, stepKey);
  const names = stepsReadIn(after.inputs).filter((key) => ownStep(graph.after, key) !== undefined && !ended.has(key));
  // What was read before, and not waited for then either, is no news.
  const already = new Set(stepsReadIn(before.inputs));
  return [...new Set(names)].filter((key) => !already.has(key));
}

/** Keys of the steps that the placeholders of inputs read. */
function stepsReadIn(inputs: Json): string[] {
  return namesIn(() => compileTemplate(inputs).references);
}

/** The same for all of a step: inputs, items, conditions and children. */
export function stepsReadBy({ inputs, forEach, runAfter, steps }: StepDefinition): string[] {
  const conditions = Object.values(runAfter).flatMap(({ when }) =>
    when === undefined ? [] : namesIn(() => compileCondition(when).references),
  );
  const children = Object.values(steps ?? {}).flatMap(stepsReadBy);
  return [...stepsReadIn(inputs), ...stepsReadIn(forEach ?? null), ...conditions, ...children];
}

function namesIn(read: () => readonly Reference[]): string[] {
  try {
    return read().flatMap(({ root, path: [, key] }) => (root === 'steps' && typeof key === 'string' ? [key] : []));
  } catch (error) {
    // A deployed manifest compiled when it was loaded; what no longer compiles reads nothing.
    if (error instanceof TemplateError || error instanceof ExpressionError) return [];
    throw error;
  }
}
