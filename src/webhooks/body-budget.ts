/** Bytes that all bodies in flight may hold together, and each client of them. */
export interface BodyBudget {
  /** An account for one body; what it takes counts until it is released. */
  open(client: string): BodyAllowance;
}

export interface BodyAllowance {
  /** Takes bytes that have arrived; false where they are not left, for all or for this client. */
  take(bytes: number): boolean;
  /** Gives back all that was taken. What arrives later is no longer taken. */
  release(): void;
}

/** So one client cannot use up what all share, while a publisher that delivers from one address has plenty. */
const SHARE_OF_ONE_CLIENT = 1 / 4;

export function bodyBudget(maxBytes: number): BodyBudget {
  const byClient = new Map<string, number>();
  let taken = 0;
  return {
    open(client) {
      let own = 0;
      let isReleased = false;
      return {
        take(bytes) {
          const ofClient = (byClient.get(client) ?? 0) + bytes;
          if (isReleased || taken + bytes > maxBytes || ofClient > maxBytes * SHARE_OF_ONE_CLIENT) return false;
          taken += bytes;
          own += bytes;
          byClient.set(client, ofClient);
          return true;
        },
        release() {
          if (isReleased) return;
          isReleased = true;
          taken -= own;
          const left = (byClient.get(client) ?? 0) - own;
          if (left > 0) byClient.set(client, left);
          else byClient.delete(client);
        },
      };
    },
  };
}
