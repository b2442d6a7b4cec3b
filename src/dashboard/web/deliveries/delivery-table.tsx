import type { Delivery, Flow } from '../api-types.ts';
import { bytes, shortId } from '../format.ts';
import { DeliveryPill, ReasonText } from '../kit/pill.tsx';
import { type Column, Table } from '../kit/table.tsx';
import { Time } from '../kit/time.tsx';

interface DeliveryTableProps {
  readonly rows: readonly Delivery[];
  readonly flows: readonly Flow[];
  readonly isStale: boolean;
}

export function DeliveryTable({ rows, flows, isStale }: DeliveryTableProps) {
  const names = new Map(flows.map(({ id, name }) => [id, name]));
  const columns: readonly Column<Delivery>[] = [
    { name: 'Received', cell: ({ receivedAt }) => <Time at={receivedAt} withClock /> },
    { name: 'Outcome', cell: (delivery) => <DeliveryPill delivery={delivery} /> },
    { name: 'Reason', cell: ({ reason }) => <ReasonText reason={reason} /> },
    { name: 'Flow', cell: (delivery) => <FlowCell delivery={delivery} names={names} /> },
    { name: 'Scheme', cell: ({ scheme }) => scheme ?? <span class="muted">none</span>, isMinor: true },
    { name: 'Client', cell: ({ clientIp }) => <span class="mono">{clientIp}</span>, isMinor: true },
    { name: 'Size', cell: ({ bodyBytes }) => bytes(bodyBytes), align: 'end', isMinor: true },
    { name: 'Status', cell: ({ statusCode }) => statusCode, align: 'end', isMinor: true },
    { name: 'Run', cell: RunCell, isMinor: true },
  ];
  return (
    <Table
      label="Deliveries"
      columns={columns}
      rows={rows}
      keyOf={({ id }) => id}
      hrefOf={({ id }) => `/flows/deliveries/${id}`}
      isStale={isStale}
    />
  );
}

function FlowCell({ delivery, names }: { delivery: Delivery; names: ReadonlyMap<string, string> }) {
  const { flowId, triggerKey } = delivery;
  if (flowId === null) return <span class="muted">unknown</span>;
  return (
    <>
      {names.get(flowId) ?? <span class="mono">{shortId(flowId)}</span>}
      {triggerKey === null ? null : <span class="muted minor">{` / ${triggerKey}`}</span>}
    </>
  );
}

function RunCell({ runId }: Delivery) {
  if (runId === null) return <span class="muted">–</span>;
  return (
    <a class="mono" href={`/flows/runs/${runId}`}>
      {shortId(runId)}
    </a>
  );
}
