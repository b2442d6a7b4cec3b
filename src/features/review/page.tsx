import { useState } from 'preact/hooks';
import { ALL_FLOWS, withQuery } from '../../dashboard/web/address.ts';
import type { Api } from '../../dashboard/web/api-types.ts';
import { Loaded } from '../../dashboard/web/kit/page.tsx';
import { Icon } from '../../dashboard/web/kit/pill.tsx';
import type { PagePart } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import { useQuery } from '../../dashboard/web/router.ts';
import { may } from '../../dashboard/web/scopes.ts';
import { DryRunButton } from './dry-run.tsx';
import { EditAndSend, isEditable } from './edit.tsx';
import { ReadinessPage, ReadinessPanel } from './readiness.tsx';
import { RedeliverMany, RedeliverOne } from './redeliver.tsx';
import type { DeliveryReviewAnswers } from './service.ts';

function DeliveriesTools({ flows }: { flows: readonly Api['Flow'][] }) {
  const [query] = useQuery();
  const [isRedelivering, setRedelivering] = useState(false);
  return (
    <>
      <a class="button" href="/flows/deliveries/readiness">
        <Icon name="shield" />
        Safe to enforce?
      </a>
      {may('operate') ? (
        <button type="button" class="button" onClick={() => setRedelivering(true)}>
          <Icon name="replay" />
          Redeliver…
        </button>
      ) : null}
      {isRedelivering ? (
        <RedeliverMany
          filter={{ flowId: query.get('flowId') ?? undefined, reason: query.get('reason') ?? undefined }}
          flows={flows}
          onClose={() => setRedelivering(false)}
        />
      ) : null}
    </>
  );
}

interface DeliveryToolsProps {
  readonly delivery: Api['DeliveryDetail'] | undefined;
  readonly refresh: () => void;
}

function DeliveryTools({ delivery, refresh }: DeliveryToolsProps) {
  const [isRedelivering, setRedelivering] = useState(false);
  const [isEditing, setEditing] = useState(false);
  if (delivery === undefined) return null;
  return (
    <>
      <DryRun delivery={delivery} />
      {may('operate') && isEditable(delivery) ? (
        <button type="button" class="button" onClick={() => setEditing(true)}>
          <Icon name="replay" />
          Edit and send…
        </button>
      ) : null}
      {isEditing ? <EditAndSend delivery={delivery} onDone={refresh} onClose={() => setEditing(false)} /> : null}
      {delivery.redelivery?.possible === true && may('operate') ? (
        <button type="button" class="button primary" onClick={() => setRedelivering(true)}>
          <Icon name="replay" />
          Redeliver…
        </button>
      ) : null}
      {isRedelivering ? (
        <RedeliverOne delivery={delivery} onDone={refresh} onClose={() => setRedelivering(false)} />
      ) : null}
    </>
  );
}

/** Only for a body that is stored completely as text: the dry run must use exactly the bytes that arrived. */
function DryRun({ delivery }: { delivery: Api['DeliveryDetail'] }) {
  const { flowId, triggerKey, headers, body, bodyEncoding, bodyTruncated } = delivery;
  const flows = useResource<readonly Api['Flow'][]>(ALL_FLOWS);
  const triggers = flows.data?.find(({ id }) => id === flowId)?.triggers;
  const trigger = triggers?.find(({ key, url }) => key === triggerKey && typeof url === 'string');
  if (flowId === null || trigger === undefined || body === null || bodyEncoding !== 'utf8' || bodyTruncated)
    return null;
  return <DryRunButton idOrSlug={trigger.slug ?? flowId} headers={headers} body={body} />;
}

function ReadinessView({ flow }: { flow: Api['FlowDetail'] }) {
  const readiness = useResource<readonly DeliveryReviewAnswers['Readiness'][]>(
    withQuery('/webhooks/readiness', { flowId: flow.id, hours: 168 }),
    { refreshOn: ['delivery.received'] },
  );
  return (
    <Loaded of={readiness} lines={6}>
      {(triggers) =>
        triggers.map((trigger) => (
          <ReadinessPanel
            key={trigger.triggerKey}
            readiness={trigger}
            title={`Is it safe to enforce “${trigger.triggerKey}”? The last 7 days`}
          />
        ))
      }
    </Loaded>
  );
}

export const reviewPage: PagePart = {
  name: 'review',
  routes: [{ path: '/flows/deliveries/readiness', page: ReadinessPage, title: 'Safe to enforce?' }],
  at: {
    deliveriesTools: DeliveriesTools,
    deliveryTools: DeliveryTools,
    webhook: ({ idOrSlug }) => (
      <DryRunButton idOrSlug={idOrSlug} headers={{ 'content-type': 'application/json' }} body="{}" />
    ),
  },
  flowViews: [{ value: 'readiness', text: 'Safe to enforce?', isOfWebhooks: true, view: ReadinessView }],
  actions: {
    redeliverDelivery: 'Redeliver a delivery',
    redeliverDeliveries: 'Redeliver several deliveries',
  },
};
