import { planChecks } from '../features/plan.ts';
import type { ManifestIssue } from '../manifest/issues.ts';
import type { PlanCheck } from './plan-check.ts';

/** The warnings of all features about a flow, in their order. */
export async function warningsOfPlan(...[flow, store]: Parameters<PlanCheck>): Promise<ManifestIssue[]> {
  const found = await Promise.all(planChecks.map((check) => check(flow, store)));
  return found.flat();
}
