import type { DashboardServices } from '../services.ts';
import { counted, type Finding, nameOf, type Situation } from './finding.ts';

/** Answers of the last 24 hours that steps were to give, and gave none that fits. */
export function unfitAnswers(
  { flows, since }: Situation,
  { answers }: Pick<DashboardServices, 'answers'>,
): Finding<'answer_unfit'>[] {
  return answers.unfit(since).map(({ flowId, triggerKey, stepKey, runId, count, why }) => {
    const message = `The step ${stepKey} gave no answer for ${counted(count, 'delivery', 'deliveries')} to ${nameOf(flowId, flows)}/${triggerKey}, which got the fixed one: ${why}`;
    return { kind: 'answer_unfit', message, link: `/flows/runs/${runId}`, flowId, triggerKey };
  });
}
