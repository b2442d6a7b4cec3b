/** One step of the schema of both stores. Never changed once released: a database that has it will not run it again. */
export interface SharedMigration {
  /** Increases from one to the next. */
  readonly version: number;
  readonly name: string;
  /** The oldest version of the schema whose release still works on a PostgreSQL database that has this one. */
  readonly compatibleFrom: number;
  /** Tables of earlier migrations that it changes: PostgreSQL locks them first. */
  readonly locks?: readonly string[];
  /** In PostgreSQL's words; see `toSqlite`. */
  readonly sql: string;
  /** Statements that follow in one store only. */
  readonly ofPostgres?: string;
  readonly ofSqlite?: string;
}
