import type { WebhookInputs } from '../../model/manifest.ts';
import { type Change, keptTriggers } from './change.ts';
import { renamedTriggers } from './trigger-keys.ts';

/** The inputs of a webhook trigger before and after, under its new key where it has one. */
export interface WebhookPair {
  readonly key: string;
  readonly before: WebhookInputs;
  readonly after: WebhookInputs;
}

export function webhookPairs(change: Change): WebhookPair[] {
  const renamed = [...renamedTriggers(change)].flatMap(([oldKey, key]) => {
    const before = change.before.triggers[oldKey];
    const after = change.after.triggers[key];
    return before === undefined || after === undefined ? [] : [{ key, before, after }];
  });
  return [...keptTriggers(change), ...renamed].flatMap(({ key, before, after }) =>
    before.type === 'webhook' && after.type === 'webhook' ? [{ key, before: before.inputs, after: after.inputs }] : [],
  );
}
