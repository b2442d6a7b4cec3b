import { z } from 'zod';
import type { SecretReader } from '../manifest/read-secret.ts';

/** Everything about a setting except its name. docs/settings.md and `--help` are made from it. */
export interface SettingRow<Schema extends z.ZodType = z.ZodType> {
  readonly schema: Schema;
  /** The environment variable that sets the option. */
  readonly variable: string;
  /** `secret`: can be a reference, never printed. `address`: the same for its credentials. `private`: never printed. */
  readonly contents: 'secret' | 'address' | 'private' | 'open';
  /** Whether replicas of one database must agree; `access` decides which deliveries get in, and deploys compare it. */
  readonly replicas: 'access' | 'same' | 'own';
  /** The accepted values, in the words of an error. */
  readonly accepts: string;
  /** What the option does, in whole sentences. */
  readonly meaning: string;
  /** Reads and checks the given value before the schema; yields one line per mistake, without secrets. */
  read?(given: unknown, read: SecretReader): { readonly value: unknown } | { readonly lines: readonly string[] };
  /** The problem of a value that fits the schema, unless another setting decides it. */
  problem?(value: NonNullable<z.output<Schema>>): string | undefined;
  /** A reload applies it too. */
  readonly isReadAgain?: true;
  /** It names who has access, by credentials or as people of groups; if it is set, nobody else has it. */
  readonly admits?: 'credentials' | 'people';
  /** Errors also quote the schema's own message. */
  readonly tellsWhy?: true;
}

export type SettingRows = Readonly<Record<string, SettingRow>>;

type Described<Schema extends z.ZodType> = Omit<SettingRow<Schema>, 'schema'>;

export const option = <Schema extends z.ZodType>(schema: Schema, described: Described<Schema>): SettingRow<Schema> => ({
  schema,
  ...described,
});

export const flag = () => z.union([z.boolean(), z.stringbool({ truthy: ['true', '1'], falsy: ['false', '0'] })]);

const integer = (min: number, max: number) =>
  z
    .union([
      z.number(),
      z
        .string()
        .regex(/^\d{1,16}$/)
        .transform(Number),
    ])
    .pipe(z.int().min(min).max(max));

/** An option that is an integer. The same bounds are checked and named; `also` is the rest of what is accepted. */
export const wholeNumber = <Schema extends z.ZodType>(
  [min, max, also = '']: readonly [min: number, max: number, also?: string],
  optional: (number: ReturnType<typeof integer>) => Schema,
  described: Omit<Described<Schema>, 'accepts'>,
): SettingRow<Schema> =>
  option(optional(integer(min, max)), { ...described, accepts: `an integer from ${min} to ${max}${also}` });

export const secret = () => z.string().min(1);
