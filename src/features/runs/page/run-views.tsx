import { useEffect, useMemo, useState } from 'preact/hooks';
import { withQuery } from '../../../dashboard/web/address.ts';
import { ask, messageOf } from '../../../dashboard/web/api.ts';
import type { Api } from '../../../dashboard/web/api-types.ts';
import { format } from '../../../dashboard/web/format.ts';
import { toast } from '../../../dashboard/web/kit/overlays.tsx';
import { Failure, Loaded } from '../../../dashboard/web/kit/page.tsx';
import { Icon } from '../../../dashboard/web/kit/pill.tsx';
import { useMedia } from '../../../dashboard/web/state.ts';
import { FlowGraph } from './flow-graph.tsx';
import { type Bar, barsOf, barText, placeOf, ticksOf } from './gantt-bars.ts';
import { eventLook } from './looks.ts';
import { stepKeys } from './step-paths.ts';
import { lookOf, marksOf, stepState } from './step-state.ts';
import { useRunPart } from './use-run.ts';

/** The views of a run's steps, by their names in the address. */
export const RUN_VIEWS = { graph: GraphView, gantt: GanttView, timeline: TimelineView };

interface ViewProps {
  readonly outline: Api['RunOutline'];
  /** Runtime key of the selected step, shown next to the view. */
  readonly selected: string | undefined;
  readonly onSelect: (stepKey: string | undefined) => void;
}

function GraphView({ outline, selected, onSelect }: ViewProps) {
  const marks = useMemo(() => marksOf(outline), [outline]);
  const select = async (path: string) => {
    if (selected !== undefined && stepKeys.pathOf(selected) === path) return onSelect(undefined);
    if (marks.get(path)?.status !== 'Failed' || stepKeys.loopAround(path) === null)
      return onSelect(stepKeys.firstKeyAt(path));
    onSelect((await firstFailure(outline.run.id, path)) ?? stepKeys.firstKeyAt(path));
  };
  return (
    <FlowGraph
      graph={outline.graph}
      statuses={marks}
      selected={selected === undefined ? undefined : stepKeys.pathOf(selected)}
      onSelect={(path) => void select(path)}
    />
  );
}

/** The first iteration in which a step of a loop failed: the one that readers look for. */
async function firstFailure(runId: string, path: string): Promise<string | undefined> {
  const loopKey = stepKeys.loopAround(stepKeys.firstKeyAt(path)) ?? '';
  try {
    const asked = withQuery(`/runs/${runId}/iterations`, { loop: loopKey, status: 'Failed', take: 500 });
    const { items } = await ask<Api['Iterations']>(asked);
    const failed = items
      .flatMap(({ steps }) => steps)
      .find((step) => step.status === 'Failed' && stepKeys.pathOf(step.stepKey) === path);
    return failed?.stepKey;
  } catch (error) {
    toast('bad', messageOf(error));
    return undefined;
  }
}

/** The number of axis marks whose texts fit, and the last position where a text fits. */
const AXIS = { wide: { most: 8, last: 0.94 }, narrow: { most: 4, last: 0.8 } };
const NARROW = '(max-width: 760px)';
const TICK_MS = 500;
const ITERATIONS = 20;

interface Shared extends ViewProps {
  readonly span: Parameters<typeof ticksOf>[0];
}

/** The steps of a run over time: one row per step, attempts as bars, waits hatched. Loops open one page at a time. */
function GanttView(props: ViewProps) {
  const { run, steps } = props.outline;
  const now = useNow(run.completedAt === null);
  const from = Date.parse(run.startedAt);
  const span = { from, to: Math.max(from + 1, run.completedAt === null ? now : Date.parse(run.completedAt)) };
  const shared: Shared = { ...props, span };
  const axis = useMedia(NARROW) ? AXIS.narrow : AXIS.wide;
  const placeOfTick = (offset: number) => offset / (span.to - span.from);
  const ticks = ticksOf(span, axis.most).filter((offset) => placeOfTick(offset) <= axis.last);
  return (
    <div class="gantt">
      <div class="gantt-axis" aria-hidden="true">
        {ticks.map((offset) => (
          <span key={offset} style={{ left: `${placeOfTick(offset) * 100}%` }}>
            {offset === 0 ? '0' : format.duration(offset)}
          </span>
        ))}
      </div>
      <ol class="gantt-rows">
        {steps.map((step) => (
          <StepRow key={step.stepKey} step={step} depth={0} {...shared} />
        ))}
      </ol>
      <p class="gantt-legend">
        <span class="gantt-bar good attempt" /> attempt <span class="gantt-bar warn wait" /> waits for its time, a
        signal or a retry <span class="gantt-bar slot" /> waits for a slot
      </p>
    </div>
  );
}

interface StepRowProps extends Shared {
  readonly step: Api['StepOutline'];
  readonly depth: number;
}

function StepRow({ step, depth, ...shared }: StepRowProps) {
  const { outline, selected, onSelect, span } = shared;
  const [isOpen, setOpen] = useState(false);
  const loop = outline.loops.find(({ stepKey }) => stepKey === step.stepKey);
  const look = lookOf(stepState(step));
  const bars = barsOf(step, span.to);
  const isSelected = step.stepKey === selected;
  const name = step.stepKey.slice(step.stepKey.lastIndexOf('.') + 1);
  return (
    <li>
      <div class={`gantt-row ${isSelected ? 'selected' : ''}`}>
        <div class="gantt-name" style={{ paddingInlineStart: `${depth * 16}px` }}>
          <button
            type="button"
            class={`gantt-step ${look.tone}`}
            data-row
            aria-pressed={isSelected}
            title={`${step.stepKey} (${step.stepType}): ${look.text}`}
            onClick={() => onSelect(isSelected ? undefined : step.stepKey)}
          >
            <Icon name={look.icon} spins={look.icon === 'spinner'} />
            <span>{name}</span>
            <span class="unseen">{`${look.text}, ${summary(step, bars, span.to)}`}</span>
          </button>
          {loop === undefined ? null : (
            <button type="button" class="gantt-open" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
              <Icon name={isOpen ? 'down' : 'right'} />
              {`${loop.ended}/${loop.total}`}
              <span class="unseen">iterations</span>
            </button>
          )}
        </div>
        <div class="gantt-track" aria-hidden="true" onClick={() => onSelect(step.stepKey)}>
          {bars.map((bar) => {
            const { left, width } = placeOf(bar, span);
            return (
              <span
                key={`${bar.kind} ${bar.from}`}
                class={`gantt-bar ${bar.kind} ${toneOf(bar.kind, bar.status)} ${bar.isOpen ? 'open' : ''}`}
                style={{ left: `${left}%`, width: `${width}%` }}
                title={`${barText(bar)}, from +${format.duration(bar.from - span.from)}`}
              />
            );
          })}
        </div>
      </div>
      {isOpen && loop !== undefined ? <LoopRows loopKey={step.stepKey} depth={depth + 1} {...shared} /> : null}
    </li>
  );
}

interface LoopRowsProps extends Shared {
  readonly loopKey: string;
  readonly depth: number;
}

function LoopRows({ loopKey, depth, ...shared }: LoopRowsProps) {
  const { outline } = shared;
  const [skip, setSkip] = useState(0);
  const [isFailedOnly, setFailedOnly] = useState(false);
  const loop = outline.loops.find(({ stepKey }) => stepKey === loopKey);
  const status = isFailedOnly ? 'Failed' : undefined;
  const path = withQuery(`/runs/${outline.run.id}/iterations`, { loop: loopKey, status, skip, take: ITERATIONS });
  const { data, error, refresh } = useRunPart<Api['Iterations']>(path, outline);
  if (error !== undefined) return <Failure error={error} retry={refresh} />;
  const indent = { paddingInlineStart: `${depth * 16}px` };
  return (
    <ol>
      {(data?.items ?? []).map(({ index, steps }) => (
        <li key={index}>
          <div class="gantt-iteration" style={indent}>{`Iteration ${index}`}</div>
          <ol>
            {steps.map((step) => (
              <StepRow key={step.stepKey} step={step} depth={depth + 1} {...shared} />
            ))}
          </ol>
        </li>
      ))}
      <li class="gantt-more" style={indent}>
        <span class="muted">{rangeText(data)}</span>
        <button type="button" class="button" disabled={skip === 0} onClick={() => setSkip(skip - ITERATIONS)}>
          Previous
        </button>
        <button
          type="button"
          class="button"
          disabled={data === undefined || skip + ITERATIONS >= data.total}
          onClick={() => setSkip(skip + ITERATIONS)}
        >
          Next
        </button>
        {(loop?.failed ?? 0) === 0 && !isFailedOnly ? null : (
          <label>
            <input
              type="checkbox"
              checked={isFailedOnly}
              onChange={(event) => {
                setFailedOnly(event.currentTarget.checked);
                setSkip(0);
              }}
            />{' '}
            Only failed
          </label>
        )}
      </li>
    </ol>
  );
}

function rangeText(data: Api['Iterations'] | undefined): string {
  if (data === undefined) return 'Loading';
  if (data.total === 0) return 'No iterations yet';
  return `${data.skip + 1}–${data.skip + data.items.length} of ${format.counted(data.total, 'iteration')}`;
}

function toneOf(kind: Bar['kind'], status: Api['StepOutline']['status']): string {
  if (kind === 'slot') return 'quiet';
  if (kind === 'wait') return status === 'Failed' ? 'bad' : 'warn';
  if (status === 'Failed') return 'bad';
  return status === 'Succeeded' ? 'good' : 'busy';
}

function summary(step: Api['StepOutline'], bars: readonly Bar[], now: number): string {
  const slotMs = bars.reduce((sum, { kind, from, to }) => (kind === 'slot' ? sum + to - from : sum), 0);
  const waited = slotMs === 0 ? '' : `, waited for a slot ${format.duration(slotMs)}`;
  const first = step.attempts[0];
  if (first === undefined) return `not tried${waited}`;
  const end = step.completedAt === null ? now : Date.parse(step.completedAt);
  return `${format.counted(step.attempts.length, 'attempt')}, ${format.duration(end - Date.parse(first.startedAt))}${waited}`;
}

/** The current time; updated only while something is in flight. */
function useNow(isMoving: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!isMoving) return undefined;
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, [isMoving]);
  return now;
}

const PAGE = 200;

/** The events of a run, in order. A long run shows the newest; earlier ones load on demand. */
function TimelineView({ outline, selected, onSelect }: ViewProps) {
  const [take, setTake] = useState(PAGE);
  const { run } = outline;
  const events = useRunPart<readonly Api['RunEvent'][]>(`/runs/${run.id}/events?take=${take}`, outline);
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
                <span class="muted">{`${(loaded[0]?.sequence ?? 1) - 1} earlier events`}</span>
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
            {run.completedAt === null ? <p class="muted timeline-open">The run is still in flight.</p> : null}
          </>
        )}
      </Loaded>
    </div>
  );
}

interface EventRowProps {
  readonly event: Api['RunEvent'];
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
      <time dateTime={timestamp} title={format.exactTime(at)}>
        {`+${format.duration(Math.max(0, at - Date.parse(since)))}`}
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
