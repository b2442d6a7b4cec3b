import type { Finding, Situation } from '../../dashboard/attention/finding.ts';
import { rulesFor, servicePart } from '../../dashboard/services.ts';
import { doctorAttention, LONG_LOG_BYTES } from './attention.ts';

const GIB = 1_073_741_824;

/** Below this, a flood of deliveries or a long backup fills the disk before anybody can react. */
const LOW_DISK_BYTES = GIB;

/** A database of a million runs with small bodies takes 2 to 3 GiB. */
const LARGE_DATABASE_BYTES = 20 * GIB;

/** Only what the database reports: PostgreSQL does not say how much of its disk is free. */
function storageItems({ storage: { fileBytes, walBytes, freeBytes } }: Situation) {
  const taken = fileBytes + (walBytes ?? 0);
  const link = '/metrics';
  const items: Finding<keyof typeof doctorAttention>[] = [];
  if (freeBytes !== null && freeBytes < LOW_DISK_BYTES) {
    const message = `The disk of the database has ${inGib(freeBytes)} left: when it is full, deliveries get 503. Make room, or keep runs for fewer days`;
    items.push({ kind: 'disk_low', message, link });
  } else if (freeBytes !== null && freeBytes < taken) {
    const message = `The disk of the database has ${inGib(freeBytes)} left and the database takes ${inGib(taken)}: a backup next to it does not fit`;
    items.push({ kind: 'disk_low', severity: 'warning', message, link });
  }
  // The service truncates it at 64 MiB, unless a reader needs the rest.
  if ((walBytes ?? 0) > LONG_LOG_BYTES) {
    const message = `The write-ahead log of the database takes ${inGib(walBytes ?? 0)} and cannot be cut: a program outside of Sluice, such as a backup or a shell of sqlite3, has had a read open for long. End that program`;
    items.push({ kind: 'log_held_back', message, link });
  }
  if (taken > LARGE_DATABASE_BYTES) {
    const message = `The database takes ${inGib(taken)}; SLUICE_RUN_RETENTION_DAYS and SLUICE_DELIVERY_RETENTION_DAYS say how long it keeps runs and deliveries`;
    items.push({ kind: 'database_large', message, link });
  }
  return items;
}

const inGib = (bytes: number) => `${(bytes / GIB).toFixed(1)} GiB`;

export const doctor = servicePart({ name: 'doctor', attention: rulesFor(doctorAttention, storageItems) });
