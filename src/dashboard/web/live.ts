import { useEffect, useRef } from 'preact/hooks';
import type { Api } from './api-types.ts';
import { createState, useShared } from './state.ts';

type LiveState = 'connecting' | 'live' | 'paused' | 'offline';

type LiveMessage = Api['LiveEvent'];

/** All but `run.changed`, which stands for any of them. */
const TYPES: readonly LiveMessage['type'][] = [
  'run.started',
  'step.started',
  'step.completed',
  'step.retried',
  'run.completed',
  'delivery.received',
];
const FIRST_RETRY_MS = 1000;
const LONGEST_RETRY_MS = 30_000;

const state = createState<LiveState>('connecting');
const listeners = new Set<(message: LiveMessage) => void>();
const rejoinListeners = new Set<() => void>();
let source: EventSource | undefined;
let retryMs = FIRST_RETRY_MS;
let retryTimer: ReturnType<typeof setTimeout> | undefined;
let wasOpen = false;

/** Opens the stream and keeps it open while the tab is visible: a browser has six connections to one host for all its tabs. */
export function startLive(): void {
  connect();
  document.addEventListener('visibilitychange', () => {
    if (state.get() === 'paused') return;
    if (document.hidden) close();
    else connect();
  });
}

export function useLive(): { state: LiveState; toggle: () => void } {
  return { state: useShared(state), toggle: state.get() === 'paused' ? connect : pause };
}

/** Calls back on events of the types, and, as `undefined`, when some may have been missed. */
export function useLiveEvents(
  types: readonly LiveMessage['type'][],
  callback: (message: LiveMessage | undefined) => void,
): void {
  const latest = useRef(callback);
  latest.current = callback;
  const key = types.join();
  useEffect(() => {
    if (key === '') return undefined;
    const wanted = new Set(key.split(','));
    const listener = (message: LiveMessage) => {
      // What another process did is not said: it may be any of them.
      if (message.type === 'run.changed' || wanted.has(message.type)) latest.current(message);
    };
    const rejoined = () => latest.current(undefined);
    listeners.add(listener);
    rejoinListeners.add(rejoined);
    return () => {
      listeners.delete(listener);
      rejoinListeners.delete(rejoined);
    };
  }, [key]);
}

function connect(): void {
  close();
  state.set('connecting');
  const opened = new EventSource('/flows/api/events/stream');
  source = opened;
  opened.addEventListener('open', () => {
    retryMs = FIRST_RETRY_MS;
    state.set('live');
    if (wasOpen) for (const listener of [...rejoinListeners]) listener();
    wasOpen = true;
  });
  for (const type of TYPES) {
    opened.addEventListener(type, (event: MessageEvent<string>) => {
      const message: LiveMessage = { type, data: JSON.parse(event.data) };
      for (const listener of [...listeners]) listener(message);
    });
  }
  opened.addEventListener('run.changed', (event: MessageEvent<string>) => {
    const data: LiveMessage['data'] = JSON.parse(event.data);
    if (data.runId === undefined) for (const listener of [...rejoinListeners]) listener();
    else for (const listener of [...listeners]) listener({ type: 'run.changed', data });
  });
  opened.addEventListener('error', () => {
    // The browser's own retry gives up for good on some answers; this one never does, and waits longer each time.
    close();
    state.set('offline');
    retryTimer = setTimeout(connect, retryMs);
    retryMs = Math.min(LONGEST_RETRY_MS, retryMs * 2);
  });
}

function pause(): void {
  close();
  state.set('paused');
}

function close(): void {
  clearTimeout(retryTimer);
  source?.close();
  source = undefined;
}
