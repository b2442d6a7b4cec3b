import type { ComponentChild } from 'preact';
import { useState } from 'preact/hooks';
import type { z } from 'zod';
import { ask, messageOf } from '../../dashboard/web/api.ts';
import { format } from '../../dashboard/web/format.ts';
import { type Column, Table } from '../../dashboard/web/kit/list.tsx';
import { toast } from '../../dashboard/web/kit/overlays.tsx';
import { Empty, Loaded, Page, Panel, Total } from '../../dashboard/web/kit/page.tsx';
import { Icon, Pill } from '../../dashboard/web/kit/pill.tsx';
import { Time } from '../../dashboard/web/kit/time.tsx';
import type { LookRow } from '../../dashboard/web/looks.ts';
import type { PagePart } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import { may } from '../../dashboard/web/scopes.ts';
import type { hostSchema } from './service.ts';

type Host = z.output<typeof hostSchema>;

/** The hosts that steps call, with open circuits, limits and waiting steps. */
function HostsPage() {
  const hosts = useResource<readonly Host[]>('/hosts', { refreshOn: ['step.completed', 'run.started'] });
  return (
    <Page title="Hosts" badges={hosts.data === undefined ? null : <Total count={hosts.data.length} />}>
      <Loaded of={hosts} lines={6}>
        {(list) =>
          list.length === 0 ? (
            <Panel title="Hosts that steps call">
              <Empty icon="hosts" title="No step has called a host since the service started">
                <p>
                  <code>SLUICE_OUTGOING_HOSTS</code> limits how fast each host is called.
                </p>
              </Empty>
            </Panel>
          ) : (
            <>
              {list
                .filter(({ openSince }) => openSince !== null)
                .map((host) => (
                  <OpenCircuit key={host.origin} host={host} refresh={hosts.refresh} />
                ))}
              <Panel title="Hosts that steps call" isFlush>
                <Table label="Hosts" columns={COLUMNS} rows={list} keyOf={({ origin }) => origin} />
              </Panel>
            </>
          )
        }
      </Loaded>
    </Page>
  );
}

function OpenCircuit({ host, refresh }: { host: Host; refresh: () => void }) {
  const { origin, openSince, failuresInRow, lastError, nextTryAt, waitingSteps, circuits } = host;
  const caller = circuits[0]?.caller ?? null;
  const [isBusy, setBusy] = useState(false);
  const close = async () => {
    setBusy(true);
    try {
      const path = `/hosts/${encodeURIComponent(origin)}/close-circuit`;
      const { message } = await ask<{ readonly message: string }>(path, { method: 'POST' });
      toast('good', message);
    } catch (error) {
      toast('bad', messageOf(error));
    }
    setBusy(false);
    refresh();
  };
  return (
    <div class="notice warn">
      <Icon name="stop" />
      <span class="break">
        <strong>{origin}</strong>
        {failuresInRow > 0 ? ' stopped answering ' : ' asked for a pause '}
        <Time at={openSince} />
        {caller === null ? '' : ` for ${caller}`}
        {failuresInRow > 0 ? `: ${format.counted(failuresInRow, 'consecutive request')} failed` : ''}
        {lastError === null ? '' : ` (${lastError.error})`}
        {`. ${format.counted(waitingSteps, 'step')} ${waitingSteps === 1 ? 'waits' : 'wait'}; the next try `}
        <Time at={nextTryAt} />
      </span>
      {may('operate') ? (
        <button type="button" class="button" disabled={isBusy} onClick={() => void close()}>
          Call it now
        </button>
      ) : null}
    </div>
  );
}

const CIRCUITS: Readonly<Record<Host['state'], LookRow>> = {
  closed: ['good', 'check', 'Called'],
  open: ['warn', 'stop', 'Not called'],
  probing: ['warn', 'spinner', 'Trying'],
  failing: ['warn', 'warn', 'Failing'],
};

function CircuitPill({ state }: Pick<Host, 'state'>) {
  const [tone, icon, text] = CIRCUITS[state];
  return (
    <Pill tone={tone} icon={icon}>
      {text}
    </Pill>
  );
}

const COLUMNS: readonly Column<Host>[] = [
  { name: 'Host', cell: ({ origin }) => origin },
  {
    name: 'State',
    cell: ({ state }) => <CircuitPill state={state} />,
  },
  { name: 'Waiting', cell: ({ waitingSteps }) => waitingText(waitingSteps), align: 'end' },
  { name: 'Requests', cell: ({ requestsPerSecond }) => `${Math.round(requestsPerSecond * 10) / 10}/s`, align: 'end' },
  { name: 'In flight', cell: ({ requestsInFlight }) => format.count(requestsInFlight), align: 'end', isMinor: true },
  { name: 'Limit', cell: limitText, isMinor: true },
  {
    name: 'Last error',
    cell: ({ lastError }) =>
      lastError === null ? (
        ''
      ) : (
        <>
          {lastError.error} <Time at={lastError.at} />
        </>
      ),
    isMinor: true,
  },
];

function waitingText(steps: number): ComponentChild {
  const text = `${format.count(steps)}${steps >= 10_000 ? '+' : ''}`;
  return steps === 0 ? text : <a href="/flows/runs?waiting=host">{text}</a>;
}

function limitText({ limitPerSecond, limitAtOnce }: Host): string {
  const rate = limitPerSecond === null ? [] : [`${Math.round(limitPerSecond * 1000) / 1000}/s`];
  const atOnce = limitAtOnce === null ? [] : [`${limitAtOnce} at once`];
  return [...rate, ...atOnce].join(', ') || 'none';
}

export const hostsPage: PagePart = {
  name: 'hosts',
  routes: [{ path: '/flows/hosts', page: HostsPage, title: 'Hosts' }],
  place: { text: 'Hosts', href: '/flows/hosts', key: 'h', icon: 'hosts', isOfService: true },
  actions: {
    closeCircuit: 'Call a host again',
  },
};
