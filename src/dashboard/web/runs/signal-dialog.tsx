import { useId, useState } from 'preact/hooks';
import { Dialog } from '../kit/dialog.tsx';
import { sendSignal } from './run-commands.ts';
import { jsonProblem } from './suggest-body.ts';

interface SignalDialogProps {
  readonly runId: string;
  /** Of the step that waits; absent where any signal can be named. */
  readonly name?: string | undefined;
  readonly body: string;
  readonly onClose: () => void;
  readonly onSent: () => void;
}

/** Asks for a signal's JSON body, and for its name where no step gives it. */
export function SignalDialog({ runId, name, body: suggested, onClose, onSent }: SignalDialogProps) {
  const [typedName, setName] = useState(name ?? '');
  const [body, setBody] = useState(suggested);
  const [isSending, setSending] = useState(false);
  const problemId = useId();
  const problem = jsonProblem(body);
  const send = async (event: Event) => {
    event.preventDefault();
    setSending(true);
    const answer = await sendSignal(runId, typedName.trim(), body);
    setSending(false);
    if (answer === undefined) return;
    onSent();
    onClose();
  };
  return (
    <Dialog title={name === undefined ? 'Send a signal' : `Send the signal “${name}”`} onClose={onClose}>
      <form onSubmit={(event) => void send(event)}>
        <div class="dialog-body">
          {name === undefined ? (
            <label class="field">
              Name
              <input
                required
                maxLength={128}
                pattern="[A-Za-z0-9_.:\-]+"
                title="Letters, digits, “_”, “.”, “:” and “-”"
                value={typedName}
                onInput={(event) => setName(event.currentTarget.value)}
              />
            </label>
          ) : null}
          <label class="field">
            Body, as JSON; it becomes the output of the step
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
        </div>
        <footer class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="button primary" disabled={problem !== null || isSending}>
            Send signal
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
