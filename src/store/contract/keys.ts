/**
 * When the keys of triggers verified deliveries, and how often. A key has a name that gives nothing of it away; who names
 * it sees to that. Counts are by the hour.
 */
export interface KeyStore {
  /**
   * Records all keys that triggers have now. A key whose role changed has its new role since `at`; a key that is
   * missing loses its role, so that it starts again if it comes back. A previous key that was not recorded for more
   * than a day also starts again, because no process ran that could have used it. A clock that was set back changes no
   * times.
   */
  noteKeys(note: { keys: readonly NotedKey[]; at: number }): Promise<void>;
  /**
   * Every key that was noted or that verified an accepted delivery, whether a trigger still has it or not; in the order of
   * flow, trigger and name.
   */
  listKeyFigures(query: { flowId?: string | undefined; recentSince: number }): Promise<KeyFigures[]>;
  /**
   * The newest accepted deliveries that only the previous key of a trigger verified, from `upTo` back. It looks at 1000
   * deliveries of the flow at most, so that the records of others cannot make it slow.
   */
  listKeyUsers(query: KeyUserQuery): Promise<KeyUser[]>;
  /**
   * Adds counts of hours before `before` to those of earlier times, which have no hour any more, and forgets keys that
   * were neither noted nor used since. At most so many rows; yields how many there were.
   */
  tidyKeys(request: { before: number; limit: number }): Promise<number>;
}

export type KeyRole = 'current' | 'previous';

interface KeyName {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly keyName: string;
}

interface NotedKey extends KeyName {
  readonly role: KeyRole;
}

export interface KeyFigures extends KeyName {
  /** The role that it has; null where it has none. */
  readonly role: KeyRole | null;
  readonly roleSince: number | null;
  readonly firstNotedAt: number | null;
  /** When it was last noted, under whatever role. */
  readonly notedAt: number | null;
  /** Accepted deliveries that it verified. Neither redeliveries nor replays count. */
  readonly count: number;
  /** Those of them since `recentSince`, from the beginning of that hour. */
  readonly recent: number;
  readonly lastAt: number | null;
  /** The newest of these deliveries. */
  readonly lastId: string | null;
  /**
   * Of a previous key: deliveries that other keys of the trigger verified since it was last used, or since it is the
   * previous one, whichever is later; from the next full hour on. Else 0.
   */
  readonly othersSince: number;
}

interface KeyUserQuery extends Omit<KeyName, 'keyName'> {
  /** Id of a delivery. */
  readonly upTo: string;
  /** Arrival. */
  readonly since: number;
  readonly limit: number;
}

export interface KeyUser {
  readonly clientIp: string;
  /** As they are kept of the delivery. */
  readonly headers: Readonly<Record<string, string>>;
  readonly receivedAt: number;
}
