import { z } from 'zod';
import { field } from './row.ts';
import { verdict } from './verdicts.ts';

export const sharingFields = {
  webhookShared: field({
    schema: z
      .boolean()
      .describe(
        'Whether triggers of other flows that say so too, with the same gates, get the deliveries of the slug as well; false by default.',
      ),
    holds: 'value',
    decides: ['shared'],
    readBy: 'every scheme',
    docs: 'runs',
    change: {
      rule: (_before, after) =>
        after === true
          ? verdict(
              'same',
              'Flows whose trigger says so too, and has the same gates, may get the deliveries of its slug as well.',
            )
          : verdict('same', 'No other flow gets the deliveries of its slug.'),
      edits: {
        same: [
          [undefined, true],
          [true, false],
        ],
      },
    },
  }),
};
