/** The state of a database, examined from outside while a service may use it. */
export interface Examination {
  /** Damage in the database itself, a line each; empty if it is intact. Null if it was not checked. */
  readonly damage: readonly string[] | null;
  readonly schemaVersion: number;
  /** How the schema differs from what migrations make; null where it cannot be read. */
  readonly schema: SchemaDifference | null;
  readonly fileBytes: number;
  /** Null if the server has one log for all its databases. */
  readonly walBytes: number | null;
  /** Bytes of each table with its indexes, the largest first; null if they were not measured. */
  readonly tables: readonly { readonly name: string; readonly bytes: number }[] | null;
  /** Null if the tables cannot be read. */
  readonly contents: ExaminedContents | null;
}

export interface ExaminedContents {
  /** The run that started first of those that have not ended. */
  readonly oldestRun: { readonly id: string; readonly flowName: string; readonly startedAt: number } | null;
  /** `at` is its time of arrival. */
  readonly oldestHeld: { readonly deliveryId: string; readonly flowId: string; readonly at: number } | null;
  /** The earliest end among the nonces that are still kept. */
  readonly oldestNonceEnd: number | null;
  /** Counts stop at this number. */
  readonly mostDue: number;
  /** How many rows retention deletes next. */
  readonly due: Readonly<Record<DueKind, number>>;
}

export type DueKind = 'nonces' | 'runs' | 'deliveries' | 'activity';

/** Rows older than these are deleted; null where they are kept for ever. */
export type DeletedBefore = Readonly<Record<DueKind, number | null>>;

export interface ExaminationRequest {
  readonly before: DeletedBefore;
  /** Leaves out checks that read the whole database. */
  readonly isQuick: boolean;
}

/** How a schema differs from the one that migrations make. */
export interface SchemaDifference {
  /** Objects that migrations make and the schema lacks, or has in another form; a line each. */
  readonly lacks: readonly string[];
  /** Triggers, views, and indexes of our tables that no migration made: they may change what is written, or slow it. */
  readonly foreign: readonly string[];
}
