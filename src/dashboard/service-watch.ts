import { MINUTE_MS } from '../model/clock.ts';
import type { LiveEvent } from '../telemetry/events.ts';
import { REASONS } from '../webhooks/answers.ts';
import { readinessSoon } from './api/service.ts';
import type { DashboardServices, LookedAt, WatchedEvent } from './services.ts';
import type { Sight } from './sight.ts';

/** Checks the service again and again while there are readers, and sends them the results. */
export interface ServiceWatch {
  start(): void;
  stop(): void;
  /** The last event about the service; undefined before the first look. */
  readonly state: LiveEvent | undefined;
  /** The data of the last event that a part watches, for readers limited to some flows; undefined for other events. */
  dataIn(sight: Sight, type: LiveEvent['type']): LiveEvent['data'] | undefined;
}

/** Together with the store's time limit, less than 4 s: a page shows within 5 s that the store is away. */
const LOOK_EVERY_MS = 1500;

/** How long the page reports the last 503: publishers send again within about this time. */
const TOLD_FOR_MS = MINUTE_MS;

/** Sends `service.state` at each look, even unchanged: readers without one for a while know that the process hangs. */
export function createServiceWatch(services: DashboardServices, tell: (event: LiveEvent) => void): ServiceWatch {
  const refusals = createRefusals(services);
  let timer: NodeJS.Timeout | undefined;
  let state: LiveEvent | undefined;
  const watched = services.parts.flatMap((part) => part.watched ?? [])[0];
  let watchedAt = Number.NEGATIVE_INFINITY;
  let found: LookedAt | undefined;
  let isAsking = false;

  async function look(): Promise<void> {
    const [unready, refused] = await Promise.all([readinessSoon(services), refusals()]);
    const { reason = null, message = null } = unready ?? {};
    // The last reader may have left meanwhile.
    if (timer === undefined) return;
    const data = { ready: unready === undefined, reason, message, refused };
    state = { type: 'service.state', runId: null, flowId: null, data };
    tell(state);
  }

  async function lookAtPart({ type, everyMs, look: lookNow }: WatchedEvent): Promise<void> {
    const at = services.clock.monotonic();
    if (isAsking || at - watchedAt < everyMs) return;
    watchedAt = at;
    isAsking = true;
    const now = await lookNow(services);
    isAsking = false;
    if (now === undefined) return;
    found = now;
    if (timer !== undefined) tell({ type, runId: null, flowId: null, data: now.data });
  }

  const turn = () => {
    look().catch((error: unknown) => services.logger.error({ err: error }, 'how the service does could not be told'));
    if (watched !== undefined) void lookAtPart(watched);
  };

  return {
    get state() {
      return state;
    },
    dataIn: (sight, type) => (type === watched?.type ? found?.dataIn(sight) : undefined),
    start() {
      timer ??= setInterval(turn, LOOK_EVERY_MS).unref();
      turn();
    },
    stop() {
      clearInterval(timer);
      timer = undefined;
      state = undefined;
      watchedAt = Number.NEGATIVE_INFINITY;
    },
  };
}

/**
 * Counts the deliveries that got 503 from this process, from its metrics, because deliveries that cannot be stored have
 * no record. Null if there was none for a minute; then the count starts over.
 */
function createRefusals({ metrics, clock }: Pick<DashboardServices, 'metrics' | 'clock'>) {
  let known: ReadonlyMap<string, number> = new Map();
  let lookedAt = Number.NEGATIVE_INFINITY;
  let spell: { since: number; last: number; counts: Record<string, number> } | undefined;
  return async (): Promise<{ since: string; counts: Record<string, number> } | null> => {
    const now = clock.now();
    const counted = await countRefused(metrics);
    if (spell !== undefined && now - spell.last > TOLD_FOR_MS) spell = undefined;
    // There may have been no reader for days: older refusals are not news.
    const isNews = now - lookedAt <= TOLD_FOR_MS;
    lookedAt = now;
    for (const [reason, count] of isNews ? counted : []) {
      const more = count - (known.get(reason) ?? 0);
      if (more === 0) continue;
      spell ??= { since: now, last: now, counts: {} };
      spell.last = now;
      spell.counts[reason] = (spell.counts[reason] ?? 0) + more;
    }
    known = counted;
    return spell === undefined ? null : { since: new Date(spell.since).toISOString(), counts: { ...spell.counts } };
  };
}

const UNAVAILABLE = new Set(
  Object.entries(REASONS).flatMap(([code, { statusCode }]) => (statusCode === 503 ? code : [])),
);

async function countRefused({ webhookRejected }: DashboardServices['metrics']): Promise<Map<string, number>> {
  const { values } = await webhookRejected.get();
  const counted = new Map<string, number>();
  for (const { labels, value } of values) {
    const reason = String(labels.reason);
    if (UNAVAILABLE.has(reason)) counted.set(reason, (counted.get(reason) ?? 0) + value);
  }
  return counted;
}
