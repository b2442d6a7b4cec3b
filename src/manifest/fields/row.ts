import type { z } from 'zod';
import type { FindingClass } from '../../model/finding.ts';
import type { Json } from '../../model/json.ts';
import type { EnforcementMode } from '../../model/manifest.ts';

/**
 * Everything that is said of one field of a webhook trigger. The manifest's schema, the reference, the checks, the findings
 * of a deploy, the comparison of access and the tests of each field read it here.
 */
export interface Row<Value, Written, Inputs> {
  /** With a description: it is the field's line in the reference and in editors. */
  readonly schema: z.ZodType;
  readonly holds: Held;
  /** The parts of an entrance that it decides, by itself or with others. */
  readonly decides: readonly EntrancePart[] | 'route' | 'answer';
  readonly readBy: 'every scheme' | readonly SchemeTrait[];
  /** Its table in the reference. */
  readonly docs: DocsTable;
  /** What a deploy says of another value, and edits with their effects, which tests run. */
  readonly change: {
    /** `own rule` if a rule in `deploys/changes` finds it. */
    readonly rule: FieldRule<Value | undefined, Inputs> | 'own rule';
    readonly edits: FieldEdits<Written | undefined>;
  };
  /** Where triggers share a slug, each has its own, whatever an operator's gate makes of it. */
  readonly isOwnOnSharedSlug?: true;
  /** The field that it stands before in the schema and in snapshots, whose hashes depend on it; else that is as listed. */
  readonly before?: string;
  /** Replaces a value that does not fit while other fields are judged: any gate can work with it. */
  readonly plain?: unknown;
}

/** A row whose rule and examples fit its schema. */
export interface FieldRow<Schema extends z.ZodType, Holds extends Held, Inputs>
  extends Row<FieldValue<Schema>, z.input<Schema>, Inputs> {
  readonly schema: Schema;
  readonly holds: Holds;
  readonly plain?: FieldValue<Schema>;
}

/** A `secret` is masked where the manifest is stored and shown; a `file` is no secret and is stored by its content. */
export type Held = 'secret' | 'reference' | 'file' | 'value';

/** A part of what decides who gets in. `webhooks/access.ts` compares each. */
export type EntrancePart =
  | 'mode'
  | 'ip'
  | 'unverifiedRateLimit'
  | 'rateLimit'
  | 'signature'
  | 'replay'
  | 'bodySchema'
  | 'eventId'
  | 'shared';

/** What a scheme is or does so that it reads a field. `webhooks/scheme-fields.ts` knows the schemes. */
export type SchemeTrait =
  | 'custom'
  | 'short spec'
  | 'names no header'
  | 'jwt'
  | 'message signatures'
  | 'publisher asks for it'
  | 'may sign with SHA-1'
  | 'has a test system'
  | 'hands over its key'
  | 'needs a verify token';

export type DocsTable =
  | 'endpoint'
  | 'runs'
  | 'signature'
  | 'standards'
  | 'replay'
  | 'rateLimit'
  | 'addresses'
  | 'bodySchema'
  | 'custom';

type FieldValue<Schema extends z.ZodType> = ReadonlyValue<z.output<Schema>>;
export type ReadonlyValue<Value> = Value extends string[] ? readonly string[] : Value;

/** Compares what is in force before and after. */
type FieldRule<Value, Inputs> = (before: Value, after: Value, triggers: Triggers<Inputs>) => FieldVerdict;

/** What else decides; a rule names the other fields that it reads as `Inputs`, by `Reads`. */
export interface Triggers<Inputs> {
  readonly from: Inputs;
  readonly to: Inputs;
  readonly service: FieldDefaults;
}

/** Fields that a rule reads. A name that is not a field does not compile. */
export type Reads<Names extends string, Value> = Readonly<Record<Names, Value | undefined>>;

/** What the service sets where a trigger leaves a field out. */
export interface FieldDefaults {
  readonly enforcementMode: EnforcementMode;
  readonly replayToleranceSeconds: number;
  readonly rateLimitPermitsPerSecond?: number | undefined;
  readonly rateLimitBurstSize?: number | undefined;
  readonly rateLimitPerIp?: boolean | undefined;
}

/** What another value does to who gets in; `same` for what only changes an answer, or nothing. */
export type Effect = 'weaker' | 'stronger' | 'other' | 'same';

export interface FieldVerdict {
  readonly effect: Effect;
  readonly consequence: string;
  /** Of a field that lists addresses: which the gate accepts. */
  readonly addresses?: string;
}

/** Examples of edits with their effects, for tests; `undefined` where the trigger leaves the field out. */
export interface FieldEdits<Value> {
  /** What the trigger has as well. */
  readonly with?: Readonly<Record<string, Json>>;
  /** From the strictest to the laxest: a step forth is weaker, a step back is stronger. */
  readonly ladders?: readonly (readonly Value[])[];
  /** Neither weaker nor stronger, in either direction. */
  readonly other?: readonly (readonly [Value, Value])[];
  /** Changes no more than an answer, in either direction. */
  readonly same?: readonly (readonly [Value, Value])[];
  /** In this direction alone: the effect, or the rule and the class of the finding. */
  readonly oneWay?: readonly (readonly [from: Value, to: Value, expected: Effect | `${string} ${FindingClass}`])[];
}

export function field<Schema extends z.ZodType, const Holds extends Held, Inputs = unknown>(
  row: FieldRow<Schema, Holds, Inputs>,
): FieldRow<Schema, Holds, Inputs> {
  return row;
}

/** Rows by the names of their fields, such as those of one feature. */
export type FieldRows = Readonly<Record<string, Row<never, unknown, never>>>;

/** All that is in the groups of a list. */
export type Merged<Groups> = Groups extends readonly [infer First, ...infer Rest] ? First & Merged<Rest> : unknown;

/** All rows of some groups, in their order but for those that stand before others. */
export function fieldsOf<const Groups extends readonly FieldRows[]>(groups: Groups): Merged<Groups> {
  const rows: [string, FieldRows[string]][] = [];
  for (const [name, row] of groups.flatMap((group) => Object.entries(group))) {
    if (rows.some(([known]) => known === name)) throw new Error(`${name} is a field of two groups`);
    const at = rows.findIndex(([other]) => other === row.before);
    rows.splice(at === -1 ? rows.length : at, 0, [name, row]);
  }
  return Object.fromEntries(rows) as Merged<Groups>;
}
