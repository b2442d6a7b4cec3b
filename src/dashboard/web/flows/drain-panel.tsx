import { ask, messageOf } from '../api.ts';
import type { Drain, Flow } from '../api-types.ts';
import { counted } from '../format.ts';
import { confirm } from '../kit/dialog.tsx';
import { Loaded, Panel } from '../kit/page.tsx';
import { Pill } from '../kit/pill.tsx';
import { Table } from '../kit/table.tsx';
import { Time } from '../kit/time.tsx';
import { toast } from '../kit/toast.tsx';
import { useResource } from '../resource.ts';

/** Asks, and then lets the runs of a flow run out. */
export async function startDrain({ id, name }: Flow, refresh: () => void): Promise<void> {
  const isSure = await confirm({
    title: `Drain ${name}?`,
    body: (
      <p>
        Its triggers start no runs until you resume it. Webhooks go on answering 200: what they accept is held and runs
        then. Runs in flight go on to their end.
      </p>
    ),
    action: 'Drain',
  });
  if (!isSure) return;
  await act(id, 'drain');
  refresh();
}

/** How far a drain is, and the way out of it. */
export function DrainPanel({ flow, refresh }: { flow: Flow; refresh: () => void }) {
  const drain = useResource<Drain>(`/flows/${flow.id}/drain`, {
    refreshOn: ['run.started', 'run.completed', 'step.completed', 'delivery.received'],
  });
  const resume = async () => {
    await act(flow.id, 'resume');
    refresh();
  };
  return (
    <Panel
      title="Drain"
      aside={
        <button type="button" class="button primary" onClick={resume}>
          Resume
        </button>
      }
    >
      <Loaded of={drain}>{(state) => <DrainState state={state} />}</Loaded>
    </Panel>
  );
}

function DrainState({ state: { done, runsInFlight, held, since, runs } }: { state: Drain }) {
  return (
    <>
      <p class="verdict">
        <Pill tone={done ? 'good' : 'busy'} icon={done ? 'check' : 'spinner'}>
          {done ? 'Drained: time to deploy' : `${counted(runsInFlight, 'run')} in flight`}
        </Pill>
        <span>
          Since <Time at={since} />
        </span>
        <span class="muted">{`${counted(held, 'delivery', 'deliveries')} held until it is resumed`}</span>
      </p>
      {runs.length === 0 ? null : (
        <Table
          label="Runs in flight"
          columns={[
            { name: 'Started', cell: ({ startedAt }) => <Time at={startedAt} withClock /> },
            { name: 'Trigger', cell: ({ triggerKey }) => triggerKey },
            { name: 'Revision', cell: ({ revision }) => revision, align: 'end', isMinor: true },
            { name: 'Stands at', cell: ({ steps }) => standsAt(steps) },
          ]}
          rows={runs}
          keyOf={({ id }) => id}
          hrefOf={({ id }) => `/flows/runs/${id}`}
        />
      )}
    </>
  );
}

function standsAt(steps: Drain['runs'][number]['steps']): string {
  const open = Object.entries(steps).filter(([, { status }]) => status === 'Running' || status === 'Pending');
  return open.map(([key, { waiting }]) => (waiting ? `${key} (waiting)` : key)).join(', ') || '–';
}

async function act(flowId: string, verb: 'drain' | 'resume'): Promise<void> {
  try {
    await ask(`/flows/${flowId}/${verb}`, { method: 'POST' });
    toast('good', verb === 'drain' ? 'Its triggers start no runs now.' : 'It starts runs again.');
  } catch (error) {
    toast('bad', messageOf(error));
  }
}
