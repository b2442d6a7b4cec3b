import { z } from 'zod';
import { triggerParts } from '../features/trigger.ts';
import { addressFields } from './fields/addresses.ts';
import { bodySchemaFields } from './fields/body-schema.ts';
import { customFields } from './fields/custom.ts';
import { endpointFields, responseFields, slugFields } from './fields/endpoint.ts';
import { eventIdentityFields } from './fields/event-identity.ts';
import { keyFields } from './fields/keys.ts';
import { rateLimitFields } from './fields/rate-limit.ts';
import { replayFields } from './fields/replay.ts';
import { type FieldRows, fieldsOf, type Held, type Merged, type ReadonlyValue, type Row } from './fields/row.ts';
import { sharingFields } from './fields/sharing.ts';
import { tokenFields } from './fields/tokens.ts';
import type { DeliveryFilter, TriggerObject, TriggerObjects, TriggerPart } from './trigger-part.ts';

export { learnsKey } from './fields/keys.ts';
export type {
  DocsTable,
  Effect,
  FieldDefaults,
  FieldVerdict,
  SchemeTrait,
} from './fields/row.ts';

type FieldsOf<Parts> = {
  readonly [At in keyof Parts]: Parts[At] extends { readonly fields: infer Fields } ? Fields : never;
};

const parts: readonly TriggerPart<FieldRows>[] = triggerParts;
const fieldsOfParts = parts.map(({ fields }) => fields) as unknown as FieldsOf<typeof triggerParts>;

/**
 * Every field of a webhook trigger, one row each, in the order of the schema and of snapshots: those of the kernel and
 * those of features. The row says everything about a field: leaving out a column does not compile, and tests run its
 * examples. A rule that reads other fields names them by `Reads`.
 */
const rows = fieldsOf([
  slugFields,
  keyFields,
  customFields,
  tokenFields,
  replayFields,
  rateLimitFields,
  addressFields,
  bodySchemaFields,
  endpointFields,
  eventIdentityFields,
  sharingFields,
  ...fieldsOfParts,
  responseFields,
]);

type Rows = typeof rows;
type Schemas = { readonly [Field in keyof Rows]: Rows[Field]['schema'] };

const schemas = Object.fromEntries(Object.entries(rows).map(([field, { schema }]) => [field, schema])) as Schemas;

export const webhookInputsSchema = z.strictObject(schemas).partial();

/** The `webhook*` fields of a webhook trigger, in canonical spelling. */
export type WebhookInputs = ReadonlyFields<z.output<typeof webhookInputsSchema>>;

export type WebhookField = keyof Rows;

type ReadonlyFields<Fields> = { readonly [Field in keyof Fields]: ReadonlyValue<Fields[Field]> };

/** All fields by name; one that a trigger leaves out reads as undefined. */
export type AllInputs = { readonly [Field in WebhookField]-?: WebhookInputs[Field] | undefined };

export type WebhookRow<Field extends WebhookField> = Row<WebhookInputs[Field], unknown, AllInputs>;

/** The rows by field. The type checks that fields read by rules exist, with the right type. */
export const WEBHOOK_ROWS: { readonly [Field in WebhookField]: WebhookRow<Field> } = rows;

/** The texts of a field with one value or a list, each with its place. */
export function textsIn(
  inputs: WebhookInputs,
  field: WebhookField,
): { readonly at: readonly (string | number)[]; readonly text: string }[] {
  const written: unknown = inputs[field];
  if (typeof written === 'string') return [{ at: [field], text: written }];
  if (!Array.isArray(written)) return [];
  return written.flatMap((text: unknown, index) => (typeof text === 'string' ? [{ at: [field, index], text }] : []));
}

type Holding<Kind extends Held> = {
  [Field in keyof Rows]: Rows[Field]['holds'] extends Kind ? Field : never;
}[keyof Rows];

const all = Object.keys(rows) as WebhookField[];
const holding = <Kind extends Held>(kind: Kind) =>
  all.filter((field): field is Holding<Kind> => WEBHOOK_ROWS[field].holds === kind);

type ObjectsOf<Parts> = {
  readonly [At in keyof Parts]: Parts[At] extends { readonly objects?: infer Objects } ? NonNullable<Objects> : never;
};
type Objects = Merged<ObjectsOf<typeof triggerParts>>;

/** The objects of a webhook trigger next to its inputs, as written or with secrets read. */
export type ObjectsOfTrigger = {
  readonly [Name in keyof Objects]?: Objects[Name] extends TriggerObject<infer Schema>
    ? z.output<Schema> | undefined
    : never;
};

/** By name, in the order of snapshots. */
export const TRIGGER_OBJECTS: TriggerObjects = Object.assign({}, ...parts.map(({ objects }) => objects));

/** Warnings of features about a trigger. */
export const triggerWarnings = parts.flatMap(({ warnings = [] }) => warnings);
export const handshakesOfFields = parts.flatMap(({ handshakes = [] }) => handshakes);
const filters = parts.flatMap(({ filter = [] }) => filter);

/** The first filter that a feature reads from the inputs; undefined if every accepted delivery starts a run. */
export const filterOf = (inputs: WebhookInputs): DeliveryFilter | undefined =>
  filters.flatMap((read) => read(inputs) ?? [])[0];

export const WEBHOOK_FIELDS = {
  all: all as readonly string[],
  /** Fields that contain a secret. */
  secret: holding('secret'),
  /** Fields in which references to secrets are read. */
  reference: [...holding('secret'), ...holding('reference'), ...holding('file')],
} as const;
