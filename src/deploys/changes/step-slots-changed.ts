import { type ChangeRule, findingAt } from './change.ts';

/** How many steps of a flow, or of a type in it, run at once: read from the newest revision whenever a step is claimed. */
export const stepSlotsChanged: ChangeRule = ({ before, after, graphs }) => {
  const places = [
    { path: ['concurrency'], of: 'the flow', before: before.concurrency, after: after.concurrency },
    ...graphs.flatMap(({ kept }) =>
      kept.map((step) => ({
        path: [...step.path, 'concurrency'],
        of: `\`${step.stepKey}\``,
        before: step.before.concurrency,
        after: step.after.concurrency,
      })),
    ),
  ];
  return places
    .filter((place) => place.before !== place.after)
    .map((place) =>
      findingAt(place.path, {
        rule: 'step-slots-changed',
        class: 'safe',
        before: place.before,
        after: place.after,
        message: `concurrency of ${place.of} changed.`,
        consequence: 'It holds for runs in flight too, from the next step that starts; steps that run go on.',
      }),
    );
};
