import { useCallback, useEffect, useRef } from 'preact/hooks';
import { withQuery } from '../../../dashboard/web/address.ts';
import type { Api } from '../../../dashboard/web/api-types.ts';
import { useLiveEvents } from '../../../dashboard/web/live.ts';
import { type Resource, useResource } from '../../../dashboard/web/resource.ts';
import { stepKeys } from './step-paths.ts';

const TYPES: readonly Api['LiveEvent']['type'][] = ['step.started', 'step.completed', 'step.retried', 'run.completed'];
const LEAST_MS = 400;
/** A run of thousands of steps takes long to answer for; asking may keep the service busy a fifth of the time at most. */
const REST_FACTOR = 4;

/** The outline of a run, asked for again when something happens to it. */
export function useRunOutline(runId: string): Resource<Api['RunOutline']> {
  const resource = useResource<Api['RunOutline']>(`/runs/${runId}/outline`);
  const askAgain = usePatience(resource);
  useLiveEvents(TYPES, (message) => {
    if (message === undefined || message.data.runId === runId) askAgain();
  });
  return resource;
}

/** Asks for a part of a run, and again when the outline is a newer one. */
export function useRunPart<Answer>(path: string | null, outline: Api['RunOutline']): Resource<Answer> {
  const resource = useResource<Answer>(path, { keepPrevious: true });
  const askAgain = usePatience(resource);
  const seen = useRef(outline);
  useEffect(() => {
    if (seen.current === outline) return;
    seen.current = outline;
    askAgain();
  }, [outline, askAgain]);
  return resource;
}

/** The steps that the edges of a step lead from: those of its iteration, or those outside of loops. */
export function useSiblings(stepKey: string, outline: Api['RunOutline']): readonly Api['StepOutline'][] {
  const iteration = stepKeys.iterationOf(stepKey);
  const path =
    iteration === null
      ? null
      : withQuery(`/runs/${outline.run.id}/iterations`, { loop: iteration.loopKey, skip: iteration.index, take: 1 });
  const { data } = useRunPart<Api['Iterations']>(path, outline);
  return iteration === null ? outline.steps : (data?.items[0]?.steps ?? []);
}

/**
 * Asks a resource again no oftener than its answers come easily: never while one is on its way, which would be given
 * up for it, and after a slow one only when the service has rested.
 */
function usePatience({ refresh, isLoading }: Pick<Resource<unknown>, 'refresh' | 'isLoading'>): () => void {
  const latest = useRef({ refresh, isLoading });
  latest.current = { refresh, isLoading };
  const pace = useRef<{ isWanted: boolean; askedAt: number; tookMs: number; timer?: number | undefined }>({
    isWanted: false,
    askedAt: 0,
    tookMs: 0,
  });
  const askAgain = useCallback(() => {
    const own = pace.current;
    own.isWanted = true;
    if (latest.current.isLoading || own.timer !== undefined) return;
    const rest = Math.max(LEAST_MS, own.tookMs * REST_FACTOR);
    own.timer = window.setTimeout(() => {
      own.timer = undefined;
      own.isWanted = false;
      latest.current.refresh();
    }, rest);
  }, []);
  useEffect(() => {
    const own = pace.current;
    if (isLoading) {
      own.askedAt = performance.now();
      return;
    }
    own.tookMs = performance.now() - own.askedAt;
    if (own.isWanted) askAgain();
  }, [isLoading, askAgain]);
  useEffect(() => () => clearTimeout(pace.current.timer), []);
  return askAgain;
}
