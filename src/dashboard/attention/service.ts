import type { DashboardServices } from '../services.ts';
import type { Finding } from './finding.ts';

/** Deliveries that could not be stored have no record: only a counter of this process has them. */
export async function notStored({ metrics }: DashboardServices): Promise<Finding<'deliveries_not_stored'>[]> {
  const { values } = await metrics.webhookRejected.get();
  const count = values.reduce(
    (sum, { labels, value }) => (labels.reason === 'store_unavailable' ? sum + value : sum),
    0,
  );
  if (count === 0) return [];
  const why = 'the store was unavailable or a bound was full, as the log says of each';
  const message = `${count} deliveries got 503 since this process started: ${why}`;
  return [{ kind: 'deliveries_not_stored', message, link: '/metrics' }];
}
