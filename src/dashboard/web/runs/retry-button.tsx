import { useState } from 'preact/hooks';
import type { Run } from '../api-types.ts';
import { Icon } from '../kit/icon.tsx';
import { retryStep } from './run-commands.ts';

interface RetryButtonProps {
  readonly run: Run;
  readonly stepKey: string;
  readonly refresh: () => void;
}

/** Tries a failed step once more; absent where its run was stopped, for there nothing can be. */
export function RetryButton({ run, stepKey, refresh }: RetryButtonProps) {
  const [isSending, setSending] = useState(false);
  if (run.status === 'Cancelled' || run.status === 'TimedOut') return null;
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
