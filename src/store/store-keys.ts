import { readFileSync } from 'node:fs';
import { StoreUnavailableError } from '../errors.ts';
import { accessProblem, writeWhole } from './durable-files.ts';
import { type BodySealer, bodySealer, MADE_KEY, newKey } from './sealed-body.ts';

/** The keys of one database. */
export interface StoreKeys {
  /** Seals new secrets; undefined if there is no key. */
  readonly current: BodySealer | undefined;
  /** Also finds keys that were in use earlier. */
  find(keyId: string): BodySealer | undefined;
}

/** Shared by the databases in memory, which end with this process. */
let keyInMemory: BodySealer | undefined;

interface KeyOptions {
  /** The key of `SLUICE_STORE_KEY`. */
  readonly sealer: BodySealer | undefined;
  /** Called with the path after a key file is made. Without it no file is made. */
  readonly onMade?: ((path: string) => void) | undefined;
}

/**
 * The keys that seal secrets of manifests: the key of the settings, or else one in a file next to the SQLite database,
 * readable by its owner alone. PostgreSQL has only the key of the settings, which replicas share.
 */
export function storeKeys(
  database: { readonly kind: 'postgres' } | { readonly kind: 'sqlite'; readonly path: string },
  { sealer, onMade }: KeyOptions,
): StoreKeys {
  const own =
    database.kind === 'postgres' ? undefined : keyBeside(database.path, sealer === undefined ? onMade : undefined);
  const keys = [sealer, own].filter((key) => key !== undefined);
  return { current: keys[0], find: (keyId) => keys.find((key) => key.keyId === keyId) };
}

function keyBeside(database: string, onMade: KeyOptions['onMade']): BodySealer | undefined {
  if (database === ':memory:') {
    keyInMemory ??= bodySealer(newKey());
    return keyInMemory;
  }
  const path = `${database}.key`;
  const text = readKey(path) ?? (onMade && makeKey(path, onMade));
  if (text === undefined) return undefined;
  if (MADE_KEY.test(text)) return bodySealer(text);
  const remedy = 'put the file back from a backup, or remove it and deploy again what holds secrets in plain text';
  throw new StoreUnavailableError(`${path}: is not a key that Sluice made; ${remedy}`, { isForGood: true });
}

function readKey(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw unusable(path, 'read', error);
  }
}

function unusable(path: string, what: 'read' | 'written', error: unknown): StoreUnavailableError {
  const { code = 'unknown reason' } = error as NodeJS.ErrnoException;
  return new StoreUnavailableError(`${path}: cannot be ${what}: ${accessProblem(path) ?? code}`, {
    isForGood: true,
    cause: error,
  });
}

/** The process that makes the key has the database to itself, and no start ever finds a part of a key. */
function makeKey(path: string, onMade: (path: string) => void): string {
  const text = newKey();
  try {
    // Written before anything is sealed with it.
    writeWhole(path, `${text}\n`);
  } catch (error) {
    throw unusable(path, 'written', error);
  }
  onMade(path);
  return text;
}
