import { useState } from 'preact/hooks';
import { withQuery } from '../api.ts';
import type { PageOf, Schedule } from '../api-types.ts';
import { count } from '../format.ts';
import { Icon, type IconName } from '../kit/icon.tsx';
import { Empty, Loaded, Page, Panel } from '../kit/page.tsx';
import { Pill } from '../kit/pill.tsx';
import { Pager, skipOf } from '../kit/table.tsx';
import { Time } from '../kit/time.tsx';
import { useResource } from '../resource.ts';
import { useQuery } from '../router.ts';
import { CronDialog } from './cron-dialog.tsx';
import { commandSchedule } from './schedule-commands.ts';
import { zonedTime } from './zoned-time.ts';

const TAKE = 100;

/** Cron triggers: when they fire, and what may be done about it. */
export function SchedulesPage() {
  const [query] = useQuery();
  const path = withQuery('/schedules', { skip: skipOf(query), take: TAKE, includeTotal: true });
  const schedules = useResource<PageOf<Schedule>>(path, { refreshOn: ['run.started'], keepPrevious: true });
  return (
    <Page title="Schedules">
      <Panel title="Schedules" aside={schedules.data === undefined ? undefined : count(schedules.data.total)} isFlush>
        <Loaded of={schedules} lines={6}>
          {({ items, total, skip, take }) =>
            items.length === 0 ? (
              <NoSchedules />
            ) : (
              <>
                <ul class="schedules">
                  {items.map((schedule) => (
                    <ScheduleRow key={schedule.jobId} schedule={schedule} refresh={schedules.refresh} />
                  ))}
                </ul>
                <Pager total={total} skip={skip} take={take} />
              </>
            )
          }
        </Loaded>
      </Panel>
    </Page>
  );
}

function NoSchedules() {
  return (
    <Empty icon="schedules" title="No flow has a schedule">
      <p>
        Give a flow a trigger such as <code>{CRON_TRIGGER}</code> in its manifest and start the service anew.
      </p>
    </Empty>
  );
}

const CRON_TRIGGER = '{ "type": "cron", "inputs": { "cronExpression": "0 2 * * *", "timeZone": "Europe/Berlin" } }';

function ScheduleRow({ schedule, refresh }: { schedule: Schedule; refresh: () => void }) {
  const { flowId, flowName, triggerKey, cron, timeZone, nextExecution, lastExecution, paused } = schedule;
  const { changed, manifestCron, flowIsEnabled } = schedule;
  const [isEditing, setEditing] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const run = async (verb: 'pause' | 'resume' | 'trigger') => {
    setBusy(true);
    await commandSchedule(schedule, verb);
    setBusy(false);
    refresh();
  };
  const about = `${flowName}, ${triggerKey}`;
  return (
    <li class="schedule">
      <div class="schedule-name">
        <a data-row href={`/flows/flows/${flowId}`}>
          {flowName}
        </a>
        <span class="muted">{triggerKey}</span>
        {flowIsEnabled ? null : (
          <Pill tone="warn" icon="off" title="Its times pass without a run">
            Flow disabled
          </Pill>
        )}
      </div>
      <div>
        <code>{cron}</code>
        <span class="muted schedule-sub">{timeZone}</span>
        {changed ? <span class="muted schedule-sub">{`changed; the manifest says ${manifestCron}`}</span> : null}
      </div>
      <div>
        {paused ? (
          <Pill tone="warn" icon="pause">
            Paused
          </Pill>
        ) : (
          <When label="Next" at={nextExecution} timeZone={timeZone} never="Never again" />
        )}
      </div>
      <div>
        <When label="Last" at={lastExecution} timeZone={timeZone} never="Not yet" />
      </div>
      <div class="schedule-actions">
        {paused ? (
          <Action icon="play" text="Resume" about={about} isOff={isBusy} onClick={() => void run('resume')} />
        ) : (
          <Action icon="pause" text="Pause" about={about} isOff={isBusy} onClick={() => void run('pause')} />
        )}
        <Action icon="runs" text="Run now" about={about} isOff={isBusy} onClick={() => void run('trigger')} />
        <Action icon="schedules" text="Edit…" about={about} isOff={isBusy} onClick={() => setEditing(true)} />
      </div>
      {isEditing ? <CronDialog schedule={schedule} onClose={() => setEditing(false)} onChanged={refresh} /> : null}
    </li>
  );
}

interface WhenProps {
  readonly label: string;
  readonly at: string | null;
  readonly timeZone: string;
  readonly never: string;
}

function When({ label, at, timeZone, never }: WhenProps) {
  return (
    <>
      <span class="muted">{`${label}: `}</span>
      {at === null ? <span class="muted">{never}</span> : <Time at={at} />}
      {at === null ? null : <span class="muted schedule-sub">{zonedTime(Date.parse(at), timeZone)}</span>}
    </>
  );
}

interface ActionProps {
  readonly icon: IconName;
  readonly text: string;
  /** Names the schedule for those who do not see in which row the button stands. */
  readonly about: string;
  readonly isOff: boolean;
  readonly onClick: () => void;
}

function Action({ icon, text, about, isOff, onClick }: ActionProps) {
  return (
    <button type="button" class="button" disabled={isOff} onClick={onClick}>
      <Icon name={icon} />
      {text}
      <span class="unseen">{about}</span>
    </button>
  );
}
