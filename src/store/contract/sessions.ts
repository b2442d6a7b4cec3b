/** Credentials of the dashboard, and secrets of the service itself. */
export interface SessionStore {
  /**
   * Stores the credentials in force from now on: a new one, or one with a changed mark, has no earlier sessions. The
   * time is that of the nonce ledger.
   */
  noteCredentials(given: { credentials: readonly { id: string; mark: string }[]; now: number }): Promise<void>;
  /** A secret of the service itself, the same for all its processes: yields the stored one, or stores this one. */
  keepSecret(own: { name: string; secret: Uint8Array }): Promise<Uint8Array>;
}
