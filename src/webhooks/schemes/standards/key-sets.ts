import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../../model/clock.ts';
import { codeOf } from '../../../model/error-kind.ts';
import { parseJson } from '../values.ts';
import { keysOfSet, type VerifyingKey } from './verifying-keys.ts';

/** The public keys that publishers have at a URL (JWKS). */
export interface KeySets {
  /**
   * The keys of the set, asked for again where it has none of this id; rejects with `KeySetUnavailableError` where no set can be
   * had. A set may have no key of the id.
   */
  keysFor(url: string, id: string | undefined): Promise<readonly VerifyingKey[]>;
  /** Keys that appeared in a set that was known before, the newest first. */
  listNew(): readonly NewKey[];
}

/** Deliveries may be signed with it from now on, although nobody here configured it. */
export interface NewKey {
  readonly url: string;
  /** The name by which the publisher calls it; null if it has none. */
  readonly id: string | null;
  /** First 8 hex digits of the SHA-256 of the public key. */
  readonly fingerprint: string;
  readonly at: number;
}

interface KeySetsOptions {
  /** Yields what an https URL answers with 200, within bounds of size and time; follows no redirect. */
  readonly fetch: (url: string) => Promise<string>;
  readonly clock: Clock;
  /** Told once for each new key. */
  readonly onNewKey?: ((key: NewKey) => void) | undefined;
}

/** Nothing is known about the keys: the delivery could not be judged. */
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
  /** Monotonic. */
  readonly fetchedAt: number;
}

// So long a key that the publisher took back still counts. A delivery waits for a set only once; it is renewed behind the others.
const FRESH_MS = 600_000;
/** Where the set cannot be had, keys that are known count on for a while: a publisher's outage would be ours otherwise. */
const KEPT_MS = 3_600_000;
/** Whoever forges tokens can name any key: so often at most is a set asked for again. */
const COOLDOWN_MS = 30_000;
const MAX_SETS = 1000;
const MAX_NEW_KEYS = 100;
/** More of the name of a key is not told. */
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
        // A failure is kept, and told once the keys are too old.
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
