import { useRef, useState } from 'preact/hooks';
import { withQuery } from '../address.ts';
import { ask } from '../api.ts';
import type { Api } from '../api-types.ts';
import { Dialog, toast } from '../kit/overlays.tsx';
import { Failure, Skeleton } from '../kit/page.tsx';
import { useAnswer } from '../resource.ts';
import { type Allowed, allowedWords, DeployPlan, NOTHING_ALLOWED } from './deploy-plan.tsx';

interface RestoreProps {
  readonly flowId: string;
  /** The one to go back to. */
  readonly revision: number;
  readonly onClose: () => void;
  readonly onRestored: () => void;
}

/** Shows what going back to a revision would do, as the service judges it, and then does it. */
export function RestoreDialog({ flowId, revision, onClose, onRestored }: RestoreProps) {
  const [allowed, setAllowed] = useState<Allowed>(NOTHING_ALLOWED);
  const [isBusy, setBusy] = useState(false);
  const [refused, setRefused] = useState<unknown>();
  const plan = useAnswer(
    () => restore({ flowId, revision, allowed, isPlan: true }),
    [flowId, revision, allowedWords(allowed)],
  );
  // The plan before stays while the next is asked for, so that a box that is ticked does not go away.
  const latest = useRef<Api['Deployed']>(undefined);
  if (plan.data !== undefined) latest.current = plan.data;
  const shown = latest.current;
  const failure = refused ?? plan.error;
  const isReady = plan.data?.action === 'updated' && !isBusy;
  const carryOut = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const done = await restore({ flowId, revision, allowed, isPlan: false });
      if (done.action === 'refused') throw new Error(done.refusal ?? 'The deploy was refused');
      toast('good', `Revision ${revision} is in force again, as revision ${done.revision}.`);
      onRestored();
      onClose();
    } catch (error) {
      setRefused(error);
      setBusy(false);
    }
  };
  return (
    <Dialog title={`Restore revision ${revision}`} isWide onClose={onClose}>
      <form onSubmit={(event) => void carryOut(event)}>
        <div class="dialog-body">
          {failure === undefined ? null : <Failure error={failure} />}
          {shown === undefined && failure === undefined ? <Skeleton /> : null}
          {shown === undefined ? null : (
            <DeployPlan plan={shown} verb="Restore" allowed={allowed} onAllow={setAllowed} />
          )}
        </div>
        <footer class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="button primary" disabled={!isReady}>
            Restore
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

interface RestoreRequest {
  readonly flowId: string;
  readonly revision: number;
  readonly allowed: Allowed;
  readonly isPlan: boolean;
}

/** A refusal is an answer too: it has the findings. */
function restore({ flowId, revision, allowed, isPlan }: RestoreRequest): Promise<Api['Deployed']> {
  const path = withQuery(`/flows/${flowId}/revisions/${revision}/restore`, {
    allow: allowedWords(allowed),
    dryRun: isPlan,
  });
  return ask<Api['Deployed']>(path, { method: 'POST', answersRefusal: true });
}
