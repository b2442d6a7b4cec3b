/** What a database is like, looked at from outside while a service may use it. */
export interface Examination {
  /** What is wrong with the database itself, a line each; empty where it is whole. Null where it was not looked at. */
  readonly damage: readonly string[] | null;
  readonly schemaVersion: number;
  /** How the schema differs from what migrations make; null where it cannot be read. */
  readonly schema: SchemaDifference | null;
  readonly fileBytes: number;
  /** Null where the server has one log for all its databases. */
  readonly walBytes: number | null;
  /** Bytes of a table and its indexes, the largest first; null where they were not measured. */
  readonly tables: readonly { readonly name: string; readonly bytes: number }[] | null;
  /** Null where the tables cannot be read. */
  readonly contents: ExaminedContents | null;
}

export interface ExaminedContents {
  /** Of the runs that have not ended the one that started first. */
  readonly oldestRun: { readonly id: string; readonly flowName: string; readonly startedAt: number } | null;
  /** `at` is when it arrived. */
  readonly oldestHeld: { readonly deliveryId: string; readonly flowId: string; readonly at: number } | null;
  /** When the nonce ended that has ended first and is still kept. */
  readonly oldestNonceEnd: number | null;
  /** Counting goes no further than this. */
  readonly mostDue: number;
  /** How many rows retention deletes next. */
  readonly due: Readonly<Record<DueKind, number>>;
}

export type DueKind = 'nonces' | 'runs' | 'deliveries' | 'activity';

/** Rows that are older than these are deleted; null where they are kept for ever. */
export type DeletedBefore = Readonly<Record<DueKind, number | null>>;

export interface ExaminationRequest {
  readonly before: DeletedBefore;
  /** Leaves out what reads the whole database. */
  readonly isQuick: boolean;
}

/** How a schema differs from the one that migrations make. */
export interface SchemaDifference {
  /** What migrations make and the schema lacks, or has in another form; a line each. */
  readonly lacks: readonly string[];
  /** Triggers, views, and indexes of our tables that no migration made: they may change what is written, or slow it. */
  readonly foreign: readonly string[];
}
