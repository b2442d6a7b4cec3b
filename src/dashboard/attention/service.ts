import type { DashboardServices } from '../services.ts';
import type { Finding, Situation } from './finding.ts';

/** Deliveries that could not be stored have no record: only a counter of this process has them. */
export async function notStored({ metrics }: DashboardServices): Promise<Finding<'deliveries_not_stored'>[]> {
  const { values } = await metrics.webhookRejected.get();
  const count = values.reduce(
    (sum, { labels, value }) => (labels.reason === 'store_unavailable' ? sum + value : sum),
    0,
  );
  if (count === 0) return [];
  const message = `${count} deliveries got 503 since this process started because the store was unavailable`;
  return [{ kind: 'deliveries_not_stored', message, link: '/metrics' }];
}

const GIB = 1_073_741_824;

/** Below this a flood of deliveries or a long backup fills the disk before anybody comes. */
const LOW_DISK_BYTES = GIB;

/** A database of a million runs with small bodies takes 2 to 3 GiB. */
const LARGE_DATABASE_BYTES = 20 * GIB;

/** What is told of the disk is what can be asked: PostgreSQL does not tell how much of its disk is free. */
export function storageItems({
  storage: { fileBytes, walBytes, freeBytes },
}: Situation): Finding<'disk_low' | 'database_large'>[] {
  const taken = fileBytes + (walBytes ?? 0);
  const link = '/metrics';
  const items: Finding<'disk_low' | 'database_large'>[] = [];
  if (freeBytes !== null && freeBytes < LOW_DISK_BYTES) {
    const message = `The disk of the database has ${inGib(freeBytes)} left: when it is full, deliveries get 503. Make room, or keep runs for fewer days`;
    items.push({ kind: 'disk_low', message, link });
  } else if (freeBytes !== null && freeBytes < taken) {
    const message = `The disk of the database has ${inGib(freeBytes)} left and the database takes ${inGib(taken)}: a backup next to it does not fit`;
    items.push({ kind: 'disk_low', severity: 'warning', message, link });
  }
  if (taken > LARGE_DATABASE_BYTES) {
    const message = `The database takes ${inGib(taken)}; SLUICE_RUN_RETENTION_DAYS and SLUICE_DELIVERY_RETENTION_DAYS say how long it keeps runs and deliveries`;
    items.push({ kind: 'database_large', message, link });
  }
  return items;
}

const inGib = (bytes: number) => `${(bytes / GIB).toFixed(1)} GiB`;
