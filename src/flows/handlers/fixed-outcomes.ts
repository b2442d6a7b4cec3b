import { z } from 'zod';
import { anyJson, defineHandler, noSignals } from './handler.ts';

/** Yields its value, with its expressions resolved. */
export const transform = defineHandler({
  type: 'Transform',
  inputs: z.strictObject({ value: anyJson.describe('Any JSON; its expressions are resolved.') }),
  waitsFor: noSignals,
  run: ({ inputs }) => ({ kind: 'succeeded', output: inputs.value }),
});

/** Does nothing, with any inputs: a joint between steps, or what a retired step is pointed at. */
export const noOp = defineHandler({
  type: 'NoOp',
  inputs: z.unknown(),
  waitsFor: noSignals,
  run: () => ({ kind: 'succeeded', output: null }),
});

/** Fails with its message, and is not tried again: a dead end that a manifest chose. */
export const fail = defineHandler({
  type: 'Fail',
  inputs: z.strictObject({ message: z.string().min(1).describe('Error message of the step.') }),
  waitsFor: noSignals,
  run: ({ inputs }) => ({ kind: 'failed', code: 'failed_on_purpose', message: inputs.message, retryable: false }),
});
