import { z } from 'zod';
import { type Coalescing, type TriggerObject, triggerPart } from '../../manifest/trigger-part.ts';
import { bytesOf, dueAtOf } from './group.ts';

const MAX_SECONDS = 86_400;

const schema = z
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

const coalesce: TriggerObject<typeof schema> = {
  schema,
  keys: Object.keys(schema.shape),
  fetches: false,
  secrets: () => [],
  coalesces: coalescingOf,
  mistakes: ({ quietSeconds, maxSeconds }, inputs) => [
    ...(maxSeconds < quietSeconds
      ? [{ field: 'maxSeconds', message: `is less than quietSeconds, ${quietSeconds}` }]
      : []),
    // A delivery would join the run of one flow and start a run of another.
    ...(inputs.webhookShared === true ? [{ message: 'is not accepted together with webhookShared' }] : []),
    // The request would wait for a run that waits for other requests.
    ...('webhookRespond' in inputs ? [{ message: 'is not accepted together with webhookRespond' }] : []),
  ],
  problems: () => [],
  unverified: () => undefined,
  changed: (before, after) => ({
    class: 'caution',
    of: 'deliveries',
    what: `share runs ${before === undefined ? 'is new' : 'changed'}.`,
    consequence:
      after === undefined
        ? 'Each delivery that arrives after the deploy starts a run of its own. Runs that wait for more start as they were to.'
        : 'Deliveries that arrive after the deploy share runs as it says, and join none that waits since before. A run may ' +
          'have several deliveries: steps that read `trigger.body` see the newest alone.',
    advice: 'Check that the steps read `trigger.deliveries` where deliveries share runs.',
  }),
};

function coalescingOf({ key, quietSeconds, maxSeconds, collect }: z.output<typeof schema>): Coalescing {
  const limits = { quietMs: Math.ceil(quietSeconds * 1000), maxMs: Math.ceil(maxSeconds * 1000), collect };
  return {
    key,
    claim: ({ at, body, headers, ...said }) => ({
      claim: { ...said, ...limits },
      dueAt: dueAtOf({ ...limits, at, bytes: bytesOf(body, headers) }),
    }),
  };
}

export const coalesceTrigger = triggerPart({ name: 'coalesce', fields: {}, objects: { coalesce } });
