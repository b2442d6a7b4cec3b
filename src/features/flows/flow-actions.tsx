import { useId, useState } from 'preact/hooks';
import { withQuery } from '../../dashboard/web/address.ts';
import { ask, messageOf } from '../../dashboard/web/api.ts';
import type { Api } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import { jsonProblem } from '../../dashboard/web/json.ts';
import { Table } from '../../dashboard/web/kit/list.tsx';
import { confirm, FormDialog, toast, type Why } from '../../dashboard/web/kit/overlays.tsx';
import { Loaded, Panel } from '../../dashboard/web/kit/page.tsx';
import { Pill } from '../../dashboard/web/kit/pill.tsx';
import { Time } from '../../dashboard/web/kit/time.tsx';
import { whileClosed } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import { may } from '../../dashboard/web/scopes.ts';

/** Asks for confirmation, then starts a drain: runs in flight end, and no new ones start. */
export async function startDrain({ id, name, triggers }: Api['Flow'], refresh: () => void): Promise<void> {
  const answer = await confirm({
    title: `Drain ${name}?`,
    body: <p>Its triggers start no runs until you resume it. Runs in flight continue.</p>,
    action: 'Drain',
    choice: whileClosed()?.choice(triggers, 'resume'),
  });
  if (answer === undefined) return;
  await act(id, 'drain', closing(answer));
  refresh();
}

/** The body of the request that closes a flow. */
export function closing({ why, choice }: NonNullable<Awaited<ReturnType<typeof confirm>>>): object {
  return { ...why, ...whileClosed()?.said(choice) };
}

/** The progress of a drain, and a button to end it. */
export function DrainPanel({ flow, refresh }: { flow: Api['Flow']; refresh: () => void }) {
  const drain = useResource<Api['Drain']>(`/flows/${flow.id}/drain`, {
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
        may('operate') ? (
          <button type="button" class="button primary" onClick={resume}>
            Resume
          </button>
        ) : undefined
      }
    >
      <Loaded of={drain}>{(state) => <DrainState state={state} />}</Loaded>
    </Panel>
  );
}

function DrainState({
  state: { done, runsInFlight, held, since, runs, callersInFlight, callers },
}: {
  state: Api['Drain'];
}) {
  return (
    <>
      <p class="verdict">
        <Pill tone={done ? 'good' : 'busy'} icon={done ? 'check' : 'spinner'}>
          {done ? 'Drained: ready to deploy' : `${format.counted(runsInFlight + callersInFlight, 'run')} in flight`}
        </Pill>
        <span>
          Started <Time at={since} />
        </span>
        <span class="muted">{`${format.counted(held, 'delivery', 'deliveries')} held until you resume`}</span>
      </p>
      {runs.length === 0 ? null : (
        <Table
          label="Runs in flight"
          columns={[
            { name: 'Started', cell: ({ startedAt }) => <Time at={startedAt} withClock /> },
            { name: 'Trigger', cell: ({ triggerKey }) => triggerKey },
            { name: 'Revision', cell: ({ revision }) => revision, align: 'end', isMinor: true },
            { name: 'Current step', cell: ({ steps }) => currentSteps(steps) },
          ]}
          rows={runs}
          keyOf={({ id }) => id}
          hrefOf={({ id }) => `/flows/runs/${id}`}
        />
      )}
      {callers.length === 0 ? null : <h3>Runs of other flows that may start this one</h3>}
      {callers.length === 0 ? null : (
        <Table
          label="Runs of other flows that may start this one"
          columns={[
            { name: 'Started', cell: ({ startedAt }) => <Time at={startedAt} withClock /> },
            { name: 'Flow', cell: ({ flowName }) => flowName },
          ]}
          rows={callers}
          keyOf={({ id }) => id}
          hrefOf={({ id }) => `/flows/runs/${id}`}
        />
      )}
    </>
  );
}

function currentSteps(steps: Api['Drain']['runs'][number]['steps']): string {
  const open = Object.entries(steps).filter(([, { status }]) => status === 'Running' || status === 'Pending');
  return open.map(([key, { waiting }]) => (waiting ? `${key} (waiting)` : key)).join(', ') || '–';
}

async function act(flowId: string, verb: 'drain' | 'resume', body: object = {}): Promise<void> {
  try {
    await ask(`/flows/${flowId}/${verb}`, { method: 'POST', body });
    toast('good', verb === 'drain' ? 'The flow starts no new runs.' : 'The flow starts runs again.');
  } catch (error) {
    toast('bad', messageOf(error));
  }
}

/** Starts a run by hand with a JSON body. The text is sent as typed, so long numbers keep all digits. */
export function StartDialog({ flow, onClose }: { flow: Api['Flow']; onClose: () => void }) {
  const [text, setText] = useState('{}');
  const [triggerKey, setTriggerKey] = useState('');
  const [failure, setFailure] = useState<string | undefined>();
  const problem = jsonProblem(text);
  const ids = { body: useId(), error: useId(), trigger: useId() };
  const start = async ({ reason }: Why) => {
    if (problem !== null) return;
    try {
      const { runId } = await startRun(flow.id, { triggerKey, text, reason });
      toast('good', `${flow.name} started.`, { href: `/flows/runs/${runId}`, text: 'See the run' });
      onClose();
    } catch (error) {
      setFailure(messageOf(error));
    }
  };
  return (
    <FormDialog
      title={`Start a run of ${flow.name}`}
      action="Start"
      isDisabled={problem !== null}
      send={start}
      onClose={onClose}
    >
      {flow.triggers.length > 1 ? (
        <label class="field" for={ids.trigger}>
          Trigger
          <select id={ids.trigger} value={triggerKey} onChange={(event) => setTriggerKey(event.currentTarget.value)}>
            <option value="">the manual trigger</option>
            {flow.triggers.map(({ key, type }) => (
              <option key={key} value={key}>{`${key} (${type})`}</option>
            ))}
          </select>
        </label>
      ) : null}
      <label class="field" for={ids.body}>
        <span>
          Body, as JSON: steps read it as <code>trigger.body</code>
        </span>
        <textarea
          id={ids.body}
          rows={10}
          spellcheck={false}
          value={text}
          aria-invalid={problem !== null}
          aria-describedby={ids.error}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <p id={ids.error} class="field-error" role="status">
        {problem ?? failure ?? ''}
      </p>
    </FormDialog>
  );
}

function startRun(
  flowId: string,
  { text, ...query }: { triggerKey: string; text: string; reason: string | undefined },
) {
  const isEmpty = text.trim() === '';
  return ask<{ runId: string }>(withQuery(`/flows/${flowId}/trigger`, query), {
    method: 'POST',
    ...(isEmpty ? {} : { rawBody: text, headers: { 'content-type': 'application/json' } }),
  });
}
