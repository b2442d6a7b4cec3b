import type { Manifest } from '../../model/manifest.ts';
import { type ChangeRule, findingAt } from './change.ts';
import { renamedTriggers } from './trigger-keys.ts';

/** Deliveries to the id of the flow go to its first webhook trigger, so that the order of triggers says who judges them. */
export const firstWebhookChanged: ChangeRule = (change) => {
  const before = firstWebhook(change.before);
  const after = firstWebhook(change.after);
  if (before === undefined || after === undefined || before === after) return [];
  if (renamedTriggers(change).get(before) === after) return [];
  return [
    findingAt(['triggers'], {
      rule: 'first-webhook-changed',
      class: 'caution',
      before,
      after,
      message: `The first webhook trigger is \`${after}\` and was \`${before}\`.`,
      consequence:
        `Deliveries to the id of the flow go to \`${after}\`: its gates judge them, and its keys. Deliveries to a slug go ` +
        'where they went, and runs in flight are not touched.',
      advice: 'Keep the order of webhook triggers, or have publishers call the slug.',
    }),
  ];
};

function firstWebhook({ triggers }: Manifest): string | undefined {
  return Object.entries(triggers).find(([, { type }]) => type === 'webhook')?.[0];
}
