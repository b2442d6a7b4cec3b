import { z } from 'zod';
import { anyJson, defineHandler, noSignals } from './handler.ts';

/** Writes one log line with the run's and the step's ids; the output is the message as it was given. */
export const logMessage = defineHandler({
  type: 'LogMessage',
  inputs: z.strictObject({
    message: anyJson.describe('Text, or any JSON.'),
    level: z
      .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal'])
      .default('info')
      .describe('Level of the log line.'),
  }),
  waitsFor: noSignals,
  run: ({ inputs: { message, level }, logger }) => {
    logger[level](typeof message === 'string' ? message : JSON.stringify(message));
    return { kind: 'succeeded', output: message };
  },
});
