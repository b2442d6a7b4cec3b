import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { ask } from './api.ts';
import type { Api } from './api-types.ts';
import { useLiveEvents, useRejoined } from './live.ts';

export interface Resource<Answer> {
  /** The newest answer, or an older one while a newer one is loading; undefined before the first. */
  readonly data: Answer | undefined;
  readonly error: unknown;
  /** Whether a request is in progress. */
  readonly isLoading: boolean;
  readonly refresh: () => void;
}

interface Options {
  /** Events after which the answer may have changed. */
  readonly refreshOn?: readonly Api['LiveEvent']['type'][];
  /** Keeps showing the last path's answer until that of a new one arrives, as a list does while its filter changes. */
  readonly keepPrevious?: boolean;
}

/** Bursts of events cause one reload in this time. */
const REFRESH_MS = 750;
const MAX_CACHED = 100;
const cache = new Map<string, unknown>();

/** Requests that were sent before their component was drawn. */
const early = new Map<string, Promise<unknown>>();

/**
 * Requests in advance what the first page will need: over a slow network the rows arrive earlier, because the request
 * goes out first, over a connection that is already open.
 */
export function askEarly(path: string): void {
  const answer = ask(path);
  // The component that uses the answer handles its error.
  answer.catch(() => undefined);
  early.set(path, answer);
}

/** Loads a path of the API (null loads nothing), shows the cached value meanwhile, and reloads after events. */
export function useResource<Answer>(path: string | null, options: Options = {}): Resource<Answer> {
  const { refreshOn = [], keepPrevious = false } = options;
  const [result, setResult] = useState<{ path: string | null; data: unknown; error: unknown; isLoading: boolean }>({
    path: null,
    data: undefined,
    error: undefined,
    isLoading: true,
  });
  const question = useRef<AbortController>(undefined);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);

  const refresh = useCallback(() => {
    clearTimeout(timer.current);
    timer.current = undefined;
    question.current?.abort();
    if (path === null) return;
    const controller = new AbortController();
    question.current = controller;
    setResult((last) => ({ ...last, isLoading: true }));
    const answer = early.get(path) ?? ask(path, { signal: controller.signal });
    early.delete(path);
    answer
      .then((data) => {
        if (controller.signal.aborted) return;
        remember(path, data);
        setResult({ path, data, error: undefined, isLoading: false });
      })
      .catch((error: unknown) => {
        if (!controller.signal.aborted) setResult({ path, data: cache.get(path), error, isLoading: false });
      });
  }, [path]);

  useEffect(() => {
    refresh();
    return () => {
      clearTimeout(timer.current);
      timer.current = undefined;
      question.current?.abort();
    };
  }, [refresh]);

  useLiveEvents(path === null ? [] : refreshOn, () => {
    timer.current ??= setTimeout(refresh, REFRESH_MS);
  });

  // Failed requests are repeated when the service is ready again, whatever events they follow.
  useRejoined(refreshOn.length === 0 && result.error !== undefined, refresh);

  const isCurrent = result.path === path;
  const known = path === null ? undefined : cache.get(path);
  const previous = keepPrevious ? result.data : undefined;
  return {
    data: (isCurrent ? result.data : (known ?? previous)) as Answer | undefined,
    error: isCurrent ? result.error : undefined,
    isLoading: path !== null && (!isCurrent || result.isLoading),
    refresh,
  };
}

/** Asks once, and again when one of `inputs` changes; for requests other than a GET of a path. */
export function useAnswer<Answer>(
  question: () => Promise<Answer>,
  inputs: readonly unknown[],
): { data: Answer | undefined; error: unknown } {
  const [result, setResult] = useState<{ data: Answer | undefined; error: unknown }>({
    data: undefined,
    error: undefined,
  });
  useEffect(() => {
    let isCurrent = true;
    const settle = (next: typeof result) => isCurrent && setResult(next);
    setResult({ data: undefined, error: undefined });
    question().then(
      (data) => settle({ data, error: undefined }),
      (error: unknown) => settle({ data: undefined, error }),
    );
    return () => {
      isCurrent = false;
    };
  }, inputs);
  return result;
}

/** Forgets the oldest first, so that a tab that stays open for days does not grow. */
function remember(path: string, data: unknown): void {
  cache.delete(path);
  cache.set(path, data);
  const [oldest] = cache.keys();
  if (cache.size > MAX_CACHED && oldest !== undefined) cache.delete(oldest);
}
