import type { Catalog } from '../flows/catalog.ts';
import type { Callers, LiveFlow } from '../model/finding.ts';
import type { FlowRecord, Store } from '../store/store.ts';
import type { Holding } from '../webhooks/holding.ts';

/** Switches flows off and on: at once, or so that their runs run out first. What it says is durable. */
export interface FlowSwitch {
  /**
   * These yield undefined for an unknown flow; setting what is already set changes nothing but what becomes of its
   * deliveries. Whether those are held while the flow is closed is what its triggers say, if `holdsDeliveries` does not.
   */
  setEnabled(flowId: string, isEnabled: boolean, holdsDeliveries?: boolean): Promise<FlowRecord | undefined>;
  /**
   * From now on the flow starts no runs, whatever triggers it; those in flight go on to their ends, and so do those of other
   * flows, which may still start this one.
   */
  drain(flowId: string, holdsDeliveries?: boolean): Promise<DrainState | undefined>;
  /** The flow starts runs again, those of held deliveries first, unless it is disabled. */
  resume(flowId: string): Promise<DrainState | undefined>;
  drainState(flowId: string): Promise<DrainState | undefined>;
}

interface DrainState {
  readonly flow: FlowRecord;
  readonly isDraining: boolean;
  /** It is drained, and no run is in flight any more nor can one be started. */
  readonly isDone: boolean;
  readonly runsInFlight: number;
  /** The oldest first, with the steps they have reached. */
  readonly runs: LiveFlow['runs'];
  /** Runs in flight of other flows that may start runs of this one: those that were when the drain began. */
  readonly callers: Callers;
  /** Deliveries that are kept until it starts runs again. */
  readonly held: number;
}

interface FlowSwitchServices {
  readonly store: Pick<Store, 'readLiveFlow'>;
  readonly catalog: Pick<Catalog, 'find' | 'setEnabled' | 'setDraining'>;
  readonly holding: Pick<Holding, 'counts' | 'release'>;
}

export function createFlowSwitch({ store, catalog, holding }: FlowSwitchServices): FlowSwitch {
  const drainState = async (flowId: string): Promise<DrainState | undefined> => {
    const flow = catalog.find(flowId)?.record;
    if (flow === undefined) return undefined;
    const { runsInFlight, runs, callers = { runsInFlight: 0, runs: [] } } = await store.readLiveFlow(flowId);
    const isDraining = flow.drainingSince !== undefined;
    return {
      flow,
      isDraining,
      isDone: isDraining && runsInFlight + callers.runsInFlight === 0,
      runsInFlight,
      runs,
      callers,
      held: holding.counts.get(flowId) ?? 0,
    };
  };
  const setDraining = async (flowId: string, isDraining: boolean, holdsDeliveries?: boolean) => {
    if (catalog.find(flowId) === undefined) return undefined;
    await catalog.setDraining(flowId, isDraining, holdsDeliveries);
    if (!isDraining) holding.release(flowId);
    return drainState(flowId);
  };
  return {
    async setEnabled(flowId, isEnabled, holdsDeliveries) {
      const record = await catalog.setEnabled(flowId, isEnabled, holdsDeliveries);
      if (isEnabled) holding.release(flowId);
      return record;
    },
    drain: (flowId, holdsDeliveries) => setDraining(flowId, true, holdsDeliveries),
    resume: (flowId) => setDraining(flowId, false),
    drainState,
  };
}
