import { withQuery } from '../../dashboard/web/address.ts';
import { format } from '../../dashboard/web/format.ts';
import { Segments } from '../../dashboard/web/kit/list.tsx';
import { Empty, Loaded, Page, Panel } from '../../dashboard/web/kit/page.tsx';
import { ModePill, Pill } from '../../dashboard/web/kit/pill.tsx';
import { Time } from '../../dashboard/web/kit/time.tsx';
import { useResource } from '../../dashboard/web/resource.ts';
import { useQuery } from '../../dashboard/web/router.ts';
import { sentence } from '../../dashboard/web/spelling.ts';
import { words } from '../deliveries/page/words.ts';
import type { DeliveryReviewAnswers } from './service.ts';

/** One trigger: whether it is safe to enforce, and what each of its gates refused or would have refused. */
export function ReadinessPanel({
  readiness,
  title,
}: {
  readiness: DeliveryReviewAnswers['Readiness'];
  title?: string;
}) {
  const { flowId, flowName, triggerKey, mode, total, refused, watchedSince, safeToEnforce, reason, gates } = readiness;
  return (
    <Panel
      title={title ?? `${flowName} / ${triggerKey}`}
      aside={
        <>
          <ModePill mode={mode} />
          {title === undefined ? <a href={`/flows/flows/${flowId}`}>Flow</a> : null}
        </>
      }
    >
      <p class="verdict">
        <Pill tone={safeToEnforce ? 'good' : 'warn'} icon={safeToEnforce ? 'check' : 'warn'}>
          {mode === 'Enforce' ? 'Enforced' : safeToEnforce ? 'Safe to enforce' : 'Not yet'}
        </Pill>
        <span>{sentence(reason)}</span>
        <span class="muted">
          {`${format.counted(total, 'delivery', 'deliveries')}, ${format.count(refused)} failed a gate`}
          {watchedSince === null ? null : (
            <>
              {', the first '}
              <Time at={watchedSince} />
            </>
          )}
        </span>
      </p>
      <ul class="gates">
        {gates.map((gate) => (
          <Gate key={gate.gate} gate={gate} flowId={flowId} />
        ))}
      </ul>
    </Panel>
  );
}

function Gate({ gate, flowId }: { gate: DeliveryReviewAnswers['Readiness']['gates'][number]; flowId: string }) {
  return (
    <li class={gate.isConfigured ? '' : 'muted'}>
      <span class="gate-name">{words.gate(gate.gate)}</span>
      <span>
        {gate.isConfigured
          ? gate.refused === 0
            ? 'none failed'
            : `${format.count(gate.refused)} failed`
          : 'not configured'}
      </span>
      <span class="gate-reasons">
        {gate.reasons.map(({ reason, count: number, examples }) => (
          <span key={reason}>
            <a
              href={`/flows/deliveries?flowId=${flowId}&reason=${reason}`}
            >{`${words.reason(reason)} (${format.count(number)})`}</a>
            {examples.slice(0, 2).map((id) => (
              <a key={id} class="mono" title="An example" href={`/flows/deliveries/${id}`}>
                {format.shortId(id)}
              </a>
            ))}
          </span>
        ))}
      </span>
    </li>
  );
}

const WINDOWS = [
  { value: '24', text: '24 h' },
  { value: '168', text: '7 d' },
  { value: '720', text: '30 d' },
];

/** For each trigger, whether publishers would notice the switch to Enforce. */
export function ReadinessPage() {
  const [query, changeQuery] = useQuery();
  const asked = query.get('hours');
  const hours = WINDOWS.some(({ value }) => value === asked) ? (asked ?? '24') : '24';
  const readiness = useResource<readonly DeliveryReviewAnswers['Readiness'][]>(
    withQuery('/webhooks/readiness', { hours }),
    {
      refreshOn: ['delivery.received'],
      keepPrevious: true,
    },
  );
  return (
    <Page
      title="Safe to enforce?"
      trail={[['Deliveries', '/flows/deliveries']]}
      actions={
        <Segments
          label="Time window"
          choices={WINDOWS}
          value={hours}
          onChange={(value) => changeQuery({ hours: value === '24' ? undefined : value })}
        />
      }
    >
      <Loaded of={readiness} lines={8}>
        {(triggers) =>
          triggers.length === 0 ? (
            <Empty icon="shield" title="No flow has a webhook trigger">
              <p>This page counts what the gates of webhook triggers would refuse.</p>
            </Empty>
          ) : (
            triggers.map((trigger) => (
              <ReadinessPanel key={`${trigger.flowId} ${trigger.triggerKey}`} readiness={trigger} />
            ))
          )
        }
      </Loaded>
    </Page>
  );
}
