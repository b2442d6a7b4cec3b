import type { Run } from '../api-types.ts';
import { count } from '../format.ts';
import { StatusPill } from '../kit/pill.tsx';
import { type Column, Table } from '../kit/table.tsx';
import { Time } from '../kit/time.tsx';

export const SHOWN_RUNS = 8;

const COLUMNS: readonly Column<Run>[] = [
  { name: 'Flow', cell: ({ flowName }) => flowName },
  { name: 'Status', cell: ({ status }) => <StatusPill status={status} /> },
  { name: 'Trigger', cell: ({ triggerKey }) => triggerKey, isMinor: true },
  { name: 'Started', cell: ({ startedAt }) => <Time at={startedAt} />, align: 'end' },
];

/** The newest of them. */
export function RunsInFlight({ runs, total }: { runs: readonly Run[]; total: number }) {
  return (
    <>
      <Table
        label="Runs in flight"
        columns={COLUMNS}
        rows={runs}
        keyOf={({ id }) => id}
        hrefOf={({ id }) => `/flows/runs/${id}`}
      />
      {total > runs.length ? (
        <p class="more">
          <a href="/flows/runs?status=Running">{`${count(total - runs.length)} more`}</a>
        </p>
      ) : null}
    </>
  );
}
