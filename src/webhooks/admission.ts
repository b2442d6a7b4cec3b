import { type Catalog, startsRuns } from '../flows/catalog.ts';
import type { PreparedTrigger } from './triggers.ts';

/** What becomes of a delivery that passes the gates: its run starts, or starts later, or the delivery is refused. */
export type Admission = 'open' | 'held' | 'disabled';

/** The deliveries that wait until their flow may start runs again; deploys/holding.ts releases them. */
export interface HeldDeliveries {
  /** Held deliveries of a flow. While there are any, the next one waits behind them. */
  count(flowId: string): number;
  /** Called once a delivery is stored as held. */
  held(flowId: string): void;
}

export interface AdmissionServices {
  readonly catalog: Pick<Catalog, 'find'>;
  readonly holding: Pick<HeldDeliveries, 'count'>;
}

/** Asked anew each time: the flow may have been disabled or drained since its triggers were prepared. */
export function admissionTo(prepared: PreparedTrigger, { catalog, holding }: AdmissionServices): Admission {
  const { flowId } = prepared.trigger;
  const flow = catalog.find(flowId);
  if (flow === undefined) return 'disabled';
  if (!startsRuns(flow.record)) return prepared.holdsDeliveries ? 'held' : 'disabled';
  return prepared.holdsDeliveries && holding.count(flowId) > 0 ? 'held' : 'open';
}
