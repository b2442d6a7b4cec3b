import { ask, messageOf } from '../api.ts';
import type { Schedule } from '../api-types.ts';
import { toast } from '../kit/toast.tsx';

interface Outcome {
  readonly message: string;
  readonly runId?: string;
}

const pathOf = ({ jobId }: Schedule, verb: string) => `/schedules/${encodeURIComponent(jobId)}/${verb}`;

/** Does something to a schedule and says what became of it; whether it was done. */
export async function commandSchedule(schedule: Schedule, verb: 'pause' | 'resume' | 'trigger'): Promise<boolean> {
  try {
    const { message, runId } = await ask<Outcome>(pathOf(schedule, verb), { method: 'POST' });
    toast('good', message, runId === undefined ? undefined : { href: `/flows/runs/${runId}`, text: 'Show the run' });
    return true;
  } catch (error) {
    toast('bad', messageOf(error));
    return false;
  }
}

export async function changeCron(schedule: Schedule, cronExpression: string): Promise<boolean> {
  try {
    const { message } = await ask<Outcome>(pathOf(schedule, 'cron'), { method: 'PUT', body: { cronExpression } });
    toast('good', message);
    return true;
  } catch (error) {
    toast('bad', messageOf(error));
    return false;
  }
}
