import { z } from 'zod';
import { type ArrivingBody, DOCUMENT_HEADER } from '../../expressions/trigger-body.ts';
import { ConversionError } from '../../expressions/values.ts';
import { type Signalling, type TriggerObject, triggerPart } from '../../manifest/trigger-part.ts';
import { isJsonObject, type Json, own } from '../../model/json.ts';

/** Step keys joined with dots, outer loops first. */
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
  signals: ({ step, key }) => ({ step, key, claim: (given) => claimOf(step, given) }),
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

/** The output of the answered step: like that of a link's answer, plus the delivery. */
function claimOf(step: string, given: Parameters<Signalling['claim']>[0]): ReturnType<Signalling['claim']> {
  const { key, run } = given;
  const { deliveryId, startedAt: at, trigger } = run;
  const { [DOCUMENT_HEADER]: _, ...headers } = trigger.headers;
  const body = key === undefined ? null : bodyOf(given.body);
  const chosen = isJsonObject(body) ? own(body, 'choice') : undefined;
  const choice = typeof chosen === 'string' ? chosen : undefined;
  const answeredAt = new Date(at).toISOString();
  const output = {
    choice,
    answeredAt,
    by: 'webhook',
    trigger: trigger.key,
    deliveryId,
    headers,
    body,
  };
  return { step, key, choice, body: JSON.stringify(output), deliveryId, at };
}

/** Null if the body is unreadable: then the key came from headers only. */
function bodyOf(body: ArrivingBody): Json {
  try {
    return body.exactValue();
  } catch (error) {
    if (error instanceof ConversionError) return null;
    throw error;
  }
}

export const signalsTrigger = triggerPart({ name: 'signals', fields: {}, objects: { signals } });
