import { counted, nameOf } from '../../dashboard/attention/finding.ts';
import { rulesFor, servicePart } from '../../dashboard/services.ts';
import { respondAttention } from './attention.ts';

/** Counts cases in the last 24 hours in which a step gave no usable answer. */
export const respond = servicePart({
  name: 'respond',
  attention: rulesFor(respondAttention, ({ flows, since }, { answers }) =>
    answers.unfit(since).map(({ flowId, triggerKey, stepKey, runId, count, why }) => {
      const message = `The step ${stepKey} gave no answer for ${counted(count, 'delivery', 'deliveries')} to ${nameOf(flowId, flows)}/${triggerKey}, which got the fixed one: ${why}`;
      return { kind: 'answer_unfit', message, link: `/flows/runs/${runId}`, flowId, triggerKey };
    }),
  ),
});
