import { useEffect, useId, useState } from 'preact/hooks';
import { messageOf, withQuery } from '../api.ts';
import type { Schedule } from '../api-types.ts';
import { Dialog } from '../kit/dialog.tsx';
import { Time } from '../kit/time.tsx';
import { useResource } from '../resource.ts';
import { changeCron } from './schedule-commands.ts';
import { zonedTime } from './zoned-time.ts';

const TYPING_MS = 300;
const COUNT = 5;

interface CronDialogProps {
  readonly schedule: Schedule;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

/** Asks for another expression and shows when it would fire, as the service reads it, before it is saved. */
export function CronDialog({ schedule, onClose, onChanged }: CronDialogProps) {
  const { cron, timeZone, manifestCron } = schedule;
  const [text, setText] = useState(cron);
  const [asked, setAsked] = useState(cron);
  const [isSaving, setSaving] = useState(false);
  const previewId = useId();
  const expression = text.trim();
  const path = withQuery('/schedules/preview', { cronExpression: asked, timeZone, count: COUNT });
  const preview = useResource<{ nextExecutions: readonly string[] }>(asked === '' ? null : path);
  const isSettled = expression === asked && preview.data !== undefined && preview.error === undefined;
  useEffect(() => {
    const timer = setTimeout(() => setAsked(expression), TYPING_MS);
    return () => clearTimeout(timer);
  }, [expression]);
  const save = async (event: Event) => {
    event.preventDefault();
    setSaving(true);
    const isChanged = await changeCron(schedule, expression);
    setSaving(false);
    if (!isChanged) return;
    onChanged();
    onClose();
  };
  return (
    <Dialog title={`When ${schedule.flowName} / ${schedule.triggerKey} fires`} onClose={onClose}>
      <form onSubmit={(event) => void save(event)}>
        <div class="dialog-body">
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
            Minute, hour, day, month, weekday; a sixth field in front is the second.{' '}
            {expression === manifestCron ? (
              'This is what the manifest says.'
            ) : (
              <>
                It goes before the manifest’s{' '}
                <button type="button" class="link" onClick={() => setText(manifestCron)}>
                  <code>{manifestCron}</code>
                </button>{' '}
                until that is set again.
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
        </div>
        <footer class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="button primary" disabled={!isSettled || isSaving || expression === cron}>
            Save
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function Preview({ times, timeZone }: { times: readonly string[] | undefined; timeZone: string }) {
  if (times === undefined) return <p class="muted">Working out the next times</p>;
  if (times.length === 0) return <p>It never fires again.</p>;
  return (
    <>
      <h3>The next times</h3>
      <ol>
        {times.map((time) => (
          <li key={time}>
            <span>{zonedTime(Date.parse(time), timeZone)}</span>
            <span class="muted">
              <Time at={time} />
            </span>
          </li>
        ))}
      </ol>
    </>
  );
}
