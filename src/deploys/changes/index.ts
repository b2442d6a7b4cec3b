import { formatPath } from '../../expressions/json-path.ts';
import { changeRules } from '../../features/changes.ts';
import { differences } from '../../manifest/diff.ts';
import { FINDING_CLASSES, type Finding, type FindingClass } from '../../model/finding.ts';
import { DRAIN, findingAt, type Revisions } from './revisions.ts';

export { findReplaced, flowIdChanged } from './replaced-flow.ts';
export { findMovedRoutes, type ServiceSettings } from './revisions.ts';

/** All differences between two revisions of a flow, the worst first. A difference that no rule knows is a caution. */
export function compareRevisions(revisions: Revisions): readonly Finding[] {
  const compared = changeRules.map((compare) => compare(revisions));
  const known = compared.flatMap(({ findings }) => findings);
  const explained = compared.flatMap((each) => each.explained);
  const findings = [...known, ...otherChanges(revisions, [...known.map(({ path }) => path), ...explained])];
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
function otherChanges({ before, after }: Revisions, known: readonly string[]): Finding[] {
  // A finding about the order of triggers does not cover a single trigger.
  const spoken = new Set(known.filter((path) => path !== 'triggers'));
  const around = new Set([...spoken].flatMap(placesAround));
  return differences(before, after).flatMap((difference) => {
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
