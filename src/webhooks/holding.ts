import type { Acceptance, FlowRecord, HoldResult, SharedResult } from '../store/store.ts';
import type { PreparedTrigger } from './triggers.ts';

/** Deliveries that are taken while their flow starts no runs, and the runs that they start once it does. One part has them. */
export interface Holding {
  /** Held deliveries by flow, where there were any. While there are, the next one waits behind them. */
  readonly counts: ReadonlyMap<string, number>;
  /** Whether deliveries are taken while the flow starts no runs. */
  takes(prepared: PreparedTrigger, flow: FlowRecord): boolean;
  /** Stores a delivery as held, as the store does. */
  hold(acceptance: Acceptance): Promise<HoldResult>;
  /** Counts what is held for these flows by an acceptance for several triggers. */
  holdShared(flowIds: readonly string[], accept: () => Promise<SharedResult>): Promise<SharedResult>;
  /** The flow may start runs again: its held ones start in the background, in order of arrival. */
  release(flowId: string): void;
  /** Counts what is held of a flow that another process may hold deliveries of, and starts what may start. */
  refresh(flowId: string): Promise<void>;
  /** Counts what the last process held and starts what may start. */
  start(): Promise<void>;
  /** Resolves when no release is under way. */
  stop(): Promise<void>;
}

/** Of a service without such a part: a flow that starts no runs takes no deliveries. */
export const holdsNothing: Holding = {
  counts: new Map(),
  takes: () => false,
  hold: async () => ({ kind: 'open' }),
  holdShared: (_, accept) => accept(),
  release() {},
  async refresh() {},
  async start() {},
  async stop() {},
};
