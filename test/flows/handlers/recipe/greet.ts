import { z } from 'zod';
import { defineHandler, noSignals } from '../../../../src/flows/handlers/handler.ts';

/** A step type as in CONTRIBUTING: this file, and one line in `handlers/index.ts`. */
export const greet = defineHandler({
  type: 'Greet',
  inputs: z.strictObject({ name: z.string().describe('Who is greeted.') }),
  waitsFor: noSignals,
  run: ({ inputs }) => ({ kind: 'succeeded', output: `hello ${inputs.name}` }),
});
