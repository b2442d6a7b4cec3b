import type { DeliveryRecord } from '../model/delivery.ts';
import type { PostgresStoreOptions } from './postgres/client.ts';
import type { BodySealer } from './sealed-body.ts';
import { openSqliteStore, type SqliteStoreOptions } from './sqlite/client.ts';
import type { Store } from './store.ts';

/** How many deliveries are kept: those that started no run, and those held until their flow starts runs. */
export type StoreBounds = Required<Pick<SqliteStoreOptions, 'log' | 'held'>>;

/** The database, named by `kind`, and the options of a store on it. */
type OpenStoreOptions = {
  /** Seals secrets at rest; without it they are stored in plain. */
  readonly sealer?: BodySealer | undefined;
} & (({ readonly kind: 'sqlite' } & SqliteStoreOptions) | ({ readonly kind: 'postgres' } & PostgresStoreOptions));

/** Opens the store that a service works with; `test/store/stores.ts` opens every kind. */
export async function openStore(options: OpenStoreOptions): Promise<Store> {
  const { sealer } = options;
  return withSealedBodies(await openBackend({ ...options, chainKey: sealer?.chainKey }), sealer);
}

async function openBackend(options: OpenStoreOptions): Promise<Store> {
  if (options.kind === 'sqlite') return openSqliteStore(options);
  // Loaded only here: the driver costs start time and memory, which a service on SQLite saves.
  const { openPostgresStore } = await import('./postgres/client.ts');
  return openPostgresStore(options);
}

/**
 * A store that seals refused bodies at rest: callers see bodies, the backend sees bytes. A body sealed with another
 * key, or tampered with, reads as null.
 */
export function withSealedBodies(store: Store, sealer: BodySealer | undefined): Store {
  const opened = (record: DeliveryRecord): DeliveryRecord => {
    if (record.bodyKey === undefined || record.body === null) return record;
    const about = { deliveryId: record.id, bodyBytes: record.bodyBytes };
    const body = sealer?.keyId === record.bodyKey ? sealer.open(record.body, about) : undefined;
    return body === undefined
      ? { ...record, body: null }
      : { ...record, body: new Uint8Array(body), bodyKey: undefined };
  };
  return {
    ...store,
    recordDelivery(record) {
      if (sealer === undefined || record.body === null) return store.recordDelivery(record);
      return store.recordDelivery({ ...record, body: sealer.seal(record.body, record.id), bodyKey: sealer.keyId });
    },
    async listDeliveries(query) {
      const page = await store.listDeliveries(query);
      return { ...page, items: page.items.map(opened) };
    },
    async findDelivery(id) {
      const record = await store.findDelivery(id);
      return record && opened(record);
    },
  };
}
