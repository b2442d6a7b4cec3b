import { useState } from 'preact/hooks';
import type { RunOutline } from '../api-types.ts';
import { confirm, Dialog } from '../kit/dialog.tsx';
import { Icon } from '../kit/icon.tsx';
import { navigate } from '../router.ts';
import { cancelRun, rerunRun } from './run-commands.ts';
import { SignalDialog } from './signal-dialog.tsx';

interface RunActionsProps {
  readonly outline: RunOutline;
  readonly refresh: () => void;
}

/** What can be done to a run as a whole. */
export function RunActions({ outline: { run, control }, refresh }: RunActionsProps) {
  const [asked, setAsked] = useState<'cancel' | 'signal'>();
  const close = () => setAsked(undefined);
  const rerun = async () => {
    const isSure = await confirm({
      title: 'Run again?',
      body: (
        <p>
          A new run of the newest revision starts with what started this one. Steps that send or charge do so again.
        </p>
      ),
      action: 'Run again',
    });
    const answer = isSure ? await rerunRun(run.id) : undefined;
    if (answer !== undefined) navigate(`/flows/runs/${answer.runId}`);
  };
  return (
    <>
      {run.status === 'Running' ? (
        <>
          <button type="button" class="button" onClick={() => setAsked('signal')}>
            Send signal…
          </button>
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
      {asked === 'signal' ? <SignalDialog runId={run.id} body="{}" onClose={close} onSent={refresh} /> : null}
    </>
  );
}

const MAX_REASON = 500;

function CancelDialog({ runId, onClose, onDone }: { runId: string; onClose: () => void; onDone: () => void }) {
  const [reason, setReason] = useState('');
  const [isSending, setSending] = useState(false);
  const send = async (event: Event) => {
    event.preventDefault();
    setSending(true);
    const answer = await cancelRun(runId, reason.trim());
    setSending(false);
    if (answer === undefined) return;
    onDone();
    onClose();
  };
  return (
    <Dialog title="Cancel this run?" onClose={onClose}>
      <form onSubmit={(event) => void send(event)}>
        <div class="dialog-body">
          <p>Steps that run are told to stop; those that wait are not started. It cannot be taken back.</p>
          <label class="field">
            Reason, kept with the run
            <input maxLength={MAX_REASON} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
          </label>
        </div>
        <footer class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>
            Keep it running
          </button>
          <button type="submit" class="button danger" disabled={isSending}>
            Cancel run
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
