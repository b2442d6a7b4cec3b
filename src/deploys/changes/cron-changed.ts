import { type ChangeRule, findingAt, keptTriggers } from './change.ts';

const FIELDS = [
  ['cronExpression', 'cron-changed', 'The cron expression'],
  ['timeZone', 'time-zone-changed', 'The time zone'],
  ['onMissed', 'on-missed-changed', 'What becomes of a missed tick'],
] as const;

export const cronChanged: ChangeRule = (change) =>
  keptTriggers(change).flatMap(({ key, before, after }) => {
    if (before.type !== 'cron' || after.type !== 'cron') return [];
    const [one, other] = [before.inputs, after.inputs];
    return FIELDS.filter(([field]) => one[field] !== other[field]).map(([field, rule, name]) =>
      findingAt(['triggers', key, 'inputs', field], {
        rule,
        class: 'safe',
        before: one[field],
        after: other[field],
        message: `${name} of \`${key}\` changed.`,
        consequence:
          field === 'onMissed'
            ? 'It is read when a tick was missed. Runs in flight are not touched.'
            : 'The next tick is reckoned anew when the schedules are synchronised, at the latest a minute after the deploy; ' +
              'runs in flight are not touched. A paused trigger stays paused, and a schedule that was changed on the dashboard ' +
              'keeps that change.',
        ...(field === 'onMissed'
          ? {}
          : {
              advice:
                'Pause the trigger before the deploy and resume it afterwards where a tick in between would do harm.',
            }),
      }),
    );
  });
