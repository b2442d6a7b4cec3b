import { ask, messageOf } from '../api.ts';
import { toast } from '../kit/toast.tsx';

interface Outcome {
  readonly success: boolean;
  readonly message: string;
}

/** Does something to a run and says what became of it; yields undefined where it was refused. */
export async function command<Answer>(
  path: string,
  question: { body?: unknown; rawBody?: string },
  tell: (answer: Answer) => string,
): Promise<Answer | undefined> {
  const { rawBody, body } = question;
  const json = { 'content-type': 'application/json' };
  try {
    const answer = await ask<Answer>(path, {
      method: 'POST',
      ...(body === undefined ? {} : { body }),
      ...(rawBody === undefined ? {} : { rawBody, headers: json }),
    });
    toast('good', tell(answer));
    return answer;
  } catch (error) {
    toast('bad', messageOf(error));
    return undefined;
  }
}

export const cancelRun = (runId: string, reason: string) =>
  command<Outcome & { closedImmediately: boolean }>(
    `/runs/${runId}/cancel`,
    { body: reason === '' ? {} : { reason } },
    ({ closedImmediately }) =>
      closedImmediately ? 'The run is cancelled' : 'Accepted: the run ends as soon as its running steps have',
  );

export const retryStep = (runId: string, stepKey: string) =>
  command<Outcome>(`/runs/${runId}/steps/${encodeURIComponent(stepKey)}/retry`, {}, ({ message }) => message);

export const rerunRun = (runId: string) =>
  command<{ runId: string }>(`/runs/${runId}/rerun`, {}, () => 'A new run was started');

export const sendSignal = (runId: string, name: string, body: string) =>
  command<{ delivered: boolean; stepKey: string | null }>(
    `/runs/${runId}/signals/${encodeURIComponent(name)}`,
    { rawBody: body },
    ({ delivered, stepKey }) =>
      delivered ? `“${stepKey}” has the signal` : 'The signal is kept for the first step that waits for it',
  );
