import { DRAIN, findingAt, jsonOf } from '../../deploys/changes/revisions.ts';
import { ExpressionError } from '../../expressions/compile.ts';
import { compileCondition } from '../../expressions/condition.ts';
import type { Reference } from '../../expressions/context.ts';
import type { JsonPath } from '../../expressions/json-path.ts';
import { compileTemplate, TemplateError } from '../../expressions/template.ts';
import { differences } from '../../manifest/diff.ts';
import { isReference } from '../../manifest/read-secret.ts';
import type { Finding } from '../../model/finding.ts';
import { createRunsAfter } from '../../model/graph.ts';
import { isSame, type Json } from '../../model/json.ts';
import { type Edge, PINNED_INPUTS, RUN_FLOW, type StepDefinition } from '../../model/manifest.ts';
import { oncePer } from '../../model/once-per.ts';
import { type ChangeRule, type GraphChange, ownStep, type StepChange } from './change.ts';
import { whereRunsAre } from './live-runs.ts';

/** Upstream steps and their required statuses; `whenChanged` handles conditions. */
const runAfterChanged: ChangeRule = ({ graphs, live }) =>
  graphs.flatMap(({ kept }) =>
    kept.flatMap((step) => {
      if (isSame(jsonOf(edgesOf(step.renamed)), jsonOf(edgesOf(step.after)))) return reordered(step);
      return [changed(step, whereRunsAre(live, [step.recordKey]))];
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
      `Runs in flight are pinned to the revision that they started with: in them, \`${stepKey}\` keeps its old wiring, ` +
      'due steps included, and nothing changes. Runs that start after the deploy follow the new wiring, ' +
      'so runs differ for a while.',
    advice: `${DRAIN} If runs in flight may follow the old wiring, allow the caution.`,
    live,
  });
}

/** The order of statuses has no effect, but a new order still counts as a difference. */
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
      message: `The statuses that \`${stepKey}\` waits for are in a different order.`,
      consequence: 'Any of them satisfies the edge, so the order does not matter.',
    }),
  ];
}

function edgesOf({ runAfter }: StepDefinition): Readonly<Record<string, Json>> {
  return Object.fromEntries(Object.entries(runAfter).map(([key, { statuses }]) => [key, [...statuses].sort()]));
}

/** Conditions of edges in both revisions. */
const whenChanged: ChangeRule = ({ graphs, live }) =>
  graphs.flatMap(({ kept }) =>
    kept.flatMap(({ stepKey, path, renamed, after, recordKey }) =>
      Object.entries(after.runAfter).flatMap(([upstream, { when }]) => {
        const edge = Object.hasOwn(renamed.runAfter, upstream) ? renamed.runAfter[upstream] : undefined;
        if (edge === undefined || edge.when === when) return [];
        const verb = edge.when === undefined ? 'added' : when === undefined ? 'removed' : 'changed';
        return [
          findingAt([...path, 'runAfter', upstream, 'when'], {
            rule: `when-${verb}`,
            class: 'caution',
            before: edge.when,
            after: when,
            message: `The condition of \`${stepKey}\` on \`${upstream}\` was ${verb}.`,
            consequence:
              'Runs in flight are pinned to the revision that they started with: they evaluate the condition of that revision, ' +
              'and nothing changes for them. Runs of this flow behave differently depending on when they started.',
            advice: `Prefer a new step with the condition. ${DRAIN} If runs may differ, allow the caution.`,
            live: whereRunsAre(live, [recordKey]),
          }),
        ];
      }),
    ),
  );

/** The one change that affects a step in flight: type and inputs belong together, and only the type is pinned. */
const typeChanged: ChangeRule = ({ graphs, live }) =>
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
          consequence: `${inFlight(step)} Re-runs of stored runs use ${step.after.type}.`,
          advice: `${DRAIN} Or leave this step as it is and give the new type to a new step.`,
          live: whereRunsAre(live, [step.recordKey]),
        }),
      ),
  );

function inFlight({ stepKey, before, after }: StepChange): string {
  const pinned = `Runs in flight are pinned to their revision, so \`${stepKey}\` stays a step of the type ${before.type} in them`;
  if (before.steps !== undefined) return `${pinned}: the loop runs its children as before.`;
  if (isSame(jsonOf(before.inputs), jsonOf(after.inputs))) {
    return `${pinned}; inputs are read from the newest revision and are the same there, so nothing changes.`;
  }
  return (
    `${pinned}, but inputs are read from the newest revision when a step starts, continues or is retried: ` +
    `${before.type} gets inputs that were written for ${after.type}. Such a run may fail at \`${stepKey}\`, or do something unintended.`
  );
}

type PinnedField = 'retry' | 'timeoutSeconds' | 'forEach' | 'concurrencyLimit';

/** For a field that a run takes from its own revision, so that a change affects no run in flight. */
function pinned(field: PinnedField, rule: string, consequence: string): ChangeRule {
  const isOfLoops = field === 'forEach' || field === 'concurrencyLimit';
  return ({ graphs, live }) =>
    graphs.flatMap(({ kept }) =>
      kept
        .filter(({ renamed, after }) => !isSame(jsonOf(renamed[field]), jsonOf(after[field])))
        // If the step is a loop on one side only, the fields of loops are part of its type.
        .filter(({ before, after }) => before.type === after.type || !isOfLoops)
        .map(({ stepKey, path, before, after, recordKey }) =>
          findingAt([...path, field], {
            rule,
            class: 'safe',
            before: jsonOf(before[field]),
            after: jsonOf(after[field]),
            message: `${field} of \`${stepKey}\` changed.`,
            consequence: `Runs in flight are pinned to their revision: in them \`${stepKey}\` ${consequence}`,
            live: whereRunsAre(live, [recordKey]),
          }),
        ),
    );
}

/** How many steps of a flow, or of one type in it, run at once: read from the newest revision for each claim. */
export function stepSlotsChanged(of: string): Pick<Finding, 'rule' | 'message' | 'consequence'> {
  return {
    rule: 'step-slots-changed',
    message: `concurrency of ${of} changed.`,
    consequence: 'It also applies to runs in flight, from the next step that starts; running steps continue.',
  };
}

const concurrencyChanged: ChangeRule = ({ graphs }) =>
  graphs.flatMap(({ kept }) =>
    kept
      .map(({ stepKey, path, before, after }) => ({ stepKey, path, one: before.concurrency, other: after.concurrency }))
      .filter(({ one, other }) => one !== other)
      .map(({ stepKey, path, one, other }) => {
        const texts = stepSlotsChanged(`\`${stepKey}\``);
        return findingAt([...path, 'concurrency'], { ...texts, class: 'safe', before: one, after: other });
      }),
  );

/** The only part of a step that a deploy also changes for runs in flight, so that mistakes can be corrected. */
const stepInputsChanged: ChangeRule = ({ graphs, live, before: { pinInputs: isPinned } }) =>
  graphs.flatMap((graph) =>
    graph.kept
      .filter((step) => unknownStepsRead(graph, step).length === 0)
      .flatMap((step) => {
        const where = whereRunsAre(live, [step.recordKey]);
        return findingsOf(step, { live: where, affected: isPinned === true ? 0 : live.runsInFlight });
      }),
  );

interface InputsLive {
  readonly live: string | undefined;
  /** Number of runs in flight that take the new inputs. */
  readonly affected: number;
}

function findingsOf({ stepKey, path, before, after }: StepChange, { live, affected }: InputsLive) {
  const reach = affected === 0 ? '' : ` This affects ${affected === 1 ? '1 run' : `${affected} runs`} in flight.`;
  return differences(jsonOf(before.inputs), jsonOf(after.inputs)).map((difference) => {
    const [input] = difference.at;
    if (before.type === RUN_FLOW && after.type === RUN_FLOW && PINNED_INPUTS.some((key) => key === input)) {
      return subFlowChanged({ stepKey, path, before, after }, { ...difference, live });
    }
    const isSecret = isText(difference.before) || isText(difference.after);
    return findingAt([...path, 'inputs', ...difference.at], {
      rule: isSecret ? 'secret-reference-changed' : 'step-inputs-changed',
      class: 'safe',
      before: difference.before,
      after: difference.after,
      message: isSecret
        ? `\`${stepKey}\` reads a secret from another place; its value is never shown.`
        : `Inputs of \`${stepKey}\` were ${difference.kind}.${reach}`,
      consequence:
        before.type === after.type
          ? `Inputs are read when a step starts: runs in flight that start \`${stepKey}\` after the deploy, retry it, or ` +
            'continue it after a wait, use the new ones, and so do retries of stored runs. Runs of a revision with ' +
            '`pinInputs` keep theirs.'
          : `Inputs are read when a step starts, and the type of \`${stepKey}\` changes with them: see there.`,
      live,
    });
  });
}

/** The flow that a step runs is pinned, but the body for it is not: if both change, they match only in new runs. */
function subFlowChanged(
  { stepKey, path, before, after }: Pick<StepChange, 'stepKey' | 'path' | 'before' | 'after'>,
  { at, live, ...values }: Pick<Finding, 'before' | 'after' | 'live'> & { readonly at: JsonPath },
): Finding {
  const isFlow = at[0] === 'flow';
  const isMixed = isFlow && !isSame(jsonOf(before.inputs.body ?? null), jsonOf(after.inputs.body ?? null));
  const pinned = 'Runs in flight have pinned which flows they run, and in which revisions: nothing changes for them';
  return findingAt([...path, 'inputs', ...at], {
    rule: 'sub-flow-changed',
    class: isMixed ? 'caution' : 'safe',
    before: values.before,
    after: values.after,
    message: isFlow
      ? `\`${stepKey}\` runs a different flow.`
      : `\`${stepKey}\` ${after.inputs.wait === false ? 'no longer waits' : 'waits'} for the run that it starts.`,
    consequence: isMixed
      ? `${pinned}, except that \`body\` is read from the newest revision: they pass the body written for the new flow to the old one.`
      : `${pinned}.`,
    advice: isMixed ? `${DRAIN} Or leave this step as it is and run the other flow with a new step.` : undefined,
    live,
  });
}

function isText(value: Json | undefined): boolean {
  return typeof value === 'string' && isReference(value);
}

/**
 * New inputs that read a step which need not have ended by then in runs in flight. Inputs are not pinned and wiring is:
 * the two match only in runs that start after the deploy.
 */
const inputsReadUnknownStep: ChangeRule = ({ graphs, live }) =>
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

const endedBefore = oncePer(({ before }: GraphChange) => createRunsAfter(before));

/** Empty if the inputs are the same. */
function unknownStepsRead(graph: GraphChange, { stepKey, before, after }: StepChange): string[] {
  if (isSame(jsonOf(before.inputs), jsonOf(after.inputs))) return [];
  const ended = endedBefore(graph);
  const names = stepsReadIn(after.inputs).filter(
    (key) => ownStep(graph.after, key) !== undefined && !ended(stepKey, key),
  );
  // Not new: steps that the former inputs read without waiting for them.
  const already = new Set(stepsReadIn(before.inputs));
  return [...new Set(names)].filter((key) => !already.has(key));
}

/** Keys of the steps that the placeholders of inputs read. */
function stepsReadIn(inputs: Json): string[] {
  return namesIn(() => compileTemplate(inputs).references);
}

/** Keys of the steps that any part of a step reads: inputs, items, conditions and children. */
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
    // A deployed manifest compiled when it was loaded; an expression that no longer compiles reads nothing.
    if (error instanceof TemplateError || error instanceof ExpressionError) return [];
    throw error;
  }
}

const EDGE_RULES: { readonly [Field in keyof Edge]-?: ChangeRule } = { statuses: runAfterChanged, when: whenChanged };

/** Rules for every field of a step in both revisions. */
const FIELD_RULES: { readonly [Field in keyof StepDefinition]-?: readonly ChangeRule[] } = {
  runAfter: Object.values(EDGE_RULES),
  type: [typeChanged],
  inputs: [inputsReadUnknownStep, stepInputsChanged],
  retry: [pinned('retry', 'retry-changed', 'is retried as that revision says.')],
  timeoutSeconds: [pinned('timeoutSeconds', 'step-timeout-changed', 'has the time limit of that revision.')],
  forEach: [
    pinned(
      'forEach',
      'for-each-changed',
      'loops over the items of that revision. Inputs of its children are read from the newest revision and must also fit ' +
        'those items.',
    ),
  ],
  concurrencyLimit: [
    pinned('concurrencyLimit', 'concurrency-changed', 'runs as many iterations at once as that revision says.'),
  ],
  concurrency: [concurrencyChanged],
  // The children of a loop are a graph, which all rules check.
  steps: [],
};

export const stepFieldRules: readonly ChangeRule[] = Object.values(FIELD_RULES).flat();
