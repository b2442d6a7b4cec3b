import { objectsOf } from '../manifest/trigger-objects.ts';
import { DAY_MS } from '../model/clock.ts';
import { DETAILS } from '../model/delivery.ts';
import type { Store } from '../store/store.ts';
import type { TriggeredReception } from './record.ts';

export const LATE = 'it came after it was fetched from the log of the publisher';

/** How long publishers repeat a delivery that failed. */
const LATE_MS = 3 * DAY_MS;

/** The run of a repeated nonce, if the first delivery was fetched because it had not come: then this is no attack. */
export async function fetchedRun(
  runId: string | null,
  { delivery, trigger: { trigger } }: TriggeredReception,
  { store }: { readonly store: Pick<Store, 'findRun' | 'findDelivery'> },
): Promise<string | undefined> {
  if (runId === null || !objectsOf(trigger).some(([, { fetches }]) => fetches)) return undefined;
  // The delivery is refused in any case; if its run cannot be read now, it counts as a replay.
  const run = await store.findRun(runId).catch(() => undefined);
  const first = run?.deliveryId && (await store.findDelivery(run.deliveryId).catch(() => undefined));
  const isFetched = first && first.detail?.startsWith(DETAILS.reconciled) === true;
  return isFetched && delivery.receivedAt - first.receivedAt < LATE_MS ? runId : undefined;
}
