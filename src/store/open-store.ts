import { withSealedBodies } from './sealed-bodies.ts';
import type { BodySealer } from './sealed-body.ts';
import { withSealedKeys } from './sealed-keys.ts';
import { openSqliteStore, type SqliteStoreOptions } from './sqlite/client.ts';
import type { Store } from './store.ts';

export interface OpenStoreOptions extends SqliteStoreOptions {
  /** Seals what is secret at rest; in plain where not given. */
  readonly sealer?: BodySealer | undefined;
}

/** Opens the store that a service works with; `test/store/stores.ts` has every kind of it. */
export async function openStore({ sealer, ...options }: OpenStoreOptions): Promise<Store> {
  return withSealedKeys(withSealedBodies(await openSqliteStore(options), sealer), sealer);
}
