import { z } from 'zod';
import type { Json } from '../../model/json.ts';
import { defineHandler } from './handler.ts';

/** Writes one log line with the run's and the step's ids; the output is the message as it was given. */
export const logMessage = defineHandler({
  type: 'LogMessage',
  inputs: z.strictObject({
    message: z.custom<Json>((value) => value !== undefined, 'expected any JSON value'),
    level: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal']).default('info'),
  }),
  run: ({ inputs: { message, level }, logger }) => {
    logger[level](typeof message === 'string' ? message : JSON.stringify(message));
    return { kind: 'succeeded', output: message };
  },
});
