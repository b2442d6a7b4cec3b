/** Sessions of the dashboard that ended early, credentials, and secrets of the service itself. */
export interface SessionStore {
  /**
   * Ends a session of the dashboard. A later call deletes this note once the session would have ended by itself. Times
   * are those of the nonce ledger.
   */
  endSession(session: { id: string; lastsUntil: number; now: number }): Promise<void>;
  /** Also true if its credential was removed after the session began, even if it came back. */
  isSessionEnded(session: { id: string; credential: string; begunAt: number }): Promise<boolean>;
  /** Stores the credentials in force from now on: a new one, or one with a changed mark, has no earlier sessions. */
  noteCredentials(given: { credentials: readonly { id: string; mark: string }[]; now: number }): Promise<void>;
  /** A secret of the service itself, the same for all its processes: yields the stored one, or stores this one. */
  keepSecret(own: { name: string; secret: Uint8Array }): Promise<Uint8Array>;
}
