import { z } from 'zod';
import { field } from './row.ts';
import { text } from './values.ts';
import { answerOnly } from './verdicts.ts';

const respond = z.strictObject({
  step: text.describe('Key of the step whose output is the answer.'),
  withinSeconds: z
    .number()
    .min(0.1)
    .max(25)
    .optional()
    .describe('How long the publisher waits for it, from the arrival of the delivery; 2.5 by default.'),
});

export const respondFields = {
  webhookRespond: field({
    schema: respond.describe(
      'Step of the run that answers an accepted delivery: its output is status (200 to 299), headers and body.',
    ),
    holds: 'value',
    decides: 'answer',
    readBy: 'every scheme',
    docs: 'endpoint',
    change: answerOnly([undefined, { step: 'a' }]),
    isOwnOnSharedSlug: true,
    answersByRun: true,
  }),
};
