import { stepPart } from '../../config/step-part.ts';
import { signalChecks } from './awaited-steps.ts';

/** Checks of triggers that signal; the step type that waits is the kernel's. */
export const signalsStepTypes = stepPart({
  name: 'signals',
  make: () => ({ handlers: [], checks: [signalChecks], made: undefined }),
});
