import { type Column, Table } from '../../dashboard/web/kit/list.tsx';
import { Empty, Loaded, Panel } from '../../dashboard/web/kit/page.tsx';
import { StatusPill } from '../../dashboard/web/kit/pill.tsx';
import { Time } from '../../dashboard/web/kit/time.tsx';
import type { PagePart } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import { seesService } from '../../dashboard/web/scopes.ts';
import type { AlertAnswers } from './service.ts';

type AlertTarget = AlertAnswers['AlertTarget'];

const ALERT_COLUMNS: readonly Column<AlertTarget>[] = [
  { name: 'Target', cell: ({ name, type }) => `${name} (${type})` },
  {
    name: 'Told of',
    cell: ({ kinds, severities, flows }) =>
      `${severities.map((severity) => SEVERITY_WORDS[severity]).join(', ')}: ${kindsText(kinds)}${flows === null ? '' : ` of ${flows.join(', ')}`}`,
    isMinor: true,
  },
  {
    name: 'Last message',
    cell: ({ lastMessage }) =>
      lastMessage === null ? (
        'None yet'
      ) : (
        <a href={`/flows/runs/${lastMessage.runId}`}>
          <Time at={lastMessage.at} />
        </a>
      ),
    align: 'end',
  },
  {
    name: 'Result',
    cell: ({ lastMessage }) =>
      lastMessage === null || lastMessage.status === null ? '' : <StatusPill status={lastMessage.status} />,
  },
];

const SEVERITY_WORDS: Readonly<Record<AlertTarget['severities'][number], string>> = {
  error: 'Errors',
  warning: 'warnings',
  info: 'notes',
};

const SHOWN_KINDS = 3;

/** Shortens the list: the attention list alone has many kinds. */
function kindsText(kinds: AlertTarget['kinds']): string {
  const shown = kinds.slice(0, SHOWN_KINDS).join(', ');
  return kinds.length > SHOWN_KINDS ? `${shown} and ${kinds.length - SHOWN_KINDS} more kinds` : shown;
}

/** Shows which targets are notified. */
function AlertsPanel() {
  const targets = useResource<readonly AlertTarget[]>('/alerts', { refreshOn: ['run.completed'] });
  return (
    <Panel title="Alerts" isFlush>
      <Loaded of={targets}>
        {(list) =>
          list.length === 0 ? (
            <Empty icon="info" title="Failures are not reported">
              <p>
                Name a file with targets in <code>SLUICE_ALERTS</code>: Slack, Teams, Discord, PagerDuty, Opsgenie, a
                URL or mail.
              </p>
            </Empty>
          ) : (
            <Table label="Alerts" columns={ALERT_COLUMNS} rows={list} keyOf={({ name }) => name} />
          )
        }
      </Loaded>
    </Panel>
  );
}

export const alertsPage: PagePart = { name: 'alerts', at: { overview: seesService ? AlertsPanel : undefined } };
