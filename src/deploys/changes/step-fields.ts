import { isSame } from '../../manifest/diff.ts';
import type { Finding } from '../../model/finding.ts';
import type { Json } from '../../model/json.ts';
import type { StepDefinition } from '../../model/manifest.ts';
import { type ChangeRule, DRAIN, findingAt, jsonOf, type StepChange } from './change.ts';
import { whereRunsAre } from './live-runs.ts';

/** Upstream steps and the statuses that are waited for; conditions are `whenChanged`'s. */
export const runAfterChanged: ChangeRule = ({ graphs, live }) =>
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
      message: `The statuses that \`${stepKey}\` waits for are in a different order.`,
      consequence: 'Any of them satisfies the edge, so the order means nothing.',
    }),
  ];
}

function edgesOf({ runAfter }: StepDefinition): Readonly<Record<string, Json>> {
  return Object.fromEntries(Object.entries(runAfter).map(([key, { statuses }]) => [key, [...statuses].sort()]));
}

/** Conditions of edges that both revisions have. */
export const whenChanged: ChangeRule = ({ graphs, live }) =>
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
              'Runs in flight are pinned to the revision that they started from: they judge the condition as it was there, ' +
              'and nothing of them changes. Runs of one flow diverge by the time at which they were started.',
            advice: `Prefer a new step that holds the condition. ${DRAIN} Where runs may diverge, allow the caution.`,
            live: whereRunsAre(live, [recordKey]),
          }),
        ];
      }),
    ),
  );

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
          live: whereRunsAre(live, [step.recordKey]),
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
    `${before.type} gets inputs that were written for ${after.type}. Such a run may fail at \`${stepKey}\`, or do something unintended.`
  );
}

/** Fields of a step that a run takes from its own revision, so that changing them reaches no run in flight. */
const PINNED_FIELDS = [
  ['retry', 'retry-changed', 'is tried again as that revision says.'],
  ['timeoutSeconds', 'step-timeout-changed', 'has the time limit of that revision.'],
  [
    'forEach',
    'for-each-changed',
    'goes over the items that it goes over there. Inputs of its children are read from the newest revision and have to suit ' +
      'those items too.',
  ],
  ['concurrencyLimit', 'concurrency-changed', 'runs as many iterations at once as that revision says.'],
] as const;

export const pinnedFieldsChanged: ChangeRule = ({ graphs, live }) =>
  graphs.flatMap(({ kept }) =>
    kept.flatMap(({ stepKey, path, renamed, before, after, recordKey }) =>
      PINNED_FIELDS.flatMap(([field, rule, consequence]) => {
        if (isSame(jsonOf(renamed[field]), jsonOf(after[field]))) return [];
        // Of a step that is a loop on one side only, the fields of loops are a part of its type.
        if (before.type !== after.type && field !== 'retry' && field !== 'timeoutSeconds') return [];
        return [
          findingAt([...path, field], {
            rule,
            class: 'safe',
            before: jsonOf(before[field]),
            after: jsonOf(after[field]),
            message: `${field} of \`${stepKey}\` changed.`,
            consequence: `Runs in flight are pinned to their revision: in them \`${stepKey}\` ${consequence}`,
            live: whereRunsAre(live, [recordKey]),
          }),
        ];
      }),
    ),
  );

/** How many steps of a flow, or of a type in it, run at once: read from the newest revision whenever a step is claimed. */
export const stepSlotsChanged: ChangeRule = ({ before, after, graphs }) => {
  const places = [
    { path: ['concurrency'], of: 'the flow', before: before.concurrency, after: after.concurrency },
    ...graphs.flatMap(({ kept }) =>
      kept.map((step) => ({
        path: [...step.path, 'concurrency'],
        of: `\`${step.stepKey}\``,
        before: step.before.concurrency,
        after: step.after.concurrency,
      })),
    ),
  ];
  return places
    .filter((place) => place.before !== place.after)
    .map((place) =>
      findingAt(place.path, {
        rule: 'step-slots-changed',
        class: 'safe',
        before: place.before,
        after: place.after,
        message: `concurrency of ${place.of} changed.`,
        consequence: 'It holds for runs in flight too, from the next step that starts; steps that run go on.',
      }),
    );
};
