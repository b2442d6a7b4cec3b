/** How many deliveries may pass. */
export interface RateLimit {
  readonly permitsPerSecond: number;
  /** Permits that a bucket holds when it is full, at least one. */
  readonly burstSize: number;
}

/** Permits left at an instant; they grow with time, without steps. */
export interface TokenBucket {
  readonly permits: number;
  /** Monotonic milliseconds. */
  readonly at: number;
}

// Sums of fractions fall short of a whole by less than this; without it a permit comes a millisecond late for ever.
const ROUNDING = 1e-9;

export function fullBucket({ burstSize }: RateLimit, at: number): TokenBucket {
  return { permits: burstSize, at };
}

/** The bucket at an instant, with what has come in since. */
export function refilled(bucket: TokenBucket, limit: RateLimit, now: number): TokenBucket {
  const at = Math.max(now, bucket.at);
  const elapsedSeconds = (at - bucket.at) / 1000;
  return { permits: Math.min(limit.burstSize, bucket.permits + elapsedSeconds * limit.permitsPerSecond), at };
}

/** Takes one permit; `retryAfterMs` is 0 where there was one, else the time until there is. */
export function takePermit(
  bucket: TokenBucket,
  limit: RateLimit,
  now: number,
): { readonly bucket: TokenBucket; readonly retryAfterMs: number } {
  const { permits, at } = refilled(bucket, limit, now);
  if (permits + ROUNDING >= 1) return { bucket: { permits: Math.max(0, permits - 1), at }, retryAfterMs: 0 };
  const retryAfterMs = Math.ceil(((1 - permits) / limit.permitsPerSecond) * 1000);
  return { bucket: { permits, at }, retryAfterMs };
}
