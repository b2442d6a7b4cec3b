import type { z } from 'zod';
import type { FindingClass } from '../../model/finding.ts';
import type { Json } from '../../model/json.ts';
import type { EnforcementMode } from '../../model/manifest.ts';

/**
 * Everything about one field of a webhook trigger. The manifest's schema, the reference, the checks, the findings of a
 * deploy, the comparison of access and the tests of each field read it here.
 */
export interface Row<Value, Written, Inputs> {
  /** With a description, which is the field's line in the reference and in editors. */
  readonly schema: z.ZodType;
  readonly holds: Held;
  /** The parts of an entrance that it decides, alone or with other fields. */
  readonly decides: readonly EntrancePart[] | 'route' | 'answer';
  readonly readBy: 'every scheme' | readonly SchemeTrait[];
  /** Its table in the reference. */
  readonly docs: DocsTable;
  /** How a deploy describes a changed value, and edits with their effects, which tests run. */
  readonly change: {
    /** `own rule` if a rule in `deploys/changes` finds it. */
    readonly rule: FieldRule<Value | undefined, Inputs> | 'own rule';
    readonly edits: FieldEdits<Written | undefined>;
  };
  /** Triggers that share a slug can differ in it, whatever effect it has on an operator's gate. */
  readonly isOwnOnSharedSlug?: true;
  /** Its run answers the delivery: only one trigger of a shared slug can have it. */
  readonly answersByRun?: true;
  /** The field that follows it in the schema and in snapshots, whose hashes depend on order; by default, as listed. */
  readonly before?: string;
  /** Replaces a value that does not fit while other fields are checked: any gate can work with it. */
  readonly plain?: unknown;
}

/** A row whose rule and examples fit its schema. */
export interface FieldRow<Schema extends z.ZodType, Holds extends Held, Inputs>
  extends Row<FieldValue<Schema>, z.input<Schema>, Inputs> {
  readonly schema: Schema;
  readonly holds: Holds;
  readonly plain?: FieldValue<Schema>;
}

/** A `secret` is masked in stored and shown manifests; a `file` is not secret, and its content is stored. */
export type Held = 'secret' | 'reference' | 'file' | 'value';

/** A part of the decision which deliveries get in. `webhooks/access.ts` compares each. */
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

/** A trait that makes a scheme read a field. `webhooks/scheme-fields.ts` knows the schemes. */
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

/** Compares the effective values before and after. */
type FieldRule<Value, Inputs> = (before: Value, after: Value, triggers: Triggers<Inputs>) => FieldVerdict;

/** Other inputs of the decision; a rule names the other fields that it reads as `Inputs`, by `Reads`. */
export interface Triggers<Inputs> {
  readonly from: Inputs;
  readonly to: Inputs;
  readonly service: FieldDefaults;
}

/** Fields that a rule reads. A wrong field name does not compile. */
export type Reads<Names extends string, Value> = Readonly<Record<Names, Value | undefined>>;

/** The service's settings for fields that a trigger leaves out. */
export interface FieldDefaults {
  readonly enforcementMode: EnforcementMode;
  readonly replayToleranceSeconds: number;
  readonly rateLimitPermitsPerSecond?: number | undefined;
  readonly rateLimitBurstSize?: number | undefined;
  readonly rateLimitPerIp?: boolean | undefined;
}

/** The effect of a changed value on access; `same` if only an answer changes, or nothing. */
export type Effect = 'weaker' | 'stronger' | 'other' | 'same';

export interface FieldVerdict {
  readonly effect: Effect;
  readonly consequence: string;
  /** For a field that lists addresses: those that the gate accepts. */
  readonly addresses?: string;
}

/** Examples of edits with their effects, for tests; `undefined` if the trigger leaves out the field. */
export interface FieldEdits<Value> {
  /** Other inputs of the trigger. */
  readonly with?: Readonly<Record<string, Json>>;
  /** From the strictest to the most lenient: a step forward is weaker, a step back is stronger. */
  readonly ladders?: readonly (readonly Value[])[];
  /** Neither weaker nor stronger, in either direction. */
  readonly other?: readonly (readonly [Value, Value])[];
  /** Changes only an answer or nothing, in either direction. */
  readonly same?: readonly (readonly [Value, Value])[];
  /** Only in this direction: the effect, or the rule and the class of the finding. */
  readonly oneWay?: readonly (readonly [from: Value, to: Value, expected: Effect | `${string} ${FindingClass}`])[];
}

export function field<Schema extends z.ZodType, const Holds extends Held, Inputs = unknown>(
  row: FieldRow<Schema, Holds, Inputs>,
): FieldRow<Schema, Holds, Inputs> {
  return row;
}

/** Rows by the names of their fields, such as those of one feature. */
export type FieldRows = Readonly<Record<string, Row<never, unknown, never>>>;

/** All properties of the groups in a list. */
export type Merged<Groups> = Groups extends readonly [infer First, ...infer Rest] ? First & Merged<Rest> : unknown;

/** All rows of some groups, in their order except for rows with `before`. */
export function fieldsOf<const Groups extends readonly FieldRows[]>(groups: Groups): Merged<Groups> {
  const rows: [string, FieldRows[string]][] = [];
  for (const [name, row] of groups.flatMap((group) => Object.entries(group))) {
    if (rows.some(([known]) => known === name)) throw new Error(`${name} is a field of two groups`);
    const at = rows.findIndex(([other]) => other === row.before);
    rows.splice(at === -1 ? rows.length : at, 0, [name, row]);
  }
  return Object.fromEntries(rows) as Merged<Groups>;
}
