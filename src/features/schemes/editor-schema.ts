import { z } from 'zod';
import { type JsonSchema, manifestJsonSchema } from '../../manifest/schema.ts';
import { LOOP, LOOP_FIELDS, PINNED_INPUTS, RUN_FLOW } from '../../model/manifest.ts';

/** Names that manifests of an installation can use. */
interface Vocabulary {
  readonly steps: readonly { readonly type: string; readonly inputs: z.ZodType }[];
  /** Names and aliases of signature schemes. */
  readonly schemes: readonly string[];
  /** Names of publishers' address lists. */
  readonly presets: readonly string[];
}

/**
 * The JSON Schema of manifests for completion in editors, with the inputs of each step type and closed lists of names.
 * It only knows the usual spelling, although a start accepts any case.
 */
export function editorSchema({ steps, schemes, presets }: Vocabulary): JsonSchema {
  const schema = structuredClone(manifestJsonSchema()) as Parts;
  const { step } = schema.$defs;
  step.properties.type = { ...step.properties.type, enum: steps.map(({ type }) => type) };
  step.allOf = steps.map(({ type, inputs }) => ({
    if: { properties: { type: { const: type } }, required: ['type'] },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: stepOfType(type, inputs, step.properties),
  }));
  const webhook = schema.properties.triggers.additionalProperties.oneOf.find(
    ({ properties }) => properties.type.const === 'webhook',
  );
  const fields = webhook?.properties.inputs.properties ?? {};
  const named = (field: string, names: readonly string[]) => ({ ...fields[field], enum: [...names] });
  fields.webhookSignatureScheme = named('webhookSignatureScheme', schemes);
  fields.webhookIpAllowListPreset = named('webhookIpAllowListPreset', presets);
  const { description } = fields.webhookIpAllowListPresets ?? {};
  const several = { type: 'array', minItems: 1, items: { enum: [...presets] } };
  fields.webhookIpAllowListPresets = { description, anyOf: [several, { type: 'string' }] };
  return schema;
}

interface Parts extends JsonSchema {
  readonly $defs: { readonly step: { properties: Record<string, JsonSchema>; allOf?: readonly JsonSchema[] } };
  readonly properties: {
    readonly triggers: { readonly additionalProperties: { readonly oneOf: readonly TriggerPart[] } };
  };
}

interface TriggerPart {
  readonly properties: {
    readonly type: JsonSchema;
    readonly inputs: { readonly properties?: Record<string, JsonSchema> };
  };
}

function stepOfType(type: string, inputs: z.ZodType, fields: Readonly<Record<string, JsonSchema>>): JsonSchema {
  if (type === LOOP) return { required: ['forEach', 'steps'], properties: { inputs: { maxProperties: 0 } } };
  const schema = inputsSchema(inputs, type === RUN_FLOW ? PINNED_INPUTS : []);
  const isNeeded = Array.isArray(schema.required) && schema.required.length > 0;
  return {
    properties: {
      inputs: { description: fields.inputs?.description, ...schema },
      ...Object.fromEntries(LOOP_FIELDS.map((field) => [field, false])),
    },
    ...(isNeeded && { required: ['inputs'] }),
  };
}

/**
 * The handler's schema of inputs as written, with placeholders allowed for values other than text. The `constant`
 * inputs accept no expressions.
 */
function inputsSchema(inputs: z.ZodType, constant: readonly string[]): JsonSchema {
  const { $schema, ...schema } = z.toJSONSchema(inputs, { io: 'input', unrepresentable: 'any' });
  // References point into the handler's schema, not the whole one, so its recursive inputs accept anything.
  if (JSON.stringify(schema).includes('"$ref"')) return {};
  if (constant.length === 0) return withPlaceholdersInside(schema);
  const fields = schema.properties ?? {};
  const kept = Object.fromEntries(constant.map((key) => [key, fields[key]]));
  const inside = withPlaceholdersInside(schema);
  return { ...inside, properties: { ...(inside.properties as JsonSchema), ...kept } };
}

const PLACEHOLDER = { type: 'string', pattern: '\\$\\{', description: 'An expression.' };

function withPlaceholdersInside(schema: JsonSchema): JsonSchema {
  const inside: Record<string, unknown> = {};
  for (const [keyword, value] of Object.entries(schema)) {
    if (keyword === 'properties') inside[keyword] = mapValues(value as Record<string, JsonSchema>, orPlaceholder);
    else if (keyword === 'items' || keyword === 'additionalProperties') {
      inside[keyword] = typeof value === 'object' ? orPlaceholder(value as JsonSchema) : value;
    } else if (keyword === 'anyOf' || keyword === 'oneOf') {
      inside.anyOf = (value as JsonSchema[]).map(withPlaceholdersInside);
    } else if (keyword !== 'default' || isScalar(value)) inside[keyword] = value;
  }
  return inside;
}

/** An expression that yields the value is also accepted; a text field accepts it anyway. */
function orPlaceholder(schema: JsonSchema): JsonSchema {
  const { description, default: byDefault, ...rest } = withPlaceholdersInside(schema);
  if (takesText(rest)) return { description, default: byDefault, ...rest };
  return { description, default: byDefault, anyOf: [rest, PLACEHOLDER] };
}

function takesText({ type, anyOf, ...others }: JsonSchema): boolean {
  if (Array.isArray(anyOf)) return anyOf.some(takesText);
  const isOpen = Object.keys(others).every((keyword) => keyword === 'minLength');
  return isOpen && (type === undefined || type === 'string');
}

/** Defaults of other kinds are internal to the handler, not values for a manifest. */
function isScalar(value: unknown): boolean {
  return typeof value !== 'object' || value === null;
}

function mapValues<From, To>(given: Readonly<Record<string, From>>, change: (value: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(given).map(([key, value]) => [key, change(value)]));
}
