import type { Logger } from 'pino';
import type { ServiceClock } from '../model/clock.ts';
import type { Json } from '../model/json.ts';
import type { BeatAnswer, LostLeases, Store } from '../store/store.ts';

/** Reports every few seconds that this process lives, and learns of the other processes with the same store. */
export interface Heartbeat {
  /** Resolves after the first beat; rejects as the store does. */
  start(): Promise<void>;
  /** Resolves when no beat is in progress. */
  stop(): Promise<void>;
  state(): HeartbeatState;
  /**
   * Whether this process may lease steps, fire ticks and end overdue work: its machine's clock agrees with the store's,
   * its release fits the store, and the others cannot consider it dead.
   */
  isFit(): boolean;
}

interface HeartbeatState {
  /** Time of the store's last answer, by the monotonic clock; undefined before the first answer. */
  readonly beatAt: number | undefined;
  /** The number of processes with this store, including this one. */
  readonly replicas: number;
  /** How far the clock of this process' machine is ahead of the store's. */
  readonly clockOffsetMs: number;
  /** Why this release no longer fits the store: a newer one has changed it. */
  readonly misfit?: string | undefined;
  /** The reports of all replicas. */
  readonly told?: BeatAnswer['told'];
  /** Replicas that died. */
  readonly dead?: BeatAnswer['dead'];
}

interface HeartbeatServices {
  readonly store: Pick<Store, 'beat'>;
  readonly clock: ServiceClock;
  readonly logger: Logger;
  readonly version: string;
  /** Values that must be the same in all replicas. */
  readonly fingerprint: () => Json;
  /** Called after each answer with the number of processes with this store, including this one. */
  readonly onReplicas?: ((count: number) => void) | undefined;
  /** Leases that this process may have got without knowing. */
  readonly lost?: () => LostLeases | undefined;
  /** Due steps may be unknown here: others made them due or left them, or this process was unfit. */
  onDue(): void;
}

/** A third of the silence after which others consider a process dead. */
const BEAT_MS = 5000;
/** Pause after the store failed. */
const RETRY_MS = 1000;
/** A replica not seen for this long is dead. Only one whose own heartbeats succeeded for this long may judge others. */
const DEAD_AFTER_MS = 15_000;

export function createHeartbeat(services: HeartbeatServices): Heartbeat {
  const { store, clock, logger, version, fingerprint, onReplicas } = services;
  const startedAt = clock.now();
  let state: Omit<HeartbeatState, 'clockOffsetMs'> = { beatAt: undefined, replicas: 1 };
  let wasClockFit = true;
  let wasFitAtBeat = true;
  /** Since then no beat has failed, and none was late because the process was paused. */
  let steadySince = Number.NEGATIVE_INFINITY;
  let hasFailed = false;
  let timer: NodeJS.Timeout | undefined;
  let beating: Promise<void> | undefined;
  let isStopped = false;

  const isAlive = () => clock.monotonic() - (state.beatAt ?? Number.NEGATIVE_INFINITY) < DEAD_AFTER_MS;
  const isFit = () => isAlive() && clock.isFit() && state.misfit === undefined;

  function sayClock(): void {
    const isRight = clock.isFit();
    const offset = { clockOffsetMs: Math.round(clock.clockOffsetMs()) };
    if (wasClockFit && !isRight)
      logger.error(
        offset,
        'the clock of this machine is wrong or was set; taking no deliveries and no steps until it is right',
      );
    if (isRight && !wasClockFit)
      logger.info(offset, 'the clock of this machine is right again; taking deliveries and steps');
    wasClockFit = isRight;
  }

  async function beat(): Promise<void> {
    const now = clock.now();
    const sentAt = clock.monotonic();
    const { beatAt = sentAt } = state;
    if (hasFailed || sentAt - beatAt >= DEAD_AFTER_MS) steadySince = sentAt;
    const lost = services.lost?.();
    const { at, ledgerAt, replicas, died, dead, misfit, told } = await store.beat({
      version,
      startedAt,
      clockOffsetMs: clock.clockOffsetMs(),
      ledgerAt: clock.ledger(),
      fingerprint: fingerprint(),
      judgesOthers: sentAt - steadySince >= DEAD_AFTER_MS,
      lost,
      now,
    });
    hasFailed = false;
    const wasFit = state.beatAt === undefined || (wasFitAtBeat && isFit());
    clock.follow({ at, ledgerAt }, sentAt);
    sayClock();
    sayFit({ logger, misfit, before: state.misfit });
    state = { beatAt: clock.monotonic(), replicas, misfit, told, dead };
    onReplicas?.(replicas);
    for (const { name: replica, steps } of died) {
      logger.warn({ replica, steps }, 'a replica died; resuming its running steps');
    }
    // After a sleep of the machine, timers that wait for fitness ring late.
    wasFitAtBeat = isFit();
    const isFitAgain = !wasFit && wasFitAtBeat;
    if (replicas > 1 || died.length > 0 || lost !== undefined || isFitAgain) services.onDue();
  }

  const next = (afterMs: number) => {
    if (!isStopped) timer = setTimeout(beatAgain, afterMs).unref();
  };
  const beatAgain = () => {
    beating = beat().then(
      () => next(BEAT_MS),
      (error: unknown) => {
        hasFailed = true;
        logger.warn({ err: error }, 'the heartbeat of this process could not be stored; trying again');
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
    state: () => ({ ...state, clockOffsetMs: clock.clockOffsetMs() }),
    isFit,
  };
}

/** Logs when a newer release has changed the store, and when the store fits this release again. */
function sayFit({
  logger,
  misfit,
  before,
}: {
  logger: Logger;
  misfit: string | undefined;
  before: string | undefined;
}): void {
  if (misfit === before) return;
  if (misfit === undefined) {
    logger.info('this release works with its database again; taking steps');
    return;
  }
  logger.error(
    { reason: misfit },
    'this release no longer works with its database; it takes no steps and is not ready until it is replaced',
  );
}
