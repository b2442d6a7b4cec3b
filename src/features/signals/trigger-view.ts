import { z } from 'zod';
import { triggerView } from '../../dashboard/services.ts';

export const signalsTriggerView = triggerView({
  fields: {
    signals: z
      .object({ step: z.string(), key: z.string() })
      .nullable()
      .optional()
      .describe(
        'The step that its deliveries answer in place of starting runs, and the expression of their key. null if none.',
      ),
  },
  of: ({ signals }) => ({ signals: signals === undefined ? null : { step: signals.step, key: signals.key } }),
});
