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
