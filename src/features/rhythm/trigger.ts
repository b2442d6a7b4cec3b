import { field } from '../../manifest/fields/row.ts';
import { text } from '../../manifest/fields/values.ts';
import { verdict } from '../../manifest/fields/verdicts.ts';
import { triggerPart } from '../../manifest/trigger-part.ts';
import { DAY_MS, MINUTE_MS } from '../../model/clock.ts';
import { durationMs } from '../../model/duration.ts';

const [SHORTEST_MS, LONGEST_MS] = [MINUTE_MS, 31 * DAY_MS];

const fields = {
  webhookExpectEvery: field({
    schema: text
      .refine(isExpectation, {
        error: 'is not an ISO 8601 duration from PT1M to P31D, such as PT2H or P1D, and not "off"',
      })
      .describe(
        'Longest usual time between two deliveries, as an ISO 8601 duration such as PT2H: a longer silence needs attention; learned by default, and not watched if "off" or in the mode Off.',
      ),
    holds: 'value',
    // Only watches arrivals, so it does not change who gets in.
    decides: 'answer',
    readBy: 'every scheme',
    docs: 'runs',
    isOwnOnSharedSlug: true,
    change: {
      rule: (_before, after) => {
        if (after === undefined) return verdict('same', 'A silence needs attention once it is longer than is usual.');
        if (after.toLowerCase() === 'off')
          return verdict('same', 'No silence of the trigger needs attention any more.');
        return verdict('same', `A silence of more than ${after} needs attention, unless the mode is Off.`);
      },
      edits: {
        same: [
          [undefined, 'PT2H'],
          ['PT2H', 'off'],
        ],
      },
    },
  }),
};

/** In mode Off, no silence is judged: see docs/alerts.md. */
export const rhythmTrigger = triggerPart({
  name: 'rhythm',
  fields,
  warnings({ webhookExpectEvery: expected }, { mode }) {
    if (expected === undefined || expected.toLowerCase() === 'off' || mode !== 'Off') return {};
    return { webhookExpectEvery: 'has no effect in the mode Off: a silence is told in Audit and Enforce alone' };
  },
});

function isExpectation(given: string): boolean {
  if (given.toLowerCase() === 'off') return true;
  const ms = durationMs(given);
  return ms !== undefined && ms >= SHORTEST_MS && ms <= LONGEST_MS;
}
