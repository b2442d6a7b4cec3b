import type { Holding } from '../deploys/holding.ts';
import { type Catalog, startsRuns } from '../flows/catalog.ts';
import type { PreparedTrigger } from './triggers.ts';

/** What becomes of a delivery that passes the gates: its run starts, or starts later, or the delivery is refused. */
export type Admission = 'open' | 'held' | 'disabled';

export interface AdmissionServices {
  readonly catalog: Pick<Catalog, 'find'>;
  readonly holding: Pick<Holding, 'count'>;
}

/** Asked anew each time: the flow may have been disabled or drained since its triggers were prepared. */
export function admissionTo(prepared: PreparedTrigger, { catalog, holding }: AdmissionServices): Admission {
  const { flowId } = prepared.trigger;
  const flow = catalog.find(flowId);
  if (flow === undefined) return 'disabled';
  if (!startsRuns(flow.record)) return prepared.holdsDeliveries ? 'held' : 'disabled';
  return prepared.holdsDeliveries && holding.count(flowId) > 0 ? 'held' : 'open';
}
