import { useState } from 'preact/hooks';
import type { RunEvent } from '../api-types.ts';
import { duration, exactTime } from '../format.ts';
import { Loaded } from '../kit/page.tsx';
import { Icon } from '../kit/pill.tsx';
import { eventLook } from '../looks.ts';
import type { ViewProps } from './graph-view.tsx';
import { useRunPart } from './use-run.ts';

const PAGE = 200;

/** What happened to a run, in order; of a long run the newest, and earlier ones on asking. */
export function TimelineView({ outline, selected, onSelect }: ViewProps) {
  const [take, setTake] = useState(PAGE);
  const { run } = outline;
  const events = useRunPart<readonly RunEvent[]>(`/runs/${run.id}/events?take=${take}`, outline);
  return (
    <div class="panel-body">
      <Loaded of={events} lines={6}>
        {(loaded) => (
          <>
            {(loaded[0]?.sequence ?? 1) > 1 ? (
              <p class="timeline-earlier">
                <button type="button" class="button" disabled={events.isLoading} onClick={() => setTake(take + PAGE)}>
                  Show earlier events
                </button>
                <span class="muted">{`${(loaded[0]?.sequence ?? 1) - 1} came before these`}</span>
              </p>
            ) : null}
            <ol class="timeline">
              {loaded.map((event) => (
                <EventRow
                  key={event.sequence}
                  event={event}
                  since={run.startedAt}
                  isSelected={event.stepKey !== null && event.stepKey === selected}
                  onSelect={onSelect}
                />
              ))}
            </ol>
            {run.completedAt === null ? <p class="muted timeline-open">The run goes on.</p> : null}
          </>
        )}
      </Loaded>
    </div>
  );
}

interface EventRowProps {
  readonly event: RunEvent;
  readonly since: string;
  readonly isSelected: boolean;
  readonly onSelect: (stepKey: string) => void;
}

function EventRow({ event, since, isSelected, onSelect }: EventRowProps) {
  const { stepKey, timestamp } = event;
  const { tone, icon, text, detail } = eventLook(event);
  const at = Date.parse(timestamp);
  return (
    <li class={isSelected ? 'selected' : ''}>
      <time dateTime={timestamp} title={exactTime(at)}>
        {`+${duration(Math.max(0, at - Date.parse(since)))}`}
      </time>
      <span class={`timeline-mark ${tone}`}>
        <Icon name={icon} />
      </span>
      <span class="break">
        {stepKey === null ? null : (
          <button type="button" class="link" onClick={() => onSelect(stepKey)}>
            {stepKey}
          </button>
        )}{' '}
        {text}
        {detail === null ? null : <span class="muted">{` · ${detail}`}</span>}
      </span>
    </li>
  );
}
