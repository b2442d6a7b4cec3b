import { useCallback, useEffect, useRef } from 'preact/hooks';
import { withQuery } from '../../../dashboard/web/address.ts';
import type { Api } from '../../../dashboard/web/api-types.ts';
import { useLiveEvents } from '../../../dashboard/web/live.ts';
import { type Resource, useResource } from '../../../dashboard/web/resource.ts';
import { stepKeys } from './step-paths.ts';

const TYPES: readonly Api['LiveEvent']['type'][] = ['step.started', 'step.completed', 'step.retried', 'run.completed'];
const LEAST_MS = 400;
/** Outlines of runs with thousands of steps take long; refreshing may keep the service busy a fifth of the time. */
const REST_FACTOR = 4;

/** The outline of a run; refreshed when something happens to the run. */
export function useRunOutline(runId: string): Resource<Api['RunOutline']> {
  const resource = useResource<Api['RunOutline']>(`/runs/${runId}/outline`);
  const askAgain = usePatience(resource);
  useLiveEvents(TYPES, (message) => {
    if (message === undefined || message.data.runId === runId) askAgain();
  });
  return resource;
}

/** Loads a part of a run, and reloads it when the outline changes. */
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

/** The steps that can precede a step: those of its iteration, or those outside of loops. */
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
 * Limits how often a resource is refreshed: never while a request is under way, which would be abandoned, and after a
 * slow answer only when the service has rested.
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
