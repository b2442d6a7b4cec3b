import { stepPart } from '../../config/step-part.ts';
import { signalChecks } from './awaited-steps.ts';

/** Checks of signalling triggers; the step type that waits belongs to the kernel. */
export const signalsStepTypes = stepPart({
  name: 'signals',
  make: () => ({ handlers: [], checks: [signalChecks], made: undefined }),
});
