import { z } from 'zod';
import { field } from './row.ts';
import { verdict } from './verdicts.ts';

export const holdFields = {
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
  }),
};
