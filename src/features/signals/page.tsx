import type { z } from 'zod';
import type { Api } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import type { PagePart } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import type { answeredStepsSchema } from './service.ts';

type AnsweredSteps = z.output<typeof answeredStepsSchema>;

/** Links to the runs that a delivery answered. */
function AnsweredRuns({ id }: { id: string }) {
  const { data = [] } = useResource<AnsweredSteps>(`/webhooks/${encodeURIComponent(id)}/answered`);
  return (
    <>
      {data.map(({ runId, stepKey, flowName }) => (
        <a key={`${runId} ${stepKey}`} href={`/flows/runs/${runId}`} title={`${flowName}, step ${stepKey}`}>
          Answered {format.shortId(runId)}
        </a>
      ))}
    </>
  );
}

function AnswersStep({ trigger: { signals } }: { readonly trigger: Api['Flow']['triggers'][number] }) {
  if (signals === null || signals === undefined) return null;
  return (
    <p class="muted">
      Its deliveries start no runs: they answer the step <code>{signals.step}</code> of those that wait for{' '}
      <code>{signals.key}</code>.
    </p>
  );
}

export const signalsPage: PagePart = {
  name: 'signals',
  at: {
    trigger: AnswersStep,
    deliveryTools: ({ id, delivery }) => {
      const isAnswer =
        delivery?.outcome === 'answered' || delivery?.runs?.some(({ outcome }) => outcome === 'answered');
      return isAnswer ? <AnsweredRuns id={id} /> : null;
    },
  },
};
