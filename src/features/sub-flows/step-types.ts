import { z } from 'zod';
import { stepPart } from '../../config/step-part.ts';
import { anyJson, defineHandler, noSignals } from '../../flows/handlers/handler.ts';
import type { ServedHandler } from '../../flows/handlers/outside.ts';
import { StepFailure } from '../../flows/step-failure.ts';
import { GUID, notAFlowId, RUN_FLOW } from '../../model/manifest.ts';
import { runSubFlow, withPinnedInputs } from './sub-flows.ts';

const inputs = z.strictObject({
  flow: z
    .string()
    .regex(GUID, { error: notAFlowId })
    .describe('Id of the flow to run; not an expression, so that Sluice can find cycles at load.'),
  body: anyJson.optional().describe('The trigger.body of the started run; null by default.'),
  wait: z
    .boolean()
    .default(true)
    .describe('Whether the step waits for that run to end, and fails if the run fails; not an expression.'),
});

/**
 * Runs another flow. The output has the id of the run and, if the step waits, its result and the outputs of its last
 * steps. The store starts the run together with the outcome of the step, so there is nothing to call here.
 */
const runFlow: ServedHandler = {
  ...defineHandler({
    type: RUN_FLOW,
    inputs,
    waitsFor: noSignals,
    run: () => {
      throw new StepFailure('internal_error', 'a RunFlow step is run by the store');
    },
  }),
  delegated: { run: runSubFlow, inputsOf: withPinnedInputs },
};

export const subFlowsStepTypes = stepPart({
  name: 'sub-flows',
  make: () => ({ handlers: [runFlow], made: undefined }),
});
