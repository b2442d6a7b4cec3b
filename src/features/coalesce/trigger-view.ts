import { z } from 'zod';
import { field } from '../../dashboard/answer.ts';
import { triggerView } from '../../dashboard/services.ts';

export const coalesceTriggerView = triggerView({
  fields: {
    coalesce: z
      .object({
        key: z.string(),
        quietSeconds: z.number(),
        maxSeconds: z.number(),
        collect: field.integer(),
      })
      .nullable()
      .optional()
      .describe('Which deliveries share a run, and how long it waits for them. null if each has a run of its own.'),
  },
  of: ({ trigger: { coalesce = null } }) => ({ coalesce }),
});
