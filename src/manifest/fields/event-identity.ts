import { z } from 'zod';
import { field } from './row.ts';
import { text } from './values.ts';
import { verdict } from './verdicts.ts';

const ofEvents = {
  holds: 'value',
  decides: ['eventId'],
  readBy: 'every scheme',
  docs: 'runs',
  isOwnOnSharedSlug: true,
} as const;

export const eventIdentityFields = {
  webhookEventId: field({
    ...ofEvents,
    schema: text.describe(
      'CEL expression over body and headers that names the event: a second delivery of it starts no run; by default the id of the scheme, where the publisher signs one, and none if "off".',
    ),
    change: {
      rule: (_before, after) => {
        if (after === undefined) return verdict('same', 'The id that the scheme signs names the event, if it has one.');
        if (after.trim().toLowerCase() === 'off') {
          return verdict('same', 'No delivery counts as a repetition of an event: each that is accepted starts a run.');
        }
        return verdict(
          'same',
          'Its value names the event from now on, where 7 and "7" are one: a repetition of one that came before starts a run.',
        );
      },
      edits: {
        same: [
          [undefined, 'body.id'],
          ['body.id', 'off'],
        ],
      },
    },
  }),
  webhookEventIdDays: field({
    ...ofEvents,
    schema: z.int().min(1).max(3650).describe('For how many days an event is known; 30 by default.'),
    change: {
      rule: () =>
        verdict(
          'same',
          'It holds for events that come after the deploy; those before are known for as long as was said then.',
        ),
      edits: { same: [[undefined, 7]] },
    },
  }),
};
