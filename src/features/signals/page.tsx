import type { z } from 'zod';
import { format } from '../../dashboard/web/format.ts';
import type { PagePart } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import type { answeredStepsSchema } from './service.ts';

type AnsweredSteps = z.output<typeof answeredStepsSchema>;

/** The runs that a delivery answered, with links. */
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

export const signalsPage: PagePart = {
  name: 'signals',
  at: {
    deliveryTools: ({ id, delivery }) => {
      const isAnswer =
        delivery?.outcome === 'answered' || delivery?.runs?.some(({ outcome }) => outcome === 'answered');
      return isAnswer ? <AnsweredRuns id={id} /> : null;
    },
  },
};
