import { field } from '../../manifest/fields/row.ts';
import { text } from '../../manifest/fields/values.ts';
import { verdict } from '../../manifest/fields/verdicts.ts';
import { triggerPart } from '../../manifest/trigger-part.ts';

const fields = {
  webhookWhen: field({
    schema: text.describe(
      'CEL condition over body and headers: where it is false, the answer is 200 and no run starts.',
    ),
    holds: 'value',
    // Keeps runs from starting; who gets in stays the same.
    decides: 'answer',
    readBy: 'every scheme',
    docs: 'runs',
    change: {
      rule: (before, after) => {
        if (after === undefined) return verdict('same', 'Every accepted delivery starts a run.');
        const others =
          before === undefined ? 'Until now every accepted delivery started one.' : 'Others may than before.';
        return verdict('same', `Only deliveries for which it is true start a run. ${others}`);
      },
      edits: {
        same: [
          [undefined, 'body.n > 1'],
          ['body.n > 1', 'body.n > 2'],
        ],
      },
    },
    isOwnOnSharedSlug: true,
    before: 'webhookEventId',
  }),
};

export const filterTrigger = triggerPart({
  name: 'filter',
  fields,
  filter: ({ webhookWhen: condition }) => (condition === undefined ? undefined : { field: 'webhookWhen', condition }),
});
