import { type Finding, iso, nameOf, type Situation } from '../../dashboard/attention/finding.ts';
import type { DashboardServices } from '../../dashboard/services.ts';
import { DAY_MS } from '../../model/clock.ts';
import { holdStore } from '../../store/decisions/release.ts';

/** Longer than a drain or an outage of what a flow calls. */
const LONG_HELD_MS = 7 * DAY_MS;

/** Nothing starts or deletes them by itself. */
export async function heldDeliveries(
  { flows, now }: Situation,
  { store }: Pick<DashboardServices, 'store'>,
): Promise<Finding<'deliveries_held' | 'deliveries_held_long'>[]> {
  const all = await store.of(holdStore).listHeld();
  return all.map(({ flowId, held, oldestAt }) => {
    const count = held === 1 ? '1 accepted delivery' : `${held} accepted deliveries`;
    const message =
      `${count} of ${nameOf(flowId, flows)} ${held === 1 ? 'waits' : 'wait'} for the flow to be enabled or resumed, the oldest since ${iso(oldestAt)}; ` +
      'start their runs, or discard them with a reason';
    const link = `/flows/deliveries?flowId=${flowId}&outcome=held`;
    return { kind: oldestAt < now - LONG_HELD_MS ? 'deliveries_held_long' : 'deliveries_held', message, link };
  });
}
