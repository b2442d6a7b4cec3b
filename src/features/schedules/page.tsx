import { useEffect, useId, useState } from 'preact/hooks';
import type { z } from 'zod';
import { skipOf, withQuery } from '../../dashboard/web/address.ts';
import { ask, messageOf } from '../../dashboard/web/api.ts';
import type { PageOf } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import { Pager } from '../../dashboard/web/kit/list.tsx';
import { FormDialog, toast, type Why } from '../../dashboard/web/kit/overlays.tsx';
import { Empty, Loaded, Page, Total } from '../../dashboard/web/kit/page.tsx';
import { Icon, Pill } from '../../dashboard/web/kit/pill.tsx';
import { Time } from '../../dashboard/web/kit/time.tsx';
import type { Look } from '../../dashboard/web/looks.ts';
import type { PagePart } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import { useQuery } from '../../dashboard/web/router.ts';
import { may } from '../../dashboard/web/scopes.ts';
import type { scheduleSchema } from './service.ts';

type Schedule = z.output<typeof scheduleSchema>;

const TAKE = 100;

/** Cron triggers: when they fire, and actions on them. */
function SchedulesPage() {
  const [query] = useQuery();
  const path = withQuery('/schedules', { skip: skipOf(query), take: TAKE, includeTotal: true });
  const schedules = useResource<PageOf<Schedule>>(path, { refreshOn: ['run.started'], keepPrevious: true });
  return (
    <Page title="Schedules" badges={schedules.data === undefined ? null : <Total count={schedules.data.total} />}>
      <div class="panel">
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
      </div>
    </Page>
  );
}

function NoSchedules() {
  return (
    <Empty icon="schedules" title="No flow has a schedule">
      <p>
        Add a trigger such as <code>{CRON_TRIGGER}</code> to a manifest, then restart the service.
      </p>
    </Empty>
  );
}

const CRON_TRIGGER = '{ "type": "cron", "inputs": { "cronExpression": "0 2 * * *", "timeZone": "Europe/Berlin" } }';

function ScheduleRow({ schedule, refresh }: { schedule: Schedule; refresh: () => void }) {
  const { flowId, flowName, triggerKey, cron, timeZone, nextExecution, lastExecution, paused } = schedule;
  const { changed, manifestCron, flowIsEnabled, enabled } = schedule;
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
          <Pill tone="warn" icon="off" title="A disabled flow starts no runs">
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
        {enabled ? null : (
          <Pill tone="warn" icon="off" title="enabled is false in the manifest">
            Off
          </Pill>
        )}
        {!enabled ? null : paused ? (
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
      {may('operate') && enabled ? (
        <div class="schedule-actions">
          {paused ? (
            <Action icon="play" text="Resume" about={about} isOff={isBusy} onClick={() => void run('resume')} />
          ) : (
            <Action icon="pause" text="Pause" about={about} isOff={isBusy} onClick={() => void run('pause')} />
          )}
          <Action icon="runs" text="Run now" about={about} isOff={isBusy} onClick={() => void run('trigger')} />
          <Action icon="schedules" text="Edit…" about={about} isOff={isBusy} onClick={() => setEditing(true)} />
        </div>
      ) : null}
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
      {at === null ? null : <span class="muted schedule-sub">{format.zonedTime(Date.parse(at), timeZone)}</span>}
    </>
  );
}

interface ActionProps {
  readonly icon: Look['icon'];
  readonly text: string;
  /** Names the schedule for screen readers, which do not see the row. */
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

const TYPING_MS = 300;
const COUNT = 5;

interface CronDialogProps {
  readonly schedule: Schedule;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

/** Asks for a new expression and, before saving it, shows when it would fire according to the service. */
function CronDialog({ schedule, onClose, onChanged }: CronDialogProps) {
  const { cron, timeZone, manifestCron } = schedule;
  const [text, setText] = useState(cron);
  const [asked, setAsked] = useState(cron);
  const previewId = useId();
  const expression = text.trim();
  const path = withQuery('/schedules/preview', { cronExpression: asked, timeZone, count: COUNT });
  const preview = useResource<{ nextExecutions: readonly string[] }>(asked === '' ? null : path);
  const isSettled = expression === asked && preview.data !== undefined && preview.error === undefined;
  useEffect(() => {
    const timer = setTimeout(() => setAsked(expression), TYPING_MS);
    return () => clearTimeout(timer);
  }, [expression]);
  const save = async (why: Why) => {
    if (!(await changeCron(schedule, { cronExpression: expression, ...why }))) return;
    onChanged();
    onClose();
  };
  return (
    <FormDialog
      title={`When ${schedule.flowName} / ${schedule.triggerKey} fires`}
      action="Save"
      isDisabled={!isSettled || expression === cron}
      send={save}
      onClose={onClose}
    >
      <label class="field">
        {`Cron expression, in ${timeZone}`}
        <input
          class="mono"
          required
          maxLength={200}
          spellcheck={false}
          autocomplete="off"
          value={text}
          aria-invalid={preview.error !== undefined}
          aria-describedby={previewId}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <p class="muted">
        Minute, hour, day, month, weekday; an optional first field sets the second.{' '}
        {expression === manifestCron ? (
          'This is what the manifest says.'
        ) : (
          <>
            It overrides the manifest’s{' '}
            <button type="button" class="link" onClick={() => setText(manifestCron)}>
              <code>{manifestCron}</code>
            </button>{' '}
            until you change it back.
          </>
        )}
      </p>
      <div id={previewId} class="preview" role="status">
        {preview.error !== undefined && asked !== '' ? (
          <p class="field-error break">{messageOf(preview.error)}</p>
        ) : (
          <Preview times={preview.data?.nextExecutions} timeZone={timeZone} />
        )}
      </div>
    </FormDialog>
  );
}

function Preview({ times, timeZone }: { times: readonly string[] | undefined; timeZone: string }) {
  if (times === undefined) return <p class="muted">Calculating the next times</p>;
  if (times.length === 0) return <p>This expression never fires again.</p>;
  return (
    <>
      <h3>The next times</h3>
      <ol>
        {times.map((time) => (
          <li key={time}>
            <span>{format.zonedTime(Date.parse(time), timeZone)}</span>
            <span class="muted">
              <Time at={time} />
            </span>
          </li>
        ))}
      </ol>
    </>
  );
}

interface Outcome {
  readonly message: string;
  readonly runId?: string;
}

const pathOf = ({ jobId }: Schedule, verb: string) => `/schedules/${encodeURIComponent(jobId)}/${verb}`;

/** Sends a command to a schedule and shows the result; yields whether it succeeded. */
async function commandSchedule(schedule: Schedule, verb: 'pause' | 'resume' | 'trigger'): Promise<boolean> {
  try {
    const { message, runId } = await ask<Outcome>(pathOf(schedule, verb), { method: 'POST' });
    toast('good', message, runId === undefined ? undefined : { href: `/flows/runs/${runId}`, text: 'See the run' });
    return true;
  } catch (error) {
    toast('bad', messageOf(error));
    return false;
  }
}

async function changeCron(schedule: Schedule, body: { cronExpression: string } & Why): Promise<boolean> {
  try {
    const { message } = await ask<Outcome>(pathOf(schedule, 'cron'), { method: 'PUT', body });
    toast('good', message);
    return true;
  } catch (error) {
    toast('bad', messageOf(error));
    return false;
  }
}

export const schedulesPage: PagePart = {
  name: 'schedules',
  routes: [{ path: '/flows/schedules', page: SchedulesPage, title: 'Schedules' }],
  place: { text: 'Schedules', href: '/flows/schedules', key: 's', icon: 'schedules' },
  actions: {
    pauseSchedule: 'Pause a schedule',
    resumeSchedule: 'Resume a schedule',
    triggerSchedule: 'Start a schedule now',
    changeCron: 'Change when a schedule fires',
  },
};
