import type { Recipe } from '../../../model/finding.ts';

/** Takes the id back; a clean break, where one is meant, needs two manifests and so is no patch. */
export function flowIdRecipe(replaced: { id: string; name: string }, next: { id: string; name: string }): Recipe {
  return {
    title: 'Keep the id, or make a clean break',
    steps: [
      `To keep the flow, give the manifest its old id ${replaced.id} again: the patch does that.`,
      `For a clean break, restore the old manifest with the id ${replaced.id}, and deploy this one beside it with the ` +
        `new id ${next.id} and with a name and slugs of its own.`,
      `Disable the old flow: POST /flows/api/flows/${replaced.id}/disable. Its history stays readable.`,
      'Move the triggers: point publishers to the new slug or id, and take cron triggers out of the old manifest.',
    ],
    patch: { id: replaced.id },
  };
}
