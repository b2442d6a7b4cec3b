import { type ChangeRule, DRAIN, findingAt, keptTriggers } from './change.ts';
import { jsonOf } from './json-of.ts';

const LOST = {
  webhook: 'Publishers that deliver to it get a 404.',
  cron: 'It fires no more by its schedule.',
  manual: 'It can no longer be named as a manual trigger; the flow can be started by hand all the same.',
} as const;

export const triggerTypeChanged: ChangeRule = (change) =>
  keptTriggers(change)
    .filter(({ before, after }) => before.type !== after.type)
    .map(({ key, before, after }) =>
      findingAt(['triggers', key], {
        rule: 'trigger-type-changed',
        class: 'caution',
        before: jsonOf(before),
        after: jsonOf(after),
        message: `The trigger \`${key}\` was a ${before.type} trigger and is a ${after.type} trigger.`,
        consequence: `${LOST[before.type]} Runs in flight go on; their records name a trigger that is now of another type.`,
        advice: `Give the new trigger a key of its own. ${DRAIN}`,
      }),
    );
