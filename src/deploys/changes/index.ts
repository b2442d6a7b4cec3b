import { formatPath } from '../../expressions/json-path.ts';
import { changeRules } from '../../features/changes.ts';
import { differences } from '../../manifest/diff.ts';
import { FINDING_CLASSES, type Finding, type FindingClass, type LiveFlow } from '../../model/finding.ts';
import type { Json } from '../../model/json.ts';
import {
  type Change,
  DRAIN,
  findingAt,
  jsonOf,
  movedRoutes,
  readChange,
  renamedTriggers,
  type ServiceSettings,
} from './change.ts';

export type { ServiceSettings } from './change.ts';
export { findReplaced, flowIdChanged } from './replaced-flow.ts';

/** Two revisions of a flow. Snapshots are in canonical spelling; their secrets are references or masked. */
interface Revisions {
  readonly before: Json;
  readonly after: Json;
  readonly live: LiveFlow;
  readonly settings: ServiceSettings;
}

/** Pairs of trigger keys: the second receives from now on what the first received before. */
export function findMovedRoutes(revisions: Revisions): ReturnType<typeof movedRoutes> {
  return movedRoutes(readChange(revisions));
}

/** All differences between two revisions of a flow, the worst first. A difference that no rule knows is a caution. */
export function compareRevisions(revisions: Revisions): readonly Finding[] {
  const change = readChange(revisions);
  const known = changeRules.flat().flatMap((rule) => rule(change));
  const findings = [...known, ...otherChanges(change, known)];
  return findings.sort((one, other) => gravityOf(other) - gravityOf(one));
}

/** The worst class among findings; `safe` if there are none. */
export function gravest(findings: readonly Pick<Finding, 'class'>[]): FindingClass {
  return FINDING_CLASSES[Math.max(0, ...findings.map(gravityOf))] ?? 'breaking';
}

function gravityOf(finding: Pick<Finding, 'class'>): number {
  return FINDING_CLASSES.indexOf(finding.class);
}

/** Differences that no rule reported: unless known to be harmless, a difference is not safe. */
function otherChanges(change: Change, known: readonly Finding[]): Finding[] {
  const { before, after, graphs } = change;
  // A finding about the order of triggers does not cover a single trigger.
  const spoken = new Set(known.map(({ path }) => path).filter((path) => path !== 'triggers'));
  for (const key of renamedTriggers(change).values()) spoken.add(formatPath(['triggers', key]));
  const isRenaming = graphs.some(({ renames }) => renames.size > 0);
  for (const { path, renames, kept } of graphs) {
    for (const names of renames) for (const key of names) spoken.add(formatPath([...path, key]));
    // Edges that only changed because of a rename are covered by its finding.
    if (isRenaming) for (const step of kept) spoken.add(formatPath([...step.path, 'runAfter']));
    if (isRenaming) for (const step of kept) spoken.add(formatPath([...step.path, 'forEach']));
    // The fields of a loop change with the type.
    for (const step of kept.filter((each) => each.before.type !== each.after.type)) {
      for (const field of ['forEach', 'concurrencyLimit', 'steps']) spoken.add(formatPath([...step.path, field]));
    }
  }
  const around = new Set([...spoken].flatMap(placesAround));
  return differences(jsonOf(before), jsonOf(after)).flatMap((difference) => {
    const places = difference.at.map((_, index) => formatPath(difference.at.slice(0, index + 1)));
    const place = formatPath(difference.at);
    if (places.some((each) => spoken.has(each)) || around.has(place)) return [];
    return [
      findingAt(difference.at, {
        rule: 'other-changed',
        class: 'caution',
        before: difference.before,
        after: difference.after,
        message: `This part of the manifest was ${difference.kind}.`,
        consequence: 'No rule says that this is harmless, so it counts as a caution.',
        advice: DRAIN,
      }),
    ];
  });
}

/** The places around a path: its parts in front of each dot. */
function placesAround(path: string): string[] {
  return [...path.matchAll(/\./g)].map(({ index }) => path.slice(0, index));
}
