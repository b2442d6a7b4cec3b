/**
 * What people and programs did to the service, and which of their sessions they ended.
 *
 * Interventions are a chain of rows that are never changed (`activity-chain.ts`): each thing that is said of one adds a row
 * that says all of it again. Of several processes one adds at a time, within the transaction that adds.
 */
export interface ActivityStore {
  /** Keeps an intervention that is about to happen. */
  beginIntervention(intervention: NewIntervention): Promise<void>;
  /** Keeps how it ended. Changes nothing where it was never begun. */
  endIntervention(end: { id: string; statusCode: number }): Promise<void>;
  /** Adds a row that says so where the chain was last written with another key than this store's, or without one. */
  changeActivityKey(change: { id: string; at: number }): Promise<void>;
  /**
   * Ends a session of the dashboard. It is forgotten, by a later call, once it would have ended by itself. Times are those of
   * the nonce ledger.
   */
  endSession(session: { id: string; lastsUntil: number; now: number }): Promise<void>;
  /** Also where its credential was taken away since it began, and came back. */
  isSessionEnded(session: { id: string; credential: string; begunAt: number }): Promise<boolean>;
  /** Keeps which credentials there are from now on: one that is new, or has another mark, has no sessions from before. */
  noteCredentials(given: { credentials: readonly { id: string; mark: string }[]; now: number }): Promise<void>;
  /** A secret of the service itself, the same for all its processes: the one that is stored, else this one, which then is. */
  keepSecret(own: { name: string; secret: Uint8Array }): Promise<Uint8Array>;
}

export interface NewIntervention {
  /** UUID v7. */
  readonly id: string;
  readonly at: number;
  /** The name of a token or user, or what the service calls who has none. */
  readonly actor: string;
  /** Address that the request came from; null where it was no request. */
  readonly clientIp: string | null;
  /** The operation's id in the OpenAPI document, such as `cancelRun`. */
  readonly action: string;
  /** The flow, run, delivery or schedule; null where it is the whole service. */
  readonly target: { readonly type: 'flow' | 'run' | 'delivery' | 'schedule'; readonly id: string } | null;
  /** What else the address names, such as the step; by name. */
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
