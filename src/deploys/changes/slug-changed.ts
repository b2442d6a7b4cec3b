import { type ChangeRule, findingAt } from './change.ts';
import { webhookPairs } from './webhook-pairs.ts';

export const slugChanged: ChangeRule = (change) =>
  webhookPairs(change).flatMap(({ key, before: { webhookSlug: before }, after: { webhookSlug: after } }) => {
    if (before === after) return [];
    const isSameRoute = before === undefined || before.toLowerCase() === after?.toLowerCase();
    return [
      findingAt(['triggers', key, 'inputs', 'webhookSlug'], {
        rule: 'slug-changed',
        class: isSameRoute ? 'safe' : 'caution',
        before,
        after,
        message: `The slug of \`${key}\` is ${before === undefined ? 'new' : after === undefined ? 'gone' : 'another'}.`,
        consequence: isSameRoute
          ? 'Every URL that worked goes on working: slugs are matched in any case.'
          : `Publishers that deliver to ${before} get a 404 from the deploy on. Runs in flight are not touched.`,
        ...(isSameRoute
          ? {}
          : { advice: 'Add a second webhook trigger with the new slug, and move publishers over first.' }),
      }),
    ];
  });
