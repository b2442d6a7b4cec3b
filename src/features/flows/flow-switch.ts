import type { Catalog } from '../../flows/catalog.ts';
import type { Callers, LiveFlow } from '../../model/finding.ts';
import type { FlowRecord, Store } from '../../store/store.ts';
import type { Holding } from '../../webhooks/holding.ts';

/** Switches flows off and on: at once, or after their runs have ended. The state is durable. */
export interface FlowSwitch {
  /**
   * Both yield undefined for an unknown flow; setting the current state again only changes how its deliveries are
   * handled. By default, the flow's triggers decide whether deliveries are held while it is closed; `holdsDeliveries`
   * overrides them.
   */
  setEnabled(flowId: string, isEnabled: boolean, holdsDeliveries?: boolean): Promise<FlowRecord | undefined>;
  /**
   * From now on the flow starts no runs, whatever triggers it. Its runs in flight go on to their ends, and so do those
   * of other flows, which can still start this one.
   */
  drain(flowId: string, holdsDeliveries?: boolean): Promise<DrainState | undefined>;
  /** The flow starts runs again, those of held deliveries first, unless it is disabled. */
  resume(flowId: string): Promise<DrainState | undefined>;
  drainState(flowId: string): Promise<DrainState | undefined>;
}

interface DrainState {
  readonly flow: FlowRecord;
  readonly isDraining: boolean;
  /** It is drained: no run is in flight any more, and none can be started. */
  readonly isDone: boolean;
  readonly runsInFlight: number;
  /** Oldest first, with the steps that they have reached. */
  readonly runs: LiveFlow['runs'];
  /** Runs in flight of other flows that can start runs of this one: those from before the drain. */
  readonly callers: Callers;
  /** Deliveries that are held until it starts runs again. */
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
