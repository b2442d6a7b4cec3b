import { type ChangeRule, DRAIN, findingAt } from './change.ts';
import { standing } from './standing.ts';

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
            message: `The condition of \`${stepKey}\` on \`${upstream}\` is ${verb}.`,
            consequence:
              'Runs in flight are pinned to the revision that they started from: they judge the condition as it was there, ' +
              'and nothing of them changes. Runs of one flow diverge by the time at which they were started.',
            advice: `Prefer a new step that holds the condition. ${DRAIN} Where runs may diverge, allow the caution.`,
            live: standing(live, [recordKey]),
          }),
        ];
      }),
    ),
  );
