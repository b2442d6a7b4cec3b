import { useEffect, useRef, useState } from 'preact/hooks';
import { ask } from '../../dashboard/web/api.ts';
import type { Api } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import {
  Dialog,
  DialogFoot,
  FormDialog,
  ReasonField,
  toast,
  type Why,
  whyOf,
} from '../../dashboard/web/kit/overlays.tsx';
import { Failure, Skeleton } from '../../dashboard/web/kit/page.tsx';
import { Pill } from '../../dashboard/web/kit/pill.tsx';
import type { LookRow } from '../../dashboard/web/looks.ts';
import { useAnswer } from '../../dashboard/web/resource.ts';
import { sentence } from '../../dashboard/web/spelling.ts';
import { words } from '../deliveries/page/words.ts';
import type { DeliveryReviewAnswers } from './service.ts';

const LIMIT = 500;

interface Filter {
  readonly flowId: string | undefined;
  readonly reason: string | undefined;
}

interface RedeliverManyProps {
  readonly filter: Filter;
  readonly flows: readonly Api['Flow'][];
  readonly onClose: () => void;
}

/** Plans a redelivery of the filtered deliveries and carries it out one by one; stopping keeps what is done. */
export function RedeliverMany({ filter, flows, onClose }: RedeliverManyProps) {
  const { flowId, reason: refusedFor } = filter;
  const plan = useAnswer(
    () =>
      ask<{ items: readonly DeliveryReviewAnswers['Redelivery'][] }>('/webhooks/redeliver', {
        method: 'POST',
        body: { plan: true, limit: LIMIT, flowId, reason: refusedFor },
      }),
    [flowId, refusedFor],
  );
  const work = useWork();
  const [reason, setReason] = useState('');
  const ready = (plan.data?.items ?? []).filter(({ outcome }) => outcome === 'would be accepted');
  const flowName = flows.find(({ id }) => id === flowId)?.name;
  const action =
    ready.length === 0 ? 'Nothing to redeliver' : `Redeliver ${format.counted(ready.length, 'delivery', 'deliveries')}`;
  return (
    <Dialog title="Redeliver refused deliveries" isWide onClose={onClose}>
      <div class="dialog-body">
        <p>
          {`The newest ${format.count(LIMIT)} refused deliveries of ${flowName ?? 'all flows'}${refusedFor === undefined ? '' : ` with the reason “${words.reason(refusedFor)}”`}, checked again as of the time they arrived, with the current triggers.`}
        </p>
        {plan.error === undefined ? null : <Failure error={plan.error} />}
        {plan.data === undefined && plan.error === undefined ? <Skeleton lines={4} /> : null}
        {plan.data === undefined || work.state !== 'idle' ? null : <Groups items={plan.data.items} />}
        {work.state === 'idle' ? <ReasonField text={reason} onChange={setReason} /> : <Progress work={work} />}
      </div>
      <DialogFoot
        close={work.state === 'done' ? 'Close' : 'Cancel'}
        onClose={onClose}
        {...(work.state === 'running' ? { action: 'Stop', isDangerous: true, onAct: work.stop } : {})}
        {...(work.state === 'idle'
          ? { action, onAct: () => work.start(ready, whyOf(reason)), isDisabled: ready.length === 0 }
          : {})}
      />
    </Dialog>
  );
}

/** Groups deliveries with the same result and counts them; each group links to one example. */
function Groups({ items }: { items: readonly DeliveryReviewAnswers['Redelivery'][] }) {
  const groups = new Map<string, DeliveryReviewAnswers['Redelivery'][]>();
  for (const item of items) {
    const key = `${item.outcome} ${item.reason ?? ''}`;
    groups.set(key, [...(groups.get(key) ?? []), item]);
  }
  if (groups.size === 0) return <p class="muted">No refused deliveries match.</p>;
  return (
    <ul class="groups">
      {[...groups].map(([key, members]) => {
        const [first] = members;
        if (first === undefined) return null;
        return (
          <li key={key}>
            <b>{format.count(members.length)}</b>
            <OutcomePill outcome={first.outcome} />
            <span class="break">
              {first.reason === null
                ? sentence(first.message)
                : `${words.reason(first.reason)}: ${sentence(first.message)}`}
            </span>
            <a href={`/flows/deliveries/${first.redeliveredFrom}`}>example</a>
          </li>
        );
      })}
    </ul>
  );
}

type Work = ReturnType<typeof useWork>;

function Progress({ work: { done, total, results, state } }: { work: Work }) {
  return (
    <>
      <label class="progress">
        <span>
          {state === 'running'
            ? `Redelivering ${format.count(done)} of ${format.count(total)}`
            : `Done: ${format.count(done)} of ${format.count(total)}`}
        </span>
        <progress value={done} max={total} />
      </label>
      <Groups items={results} />
    </>
  );
}

function useWork() {
  const [results, setResults] = useState<readonly DeliveryReviewAnswers['Redelivery'][]>([]);
  const [state, setState] = useState<'idle' | 'running' | 'done'>('idle');
  const [total, setTotal] = useState(0);
  const isStopped = useRef(false);
  useEffect(
    () => () => {
      isStopped.current = true;
    },
    [],
  );
  const start = async (items: readonly DeliveryReviewAnswers['Redelivery'][], why: Why) => {
    setTotal(items.length);
    setState('running');
    for (const { redeliveredFrom } of items) {
      if (isStopped.current) break;
      const result = await redeliver(redeliveredFrom, why);
      setResults((before) => [...before, result]);
    }
    setState('done');
  };
  return { results, state, total, done: results.length, start, stop: () => (isStopped.current = true) };
}

async function redeliver(id: string, body: Why): Promise<DeliveryReviewAnswers['Redelivery']> {
  try {
    return await ask<DeliveryReviewAnswers['Redelivery']>(`/webhooks/${id}/redeliver`, { method: 'POST', body });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { redeliveredFrom: id, outcome: 'not possible', reason: null, message, deliveryId: null, runId: null };
  }
}

const OUTCOMES: Readonly<Record<DeliveryReviewAnswers['Redelivery']['outcome'], LookRow>> = {
  accepted: ['good', 'check', 'Accepted'],
  'would be accepted': ['good', 'check', 'Would be accepted'],
  'accepted before': ['quiet', 'replay', 'Accepted before'],
  filtered: ['quiet', 'skip', 'Filtered'],
  refused: ['bad', 'cross', 'Refused'],
  'not possible': ['quiet', 'off', 'Not possible'],
};

function OutcomePill({ outcome }: { outcome: DeliveryReviewAnswers['Redelivery']['outcome'] }) {
  const [tone, icon, text] = OUTCOMES[outcome];
  return (
    <Pill tone={tone} icon={icon}>
      {text}
    </Pill>
  );
}

interface RedeliverOneProps {
  readonly delivery: Api['DeliveryDetail'];
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Shows what a redelivery would do, and does it on confirmation. */
export function RedeliverOne({ delivery, onDone, onClose }: RedeliverOneProps) {
  const [isForced, setForced] = useState(false);
  const plan = useAnswer(() => planFor(delivery), [delivery.id]);
  const canGo = plan.data?.outcome === 'would be accepted' || (plan.data?.outcome === 'refused' && isForced);
  const redeliver = async (why: Why) => {
    try {
      const body = isForced ? { ...why, force: true } : why;
      announce(
        await ask<DeliveryReviewAnswers['Redelivery']>(`/webhooks/${delivery.id}/redeliver`, { method: 'POST', body }),
      );
      onDone();
    } finally {
      onClose();
    }
  };
  return (
    <FormDialog
      title="Redeliver"
      action={isForced ? 'Accept it anyway' : 'Redeliver'}
      isDangerous={isForced}
      isDisabled={!canGo}
      send={redeliver}
      onClose={onClose}
    >
      <p>
        The gates check the delivery again as of the time it arrived, with the current trigger. It becomes at most one
        run.
      </p>
      {plan.error === undefined ? null : <Failure error={plan.error} />}
      {plan.data === undefined && plan.error === undefined ? <Skeleton lines={2} /> : null}
      {plan.data === undefined ? null : <Outcome of={plan.data} />}
      {plan.data?.outcome === 'refused' ? <Force isForced={isForced} onChange={setForced} /> : null}
    </FormDialog>
  );
}

export function Outcome({ of: { outcome, message } }: { of: DeliveryReviewAnswers['Redelivery'] }) {
  return (
    <p class="plan-line">
      <OutcomePill outcome={outcome} />
      <span>{sentence(message)}</span>
    </p>
  );
}

export function Force({ isForced, onChange }: { isForced: boolean; onChange: (isForced: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={isForced} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span>
        Overrule the gates. The sender is not verified, and the record will say that the delivery was forced. A delivery
        that was accepted before, or is not JSON, stays refused.
      </span>
    </label>
  );
}

// Plans are made for filters, so filter by the time of arrival, then pick the delivery.
async function planFor({
  id,
  receivedAt,
  flowId,
}: Api['DeliveryDetail']): Promise<DeliveryReviewAnswers['Redelivery']> {
  const since = new Date(Date.parse(receivedAt)).toISOString();
  const until = new Date(Date.parse(receivedAt) + 1).toISOString();
  const body = { plan: true, since, until, limit: 500, ...(flowId === null ? {} : { flowId }) };
  const { items } = await ask<{ items: readonly DeliveryReviewAnswers['Redelivery'][] }>('/webhooks/redeliver', {
    method: 'POST',
    body,
  });
  const found = items.find(({ redeliveredFrom }) => redeliveredFrom === id);
  if (found === undefined) throw new Error('The delivery was not refused or has been deleted');
  return found;
}

export function announce({ outcome, message, runId }: DeliveryReviewAnswers['Redelivery']): void {
  const link = runId === null ? undefined : { href: `/flows/runs/${runId}`, text: 'See the run' };
  toast(outcome === 'accepted' ? 'good' : 'bad', outcome === 'accepted' ? 'Redelivered and accepted.' : message, link);
}
