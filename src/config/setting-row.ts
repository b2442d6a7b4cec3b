import { z } from 'zod';
import type { SecretReader } from '../manifest/read-secret.ts';

/** Everything about a setting but its name. The row is the documentation, from which docs/settings.md and `--help` are made. */
export interface SettingRow<Schema extends z.ZodType = z.ZodType> {
  readonly schema: Schema;
  /** The environment variable that sets the option. */
  readonly variable: string;
  /** A `secret` may be a reference, and is never printed; an `address` likewise, but for its credentials; `private` is never printed. */
  readonly contents: 'secret' | 'address' | 'private' | 'open';
  /** Whether the replicas of one database must agree; with `access` it decides which deliveries get in, and more are told. */
  readonly replicas: 'access' | 'same' | 'own';
  /** Values, as an error names them. */
  readonly accepts: string;
  /** What the option does, in whole sentences. */
  readonly meaning: string;
  /** Reads and checks what was given, before the schema sees it; yields a line for each mistake, without secrets. */
  read?(given: unknown, read: SecretReader): { readonly value: unknown } | { readonly lines: readonly string[] };
  /** What is wrong with a value that is set and fits the schema; not for what another setting decides. */
  problem?(value: NonNullable<z.output<Schema>>): string | undefined;
  /** A reload takes it up too; the credentials, which it always does, need not say so. */
  readonly isReadAgain?: true;
  /** A mistake is told in the schema's words besides. */
  readonly tellsWhy?: true;
}

export type SettingRows = Readonly<Record<string, SettingRow>>;

type Described<Schema extends z.ZodType> = Omit<SettingRow<Schema>, 'schema'>;

export const option = <Schema extends z.ZodType>(schema: Schema, described: Described<Schema>): SettingRow<Schema> => ({
  schema,
  ...described,
});

export const flag = () => z.union([z.boolean(), z.stringbool({ truthy: ['true', '1'], falsy: ['false', '0'] })]);

export const integer = (min: number, max: number) =>
  z
    .union([
      z.number(),
      z
        .string()
        .regex(/^\d{1,16}$/)
        .transform(Number),
    ])
    .pipe(z.int().min(min).max(max));

export const secret = () => z.string().min(1);
