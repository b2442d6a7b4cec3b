import { z } from 'zod';
import { defineHandler } from './handler.ts';

/** Fails with its message, and is not tried again: a dead end that a manifest chose. */
export const fail = defineHandler({
  type: 'Fail',
  inputs: z.strictObject({ message: z.string().min(1) }),
  run: ({ inputs }) => ({ kind: 'failed', code: 'failed_on_purpose', message: inputs.message, retryable: false }),
});
