import { LRUCache } from 'lru-cache';
import { type Clock, MINUTE_MS } from '../../model/clock.ts';
import { addressGroup } from '../../webhooks/networks/addresses.ts';

/** The one that was seen longest ago is forgotten first, so that a flood of addresses costs no memory. */
const MAX_REMEMBERED = 10_000;

/** Says whether one address, an IPv6 /64 as one, has asked more often than so many times in a minute. */
export function boundByAddress(clock: Clock, mostAMinute: number): (address: string) => boolean {
  // Takes 200 kB before it holds anything, so it is made with the first question.
  let asked: LRUCache<string, { count: number; readonly since: number }> | undefined;
  return (address) => {
    asked ??= new LRUCache({ max: MAX_REMEMBERED });
    const group = addressGroup(address);
    const now = clock.monotonic();
    const known = asked.get(group);
    const own = known !== undefined && now - known.since < MINUTE_MS ? known : { count: 0, since: now };
    own.count += 1;
    asked.set(group, own);
    return own.count > mostAMinute;
  };
}
