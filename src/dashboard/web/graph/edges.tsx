import { edgeText } from './edge-label.ts';
import { type EdgeState, edgeState } from './edge-state.ts';
import type { GraphLayout, LaidEdge } from './layout.ts';
import { pathData } from './path-data.ts';
import type { StepMark } from './step-mark.ts';

interface EdgesProps {
  readonly layout: GraphLayout;
  readonly statuses: ReadonlyMap<string, StepMark> | undefined;
}

const STATES: readonly EdgeState[] = ['ahead', 'taken', 'skipped'];

/** The lines between the steps. What they mean is told with each step, for those who do not see them. */
export function EdgeLines({ layout, statuses, id }: EdgesProps & { id: string }) {
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

export function EdgeLabels({ layout, statuses }: EdgesProps) {
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
