import { withQuery } from '../api.ts';
import type { Readiness } from '../api-types.ts';
import { Segments } from '../kit/filters.tsx';
import { Empty, Loaded, Page } from '../kit/page.tsx';
import { useResource } from '../resource.ts';
import { useQuery } from '../router.ts';
import { ReadinessPanel } from './readiness-panel.tsx';

const WINDOWS = [
  { value: '24', text: '24 h' },
  { value: '168', text: '7 d' },
  { value: '720', text: '30 d' },
];

/** Whether publishers would notice the switch to Enforce, trigger by trigger. */
export function ReadinessPage() {
  const [query, changeQuery] = useQuery();
  const asked = query.get('hours');
  const hours = WINDOWS.some(({ value }) => value === asked) ? (asked ?? '24') : '24';
  const readiness = useResource<readonly Readiness[]>(withQuery('/webhooks/readiness', { hours }), {
    refreshOn: ['delivery.received'],
    keepPrevious: true,
  });
  return (
    <Page
      title="Safe to enforce?"
      trail={[['Deliveries', '/flows/deliveries']]}
      actions={
        <Segments
          label="Deliveries looked at"
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
              <p>What the gates of webhook triggers would refuse is counted here.</p>
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
