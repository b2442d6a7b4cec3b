import type { Logger } from 'pino';
import { levelOfRetry } from '../errors.ts';
import type { Clock } from '../model/clock.ts';
import type { Json } from '../model/json.ts';
import type { LostLeases, Store } from '../store/store.ts';

/** Says every few seconds that this process lives, and learns of the others that have the same store. */
export interface Heartbeat {
  /** Resolves after the first beat; rejects as the store does. */
  start(): Promise<void>;
  /** Resolves when no beat is under way any more. */
  stop(): Promise<void>;
  state(): HeartbeatState;
}

interface HeartbeatState {
  /** When the store answered last, by the clock that is never set; undefined before the first answer. */
  readonly beatAt: number | undefined;
  /** How many processes have the store, this one included. */
  readonly replicas: number;
  /** How far this process' clock is ahead of the store's. */
  readonly clockOffsetMs: number;
}

interface HeartbeatServices {
  readonly store: Pick<Store, 'beat'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly version: string;
  /** What has to be the same in all replicas. */
  readonly fingerprint: () => Json;
  /** How many processes have the store, this one included; after each answer. */
  readonly onReplicas?: ((count: number) => void) | undefined;
  /** Leases that this process may have been given and does not know of. */
  readonly lost?: () => LostLeases | undefined;
  /** Other processes may have made steps due, or left some behind, that this one does not know of. */
  onOthers(): void;
}

/** A third of what a process may be silent for until the others take it for dead. */
const BEAT_MS = 5000;
/** After the store failed. */
const RETRY_MS = 1000;
/** For so long all others were able to beat too: who did not is dead. */
const JUDGES_AFTER_MS = 15_000;

/** The offset of the clocks is known to half of it. */
const QUICK_ANSWER_MS = 1000;

export function createHeartbeat(services: HeartbeatServices): Heartbeat {
  const { store, clock, logger, version, fingerprint, onReplicas } = services;
  const startedAt = clock.now();
  let state: HeartbeatState = { beatAt: undefined, replicas: 1, clockOffsetMs: 0 };
  /** Since when no beat failed, and none was late because the process was paused. */
  let steadySince = Number.NEGATIVE_INFINITY;
  let hasFailed = false;
  let timer: NodeJS.Timeout | undefined;
  let beating: Promise<void> | undefined;
  let isStopped = false;

  async function beat(): Promise<void> {
    const now = clock.now();
    const sentAt = clock.monotonic();
    const { clockOffsetMs, beatAt = sentAt } = state;
    if (hasFailed || sentAt - beatAt >= JUDGES_AFTER_MS) steadySince = sentAt;
    const lost = services.lost?.();
    const { at, replicas, died } = await store.beat({
      version,
      startedAt,
      clockOffsetMs,
      fingerprint: fingerprint(),
      judgesOthers: sentAt - steadySince >= JUDGES_AFTER_MS,
      lost,
      now,
    });
    hasFailed = false;
    const tookMs = clock.monotonic() - sentAt;
    // The store read its clock at some instant in between; a slow answer says little of when.
    const offsetMs = tookMs > QUICK_ANSWER_MS ? clockOffsetMs : now + tookMs / 2 - at;
    state = { beatAt: clock.monotonic(), replicas, clockOffsetMs: offsetMs };
    onReplicas?.(replicas);
    for (const { name: replica, steps } of died) {
      logger.warn({ replica, steps }, 'a replica died; its running steps are taken up again');
    }
    if (replicas > 1 || died.length > 0 || lost !== undefined) services.onOthers();
  }

  const next = (afterMs: number) => {
    if (!isStopped) timer = setTimeout(beatAgain, afterMs).unref();
  };
  const beatAgain = () => {
    beating = beat().then(
      () => next(BEAT_MS),
      (error: unknown) => {
        hasFailed = true;
        logger[levelOfRetry(error, 'warn')](
          { err: error },
          'the store was not told that this process lives; trying again',
        );
        next(RETRY_MS);
      },
    );
  };

  return {
    async start() {
      await beat();
      next(BEAT_MS);
    },
    async stop() {
      isStopped = true;
      clearTimeout(timer);
      await beating;
    },
    state: () => state,
  };
}
