import { formatPath } from '../../expressions/json-path.ts';
import { differences } from '../../manifest/diff.ts';
import type { Finding } from '../../model/finding.ts';
import { type Change, DRAIN, findingAt } from './change.ts';
import { jsonOf } from './json-of.ts';
import { renamedTriggers } from './trigger-keys.ts';

/** Whatever no rule has spoken of: what is not known to be harmless is no safe change. */
export function otherChanges(change: Change, known: readonly Finding[]): Finding[] {
  const { before, after, graphs } = change;
  // The order of triggers stands for none of them.
  const spoken = new Set(known.map(({ path }) => path).filter((path) => path !== 'triggers'));
  for (const key of renamedTriggers(change).values()) spoken.add(formatPath(['triggers', key]));
  const isRenaming = graphs.some(({ renames }) => renames.size > 0);
  for (const { path, renames, kept } of graphs) {
    for (const names of renames) for (const key of names) spoken.add(formatPath([...path, key]));
    // Edges that only follow a new name are the rename's, not theirs.
    if (isRenaming) for (const step of kept) spoken.add(formatPath([...step.path, 'runAfter']));
    if (isRenaming) for (const step of kept) spoken.add(formatPath([...step.path, 'forEach']));
    // What makes a loop a loop goes with the type.
    for (const step of kept.filter((each) => each.before.type !== each.after.type)) {
      for (const field of ['forEach', 'concurrencyLimit', 'steps']) spoken.add(formatPath([...step.path, field]));
    }
  }
  return differences(jsonOf(before), jsonOf(after)).flatMap((difference) => {
    const places = difference.at.map((_, index) => formatPath(difference.at.slice(0, index + 1)));
    const place = formatPath(difference.at);
    const isSpokenOf =
      places.some((each) => spoken.has(each)) || [...spoken].some((each) => each.startsWith(`${place}.`));
    if (isSpokenOf) return [];
    return [
      findingAt(difference.at, {
        rule: 'other-changed',
        class: 'caution',
        before: difference.before,
        after: difference.after,
        message: `This part of the manifest is ${difference.kind}.`,
        consequence: 'It is not known to be harmless, so it counts as if it were not.',
        advice: DRAIN,
      }),
    ];
  });
}
