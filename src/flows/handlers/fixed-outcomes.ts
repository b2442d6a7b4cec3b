import { z } from 'zod';
import type { Json } from '../../model/json.ts';
import { defineHandler } from './handler.ts';

// Rendered inputs are JSON already; walking a large value once more would cost milliseconds.
const json = z.custom<Json>((value) => value !== undefined, 'expected any JSON value');

/** Yields its value, with its expressions resolved. */
export const transform = defineHandler({
  type: 'Transform',
  inputs: z.strictObject({ value: json }),
  run: ({ inputs }) => ({ kind: 'succeeded', output: inputs.value }),
});

/** Does nothing, with any inputs: a joint between steps, or what a retired step is pointed at. */
export const noOp = defineHandler({
  type: 'NoOp',
  inputs: z.unknown(),
  run: () => ({ kind: 'succeeded', output: null }),
});

/** Fails with its message, and is not tried again: a dead end that a manifest chose. */
export const fail = defineHandler({
  type: 'Fail',
  inputs: z.strictObject({ message: z.string().min(1) }),
  run: ({ inputs }) => ({ kind: 'failed', code: 'failed_on_purpose', message: inputs.message, retryable: false }),
});
