import type { z } from 'zod';
import { ask, messageOf } from '../../dashboard/web/api.ts';
import type { Api } from '../../dashboard/web/api-types.ts';
import { type Column, Table } from '../../dashboard/web/kit/list.tsx';
import { confirm, toast } from '../../dashboard/web/kit/overlays.tsx';
import { Loaded, Panel, Total } from '../../dashboard/web/kit/page.tsx';
import { Time } from '../../dashboard/web/kit/time.tsx';
import type { PagePart } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import { may } from '../../dashboard/web/scopes.ts';
import type { consumerSchema } from './service.ts';

type Consumer = z.output<typeof consumerSchema>;

/** Lists consumers of `sluice listen --forward`; hidden if there is none. */
function ConsumersPanel() {
  const consumers = useResource<readonly Consumer[]>('/webhooks/consumers', { refreshOn: ['delivery.received'] });
  const flows = useResource<readonly Api['Flow'][]>('/flows');
  const { data, error } = consumers;
  if (error === undefined && (data === undefined || data.length === 0)) return null;
  const nameOf = (flowId: string) => flows.data?.find(({ id }) => id === flowId)?.name ?? flowId;
  const columns = [...columnsWith(nameOf), ...(may('operate') ? [forgetColumn(consumers.refresh)] : [])];
  return (
    <Panel title="Forwarding" aside={data === undefined ? undefined : <Total count={data.length} />} isFlush>
      <Loaded of={consumers}>
        {(list) => <Table label="Forwarding" columns={columns} rows={list} keyOf={({ name }) => name} />}
      </Loaded>
    </Panel>
  );
}

const columnsWith = (nameOf: (flowId: string) => string): readonly Column<Consumer>[] => [
  { name: 'Consumer', cell: ({ name }) => name },
  {
    name: 'Gets',
    cell: ({ flowId, triggerKey }) =>
      flowId === null ? (
        'all deliveries'
      ) : (
        <a href={`/flows/flows/${flowId}`}>{`${nameOf(flowId)}${triggerKey === null ? '' : `, ${triggerKey}`}`}</a>
      ),
  },
  { name: 'Has those until', cell: ({ at }) => <Time at={at} />, align: 'end' },
  { name: 'Last asked', cell: ({ usedAt }) => <Time at={usedAt} />, align: 'end', isMinor: true },
];

const forgetColumn = (refresh: () => void): Column<Consumer> => ({
  name: 'Forget',
  cell: ({ name }) => (
    <button type="button" class="button" onClick={() => forget(name, refresh)}>
      Forget…
    </button>
  ),
  align: 'end',
});

async function forget(name: string, refresh: () => void): Promise<void> {
  const answer = await confirm({
    title: `Forget ${name}?`,
    body: <p>Its cursor is gone: the next one of that name begins anew.</p>,
    action: 'Forget',
    isDangerous: true,
  });
  if (answer === undefined) return;
  try {
    await ask(`/webhooks/consumers/${encodeURIComponent(name)}`, { method: 'DELETE', body: answer.why });
    toast('good', `${name} is forgotten.`);
  } catch (error) {
    toast('bad', messageOf(error));
  }
  refresh();
}

export const consumersPage: PagePart = {
  name: 'consumers',
  at: { overview: ConsumersPanel },
  actions: {
    openConsumer: 'Forward deliveries',
    deleteConsumer: 'Forget a consumer',
  },
};
