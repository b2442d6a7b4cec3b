import type { PlanCheck } from '../deploys/plan-check.ts';
import { driftPlan } from './drift/plan.ts';

/** Warnings that features give about a flow before it is deployed. */
export const planChecks: readonly PlanCheck[] = [driftPlan];
