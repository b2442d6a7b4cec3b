import type { RefObject } from 'preact';
import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import { Empty, Failure, Skeleton } from '../../../dashboard/web/kit/page.tsx';
import { Icon } from '../../../dashboard/web/kit/pill.tsx';
import { edgeState, edgeText, type Graph } from './graph.ts';
import {
  ARROWS,
  chooseLayout,
  type Dagre,
  fittingScale,
  type GraphLayout,
  LOOP_HEADER,
  neighbour,
  pathData,
} from './graph-layout.ts';
import type { StepMark } from './looks.ts';
import { stepKeys } from './step-paths.ts';

type LaidStep = GraphLayout['steps'][number];
type LaidEdge = GraphLayout['edges'][number];
type EdgeState = ReturnType<typeof edgeState>;

interface FlowGraphProps {
  readonly graph: Graph;
  /** By path: keys of the loops around a step and its own, joined with dots. Absent if the graph is not of a run. */
  readonly statuses?: ReadonlyMap<string, StepMark> | undefined;
  /** Path of the step that is shown next to the graph. */
  readonly selected?: string | undefined;
  readonly onSelect?: ((path: string) => void) | undefined;
}

/** The steps of a flow as a picture. Tab leads into it, arrow keys move between steps, Enter selects. */
export function FlowGraph({ graph, statuses, selected, onSelect }: FlowGraphProps) {
  const frame = useRef<HTMLDivElement>(null);
  const width = useWidth(frame);
  const { dagre, error } = useDagre();
  // Each answer is a new object, even if nothing changed; comparing its JSON avoids a needless layout.
  const shape = JSON.stringify(graph);
  const layout = useMemo(
    () => (dagre === undefined || width === 0 ? undefined : chooseLayout(JSON.parse(shape), dagre, width)),
    [dagre, shape, width],
  );
  if (Object.keys(graph).length === 0) return <Empty icon="flows" title="This flow has no steps" />;
  if (error !== undefined) return <Failure error={error} retry={() => location.reload()} />;
  if (layout === undefined) {
    return (
      <div class="graph-frame" ref={frame}>
        <Skeleton lines={4} />
      </div>
    );
  }
  return (
    <div class="graph-frame" ref={frame}>
      <Canvas layout={layout} statuses={statuses} selected={selected} onSelect={onSelect} frameWidth={width} />
    </div>
  );
}

interface CanvasProps extends Omit<FlowGraphProps, 'graph'> {
  readonly layout: GraphLayout;
  readonly frameWidth: number;
}

const ZOOM_STEP = 1.25;
const ZOOM = { least: 0.3, most: 1.6 };

function Canvas({ layout, statuses, selected, onSelect, frameWidth }: CanvasProps) {
  const [zoom, setZoom] = useState<number | null>(null);
  const arrows = useId();
  const frame = useRef<HTMLElement>(null);
  const scale = zoom ?? fittingScale(layout, frameWidth);
  const zoomBy = (factor: number) => setZoom(Math.min(ZOOM.most, Math.max(ZOOM.least, scale * factor)));
  const current = layout.steps.some(({ path }) => path === selected) ? selected : layout.steps[0]?.path;
  useEffect(() => {
    // If the picture is wider than its frame, scroll to the selected step, or to the first one.
    const { current: shown } = frame;
    const step = layout.steps.find(({ path }) => path === current);
    if (shown !== null && step !== undefined) {
      shown.scrollLeft = (step.x + step.width / 2) * scale - shown.clientWidth / 2;
    }
  }, [layout]);
  const size = { width: `${layout.width * scale}px`, height: `${layout.height * scale}px` };
  const isWhole = layout.width <= frameWidth && zoom === null;
  return (
    <>
      {isWhole ? null : (
        <div class="graph-tools">
          <ZoomButton label="Smaller" text="−" isOff={scale <= ZOOM.least} onClick={() => zoomBy(1 / ZOOM_STEP)} />
          <ZoomButton label="Fit to the width" text="⤢" isOff={zoom === null} onClick={() => setZoom(null)} />
          <ZoomButton label="Larger" text="+" isOff={scale >= ZOOM.most} onClick={() => zoomBy(ZOOM_STEP)} />
        </div>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard. */}
      <section class="graph" ref={frame} aria-label="Graph of the steps" tabIndex={0}>
        <div class="graph-sheet" style={size}>
          <div
            class="graph-canvas"
            style={{ width: `${layout.width}px`, height: `${layout.height}px`, transform: `scale(${scale})` }}
          >
            {layout.steps
              .filter(({ step }) => step.steps !== undefined)
              .map((loop) => (
                <div key={loop.path} class="graph-loop" style={placeOf(loop)} />
              ))}
            <EdgeLines layout={layout} statuses={statuses} id={arrows} />
            <EdgeLabels layout={layout} statuses={statuses} />
            {layout.steps.map((laid) => (
              <StepNode
                key={laid.path}
                laid={laid}
                mark={statuses?.get(laid.path)}
                isSelected={laid.path === selected}
                isEntry={laid.path === current}
                onSelect={onSelect}
                onKeyDown={(event) => moveFocus(event, laid, layout.steps)}
              />
            ))}
          </div>
        </div>
      </section>
    </>
  );
}

interface ZoomProps {
  readonly label: string;
  readonly text: string;
  readonly isOff: boolean;
  readonly onClick: () => void;
}

function ZoomButton({ label, text, isOff, onClick }: ZoomProps) {
  return (
    <button type="button" class="icon-button" title={label} disabled={isOff} onClick={onClick}>
      <span aria-hidden="true">{text}</span>
      <span class="unseen">{label}</span>
    </button>
  );
}

function moveFocus(event: KeyboardEvent, here: LaidStep, steps: readonly LaidStep[]): void {
  const key = ARROWS.find((arrow) => arrow === event.key);
  if (key === undefined) return;
  event.preventDefault();
  // A loop surrounds its children, so arrows stay among the steps of one loop as long as one lies in that direction.
  const siblings = steps.filter(({ path }) => stepKeys.scopeOf(path) === stepKeys.scopeOf(here.path));
  const next = neighbour(here, key, siblings) ?? neighbour(here, key, steps);
  const canvas = (event.currentTarget as HTMLElement).parentElement;
  if (next !== undefined) canvas?.querySelector<HTMLElement>(`[data-path="${CSS.escape(next.path)}"]`)?.focus();
}

const placeOf = ({ x, y, width, height }: LaidStep) => ({
  left: `${x}px`,
  top: `${y}px`,
  width: `${width}px`,
  height: `${height}px`,
});

/** The inner width of an element, kept up to date; 0 until it is measured. */
function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (element.current === null) return undefined;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry?.contentRect.width ?? 0)));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [element]);
  return width;
}

interface StepNodeProps {
  readonly laid: LaidStep;
  readonly mark: StepMark | undefined;
  readonly isSelected: boolean;
  /** Tab leads here first. */
  readonly isEntry: boolean;
  readonly onSelect: ((path: string) => void) | undefined;
  readonly onKeyDown: (event: KeyboardEvent) => void;
}

const LOOP_MARGIN = 8;

/** A step; a button if it can be selected, so that keyboards and screen readers recognize it. */
function StepNode({ laid, mark, isSelected, isEntry, onSelect, onKeyDown }: StepNodeProps) {
  const { path, stepKey, step, x, y, width, height } = laid;
  const isLoop = step.steps !== undefined;
  const margin = isLoop ? LOOP_MARGIN : 0;
  const place = {
    left: `${x + margin}px`,
    top: `${y + margin}px`,
    width: `${width - 2 * margin}px`,
    height: `${isLoop ? LOOP_HEADER - 2 * LOOP_MARGIN : height}px`,
  };
  const looks = {
    class: ['graph-node', mark?.tone ?? 'plain', isLoop ? 'loop' : '', isSelected ? 'selected' : ''].join(' '),
    style: place,
    title: `${stepKey} (${step.type})${mark?.note === undefined ? '' : `: ${mark.note}`}`,
  };
  const content = (
    <>
      <Icon name={mark?.icon ?? (isLoop ? 'replay' : 'flows')} spins={mark?.icon === 'spinner'} />
      <span class="graph-text">
        <span class="graph-key">{stepKey}</span>
        <span class="graph-type">
          {isLoop || mark?.note === undefined ? step.type : null}
          {mark === undefined ? null : <span class="graph-status">{statusText(mark, isLoop)}</span>}
        </span>
      </span>
      <span class="unseen">{wiring(laid)}</span>
    </>
  );
  if (onSelect === undefined) return <div {...looks}>{content}</div>;
  return (
    <button
      {...looks}
      type="button"
      data-path={path}
      tabIndex={isEntry ? 0 : -1}
      aria-pressed={isSelected}
      onClick={() => onSelect(path)}
      onKeyDown={onKeyDown}
    >
      {content}
    </button>
  );
}

/** For a loop, the outcome of its iterations replaces the type: there is no room for both. */
function statusText({ note, text }: StepMark, isLoop: boolean): string {
  if (note === undefined) return ` · ${text}`;
  return isLoop ? ` · ${note}` : note;
}

function wiring({ step }: LaidStep): string {
  const edges = Object.entries(step.runAfter).map(([upstream, edge]) => {
    const text = edgeText(edge);
    return text === null ? upstream : `${upstream} (${text})`;
  });
  return edges.length === 0 ? ', starts first' : `, after ${edges.join(' and ')}`;
}

interface EdgesProps {
  readonly layout: GraphLayout;
  readonly statuses: ReadonlyMap<string, StepMark> | undefined;
}

const STATES: readonly EdgeState[] = ['ahead', 'taken', 'skipped'];

/** The lines between the steps. For people who cannot see them, the label of each step describes its lines. */
function EdgeLines({ layout, statuses, id }: EdgesProps & { id: string }) {
  return (
    <svg class="graph-edges" width={layout.width} height={layout.height} aria-hidden="true" focusable="false">
      <defs>
        {STATES.map((state) => (
          <marker
            key={state}
            id={`${id}-${state}`}
            class={`graph-arrow ${state}`}
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="7"
            markerHeight="7"
            orient="auto-start-reverse"
          >
            <path d="M0 0.5L8 4L0 7.5z" />
          </marker>
        ))}
      </defs>
      {layout.edges.map((edge) => {
        const state = stateOf(edge, statuses);
        return (
          <path
            key={`${edge.from} ${edge.to}`}
            class={`graph-edge ${state}`}
            d={pathData(edge.points)}
            marker-end={`url(#${id}-${state})`}
          />
        );
      })}
    </svg>
  );
}

function EdgeLabels({ layout, statuses }: EdgesProps) {
  return (
    <>
      {layout.edges.map((edge) => {
        if (edge.label === null) return null;
        const { text, box } = edge.label;
        const place = { left: `${box.x}px`, top: `${box.y}px`, width: `${box.width}px` };
        return (
          <span
            key={`${edge.from} ${edge.to}`}
            class={`graph-label ${stateOf(edge, statuses)}`}
            style={place}
            title={edgeText(edge.edge) ?? ''}
            aria-hidden="true"
          >
            {text}
          </span>
        );
      })}
    </>
  );
}

function stateOf({ edge, from, to }: LaidEdge, statuses: EdgesProps['statuses']): EdgeState {
  if (statuses === undefined) return 'ahead';
  return edgeState(edge, statuses.get(from)?.status, statuses.get(to)?.status);
}

let loading: Promise<Dagre> | undefined;

/** Loads dagre when the first graph is drawn, because it is larger than any page. */
function useDagre(): { dagre: Dagre | undefined; error: unknown } {
  const [state, setState] = useState<{ dagre: Dagre | undefined; error: unknown }>({
    dagre: undefined,
    error: undefined,
  });
  useEffect(() => {
    let isShown = true;
    loading ??= import('@dagrejs/dagre').then(({ Graph, layout }): Dagre => ({ Graph, layout }));
    loading.then(
      (dagre) => isShown && setState({ dagre, error: undefined }),
      (error: unknown) => {
        loading = undefined;
        if (isShown) setState({ dagre: undefined, error });
      },
    );
    return () => {
      isShown = false;
    };
  }, []);
  return state;
}
