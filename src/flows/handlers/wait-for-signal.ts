import { z } from 'zod';
import { SIGNAL_NAME } from '../../model/run.ts';
import { defineHandler } from './handler.ts';
import { MAX_WAIT_SECONDS } from './plain-steps.ts';

/** Waits for a signal of the run; the output is the signal's JSON body. Without a time limit it waits for ever. */
export const waitForSignal = defineHandler({
  type: 'WaitForSignal',
  inputs: z.strictObject({
    signalName: z
      .string()
      .regex(SIGNAL_NAME, 'expected 1 to 128 letters, digits, "_", ".", ":" and "-"')
      .describe('Name of the signal.'),
    timeoutSeconds: z
      .number()
      .positive()
      .max(MAX_WAIT_SECONDS)
      .optional()
      .describe('After this time the step fails with signal_timeout; without it the step waits forever.'),
  }),
  waitsFor: ({ signalName }) => (typeof signalName === 'string' ? [signalName] : undefined),
  run: ({ inputs: { signalName, timeoutSeconds }, resumed, now }) => {
    if (resumed?.signal) return { kind: 'succeeded', output: resumed.signal.body };
    const settled = typeof resumed?.state === 'number' ? resumed.state : undefined;
    const end = settled ?? (timeoutSeconds === undefined ? undefined : now() + timeoutSeconds * 1000);
    if (end !== undefined && now() >= end) {
      const message = `no signal "${signalName}" came in time`;
      return { kind: 'failed', code: 'signal_timeout', message, retryable: false };
    }
    return end === undefined
      ? { kind: 'waiting', signalName }
      : { kind: 'waiting', signalName, until: end, state: end };
  },
});
