import { z } from 'zod';
import { type TriggerObject, triggerPart } from '../../manifest/trigger-part.ts';
import { keyMistakes, readerOf } from './keys.ts';

const schema = z
  .record(z.string(), z.string({ error: 'is not an expression; a text is accepted' }))
  .describe(
    'Values for finding runs and deliveries, by name: CEL expressions over body and headers, such as "body.order.name" or ' +
      '"headers.x-github-event". At most 8. Webhooks of many schemes also have event and id, unless this is empty.',
  );

const searchKeys: TriggerObject<typeof schema> = {
  schema,
  isOnManual: true,
  fetches: false,
  secrets: () => [],
  searchKeys: readerOf,
  mistakes: keyMistakes,
  problems: () => [],
  unverified: () => undefined,
  changed: () => ({
    class: 'safe',
    subject: 'The search keys of',
    what: 'changed.',
    consequence:
      'Deliveries that arrive after the deploy have the new keys. Earlier ones, and runs in flight, keep ' +
      'their values.',
  }),
};

export const searchKeysTrigger = triggerPart({ name: 'search-keys', fields: {}, objects: { searchKeys } });
