import { z } from 'zod';
import { field } from '../../manifest/fields/row.ts';
import { text } from '../../manifest/fields/values.ts';
import { answerOnly } from '../../manifest/fields/verdicts.ts';
import { triggerPart } from '../../manifest/trigger-part.ts';

const respond = z.strictObject({
  step: text.describe('Key of the step whose output is the answer.'),
  withinSeconds: z
    .number()
    .min(0.1)
    .max(25)
    .optional()
    .describe('How long the publisher waits for it, from the arrival of the delivery; 2.5 by default.'),
});

const fields = {
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

export const respondTrigger = triggerPart({
  name: 'respond',
  fields,
  // A stranger gets the same answer as the publisher, because the answer must not reveal who was verified.
  warnings({ webhookRespond }, { mode, verifies }) {
    if (webhookRespond === undefined || (verifies && mode === 'Enforce')) return {};
    const why = verifies ? `the mode is ${mode}` : 'no signature is checked';
    return { webhookRespond: `answers everybody who knows the URL with what the step says: ${why}` };
  },
});
