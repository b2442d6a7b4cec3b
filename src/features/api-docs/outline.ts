/** The part of JSON Schema that the answers and bodies of the API use. */
export interface Schema {
  readonly $ref?: string | undefined;
  readonly type?: string | readonly string[] | undefined;
  readonly format?: string | undefined;
  readonly description?: string | undefined;
  readonly const?: unknown;
  readonly enum?: readonly unknown[] | undefined;
  readonly properties?: Readonly<Record<string, Schema>> | undefined;
  readonly required?: readonly string[] | undefined;
  readonly additionalProperties?: Schema | boolean | undefined;
  readonly items?: Schema | undefined;
  readonly anyOf?: readonly Schema[] | undefined;
  readonly minimum?: number | undefined;
  readonly maximum?: number | undefined;
  readonly maxLength?: number | undefined;
}

const REFERENCE = '#/components/schemas/';
const FORMATS: Readonly<Record<string, string>> = { uuid: 'GUID', 'date-time': 'time' };
/** Shortens a longer list of names; the page shows the whole list of a parameter. */
const SHORT_LIST = 8;

/**
 * Writes a schema as a person would: `{ id: GUID, startedAt: time }`, one field a line, followed by its description.
 * `named` has the schemas of references.
 */
export function outline(schema: Schema, named: Readonly<Record<string, Schema>>, indent = ''): string {
  const { $ref, anyOf, items, properties, additionalProperties } = schema;
  if ($ref !== undefined) return outline(named[$ref.slice(REFERENCE.length)] ?? {}, named, indent);
  if (anyOf !== undefined) return anyOf.map((part) => outline(part, named, indent)).join(' | ');
  if (items !== undefined) return `[ ${outline(items, named, indent)} ]`;
  if (properties !== undefined) return fields(schema, named, indent);
  if (typeof additionalProperties === 'object') return `{ any key: ${outline(additionalProperties, named, indent)} }`;
  return scalar(schema);
}

function fields(
  { properties = {}, required }: Schema,
  named: Readonly<Record<string, Schema>>,
  indent: string,
): string {
  const inner = `${indent}  `;
  const lines = Object.entries(properties).map(([name, schema]) => {
    const isOptional = required !== undefined && !required.includes(name);
    const about = schema.description === undefined ? '' : `  // ${schema.description}`;
    return `${inner}${name}${isOptional ? '?' : ''}: ${outline(schema, named, inner)}${about}`;
  });
  return ['{', ...lines, `${indent}}`].join('\n');
}

function scalar({ type, format, const: constant, enum: names, minimum, maximum, maxLength }: Schema): string {
  if (constant !== undefined) return JSON.stringify(constant);
  if (names !== undefined) {
    const shown = names.slice(0, SHORT_LIST).map((name) => JSON.stringify(name));
    return names.length > SHORT_LIST ? `${shown.join(' | ')} | …` : shown.join(' | ');
  }
  const kind = format === undefined ? [type ?? 'any JSON'].flat().join(' | ') : (FORMATS[format] ?? format);
  if (maxLength !== undefined) return `${kind === 'any JSON' ? 'text' : kind}, at most ${maxLength} characters`;
  // Zod limits every integer to the safe range of a double; that is not our limit.
  const isBounded = maximum !== undefined && minimum !== undefined && Math.abs(maximum) < 2_147_483_647;
  return isBounded ? `${kind} from ${minimum} to ${maximum}` : kind;
}
