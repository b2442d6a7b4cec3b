import { isSame } from '../../manifest/diff.ts';
import { type ChangeRule, findingAt } from './change.ts';
import { jsonOf } from './json-of.ts';
import { standing } from './standing.ts';

/** Fields of a step that a run takes from its own revision, so that changing them reaches no run in flight. */
const FIELDS = [
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
      FIELDS.flatMap(([field, rule, consequence]) => {
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
            live: standing(live, [recordKey]),
          }),
        ];
      }),
    ),
  );
