import { formatPath, type JsonPath } from '../../expressions/json-path.ts';
import type { Manifest, Trigger } from '../../manifest/schema.ts';
import type { FieldDefaults } from '../../manifest/webhook-fields.ts';
import type { Finding, LiveFlow } from '../../model/finding.ts';
import { isSame, type Json } from '../../model/json.ts';

/** The service's defaults for a manifest, and how long it keeps runs. */
export interface ServiceSettings extends FieldDefaults {
  readonly runRetentionDays: number;
}

/** Two revisions of a flow. Snapshots are in canonical spelling; their secrets are references or masked. */
export interface Revisions {
  readonly before: Json;
  readonly after: Json;
  readonly live: LiveFlow;
  readonly settings: ServiceSettings;
}

/** Compares two revisions. Pure. */
export type CompareRevisions = (revisions: Revisions) => {
  readonly findings: readonly Finding[];
  /** Further places of differences that the findings explain. */
  readonly explained: readonly string[];
};

interface Manifests {
  readonly before: Manifest;
  readonly after: Manifest;
}

/** Snapshots were written from loaded manifests, so their form is known. */
export function manifestsOf({ before, after }: Pick<Revisions, 'before' | 'after'>): Manifests {
  return { before: before as unknown as Manifest, after: after as unknown as Manifest };
}

/** Old key to new key of triggers that were only renamed, or kept their slug under another key. */
export function renamedTriggers({ before, after }: Manifests): ReadonlyMap<string, string> {
  const gone = Object.entries(before.triggers).filter(([key]) => !Object.hasOwn(after.triggers, key));
  const fresh = Object.entries(after.triggers).filter(([key]) => !Object.hasOwn(before.triggers, key));
  const renames = new Map<string, string>();
  for (const [key, trigger] of gone) {
    const taken = new Set(renames.values());
    const found = fresh.find(([newKey, other]) => !taken.has(newKey) && isSameTrigger(trigger, other));
    if (found !== undefined) renames.set(key, found[0]);
  }
  return renames;
}

/**
 * Pairs of triggers that receive the same deliveries, the first before and the second from now on: renamed triggers,
 * those that took a slug from another, and the first webhook triggers, to which the flow id leads.
 */
export function findMovedRoutes(
  revisions: Pick<Revisions, 'before' | 'after'>,
): { readonly from: string; readonly to: string }[] {
  const manifests = manifestsOf(revisions);
  const routesOf = ({ triggers }: Manifest) => {
    const webhooks = Object.entries(triggers).filter(([, { type }]) => type === 'webhook');
    const slugs = webhooks.flatMap(([key, trigger]) => {
      const slug = slugOf(trigger);
      return slug === undefined ? [] : [[`slug ${slug}`, key] as const];
    });
    return new Map([...webhooks.slice(0, 1).map(([key]) => ['id', key] as const), ...slugs]);
  };
  const before = routesOf(manifests.before);
  const moved = [...routesOf(manifests.after)].flatMap(([route, to]): [string, string][] => {
    const from = before.get(route);
    return from === undefined || from === to ? [] : [[from, to]];
  });
  const pairs = new Map([...renamedTriggers(manifests), ...moved].map((pair) => [JSON.stringify(pair), pair]));
  return [...pairs.values()].map(([from, to]) => ({ from, to }));
}

function isSameTrigger(one: Trigger, other: Trigger): boolean {
  return isSame(jsonOf(one), jsonOf(other)) || (slugOf(one) !== undefined && slugOf(one) === slugOf(other));
}

/** In lower case, for comparing routes. */
function slugOf(trigger: Trigger): string | undefined {
  return trigger.type === 'webhook' ? trigger.inputs.webhookSlug?.toLowerCase() : undefined;
}

/** A finding with its path as text. */
export function findingAt(path: JsonPath, finding: Omit<Finding, 'path'>): Finding {
  return { ...finding, path: formatPath(path) };
}

export const DRAIN =
  'Drain the flow first: pause its cron triggers, hold its webhook triggers, wait until no run of it is in flight.';

/** A part of a snapshot as the JSON that it was read from. */
export function jsonOf(part: object | string | number | boolean | null): Json;
export function jsonOf(part: unknown): Json | undefined;
export function jsonOf(part: unknown): Json | undefined {
  return part as Json | undefined;
}

export function countedRuns(runs: number): string {
  return `${runs} ${runs === 1 ? 'run' : 'runs'}`;
}
