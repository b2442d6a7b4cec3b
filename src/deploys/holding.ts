import { setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { levelOfRetry } from '../errors.ts';
import { type Catalog, startsRuns } from '../flows/catalog.ts';
import type { Engine } from '../flows/engine.ts';
import type { Clock } from '../model/clock.ts';
import type { Store } from '../store/store.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { HeldDeliveries } from '../webhooks/receive.ts';

/** Deliveries that were taken while their flow starts no runs, and the runs that they start once it does. */
export interface Holding extends HeldDeliveries {
  /** The flow may start runs again: its held ones start in the background, in order of arrival. */
  release(flowId: string): void;
  /** Counts what is held of a flow that another process may hold deliveries of, and starts what may start. */
  refresh(flowId: string): Promise<void>;
  /** Counts what the last process held and starts what may start. */
  start(): Promise<void>;
  /** Resolves when no release is under way. */
  stop(): Promise<void>;
}

interface HoldingServices {
  readonly store: Pick<Store, 'releaseHeld' | 'countHeld'>;
  readonly catalog: Pick<Catalog, 'find'>;
  readonly engine: Pick<Engine, 'announce'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'deliveriesHeld'>;
}

/** A release is a turn of the writer, which acceptances wait for. */
const RUNS_A_CHUNK = 100;
const RETRY_MS = 1000;

export function createHolding({ store, catalog, engine, clock, logger, metrics }: HoldingServices): Holding {
  const counts = new Map<string, number>();
  const releases = new Map<string, Promise<void>>();
  const retries = new Map<string, NodeJS.Timeout>();
  let isStopping = false;

  const setCount = (flowId: string, count: number) => {
    counts.set(flowId, count);
    metrics.deliveriesHeld.set({ flow: flowId }, count);
  };
  const isOpen = (flowId: string) => {
    const flow = catalog.find(flowId);
    return flow !== undefined && startsRuns(flow.record);
  };
  const releaseAll = async (flowId: string) => {
    while (!isStopping && isOpen(flowId)) {
      const { runs, left } = await store.releaseHeld({ flowId, limit: RUNS_A_CHUNK, at: clock.now() });
      setCount(flowId, left);
      for (const run of runs) engine.announce(run);
      if (left === 0 || runs.length === 0) return;
      // Whatever else waits for the writer goes first.
      await setImmediate();
    }
  };
  const release = (flowId: string) => {
    if (isStopping || releases.has(flowId) || !isOpen(flowId)) return;
    const releasing = releaseAll(flowId)
      .catch((error: unknown) => {
        // They stay held, in order: nothing is lost by trying again.
        logger[levelOfRetry(error, 'error')](
          { err: error, flowId },
          'held deliveries could not be released; trying again',
        );
        retries.set(flowId, setTimeout(() => release(flowId), RETRY_MS).unref());
      })
      .finally(() => releases.delete(flowId));
    releases.set(flowId, releasing);
  };

  return {
    count: (flowId) => counts.get(flowId) ?? 0,
    held(flowId) {
      setCount(flowId, (counts.get(flowId) ?? 0) + 1);
      // It may have been resumed while this one was stored.
      release(flowId);
    },
    release,
    async refresh(flowId) {
      const before = counts.get(flowId);
      const count = (await store.countHeld())[flowId] ?? 0;
      // What this process has held or released meanwhile is newer.
      if (counts.get(flowId) === before) setCount(flowId, count);
      release(flowId);
    },
    async start() {
      for (const [flowId, count] of Object.entries(await store.countHeld())) {
        setCount(flowId, count);
        release(flowId);
      }
    },
    async stop() {
      isStopping = true;
      for (const timer of retries.values()) clearTimeout(timer);
      await Promise.all(releases.values());
    },
  };
}
