import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../../model/clock.ts';
import { codeOf } from '../../../model/error-kind.ts';
import { parseJson } from '../values.ts';
import { keysOfSet, type VerifyingKey } from './verifying-keys.ts';

/** Public keys that publishers offer at a URL (JWKS). */
export interface KeySets {
  /**
   * The keys of the set, fetched again if it has none with this id. Rejects with `KeySetUnavailableError` if no set can
   * be fetched. The set may still have no key with the id.
   */
  keysFor(url: string, id: string | undefined): Promise<readonly VerifyingKey[]>;
  /** Keys that appeared in an already known set, newest first. */
  listNew(): readonly NewKey[];
}

/** A new key in a set: from now on it verifies deliveries, although no operator configured it. */
export interface NewKey {
  readonly url: string;
  /** The publisher's name for the key; null if it has none. */
  readonly id: string | null;
  /** First 8 hex digits of the SHA-256 of the public key. */
  readonly fingerprint: string;
  readonly at: number;
}

interface KeySetsOptions {
  /** Yields the body of a 200 from an https URL, within bounds of size and time; follows no redirect. */
  readonly fetch: (url: string) => Promise<string>;
  readonly clock: Clock;
  /** Called once for each new key. */
  readonly onNewKey?: ((key: NewKey) => void) | undefined;
}

/** The keys could not be fetched, so the delivery could not be judged. */
export class KeySetUnavailableError extends Error {
  readonly code: string;
  constructor(code: string, options?: ErrorOptions) {
    super(code, options);
    this.name = 'KeySetUnavailableError';
    this.code = code;
  }
}

interface Known {
  readonly keys: readonly VerifyingKey[];
  /** Monotonic milliseconds. */
  readonly fetchedAt: number;
}

// From this age on, a delivery uses the set and has it fetched in the background, so that it does not wait.
const FRESH_MS = 600_000;
/** The longest that a withdrawn key counts. Not less, because otherwise a publisher's outage would be ours. */
const KEPT_MS = 3_600_000;
/** The least time between fetches of a set, because forged tokens can name any key. */
const COOLDOWN_MS = 30_000;
const MAX_SETS = 1000;
const MAX_NEW_KEYS = 100;
/** Longer names of keys are cut. */
const MAX_ID_LENGTH = 64;

/** Fetches each set once for all deliveries that wait for it. */
export function createKeySets({ fetch, clock, onNewKey }: KeySetsOptions): KeySets {
  const known = new LRUCache<string, Known>({ maxSize: MAX_SETS, sizeCalculation: () => 1 });
  const tried = new LRUCache<string, number>({ maxSize: MAX_SETS, sizeCalculation: () => 1 });
  const failures = new LRUCache<string, KeySetUnavailableError>({ maxSize: MAX_SETS, sizeCalculation: () => 1 });
  const underWay = new Map<string, Promise<Known>>();
  const appeared: NewKey[] = [];

  function tellNew(url: string, before: Known, after: readonly VerifyingKey[]): void {
    const old = new Set(before.keys.map(fingerprintOf));
    for (const key of after) {
      const fingerprint = fingerprintOf(key);
      if (old.has(fingerprint)) continue;
      const found = { url, id: key.id?.slice(0, MAX_ID_LENGTH) ?? null, fingerprint, at: clock.now() };
      appeared.unshift(found);
      appeared.length = Math.min(appeared.length, MAX_NEW_KEYS);
      onNewKey?.(found);
    }
  }

  async function load(url: string): Promise<Known> {
    tried.set(url, clock.monotonic());
    try {
      const text = await fetch(url).catch((cause: unknown) => {
        throw new KeySetUnavailableError(codeOf(cause), { cause });
      });
      const keys = keysOfSet(parseJson(Buffer.from(text)));
      if (keys.length === 0) throw new KeySetUnavailableError('NO_KEYS');
      const before = known.get(url);
      if (before !== undefined) tellNew(url, before, keys);
      const set = { keys, fetchedAt: clock.monotonic() };
      known.set(url, set);
      failures.delete(url);
      return set;
    } catch (error) {
      if (error instanceof KeySetUnavailableError) failures.set(url, error);
      throw error;
    }
  }

  function refresh(url: string): Promise<Known> {
    const waited = underWay.get(url);
    if (waited !== undefined) return waited;
    const loading = load(url).finally(() => underWay.delete(url));
    underWay.set(url, loading);
    return loading;
  }

  const mayAsk = (url: string) => {
    const last = tried.get(url);
    return last === undefined || clock.monotonic() - last >= COOLDOWN_MS;
  };

  return {
    async keysFor(url, id) {
      const set = known.get(url);
      const age = set === undefined ? Number.POSITIVE_INFINITY : clock.monotonic() - set.fetchedAt;
      if (set === undefined || age >= KEPT_MS) {
        const failure = failures.get(url);
        if (failure !== undefined && !mayAsk(url) && !underWay.has(url)) throw failure;
        return (await refresh(url)).keys;
      }
      const hasKey = id === undefined || set.keys.some((key) => key.id === id);
      if (hasKey) {
        // A failure is kept, and reported once the keys are too old.
        if (age >= FRESH_MS && mayAsk(url)) refresh(url).catch(() => {});
        return set.keys;
      }
      const waited = underWay.get(url);
      if (waited === undefined && !mayAsk(url)) return set.keys;
      return (await refresh(url)).keys;
    },
    listNew: () => appeared,
  };
}

function fingerprintOf({ key }: VerifyingKey): string {
  const der = key.export({ type: 'spki', format: 'der' });
  return createHash('sha256').update(der).digest('hex').slice(0, 8);
}
