import { objectsOf } from '../manifest/trigger-objects.ts';
import { DAY_MS } from '../model/clock.ts';
import { DETAILS } from '../model/delivery.ts';
import type { Store } from '../store/store.ts';
import type { TriggeredReception } from './record.ts';

export const LATE = 'it came after it was fetched from the log of the publisher';

/** Publishers repeat what they could not deliver for so long. */
const LATE_MS = 3 * DAY_MS;

/** The run of a repeated nonce, where its delivery was fetched because it had not come: then no attacker repeats it. */
export async function fetchedRun(
  runId: string | null,
  { delivery, trigger: { trigger } }: TriggeredReception,
  { store }: { readonly store: Pick<Store, 'findRun' | 'findDelivery'> },
): Promise<string | undefined> {
  if (runId === null || !objectsOf(trigger).some(([, { fetches }]) => fetches)) return undefined;
  // It is refused anyway: what cannot be read now is told as a replay.
  const run = await store.findRun(runId).catch(() => undefined);
  const first = run?.deliveryId && (await store.findDelivery(run.deliveryId).catch(() => undefined));
  const isFetched = first && first.detail?.startsWith(DETAILS.reconciled) === true;
  return isFetched && delivery.receivedAt - first.receivedAt < LATE_MS ? runId : undefined;
}
