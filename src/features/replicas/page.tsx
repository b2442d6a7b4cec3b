import type { z } from 'zod';
import { format } from '../../dashboard/web/format.ts';
import { type Column, Table } from '../../dashboard/web/kit/list.tsx';
import { Loaded, Panel, Total } from '../../dashboard/web/kit/page.tsx';
import { Time } from '../../dashboard/web/kit/time.tsx';
import type { PagePart } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import { seesService } from '../../dashboard/web/scopes.ts';
import type { replicaSchema } from './service.ts';

type Replica = z.output<typeof replicaSchema>;

const REPLICA_COLUMNS: readonly Column<Replica>[] = [
  { name: 'Replica', cell: ({ name, self }) => (self ? `${name} (this one)` : name) },
  { name: 'Version', cell: ({ version }) => version, isMinor: true },
  { name: 'Steps running', cell: ({ stepsRunning }) => format.count(stepsRunning), align: 'end' },
  { name: 'Started', cell: ({ startedAt }) => <Time at={startedAt} />, align: 'end', isMinor: true },
  { name: 'Last heartbeat', cell: ({ seenAt }) => <Time at={seenAt} />, align: 'end' },
];

/** Shown only if several processes share the database: a single one is the one that serves the page. */
function ReplicasPanel() {
  const replicas = useResource<readonly Replica[]>('/replicas', { refreshOn: ['attention.changed'] });
  const { data, error } = replicas;
  if (error === undefined && (data === undefined || data.length < 2)) return null;
  return (
    <Panel title="Replicas" aside={data === undefined ? undefined : <Total count={data.length} />} isFlush>
      <Loaded of={replicas}>
        {(list) => <Table label="Replicas" columns={REPLICA_COLUMNS} rows={list} keyOf={({ name }) => name} />}
      </Loaded>
    </Panel>
  );
}

export const replicasPage: PagePart = { name: 'replicas', at: { overview: seesService ? ReplicasPanel : undefined } };
