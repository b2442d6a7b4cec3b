import { DAY_MS } from '../../model/clock.ts';
import type { KeyFigures } from './store.ts';

/** A previous key unused for this long can be removed: publishers retry for three days or less. */
export const UNUSED_DAYS = 7;

/** Keys are recorded every hour. A longer gap means that no process ran, or that the clock was set ahead. */
const NOTED_WITHIN_MS = DAY_MS;

/** Figures of the keys of one trigger with a previous key. */
interface KeyPairFigures {
  readonly now: number;
  /** Whether current and previous key are the same. */
  readonly isSame: boolean;
  /** Undefined if nothing is known of it yet. */
  readonly current: KeyFigures | undefined;
  readonly previous: KeyFigures | undefined;
  /** Keys that verified deliveries to this trigger, but that this process does not have. */
  readonly others: readonly Pick<KeyFigures, 'lastAt'>[];
}

/** Advice on a previous key. Every time is in milliseconds since the Unix epoch. */
export type KeyAdvice =
  /** It verifies only what the current key verifies too. */
  | { readonly kind: 'same_key' }
  /** Deliveries needed it, and the current key has verified none since it became current. */
  | { readonly kind: 'not_switched'; readonly lastAt: number }
  /** Deliveries needed it less than seven days ago. */
  | { readonly kind: 'in_use'; readonly lastAt: number }
  /** There is no known reason yet to keep or to remove it. */
  | { readonly kind: 'wait'; readonly unusedSince: number | null }
  /** Like `may_go`, but another process has other keys: one that is unknown here verified deliveries meanwhile. */
  | { readonly kind: 'keys_differ'; readonly lastAt: number }
  /** `lastAt` is null if it was never used as the previous one. */
  | {
      readonly kind: 'may_go';
      readonly unusedSince: number;
      readonly lastAt: number | null;
      readonly deliveries: number;
    };

/**
 * Says whether the previous key of a trigger can be removed. It can if it verified nothing for seven days, counted from
 * its last use or from when it became the previous one, whichever is later, and if the current key verified something
 * in that time: silence alone proves nothing. Periods in which the key was not recorded do not count. Future times,
 * from a clock that was ahead, count as use.
 */
export function adviseOn({ now, isSame, current, previous, others }: KeyPairFigures): KeyAdvice {
  if (isSame) return { kind: 'same_key' };
  // A key recorded under another role, or not at all, gives no advice yet; the next sweep records it.
  if (previous?.role !== 'previous' || previous.roleSince === null) return { kind: 'wait', unusedSince: null };
  const { roleSince, notedAt } = previous;
  const lastAt = previous.lastAt !== null && previous.lastAt > roleSince ? previous.lastAt : null;
  const unusedSince = lastAt ?? roleSince;
  if (lastAt !== null && now - lastAt < UNUSED_DAYS * DAY_MS) {
    const hasSwitched = current?.lastAt != null && current.lastAt >= (current.roleSince ?? roleSince);
    return { kind: hasSwitched ? 'in_use' : 'not_switched', lastAt };
  }
  if (notedAt === null || now - notedAt > NOTED_WITHIN_MS) return { kind: 'wait', unusedSince: null };
  const isReplaced = current?.lastAt != null && current.lastAt > unusedSince && previous.othersSince > 0;
  if (now - unusedSince < UNUSED_DAYS * DAY_MS || !isReplaced) return { kind: 'wait', unusedSince };
  const otherAt = Math.max(...others.map((other) => other.lastAt ?? 0));
  if (otherAt > unusedSince) return { kind: 'keys_differ', lastAt: otherAt };
  return { kind: 'may_go', unusedSince, lastAt, deliveries: previous.othersSince };
}
