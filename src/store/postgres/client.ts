import type { DeliveryRecord } from '../../model/delivery.ts';
import type { AcceptResult, Store } from '../store.ts';
import { type AcceptCall, acceptAll } from './accept-batch.ts';
import { accept } from './acceptance.ts';
import { type ConnectionOptions, createConnections, type Lane, toStoreError } from './connections.ts';
import { recordAll } from './deliveries.ts';
import { grouped } from './groups.ts';
import { migrate } from './migrate.ts';
import { operations } from './operations.ts';
import type { Sql } from './sql.ts';

export interface PostgresStoreOptions extends Omit<ConnectionOptions, 'slot'> {
  /** Leads to PostgreSQL itself where `url` leads to a pooler. */
  readonly directUrl?: string | undefined;
}

/**
 * Opens the store on a PostgreSQL database, which several replicas may share. Migrates its schema first. Rejects with
 * an error that says what is wrong where the database cannot be reached or has a schema that this release does not know.
 */
export async function openPostgresStore(
  options: PostgresStoreOptions,
): Promise<Pick<Store, keyof typeof operations | 'close'>> {
  await migrate({ url: options.directUrl ?? options.url, schema: options.schema }).catch((error: unknown) => {
    throw toStoreError(error);
  });
  const connections = createConnections({ ...options, slot: 0 });
  // The table of operations types what is called and what is run: here both are only passed on.
  const table: Readonly<Record<string, { lane: Lane; run: (sql: Sql, ...args: never[]) => Promise<unknown> }>> =
    operations;
  const members = Object.fromEntries(
    Object.entries(table).map(([name, { lane, run }]) => [
      name,
      (...args: never[]) =>
        lane === 'read'
          ? connections.read((sql) => run(sql, ...args))
          : connections.transact(lane, (sql) => run(sql, ...args)),
    ]),
  );
  const acceptOne = grouped<AcceptCall, AcceptResult>({
    width: connections.acceptConnections,
    runAll: (calls) => connections.transactTracked('accept', (sql) => acceptAll(sql, calls)),
    runAlone: ({ acceptance, lease }) => connections.transactTracked('accept', (sql) => accept(sql, acceptance, lease)),
  });
  // One at a time, and apart from acceptances: a flood of refused deliveries keeps none of them waiting.
  const recordOne = grouped<DeliveryRecord, 'recorded'>({
    width: 1,
    runAll: (records) => connections.transactTracked('write', (sql) => recordAll(sql, records)),
    runAlone: async (record) => {
      await connections.transactTracked('write', (sql) => recordAll(sql, [record]));
      return 'recorded';
    },
  });
  return {
    ...(members as Pick<Store, keyof typeof operations>),
    accept: (acceptance, lease) => connections.tracked(() => acceptOne({ acceptance, lease })),
    recordDelivery: (record) => connections.tracked(async () => void (await recordOne(record))),
    close: () => connections.close(),
  };
}
