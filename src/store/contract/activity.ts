/**
 * Interventions: what people and programs did to the service. Also the dashboard sessions that they ended.
 *
 * Interventions are a chain of rows that never change (`activity-chain.ts`): each later statement about one adds a row
 * that repeats all of it. Of several processes one adds at a time, within the transaction that adds.
 */
export interface ActivityStore {
  /** Stores an intervention that is about to happen. */
  beginIntervention(intervention: NewIntervention): Promise<void>;
  /** Stores how it ended. Changes nothing if it was never begun. */
  endIntervention(end: { id: string; statusCode: number }): Promise<void>;
  /** Adds a row that reports a change of key, if the chain was last written with another key than now, or without. */
  changeActivityKey(change: { id: string; at: number }): Promise<void>;
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

export interface NewIntervention {
  /** UUID v7. */
  readonly id: string;
  readonly at: number;
  /** The name of a token or user, or the service's word for a caller without a name. */
  readonly actor: string;
  /** Address that the request came from; null if there was no request. */
  readonly clientIp: string | null;
  /** The operation's id in the OpenAPI document, such as `cancelRun`. */
  readonly action: string;
  /** The flow, run, delivery or schedule; null for the whole service. */
  readonly target: { readonly type: 'flow' | 'run' | 'delivery' | 'schedule'; readonly id: string } | null;
  /** Other things that the address names, such as the step; by name. */
  readonly details: Readonly<Record<string, string>>;
  readonly reason: string | null;
}

/** Both ends of the chain: the last row that retention removed, and the newest row. */
export interface ChainEnds {
  readonly removedSeq: number;
  readonly removedHash: string;
  readonly newestSeq: number;
  readonly newestHash: string;
  readonly keyId: string | null;
  readonly seal: string;
}
