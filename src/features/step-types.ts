import type { StepPart } from '../config/step-part.ts';
import { alertsStepTypes } from './alerts/step-types.ts';
import { approvalsStepTypes } from './approvals/step-types.ts';
import { httpRequestStepTypes } from './http-request/step-types.ts';
import { loopsStepTypes } from './loops/step-types.ts';
import { respondStepTypes } from './respond/step-types.ts';
import { signalsStepTypes } from './signals/step-types.ts';
import { subFlowsStepTypes } from './sub-flows/step-types.ts';

/** Step types that features add. The docs list them in this order, after those that call nothing. */
export const stepParts: readonly StepPart[] = [
  loopsStepTypes,
  subFlowsStepTypes,
  httpRequestStepTypes,
  alertsStepTypes,
  approvalsStepTypes,
  signalsStepTypes,
  respondStepTypes,
];
