/** One step of the schema. Never changed once released: a database that has it will not run it again. */
export interface Migration {
  /** Grows from one to the next. */
  readonly version: number;
  readonly name: string;
  readonly sql: string;
}
