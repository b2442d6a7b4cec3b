import { setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type Catalog, startsRuns } from '../../flows/catalog.ts';
import type { Engine } from '../../flows/engine.ts';
import type { Clock } from '../../model/clock.ts';
import type { Members } from '../../store/part.ts';
import type { HoldResult, SharedResult, Store } from '../../store/store.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import type { Holding } from '../../webhooks/holding.ts';
import type { holdStore } from './store.ts';

interface HoldingServices {
  readonly store: Pick<Store, 'holdDelivery'>;
  readonly rows: Members<typeof holdStore>;
  readonly catalog: Pick<Catalog, 'find'>;
  readonly engine: Pick<Engine, 'announce'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'deliveriesHeld'>;
  /** Whether deliveries are held for triggers that do not set it. */
  readonly holdDeliveries: boolean;
}

/** Runs released in one turn of the writer, for which acceptances wait. */
export const RUNS_A_CHUNK = 100;
const RETRY_MS = 1000;

export function createHolding(services: HoldingServices): Holding {
  const { store, rows, catalog, engine, clock, logger, holdDeliveries } = services;
  const counts = createCounts(services);
  const releases = new Map<string, Promise<void>>();
  const retries = new Map<string, NodeJS.Timeout>();
  let isStopping = false;

  const isOpen = (flowId: string) => {
    const flow = catalog.find(flowId);
    return flow !== undefined && startsRuns(flow.record);
  };
  const releaseAll = async (flowId: string) => {
    while (!isStopping && isOpen(flowId)) {
      const { runs, left } = await counts.changeTo(flowId, () =>
        rows.releaseHeld({ flowId, limit: RUNS_A_CHUNK, at: clock.now() }),
      );
      for (const run of runs) engine.announce(run);
      if (left === 0 || runs.length === 0) return;
      // Other work for the writer goes first.
      await setImmediate();
    }
  };
  const release = (flowId: string) => {
    if (isStopping || releases.has(flowId) || !isOpen(flowId)) return;
    const releasing = releaseAll(flowId)
      .catch((error: unknown) => {
        // Trying again is safe: they stay held, in order.
        logger.error({ err: error, flowId }, 'held deliveries could not be released; trying again');
        retries.set(flowId, setTimeout(() => release(flowId), RETRY_MS).unref());
      })
      .finally(() => releases.delete(flowId));
    releases.set(flowId, releasing);
  };

  return {
    counts: counts.byFlow,
    takes: ({ signals, trigger: { inputs } }, { holdsDeliveries: said }) =>
      signals === undefined && (said ?? inputs.webhookHoldDeliveries ?? holdDeliveries),
    async hold(acceptance) {
      const { flowId } = acceptance.run;
      const result = await counts.addTo(flowId, () => store.holdDelivery(acceptance));
      // The flow may have been resumed while this one was stored.
      if (result.kind === 'held') release(flowId);
      return result;
    },
    async holdShared(flowIds, accept) {
      const result = await counts.addToAll(flowIds, accept);
      for (const { kind, flowId } of result.kind === 'shared' ? result.outcomes : [])
        if (kind === 'held') release(flowId);
      return result;
    },
    release,
    async refresh(flowId) {
      await counts.recount(flowId);
      release(flowId);
    },
    async start() {
      for (const { flowId, held } of await rows.listHeld()) {
        counts.set(flowId, held);
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

/** Calls that change the number of a flow's held deliveries. */
interface Changes {
  /** Unanswered calls of the store. */
  underWay: number;
  /** Calls so far. */
  begun: number;
  /** Whether to count again once no call is under way. */
  isUnsure: boolean;
}

/** Tracks the number of held deliveries by flow, while this process and others hold and release some. */
function createCounts({ rows, metrics }: Pick<HoldingServices, 'rows' | 'metrics'>) {
  const counts = new Map<string, number>();
  const changes = new Map<string, Changes>();

  const set = (flowId: string, count: number) => {
    // Otherwise the metrics would list a flow as soon as somebody asks for its number of held deliveries.
    if (count === 0 && !counts.has(flowId)) return;
    counts.set(flowId, count);
    metrics.deliveriesHeld.set({ flow: flowId }, count);
  };
  const changesOf = (flowId: string): Changes => {
    const known = changes.get(flowId) ?? { underWay: 0, begun: 0, isUnsure: false };
    changes.set(flowId, known);
    return known;
  };
  /** Counts again if a call began meanwhile: the count read may or may not include its change. */
  const recount = async (flowId: string) => {
    const own = changesOf(flowId);
    while (own.underWay === 0) {
      const { begun } = own;
      const count = (await rows.listHeld()).find((each) => each.flowId === flowId)?.held ?? 0;
      if (own.begun === begun) {
        set(flowId, count);
        return;
      }
    }
    own.isUnsure = true;
  };
  const changing = async <Answer>(flowId: string, change: (own: Changes) => Promise<Answer>): Promise<Answer> => {
    const own = changesOf(flowId);
    own.underWay += 1;
    own.begun += 1;
    try {
      return await change(own);
    } catch (error) {
      // The call may have been carried out.
      own.isUnsure = true;
      throw error;
    } finally {
      own.underWay -= 1;
      if (own.underWay === 0 && own.isUnsure) {
        own.isUnsure = false;
        // If the store is unavailable: once it is back, it reports all flows, and they are counted again.
        recount(flowId).catch(() => {});
      }
    }
  };
  return {
    byFlow: counts as ReadonlyMap<string, number>,
    set,
    recount,
    addTo: (flowId: string, hold: () => Promise<HoldResult>) =>
      changing(flowId, async () => {
        const result = await hold();
        if (result.kind === 'held') set(flowId, (counts.get(flowId) ?? 0) + 1);
        return result;
      }),
    addToAll: (flowIds: readonly string[], accept: () => Promise<SharedResult>) => {
      const counted = async () => {
        const result = await accept();
        for (const { kind, flowId } of result.kind === 'shared' ? result.outcomes : []) {
          if (kind === 'held') set(flowId, (counts.get(flowId) ?? 0) + 1);
        }
        return result;
      };
      return flowIds.reduce((run, flowId) => () => changing(flowId, run), counted)();
    },
    changeTo: <Answer extends { readonly left: number }>(flowId: string, releaseSome: () => Promise<Answer>) =>
      changing(flowId, async (own) => {
        const { underWay, begun } = own;
        const released = await releaseSome();
        set(flowId, released.left);
        // Deliveries that were held meanwhile may be included in `left`.
        if (underWay > 1 || own.begun > begun) own.isUnsure = true;
        return released;
      }),
  };
}
