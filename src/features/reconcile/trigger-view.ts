import { z } from 'zod';
import { triggerView } from '../../dashboard/services.ts';

export const reconcileTriggerView = triggerView({
  fields: {
    reconcile: z
      .object({
        from: z.string(),
        every: z.string().describe('ISO 8601 duration.'),
        lookback: z.string().describe('ISO 8601 duration.'),
        acceptUnsigned: z.boolean(),
      })
      .nullable()
      .optional()
      .describe('The log of the publisher that is asked for deliveries that never arrived. null if none is.'),
  },
  of({ trigger: { reconcile } }) {
    if (reconcile === undefined) return { reconcile: null };
    const { from, every, lookback, acceptUnsigned = false } = reconcile;
    return { reconcile: { from, every, lookback, acceptUnsigned } };
  },
});
