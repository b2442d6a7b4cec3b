import { z } from 'zod';
import { SIGNAL_NAME } from '../../model/run.ts';
import { parseRuntimeKey } from '../../model/runtime-keys.ts';
import { defineHandler } from './handler.ts';
import { MAX_WAIT_SECONDS } from './plain-steps.ts';

const CHOICE = /^(?=.*\S).{1,64}$/;

const KEY =
  'expected a text, or a number of at most 15 digits: string(trigger.body.id) keeps all digits of a longer one';
const exactNumber = z.number().refine((number) => Number.isSafeInteger(number) || !Number.isInteger(number));

/** Waits for a signal of the run; the output is the signal's JSON body. Without a time limit it waits for ever. */
export const waitForSignal = defineHandler({
  type: 'WaitForSignal',
  inputs: z.strictObject({
    signalName: z
      .string()
      .regex(SIGNAL_NAME, 'expected 1 to 128 letters, digits, "_", ".", ":" and "-"')
      .optional()
      .describe('Name of the signal; the key of the step where it is left out.'),
    choices: z
      .array(z.string().regex(CHOICE, 'expected 1 to 64 characters in one line'))
      .min(2)
      .max(20)
      .refine((choices) => new Set(choices).size === choices.length, 'names a choice twice')
      .optional()
      .describe('What people may answer by the link `waits.KEY.url`.'),
    key: z
      .union([z.string().regex(/\S/), exactNumber.transform(String)], { error: KEY })
      .optional()
      .describe('Deliveries to a trigger whose `signals` names this step and gives this key answer it.'),
    question: z.string().max(1000).optional().describe('What the page of the link asks.'),
    timeoutSeconds: z
      .number()
      .positive()
      .max(MAX_WAIT_SECONDS)
      .optional()
      .describe('After this time the step fails with signal_timeout; without it the step waits forever.'),
  }),
  waitsFor: ({ signalName }, stepKey) => [typeof signalName === 'string' ? signalName : stepKey],
  run: ({ inputs: { signalName: named, timeoutSeconds, key: signalKey }, stepKey, resumed, now }) => {
    const signalName = named ?? parseRuntimeKey(stepKey).localKey;
    if (resumed?.signal) return { kind: 'succeeded', output: resumed.signal.body };
    const settled = typeof resumed?.state === 'number' ? resumed.state : undefined;
    const end = settled ?? (timeoutSeconds === undefined ? undefined : now() + timeoutSeconds * 1000);
    if (end !== undefined && now() >= end) {
      const message = `no signal "${signalName}" came in time`;
      return { kind: 'failed', code: 'signal_timeout', message, retryable: false };
    }
    return end === undefined
      ? { kind: 'waiting', signalName, signalKey }
      : { kind: 'waiting', signalName, signalKey, until: end, state: end };
  },
});
