import { useId, useState } from 'preact/hooks';
import { withQuery } from '../../../dashboard/web/address.ts';
import { ask, messageOf } from '../../../dashboard/web/api.ts';
import type { Api } from '../../../dashboard/web/api-types.ts';
import { jsonProblem } from '../../../dashboard/web/json.ts';
import { confirm, FormDialog, toast, type Why } from '../../../dashboard/web/kit/overlays.tsx';
import { Icon } from '../../../dashboard/web/kit/pill.tsx';
import { navigate } from '../../../dashboard/web/router.ts';
import { may } from '../../../dashboard/web/scopes.ts';
import { canRetry, mayAwaitSignal, suggestBody } from './explain.ts';

interface RunActionsProps {
  readonly outline: Api['RunOutline'];
  readonly refresh: () => void;
}

/** The actions on a whole run. */
export function RunActions({ outline, refresh }: RunActionsProps) {
  const { run, control } = outline;
  const waiting = waitingFor(outline);
  const [asked, setAsked] = useState<'cancel' | 'signal'>();
  const close = () => setAsked(undefined);
  const rerun = async () => {
    const asked = await confirm({
      title: 'Run again?',
      body: (
        <p>This starts a new run of the newest revision with the same input. Steps that send or charge do so again.</p>
      ),
      action: 'Run again',
    });
    const answer = asked === undefined ? undefined : await rerunRun(run.id, asked.why);
    if (answer !== undefined) navigate(`/flows/runs/${answer.runId}`);
  };
  const release = async () => {
    const asked = await confirm({
      title: 'Release the order?',
      body: <p>This run failed and holds its key. The next run of the key starts, whatever this one left undone.</p>,
      action: 'Release order',
    });
    if (asked !== undefined && (await releaseOrder(run.id, asked.why)) !== undefined) refresh();
  };
  if (!may('operate')) return null;
  return (
    <>
      {control.order?.state === 'stopped' ? (
        <button type="button" class="button" onClick={() => void release()}>
          Release order…
        </button>
      ) : null}
      {run.status === 'Running' ? (
        <>
          {waiting.length > 0 || mayAwaitSignal(outline.graph) ? (
            <button type="button" class="button" onClick={() => setAsked('signal')}>
              Send signal…
            </button>
          ) : null}
          <button type="button" class="button" disabled={control.cancelRequested} onClick={() => setAsked('cancel')}>
            <Icon name="stop" />
            {control.cancelRequested ? 'Cancelling' : 'Cancel run…'}
          </button>
        </>
      ) : null}
      <button type="button" class="button" onClick={() => void rerun()}>
        <Icon name="replay" />
        Run again…
      </button>
      {asked === 'cancel' ? <CancelDialog runId={run.id} onClose={close} onDone={refresh} /> : null}
      {asked === 'signal' ? <SignalDialog runId={run.id} offered={waiting} onClose={close} onSent={refresh} /> : null}
    </>
  );
}

function CancelDialog({ runId, onClose, onDone }: { runId: string; onClose: () => void; onDone: () => void }) {
  const send = async (why: Why) => {
    if ((await cancelRun(runId, why)) === undefined) return;
    onDone();
    onClose();
  };
  return (
    <FormDialog
      title="Cancel this run?"
      close="Keep it running"
      action="Cancel run"
      isDangerous
      send={send}
      onClose={onClose}
    >
      <p>Running steps are told to stop, and waiting steps do not start. You cannot undo this.</p>
    </FormDialog>
  );
}

interface RetryButtonProps {
  readonly outline: Api['RunOutline'];
  readonly stepKey: string;
  readonly refresh: () => void;
}

/** Retries a failed step; absent if the service would refuse. */
export function RetryButton({ outline: { run, loops }, stepKey, refresh }: RetryButtonProps) {
  const [isSending, setSending] = useState(false);
  if (
    !may('operate') ||
    !canRetry(
      run.status,
      loops.find((loop) => loop.stepKey === stepKey),
    )
  )
    return null;
  const retry = async () => {
    setSending(true);
    await retryStep(run.id, stepKey);
    setSending(false);
    refresh();
  };
  return (
    <button type="button" class="button" disabled={isSending} onClick={() => void retry()}>
      <Icon name="replay" />
      Retry step
      <span class="unseen">{stepKey}</span>
    </button>
  );
}

interface SignalButtonProps {
  readonly outline: Api['RunOutline'];
  /** The step that waits. */
  readonly stepKey: string;
  readonly name: string;
  readonly refresh: () => void;
}

/** Sends the signal that a step waits for, with a body in the shape that later steps read. */
export function SignalButton({ outline, stepKey, name, refresh }: SignalButtonProps) {
  const [isAsked, setAsked] = useState(false);
  if (!may('operate')) return null;
  return (
    <>
      <button type="button" class="button primary" onClick={() => setAsked(true)}>
        Send signal…
      </button>
      {isAsked ? (
        <SignalDialog
          runId={outline.run.id}
          offered={[{ name, body: suggestedBody(outline.graph, stepKey) }]}
          isFixed
          onClose={() => setAsked(false)}
          onSent={refresh}
        />
      ) : null}
    </>
  );
}

interface OfferedSignal {
  readonly name: string;
  readonly body: string;
}

/** The signals that steps of a run wait for now, each with a body in the shape that later steps read. */
function waitingFor({ steps, graph }: Api['RunOutline']): OfferedSignal[] {
  return steps.flatMap(({ signalName, stepKey }) =>
    signalName === null ? [] : [{ name: signalName, body: suggestedBody(graph, stepKey) }],
  );
}

function suggestedBody(graph: Api['RunOutline']['graph'], stepKey: string): string {
  return JSON.stringify(suggestBody(graph, stepKey.slice(stepKey.lastIndexOf('.') + 1)), null, 2);
}

interface SignalDialogProps {
  readonly runId: string;
  /** Signals that steps wait for; the first is filled in. */
  readonly offered: readonly OfferedSignal[];
  /** The name cannot be changed. */
  readonly isFixed?: boolean;
  readonly onClose: () => void;
  readonly onSent: () => void;
}

/** Asks for a signal's JSON body, and for its name if that is not fixed. */
function SignalDialog({ runId, offered, isFixed = false, onClose, onSent }: SignalDialogProps) {
  const [typedName, setName] = useState(offered[0]?.name ?? '');
  const [body, setBody] = useState(offered[0]?.body ?? '{}');
  const problemId = useId();
  const listId = useId();
  const problem = jsonProblem(body);
  const typeName = (typed: string) => {
    setName(typed);
    // Keep a body that a person wrote.
    const isUntouched = body === '{}' || offered.some((signal) => signal.body === body);
    if (isUntouched) setBody(offered.find(({ name }) => name === typed)?.body ?? body);
  };
  const send = async (why: Why) => {
    if ((await sendSignal(runId, { name: typedName.trim(), body, ...why })) === undefined) return;
    onSent();
    onClose();
  };
  return (
    <FormDialog
      title={isFixed ? `Send the signal “${typedName}”` : 'Send a signal'}
      action="Send signal"
      isDisabled={problem !== null}
      send={send}
      onClose={onClose}
    >
      {isFixed ? null : (
        <label class="field">
          Name. If no step waits for this signal yet, the first one that does receives it.
          <input
            required
            list={listId}
            maxLength={128}
            pattern="[A-Za-z0-9_.:\-]+"
            title="Letters, digits, “_”, “.”, “:” and “-”"
            value={typedName}
            onInput={(event) => typeName(event.currentTarget.value)}
          />
          <datalist id={listId}>
            {offered.map(({ name }) => (
              <option key={name} value={name} />
            ))}
          </datalist>
        </label>
      )}
      <label class="field">
        Body, as JSON. It becomes the output of the step.
        <textarea
          spellcheck={false}
          value={body}
          aria-invalid={problem !== null}
          aria-describedby={problemId}
          onInput={(event) => setBody(event.currentTarget.value)}
        />
      </label>
      <p id={problemId} class="field-error" role="status">
        {problem ?? ''}
      </p>
    </FormDialog>
  );
}

interface Outcome {
  readonly success: boolean;
  readonly message: string;
}

/** Sends a command to a run and shows the result; yields undefined if it was refused. */
async function command<Answer>(
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

const cancelRun = (runId: string, why: Why) =>
  command<Outcome & { closedImmediately: boolean }>(`/runs/${runId}/cancel`, { body: why }, ({ closedImmediately }) =>
    closedImmediately ? 'The run is cancelled' : 'Cancelling: the run ends as soon as its running steps have stopped',
  );

const releaseOrder = (runId: string, why: Why) =>
  command<Outcome>(`/runs/${runId}/release-order`, { body: why }, ({ message }) => message);

const retryStep = (runId: string, stepKey: string) =>
  command<Outcome>(`/runs/${runId}/steps/${encodeURIComponent(stepKey)}/retry`, {}, ({ message }) => message);

const rerunRun = (runId: string, why: Why) =>
  command<{ runId: string }>(`/runs/${runId}/rerun`, { body: why }, () => 'A new run started');

const sendSignal = (runId: string, { name, body, reason }: { name: string; body: string } & Why) =>
  command<{ delivered: boolean; stepKey: string | null }>(
    withQuery(`/runs/${runId}/signals/${encodeURIComponent(name)}`, { reason }),
    { rawBody: body },
    ({ delivered, stepKey }) =>
      delivered ? `“${stepKey}” received the signal` : 'The signal is kept for the first step that waits for it',
  );
