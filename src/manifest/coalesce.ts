import { z } from 'zod';

const MAX_SECONDS = 86_400;

export const coalesceSchema = z
  .strictObject({
    key: z
      .string({ error: 'is not an expression; a text is accepted' })
      .describe('CEL expression over body and headers: deliveries with the same value share a run.'),
    quietSeconds: z
      .number()
      .positive()
      .max(MAX_SECONDS)
      .default(2)
      .describe('The run starts so long after the newest delivery.'),
    maxSeconds: z
      .number()
      .positive()
      .max(MAX_SECONDS)
      .default(30)
      .describe('The run starts so long after the first delivery at the latest.'),
    collect: z.int().min(1).max(1000).default(100).describe('The run starts at once when it has so many deliveries.'),
  })
  .describe(
    'Deliveries of one key become one run, which reads all of them as trigger.deliveries. 1 MiB of them starts it at once too.',
  );

/** What lets deliveries of one key share a run, and for how long. */
export type Coalesce = Readonly<z.output<typeof coalesceSchema>>;
