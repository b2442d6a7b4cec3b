import { counted, nameOf } from '../../dashboard/attention/finding.ts';
import { rulesFor, servicePart } from '../../dashboard/services.ts';
import { respondAttention } from './attention.ts';
import { answersBySteps } from './flow-answers.ts';
import { respondStepTypes } from './step-types.ts';

/** Answers deliveries by steps, and counts the steps of the last 24 hours that gave no usable answer. */
export const respond = servicePart({
  name: 'respond',
  start: (host) => ({ runAnswers: answersBySteps({ ...host, unfit: host.extensions.of(respondStepTypes) }) }),
  attention: rulesFor(respondAttention, ({ flows, since }, { extensions }) =>
    extensions
      .of(respondStepTypes)
      .since(since)
      .map(({ flowId, triggerKey, stepKey, runId, count, why }) => {
        const message = `The step ${stepKey} gave no answer for ${counted(count, 'delivery', 'deliveries')} to ${nameOf(flowId, flows)}/${triggerKey}, which got the fixed one: ${why}`;
        return { kind: 'answer_unfit', message, link: `/flows/runs/${runId}`, flowId, triggerKey };
      }),
  ),
});
