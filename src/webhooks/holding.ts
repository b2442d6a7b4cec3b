import type { Acceptance, FlowRecord, HoldResult, SharedResult } from '../store/store.ts';
import type { PreparedTrigger } from './triggers.ts';

/** Takes deliveries while their flow starts no runs, and starts their runs once it does. One part implements it. */
export interface Holding {
  /** Held deliveries by flow, if there were any. While some are held, the next delivery waits behind them. */
  readonly counts: ReadonlyMap<string, number>;
  /** Whether deliveries are taken while the flow starts no runs. */
  takes(prepared: PreparedTrigger, flow: FlowRecord): boolean;
  /** Stores a delivery as held; yields the store's result. */
  hold(acceptance: Acceptance): Promise<HoldResult>;
  /** Runs an acceptance for several triggers, and counts the deliveries that it holds for these flows. */
  holdShared(flowIds: readonly string[], accept: () => Promise<SharedResult>): Promise<SharedResult>;
  /** Called when the flow may start runs again: held runs start in the background, in order of arrival. */
  release(flowId: string): void;
  /** Counts a flow's held deliveries again (another process may hold some), and starts the runs that may start. */
  refresh(flowId: string): Promise<void>;
  /** Counts the deliveries that the last process held, and starts the runs that may start. */
  start(): Promise<void>;
  /** Resolves when no release is under way. */
  stop(): Promise<void>;
}

/** For a service without such a part: a flow that starts no runs takes no deliveries. */
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
