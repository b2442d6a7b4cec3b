import { useState } from 'preact/hooks';
import { ask, messageOf } from '../api.ts';
import type { DeliveryDetail, Redelivery } from '../api-types.ts';
import { Dialog } from '../kit/dialog.tsx';
import { Failure, Skeleton } from '../kit/page.tsx';
import { toast } from '../kit/toast.tsx';
import { useAnswer } from '../resource.ts';
import { OutcomePill } from './redelivery-outcome.tsx';

interface RedeliverOneProps {
  readonly delivery: DeliveryDetail;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Says what a redelivery would do, and does it when told to. */
export function RedeliverOne({ delivery, onDone, onClose }: RedeliverOneProps) {
  const [isForced, setForced] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const plan = useAnswer(() => planFor(delivery), [delivery.id]);
  const canGo = plan.data?.outcome === 'would be accepted' || (plan.data?.outcome === 'refused' && isForced);
  const redeliver = async () => {
    setBusy(true);
    try {
      const body = isForced ? { force: true } : {};
      announce(await ask<Redelivery>(`/webhooks/${delivery.id}/redeliver`, { method: 'POST', body }));
      onDone();
    } catch (error) {
      toast('bad', messageOf(error));
    }
    onClose();
  };
  return (
    <Dialog title="Redeliver" onClose={onClose}>
      <div class="dialog-body">
        <p>
          It is judged again as of when it came, by the trigger as it is now. One refused delivery becomes one run at
          most.
        </p>
        {plan.error === undefined ? null : <Failure error={plan.error} />}
        {plan.data === undefined && plan.error === undefined ? <Skeleton lines={2} /> : null}
        {plan.data === undefined ? null : <Plan plan={plan.data} />}
        {plan.data?.outcome === 'refused' ? <Force isForced={isForced} onChange={setForced} /> : null}
      </div>
      <footer class="dialog-foot">
        <button type="button" class="button" onClick={onClose}>
          Cancel
        </button>
        <button
          type="button"
          class={`button ${isForced ? 'danger' : 'primary'}`}
          disabled={!canGo || isBusy}
          onClick={redeliver}
        >
          {isForced ? 'Accept it all the same' : 'Redeliver'}
        </button>
      </footer>
    </Dialog>
  );
}

function Plan({ plan }: { plan: Redelivery }) {
  return (
    <p class="plan-line">
      <OutcomePill outcome={plan.outcome} />
      <span>{plan.message}</span>
    </p>
  );
}

function Force({ isForced, onChange }: { isForced: boolean; onChange: (isForced: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={isForced} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span>
        Overrule the gates. Nobody has verified who sent it; the record will say that it was let in by force. What was
        accepted before, or is no JSON, stays refused.
      </span>
    </label>
  );
}

// A plan is made for a filter: the instant that it came in, and of those the one that is meant.
async function planFor({ id, receivedAt, flowId }: DeliveryDetail): Promise<Redelivery> {
  const since = new Date(Date.parse(receivedAt)).toISOString();
  const until = new Date(Date.parse(receivedAt) + 1).toISOString();
  const body = { plan: true, since, until, limit: 500, ...(flowId === null ? {} : { flowId }) };
  const { items } = await ask<{ items: readonly Redelivery[] }>('/webhooks/redeliver', { method: 'POST', body });
  const found = items.find(({ redeliveredFrom }) => redeliveredFrom === id);
  if (found === undefined) throw new Error('It was not refused, or is not kept any more');
  return found;
}

function announce({ outcome, message, runId }: Redelivery): void {
  const link = runId === null ? undefined : { href: `/flows/runs/${runId}`, text: 'See its run' };
  toast(outcome === 'accepted' ? 'good' : 'bad', outcome === 'accepted' ? 'Redelivered and accepted.' : message, link);
}
