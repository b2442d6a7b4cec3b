import { useEffect, useRef } from 'preact/hooks';
import type { Api } from './api-types.ts';
import { format } from './format.ts';
import { createState, useShared } from './state.ts';

type LiveState = 'connecting' | 'live' | 'paused' | 'offline';

type LiveMessage = Api['LiveEvent'];

/** All events that lists follow, except `run.changed`, which can mean any of them. */
const TYPES: readonly LiveMessage['type'][] = [
  'run.started',
  'step.started',
  'step.completed',
  'step.retried',
  'run.completed',
  'delivery.received',
  'attention.changed',
];
const FIRST_RETRY_MS = 1000;
const LONGEST_RETRY_MS = 5000;
/** The service reports its state every 1.5 s; without that for this long, it hangs, or something on the way does. */
const SILENT_MS = 4000;
/** Time limit for `/health/ready`. */
const ANSWER_MS = 3000;

/** The message that a page shows above everything else. */
export interface Trouble {
  readonly kind: 'not ready' | 'refusing' | 'no answer' | 'not live';
  readonly text: string;
}

/** The service's state from the stream. */
interface ServiceState {
  readonly ready: boolean;
  readonly message: string | null;
  /** How many deliveries got 503 in the last minute, by reason. */
  readonly refused: { readonly since: string; readonly counts: Readonly<Record<string, number>> } | null;
}

const trouble = createState<Trouble | undefined>(undefined);
const errors = createState(0);

const state = createState<LiveState>('connecting');
const listeners = new Set<(message: LiveMessage) => void>();
const rejoinListeners = new Set<() => void>();
let source: EventSource | undefined;
let retryMs = FIRST_RETRY_MS;
let retryTimer: ReturnType<typeof setTimeout> | undefined;
let silence: ReturnType<typeof setTimeout> | undefined;
let failures = 0;
let wasOpen = false;

/** Keeps the stream open while the tab is visible: a browser has six connections to one host for all its tabs. */
export function startLive(): void {
  connect();
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) close();
    else connect();
  });
}

export function useLive(): { state: LiveState; toggle: () => void } {
  return { state: useShared(state), toggle: state.get() === 'paused' ? resume : () => state.set('paused') };
}

/** The service's current problem, whatever the page shows and even if its updates are paused. */
export function useTrouble(): Trouble | undefined {
  return useShared(trouble);
}

/** How many errors need attention. */
export function useErrors(): number {
  return useShared(errors);
}

/** Calls back when some events may have been missed, or the service is ready again. */
export function useRejoined(isWanted: boolean, callback: () => void): void {
  const latest = useRef(callback);
  latest.current = callback;
  useEffect(() => {
    if (!isWanted) return undefined;
    const rejoined = () => latest.current();
    rejoinListeners.add(rejoined);
    return () => {
      rejoinListeners.delete(rejoined);
    };
  }, [isWanted]);
}

/** Calls back on events of the types and, with `undefined`, when some may have been missed. */
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
      // Another process' change does not name its type: it can be any of them.
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
  if (state.get() !== 'paused') state.set('connecting');
  const opened = new EventSource('/flows/api/events/stream');
  source = opened;
  listenForSilence();
  opened.addEventListener('open', () => {
    retryMs = FIRST_RETRY_MS;
    if (state.get() !== 'paused') state.set('live');
    if (wasOpen) tellRejoined();
    wasOpen = true;
  });
  for (const type of TYPES) {
    opened.addEventListener(type, (event: MessageEvent<string>) => {
      const message: LiveMessage = { type, data: JSON.parse(event.data) };
      if (type === 'attention.changed') errors.set(Number(message.data.errors));
      if (state.get() === 'paused') return;
      for (const listener of [...listeners]) listener(message);
    });
  }
  opened.addEventListener('run.changed', (event: MessageEvent<string>) => {
    if (state.get() === 'paused') return;
    const data: LiveMessage['data'] = JSON.parse(event.data);
    if (data.runId === undefined) tellRejoined();
    else for (const listener of [...listeners]) listener({ type: 'run.changed', data });
  });
  opened.addEventListener('service.state', (event: MessageEvent<string>) => {
    failures = 0;
    listenForSilence();
    const wasTold = trouble.get();
    trouble.set(troubleOf(JSON.parse(event.data)));
    if (trouble.get() === undefined && wasTold !== undefined) tellRejoined();
  });
  opened.addEventListener('error', offline);
}

function troubleOf({ ready, message, refused }: ServiceState): Trouble | undefined {
  if (!ready) return { kind: 'not ready', text: message ?? '' };
  if (refused === null) return undefined;
  const reasons = Object.entries(refused.counts);
  const count = reasons.reduce((sum, [, each]) => sum + each, 0);
  const why = reasons.map(([reason, each]) => `${reason} ${each}`).join(', ');
  const deliveries = count === 1 ? '1 delivery got' : `${count} deliveries got`;
  return {
    kind: 'refusing',
    text: `${deliveries} 503 since ${format.clockTime(Date.parse(refused.since), Date.now())} (${why})`,
  };
}

/** The browser's own retry gives up for good on some answers; this one never does, and waits longer each time. */
function offline(): void {
  close();
  if (state.get() !== 'paused') state.set('offline');
  failures += 1;
  retryTimer = setTimeout(connect, retryMs);
  retryMs = Math.min(LONGEST_RETRY_MS, retryMs * 2);
  void askWhy(failures);
}

/** Finds out why there is no stream. A single failure with a ready service is not reported: a proxy may have cut it. */
async function askWhy(failure: number): Promise<void> {
  const told = await askReady();
  // The stream is open again, or failed once more.
  if (failure !== failures) return;
  if (told !== undefined) trouble.set(told);
  else if (failure > 1) {
    trouble.set({ kind: 'not live', text: 'What this page shows may be old. Trying again.' });
  }
}

async function askReady(): Promise<Trouble | undefined> {
  try {
    const answer = await fetch('/health/ready', { signal: AbortSignal.timeout(ANSWER_MS) });
    if (answer.ok) return undefined;
    const { message } = (await answer.json()) as { message?: string };
    return { kind: 'not ready', text: message ?? `It answers ${answer.status}` };
  } catch {
    return { kind: 'no answer', text: 'What this page shows is old, and deliveries may not be answered either.' };
  }
}

function listenForSilence(): void {
  clearTimeout(silence);
  silence = setTimeout(() => {
    if (trouble.get() === undefined) {
      trouble.set({
        kind: 'no answer',
        text: 'It has been silent for some seconds, so what this page shows may be old.',
      });
    }
    offline();
  }, SILENT_MS);
}

function tellRejoined(): void {
  if (state.get() === 'paused') return;
  for (const listener of [...rejoinListeners]) listener();
}

function resume(): void {
  state.set(source === undefined ? 'connecting' : 'live');
  tellRejoined();
}

function close(): void {
  clearTimeout(retryTimer);
  clearTimeout(silence);
  source?.close();
  source = undefined;
}
