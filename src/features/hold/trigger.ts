import { z } from 'zod';
import { field } from '../../manifest/fields/row.ts';
import { verdict } from '../../manifest/fields/verdicts.ts';
import { triggerPart } from '../../manifest/trigger-part.ts';

const fields = {
  webhookHoldDeliveries: field({
    schema: z
      .boolean()
      .describe('Whether deliveries to a disabled or drained flow are kept and start their runs later.'),
    holds: 'value',
    decides: 'answer',
    readBy: 'every scheme',
    docs: 'endpoint',
    change: {
      rule: () => verdict('same', 'It matters while the flow is disabled or drained.'),
      edits: {
        same: [
          [undefined, true],
          [false, true],
        ],
      },
    },
    isOwnOnSharedSlug: true,
    before: 'webhookRespond',
  }),
};

export const holdTrigger = triggerPart({ name: 'hold', fields });
