import { isSame } from '../../manifest/diff.ts';
import type { Trigger } from '../../model/manifest.ts';
import type { Change } from './change.ts';
import { jsonOf } from './json-of.ts';

/** Old key to new key of triggers that only changed their name, or kept their slug under another. */
export function renamedTriggers({ before, after }: Change): ReadonlyMap<string, string> {
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

export function newTriggers(change: Change): [string, Trigger][] {
  const renamed = new Set(renamedTriggers(change).values());
  const { before, after } = change;
  return Object.entries(after.triggers).filter(([key]) => !Object.hasOwn(before.triggers, key) && !renamed.has(key));
}

function isSameTrigger(one: Trigger, other: Trigger): boolean {
  return isSame(jsonOf(one), jsonOf(other)) || (slugOf(one) !== undefined && slugOf(one) === slugOf(other));
}

/** As the route compares it. */
export function slugOf(trigger: Trigger): string | undefined {
  return trigger.type === 'webhook' ? trigger.inputs.webhookSlug?.toLowerCase() : undefined;
}
