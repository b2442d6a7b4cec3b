import { useMemo } from 'preact/hooks';
import { ask, messageOf, withQuery } from '../api.ts';
import type { Iterations, RunOutline } from '../api-types.ts';
import { FlowGraph } from '../graph/flow-graph.tsx';
import { firstKeyAt, loopAround, pathOf } from '../graph/step-paths.ts';
import { toast } from '../kit/overlays.tsx';
import { marksOf } from './step-state.ts';

export interface ViewProps {
  readonly outline: RunOutline;
  /** Runtime key of the step that is shown beside the view. */
  readonly selected: string | undefined;
  readonly onSelect: (stepKey: string | undefined) => void;
}

export function GraphView({ outline, selected, onSelect }: ViewProps) {
  const marks = useMemo(() => marksOf(outline), [outline]);
  const select = async (path: string) => {
    if (selected !== undefined && pathOf(selected) === path) return onSelect(undefined);
    if (marks.get(path)?.status !== 'Failed' || loopAround(path) === null) return onSelect(firstKeyAt(path));
    onSelect((await firstFailure(outline.run.id, path)) ?? firstKeyAt(path));
  };
  return (
    <FlowGraph
      graph={outline.graph}
      statuses={marks}
      selected={selected === undefined ? undefined : pathOf(selected)}
      onSelect={(path) => void select(path)}
    />
  );
}

/** Of a step of a loop that failed in some iteration whoever looks wants to see that one. */
async function firstFailure(runId: string, path: string): Promise<string | undefined> {
  const loopKey = loopAround(firstKeyAt(path)) ?? '';
  try {
    const asked = withQuery(`/runs/${runId}/iterations`, { loop: loopKey, status: 'Failed', take: 500 });
    const { items } = await ask<Iterations>(asked);
    const failed = items
      .flatMap(({ steps }) => steps)
      .find((step) => step.status === 'Failed' && pathOf(step.stepKey) === path);
    return failed?.stepKey;
  } catch (error) {
    toast('bad', messageOf(error));
    return undefined;
  }
}
