import { randomFillSync } from 'node:crypto';
import { v7 } from 'uuid';

/** When an id of version 7 was made, milliseconds since the Unix epoch; undefined for any other text. */
export function timeOfId(id: string): number | undefined {
  const [, high, low] = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/i.exec(id) ?? [];
  return high === undefined || low === undefined ? undefined : Number.parseInt(high + low, 16);
}

/** The time in the first 48 bits of an id: when it was made, or of one that only begins a span of ids, where that begins. */
export function timeIn(id: string): number {
  return Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16);
}

const ID_BYTES = 16;
const IDS_A_DRAW = 256;
const SEQUENCE_MASK = 0x7fffffff;

/**
 * Yields UUIDs of version 7, each above the one before: within a millisecond, and while the clock stops or goes
 * back, the sequence counts on. Random bytes are drawn for many ids at once, because drawing them for each cost a
 * twentieth of a delivery.
 */
export function createIdSource(now: () => number = Date.now): () => string {
  const pool = new Uint8Array(ID_BYTES * IDS_A_DRAW);
  let used = pool.length;
  let msecs = Number.NEGATIVE_INFINITY;
  let seq = 0;
  return () => {
    if (used === pool.length) {
      randomFillSync(pool);
      used = 0;
    }
    const random = pool.subarray(used, used + ID_BYTES);
    used += ID_BYTES;
    const at = now();
    if (at > msecs) {
      msecs = at;
      // The upper half is left for counting.
      seq = (((random[6] ?? 0) << 22) | ((random[7] ?? 0) << 14) | ((random[8] ?? 0) << 6)) & (SEQUENCE_MASK >> 1);
    } else if (seq === SEQUENCE_MASK) {
      msecs += 1;
      seq = 0;
    } else {
      seq += 1;
    }
    return v7({ random, msecs, seq });
  };
}
