import { openStore } from '../../src/store/open-store.ts';
import { bodySealer, newKey } from '../../src/store/sealed-body.ts';
import type { Store } from '../../src/store/store.ts';

type Kind = Omit<Extract<Parameters<typeof openStore>[0], { kind: 'sqlite' }>, 'path' | 'kind'>;

const sealer = bodySealer(newKey());
const bounds = { maxRows: 100_000, maxBytes: 1e9 };
const inDatabase: Kind = { log: { inMemory: false, ...bounds }, held: bounds };
const inMemory: Kind = { log: { inMemory: true, ...bounds }, held: bounds };

/** Every kind of store that settings can select. */
const KINDS = {
  'log in the database': inDatabase,
  'log in memory': inMemory,
  'log in the database, sealed': { ...inDatabase, sealer },
  'log in memory, sealed': { ...inMemory, sealer },
} as const;

export type KindOfStore = keyof typeof KINDS;
export const KINDS_OF_STORES = Object.keys(KINDS) as KindOfStore[];

/** Opens a new, empty store. */
export function openKind(kind: KindOfStore, path: string): Promise<Store> {
  return openStore({ kind: 'sqlite', path, ...KINDS[kind] });
}
