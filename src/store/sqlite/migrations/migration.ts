/** One step of the schema. Never changed once released: a database that has it will not run it again. */
export interface Migration {
  /** From 1, without gaps. */
  readonly version: number;
  readonly name: string;
  readonly sql: string;
}
