import { z } from 'zod';
import { defineHandler } from './handler.ts';

/** Does nothing, with any inputs: a joint between steps, or what a retired step is pointed at. */
export const noOp = defineHandler({
  type: 'NoOp',
  inputs: z.unknown(),
  run: () => ({ kind: 'succeeded', output: null }),
});
