import { z } from 'zod';
import { type TriggerObject, triggerPart } from '../../manifest/trigger-part.ts';

/** Keys of steps with dots between them, those of loops first. */
const STEP_PATH = /^[\w-]{1,64}(?:\.[\w-]{1,64})*$/;

const schema = z
  .strictObject({
    step: z
      .string()
      .regex(STEP_PATH, 'is not the key of a step')
      .describe('Key of the `WaitForSignal` step; of a loop’s step behind that of the loop, as in `orders.approval`.'),
    key: z
      .string({ error: 'is not an expression; a text is accepted' })
      .describe('CEL expression over body and headers: it answers the runs whose step has the same `key`.'),
  })
  .describe('The deliveries answer a step that waits, in place of starting runs.');

const signals: TriggerObject<typeof schema> = {
  schema,
  keys: Object.keys(schema.shape),
  fetches: false,
  secrets: () => [],
  eventId: () => undefined,
  signals: (written) => written,
  problems({ step }, { verifies, mode }) {
    if (mode !== 'Enforce' || verifies) return [];
    const message = `answers "${step}" for whoever knows the URL: no scheme is named, so nothing is verified`;
    return [{ kind: 'weakness', message }];
  },
  unverified: () => undefined,
  changed(before, after) {
    const what = before === undefined || after === undefined ? 'answers a step' : 'answers steps';
    return {
      class: 'caution',
      what: `${what} that waits ${before === undefined ? 'is new' : after === undefined ? 'is gone' : 'changed'}.`,
      consequence:
        after === undefined
          ? `Its deliveries start runs from now on, and answer \`${before?.step}\` no more. Runs that wait there go on waiting.`
          : `Its deliveries answer \`${after.step}\` from now on, also of runs in flight whose step has a key, and start no runs.`,
    };
  },
};

export const signalsTrigger = triggerPart({ name: 'signals', fields: {}, objects: { signals } });
