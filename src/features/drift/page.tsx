import type { z } from 'zod';
import { format } from '../../dashboard/web/format.ts';
import { Table } from '../../dashboard/web/kit/list.tsx';
import { Empty, Loaded, Panel } from '../../dashboard/web/kit/page.tsx';
import { Pill } from '../../dashboard/web/kit/pill.tsx';
import { Time } from '../../dashboard/web/kit/time.tsx';
import type { PagePart } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import type { pathSchema } from './service.ts';

type Path = z.output<typeof pathSchema>;

/** Which runs need a path of a delivery. */
const USES: Readonly<Record<Path['use'], string>> = {
  required: 'by every run',
  conditional: 'by some runs',
  optional: 'if present',
};

/** The paths that a flow reads from its deliveries, by trigger, and whether deliveries have them. */
function PayloadPanels({ flowId }: { flowId: string }) {
  const paths = useResource<readonly Path[]>(`/flows/${flowId}/paths`);
  return (
    <Loaded of={paths} lines={6}>
      {(list) =>
        list.length === 0 ? (
          <Panel title="What this flow reads">
            <Empty icon="deliveries" title="This flow reads nothing of its deliveries">
              <p>
                Its expressions name no path of <code>trigger.body</code> or <code>trigger.headers</code>.
              </p>
            </Empty>
          </Panel>
        ) : (
          [...new Set(list.map(({ triggerKey }) => triggerKey))].map((key) => (
            <PayloadPanel key={key} triggerKey={key} paths={list.filter(({ triggerKey }) => triggerKey === key)} />
          ))
        )
      }
    </Loaded>
  );
}

function PayloadPanel({ triggerKey, paths }: { triggerKey: string; paths: readonly Path[] }) {
  const hasEvents = paths.some(({ event }) => event !== null);
  return (
    <Panel
      title={`What this flow reads of “${triggerKey}”`}
      aside="samples of accepted deliveries, the last 14 days"
      isFlush
    >
      <Table
        label={`What this flow reads of ${triggerKey}`}
        columns={[
          { name: 'Path', cell: ({ path, readAt }) => <code title={`read at ${readAt}`}>{path}</code> },
          { name: 'Change', cell: ({ drift }) => <Drift drift={drift} /> },
          ...(hasEvents ? [{ name: 'Event', cell: ({ event }: Path) => event ?? 'any' }] : []),
          { name: 'Needed', cell: ({ use }) => USES[use], isMinor: true },
          { name: 'Found', cell: (path) => <Found path={path} />, align: 'end' },
          { name: 'As', cell: ({ types }) => kindsOf(types), isMinor: true },
          { name: 'Last seen', cell: ({ lastSeenAt }) => <Time at={lastSeenAt} withClock />, isMinor: true },
        ]}
        rows={paths.toSorted((one, other) => Number(other.drift !== null) - Number(one.drift !== null))}
        keyOf={({ path, event }) => JSON.stringify([path, event])}
      />
    </Panel>
  );
}

function Found({ path: { looked, seen } }: { path: Path }) {
  if (looked === 0) return <span class="muted">no delivery yet</span>;
  return <span class="nowrap">{`${seen} of ${looked}`}</span>;
}

function kindsOf(types: Path['types']): string {
  const names = types.flatMap(({ type }) => (type === 'absent' ? [] : [type]));
  return names.length === 0 ? '–' : names.join(', ');
}

function Drift({ drift }: { drift: Path['drift'] }) {
  if (drift === null) return <span class="muted">none</span>;
  return (
    <>
      <Pill tone="warn" icon="warn" title={`${drift.was} in ${drift.before} deliveries before`}>
        {drift.now === 'absent' ? 'Missing' : `Now ${drift.now}`}
      </Pill>{' '}
      {`in ${format.counted(drift.differing, 'delivery', 'deliveries')}, first `}
      <a href={`/flows/deliveries/${drift.firstDeliveryId}`}>
        <Time at={drift.since} withClock />
      </a>
    </>
  );
}

export const driftPage: PagePart = {
  name: 'drift',
  flowViews: [
    {
      value: 'payload',
      text: 'What it reads',
      isOfWebhooks: true,
      view: ({ flow }) => <PayloadPanels flowId={flow.id} />,
    },
  ],
};
