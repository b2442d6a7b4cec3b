import type { RefObject } from 'preact';
import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import { Empty, Failure, Skeleton } from '../kit/page.tsx';
import { chooseLayout, fittingScale } from './choose-layout.ts';
import { useDagre } from './dagre.ts';
import { EdgeLabels, EdgeLines } from './edges.tsx';
import type { Graph } from './graph.ts';
import type { GraphLayout, LaidStep } from './layout.ts';
import { ARROWS, neighbour } from './neighbour.ts';
import type { StepMark } from './step-mark.ts';
import { StepNode } from './step-node.tsx';

interface FlowGraphProps {
  readonly graph: Graph;
  /** By path: the keys of the loops around a step and its own, joined with dots. Absent for a flow that does not run. */
  readonly statuses?: ReadonlyMap<string, StepMark> | undefined;
  /** Path of the step that is shown elsewhere. */
  readonly selected?: string | undefined;
  readonly onSelect?: ((path: string) => void) | undefined;
}

/** The steps of a flow as a picture: Tab leads into it, arrow keys from step to step, Enter selects. */
export function FlowGraph({ graph, statuses, selected, onSelect }: FlowGraphProps) {
  const frame = useRef<HTMLDivElement>(null);
  const width = useWidth(frame);
  const { dagre, error } = useDagre();
  // An answer that is the same as before is another object: it must not cost another layout.
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
      <Canvas {...{ layout, statuses, selected, onSelect }} frameWidth={width} />
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
    // Of a picture that is wider than its frame the step that matters is shown first: the selected one, or the first.
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
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard. */}
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
            <EdgeLines {...{ layout, statuses }} id={arrows} />
            <EdgeLabels {...{ layout, statuses }} />
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
  // A loop surrounds its children: the arrows stay among the steps of one loop as long as there is one that way.
  const siblings = steps.filter(({ path }) => scopeOf(path) === scopeOf(here.path));
  const next = neighbour(here, key, siblings) ?? neighbour(here, key, steps);
  const canvas = (event.currentTarget as HTMLElement).parentElement;
  if (next !== undefined) canvas?.querySelector<HTMLElement>(`[data-path="${CSS.escape(next.path)}"]`)?.focus();
}

const scopeOf = (path: string) => path.slice(0, path.lastIndexOf('.') + 1);

const placeOf = ({ x, y, width, height }: LaidStep) => ({
  left: `${x}px`,
  top: `${y}px`,
  width: `${width}px`,
  height: `${height}px`,
});

/** The width inside of an element, followed as it changes; 0 before it is known. */
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
