import { useEffect, useRef } from 'preact/hooks';
import type { LiveEventType, RunOutline } from '../api-types.ts';
import { useLiveEvents } from '../live.ts';
import { type Resource, useResource } from '../resource.ts';

const TYPES: readonly LiveEventType[] = ['step.started', 'step.completed', 'step.retried', 'run.completed'];
const LEAST_MS = 400;
/** A run of thousands of steps takes long to answer for; asking may keep the service busy a fifth of the time at most. */
const REST_FACTOR = 4;

/** Where a run stands, asked for again when something happens to it: no oftener than the answers come easily. */
export function useRunOutline(runId: string): Resource<RunOutline> {
  const resource = useResource<RunOutline>(`/runs/${runId}/outline`);
  const { refresh, isLoading } = resource;
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const asked = useRef({ at: 0, tookMs: 0 });

  useEffect(() => {
    const now = performance.now();
    if (isLoading) asked.current = { at: now, tookMs: 0 };
    else asked.current = { ...asked.current, tookMs: now - asked.current.at };
  }, [isLoading]);
  useEffect(() => () => clearTimeout(timer.current), []);

  useLiveEvents(TYPES, (message) => {
    if (message !== undefined && message.data.runId !== runId) return;
    timer.current ??= setTimeout(
      () => {
        timer.current = undefined;
        refresh();
      },
      Math.max(LEAST_MS, asked.current.tookMs * REST_FACTOR),
    );
  });
  return resource;
}

/** Asks for a part of a run, and again whenever the outline is a newer one. */
export function useRunPart<Answer>(path: string | null, outline: RunOutline): Resource<Answer> {
  const resource = useResource<Answer>(path, { keepPrevious: true });
  const { refresh } = resource;
  const seen = useRef(outline);
  useEffect(() => {
    if (seen.current === outline) return;
    seen.current = outline;
    refresh();
  }, [outline, refresh]);
  return resource;
}
