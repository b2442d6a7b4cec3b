import type { z } from 'zod';
import { withQuery } from '../../dashboard/web/address.ts';
import { format } from '../../dashboard/web/format.ts';
import { Table } from '../../dashboard/web/kit/list.tsx';
import { Empty, Loaded, Panel } from '../../dashboard/web/kit/page.tsx';
import { Icon, Pill } from '../../dashboard/web/kit/pill.tsx';
import { Message, Time } from '../../dashboard/web/kit/time.tsx';
import type { Look } from '../../dashboard/web/looks.ts';
import type { PagePart } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import type { keySchema } from './service.ts';

type Key = z.output<typeof keySchema>;

/** The keys of a flow's webhooks: their use, and whether they can be removed. */
function KeysPanel({ flowId }: { flowId: string }) {
  const keys = useResource<readonly Key[]>(withQuery('/keys', { flowId }), { refreshOn: ['delivery.received'] });
  return (
    <Panel title="Keys" aside="accepted deliveries that each key verified" isFlush>
      <Loaded of={keys}>
        {(list) =>
          list.length === 0 ? (
            <Empty icon="check" title="No webhook of this flow has a key" />
          ) : (
            <>
              <Advice keys={list} />
              <Table
                label="Keys"
                columns={[
                  { name: 'Trigger', cell: ({ triggerKey }) => triggerKey },
                  { name: 'Role', cell: ({ role }) => <RolePill role={role} /> },
                  { name: 'Key', cell: ({ reference }) => (reference === null ? '' : <code>{reference}</code>) },
                  {
                    name: 'Fingerprint',
                    cell: ({ fingerprint }) => (fingerprint === null ? 'not shown' : <code>{fingerprint}</code>),
                    isMinor: true,
                  },
                  { name: 'Since', cell: ({ since }) => (since === null ? '' : <Time at={since} />), isMinor: true },
                  {
                    name: 'Last verified',
                    cell: ({ lastVerifiedAt }) => (lastVerifiedAt === null ? 'never' : <Time at={lastVerifiedAt} />),
                  },
                  {
                    name: '24 hours',
                    cell: ({ last24Hours }) => format.count(last24Hours),
                    align: 'end',
                    isMinor: true,
                  },
                  { name: 'All', cell: ({ count }) => format.count(count), align: 'end', isMinor: true },
                ]}
                rows={list.map((key, at) => ({ ...key, at }))}
                keyOf={({ at }) => String(at)}
              />
            </>
          )
        }
      </Loaded>
    </Panel>
  );
}

const ROLE_LOOKS: Readonly<Record<Key['role'], readonly [Look['tone'], Look['icon'], string]>> = {
  current: ['good', 'check', 'Deliveries are verified with it'],
  previous: ['warn', 'clock', 'Also accepted until it is removed from the manifest'],
  former: ['quiet', 'off', 'Keys that verified deliveries but that this process does not have'],
};

function RolePill({ role }: { role: Key['role'] }) {
  const [tone, icon, title] = ROLE_LOOKS[role];
  return (
    <Pill tone={tone} icon={icon} title={title}>
      {role}
    </Pill>
  );
}

const NOTICES: Readonly<Record<NonNullable<Key['advice']>, string>> = {
  wait: 'busy',
  may_go: 'good',
  same_key: 'good',
  in_use: 'warn',
  not_switched: 'warn',
  keys_differ: 'warn',
};

function Advice({ keys }: { keys: readonly Key[] }) {
  return keys.map(({ triggerKey, advice, message }) =>
    message === null ? null : (
      <p key={triggerKey} class={`notice ${NOTICES[advice ?? 'wait']}`}>
        <Icon name={advice === 'may_go' ? 'check' : 'clock'} />
        <span>
          <Message text={message} />.
        </span>
      </p>
    ),
  );
}

export const keysPage: PagePart = {
  name: 'keys',
  flowViews: [{ value: 'keys', text: 'Keys', isOfWebhooks: true, view: ({ flow }) => <KeysPanel flowId={flow.id} /> }],
};
