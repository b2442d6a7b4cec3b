import { useId, useState } from 'preact/hooks';
import { ask, messageOf, withQuery } from '../api.ts';
import type { Flow } from '../api-types.ts';
import { Dialog } from '../kit/dialog.tsx';
import { toast } from '../kit/toast.tsx';

/** Starts a run by hand with a JSON body. The text goes out as it was typed: a long number stays what it is. */
export function StartDialog({ flow, onClose }: { flow: Flow; onClose: () => void }) {
  const [text, setText] = useState('{}');
  const [triggerKey, setTriggerKey] = useState('');
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string | undefined>();
  const mistake = mistakeIn(text);
  const ids = { body: useId(), error: useId(), trigger: useId() };
  const start = async (event: Event) => {
    event.preventDefault();
    if (mistake !== undefined) return;
    setBusy(true);
    try {
      const { runId } = await startRun(flow.id, { triggerKey, text });
      toast('good', `${flow.name} runs.`, { href: `/flows/runs/${runId}`, text: 'See the run' });
      onClose();
    } catch (error) {
      setFailure(messageOf(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={`Start a run of ${flow.name}`} onClose={onClose}>
      <form onSubmit={start}>
        <div class="dialog-body">
          {flow.triggers.length > 1 ? (
            <label class="field" for={ids.trigger}>
              As if started by
              <select
                id={ids.trigger}
                value={triggerKey}
                onChange={(event) => setTriggerKey(event.currentTarget.value)}
              >
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
              aria-invalid={mistake !== undefined}
              aria-describedby={ids.error}
              onInput={(event) => setText(event.currentTarget.value)}
            />
          </label>
          <p id={ids.error} class="field-error" role="status">
            {mistake ?? failure ?? ''}
          </p>
        </div>
        <footer class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="button primary" disabled={isBusy || mistake !== undefined}>
            Start
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function startRun(flowId: string, { triggerKey, text }: { triggerKey: string; text: string }) {
  const isEmpty = text.trim() === '';
  return ask<{ runId: string }>(withQuery(`/flows/${flowId}/trigger`, { triggerKey }), {
    method: 'POST',
    ...(isEmpty ? {} : { rawBody: text, headers: { 'content-type': 'application/json' } }),
  });
}

function mistakeIn(text: string): string | undefined {
  if (text.trim() === '') return undefined;
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return `This is no JSON: ${messageOf(error)}`;
  }
}
