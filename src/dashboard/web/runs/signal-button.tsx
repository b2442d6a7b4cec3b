import { useState } from 'preact/hooks';
import type { RunOutline } from '../api-types.ts';
import { SignalDialog } from './signal-dialog.tsx';
import { suggestBody } from './suggest-body.ts';

interface SignalButtonProps {
  readonly outline: RunOutline;
  /** Of the step that waits. */
  readonly stepKey: string;
  readonly name: string;
  readonly refresh: () => void;
}

/** Sends the signal that a step waits for, with a body as the steps after it read it. */
export function SignalButton({ outline, stepKey, name, refresh }: SignalButtonProps) {
  const [isAsked, setAsked] = useState(false);
  const ownKey = stepKey.slice(stepKey.lastIndexOf('.') + 1);
  return (
    <>
      <button type="button" class="button primary" onClick={() => setAsked(true)}>
        Send signal…
      </button>
      {isAsked ? (
        <SignalDialog
          runId={outline.run.id}
          name={name}
          body={JSON.stringify(suggestBody(outline.graph, ownKey), null, 2)}
          onClose={() => setAsked(false)}
          onSent={refresh}
        />
      ) : null}
    </>
  );
}
