import type { ChangeRule } from '../../deploys/changes/change.ts';
import { flowRules } from './flow.ts';
import { stepFieldRules } from './step-fields.ts';
import { stepRules } from './steps.ts';
import { triggerRules } from './triggers.ts';

export const deployRulesChanges: readonly ChangeRule[] = [
  ...stepRules,
  ...stepFieldRules,
  ...triggerRules,
  ...flowRules,
];
