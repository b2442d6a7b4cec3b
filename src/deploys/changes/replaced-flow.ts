import type { Finding, LiveFlow } from '../../model/finding.ts';
import { countedRuns, findingAt } from './revisions.ts';

/** The finding about a manifest that replaces a deployed flow under a new id. */
export function flowIdChanged(input: {
  /** The flow whose manifest is gone. */
  readonly replaced: { readonly id: string; readonly name: string };
  readonly next: { readonly id: string; readonly name: string };
  /** How `findReplaced` matched them; absent if one manifest was compared with the other. */
  readonly because?: 'slug' | 'name' | undefined;
  readonly live: LiveFlow;
}): Finding {
  const { replaced, next, because, live } = input;
  const reason = because === undefined ? '' : `, which has the same ${because}`;
  return findingAt(['id'], {
    rule: 'flow-id-changed',
    class: 'breaking',
    before: replaced.id,
    after: next.id,
    message: `The manifest has the id ${next.id}; "${replaced.name}"${reason}, is deployed as ${replaced.id}.`,
    consequence:
      'What is stored belongs to the id: runs and the state of schedules stay with the old id. So the new flow starts ' +
      'without history and knows no paused schedules. Idempotency keys and accepted nonces go along with a slug that it ' +
      'takes over, and with nothing else. Runs in flight continue under the old id.',
    advice: 'Keep the id; or make a clean break on purpose, as the recipe says.',
    live: live.runsInFlight === 0 ? undefined : `${countedRuns(live.runsInFlight)} of the old id in flight`,
    recipe: flowIdRecipe(replaced, next),
  });
}

/** Restores the id. A clean break needs two manifests, which a patch cannot express. */
function flowIdRecipe(replaced: { id: string; name: string }, next: { id: string; name: string }): Finding['recipe'] {
  return {
    title: 'Keep the id, or make a clean break',
    steps: [
      `To keep the flow, give the manifest its old id ${replaced.id} again: the patch does that.`,
      `For a clean break, restore the old manifest with the id ${replaced.id}, and deploy this one next to it with the ` +
        `new id ${next.id} and with a name and slugs of its own.`,
      `Disable the old flow: POST /flows/api/flows/${replaced.id}/disable. Its history stays readable.`,
      'Move the triggers: point publishers to the new slug or id, and take cron triggers out of the old manifest.',
    ],
    patch: { id: replaced.id },
  };
}

/** Properties by which another flow is recognized as a replacement. */
interface FlowIdentity {
  readonly id: string;
  readonly name: string;
  readonly slugs: readonly string[];
}

/**
 * The deployed flow that a manifest with an unknown id replaces: one without a manifest that has one of its slugs or,
 * failing that, its name. A flow whose id is deployed replaces nothing.
 */
export function findReplaced(input: {
  next: FlowIdentity;
  deployed: readonly FlowIdentity[];
  goneIds: ReadonlySet<string>;
}): { id: string; because: 'slug' | 'name' } | undefined {
  const { next, deployed, goneIds } = input;
  if (deployed.some(({ id }) => id === next.id)) return undefined;
  const gone = deployed.filter(({ id }) => goneIds.has(id));
  // Slugs are matched in any case, as the route matches them.
  const slugs = new Set(next.slugs.map((slug) => slug.toLowerCase()));
  const bySlug = gone.find((flow) => flow.slugs.some((slug) => slugs.has(slug.toLowerCase())));
  if (bySlug !== undefined) return { id: bySlug.id, because: 'slug' };
  const byName = gone.find(({ name }) => name === next.name);
  return byName && { id: byName.id, because: 'name' };
}
