import { type CompareRevisions, renamedTriggers } from '../../deploys/changes/revisions.ts';
import { formatPath } from '../../expressions/json-path.ts';
import { type Change, type ChangeRule, readChange } from './change.ts';
import { flowRules } from './flow.ts';
import { stepFieldRules } from './step-fields.ts';
import { stepRules } from './steps.ts';
import { triggerRules } from './triggers.ts';

const RULES: readonly ChangeRule[] = [...stepRules, ...stepFieldRules, ...triggerRules, ...flowRules];

export const deployRulesChanges: CompareRevisions = (revisions) => {
  const change = readChange(revisions);
  return { findings: RULES.flatMap((rule) => rule(change)), explained: explainedIn(change) };
};

/** Places that differ because of a change at another place. */
function explainedIn(change: Change): string[] {
  const isRenaming = change.graphs.some(({ renames }) => renames.size > 0);
  const inGraphs = change.graphs.flatMap(({ path, renames, kept }) => [
    ...[...renames].flat().map((key) => [...path, key]),
    // Edges that only changed because of a rename are covered by its finding.
    ...(isRenaming ? kept.flatMap((step) => ['runAfter', 'forEach'].map((field) => [...step.path, field])) : []),
    // The fields of a loop change with the type.
    ...kept
      .filter(({ before, after }) => before.type !== after.type)
      .flatMap((step) => ['forEach', 'concurrencyLimit', 'steps'].map((field) => [...step.path, field])),
  ]);
  const triggers = [...renamedTriggers(change).values()].map((key) => ['triggers', key]);
  return [...inGraphs, ...triggers].map((path) => formatPath(path));
}
