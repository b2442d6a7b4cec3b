/* The choices that the JSON Schema of manifests allows at a place. Pure: the editor finds the place of the cursor. */

/** The part of JSON Schema that the manifests' schema uses. */
export interface Schema {
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, Schema>>;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, Schema | boolean>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema | boolean;
  readonly allOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly if?: Schema;
  readonly then?: Schema;
}

/** An object or array around a place. */
export interface Around {
  /** The key that leads to it; null for the whole document. */
  readonly key: string | number | null;
  /** The value of its property `type`, which decides on its other properties. */
  readonly type: string | undefined;
}

interface Name {
  readonly name: string;
  readonly description: string | undefined;
  readonly schema: Schema;
}

/** The properties that the innermost of `around`, outermost first, can have. */
function names(root: Schema, around: readonly Around[]): Name[] {
  const found = new Map<string, Name>();
  for (const { properties = {} } of schemasAt(root, around)) {
    for (const [name, schema] of Object.entries(properties)) {
      if (schema === false) found.delete(name);
      else if (schema !== true) found.set(name, { name, description: describe(schema, root), schema });
    }
  }
  return [...found.values()];
}

/** The allowed values of a property, or an item, of the innermost of `around`, if they are a closed list. */
function values(root: Schema, around: readonly Around[], key: string | number): unknown[] {
  const found = schemasAt(root, [...around, { key, type: undefined }]).flatMap((schema) => {
    if (schema.const !== undefined) return [schema.const];
    if (schema.enum !== undefined) return schema.enum;
    return schema.type === 'boolean' ? [true, false] : [];
  });
  return [...new Set(found)];
}

export const choices = { names, values };

function schemasAt(root: Schema, around: readonly Around[]): Schema[] {
  let found: Schema[] = [root];
  for (const { key, type } of around) {
    const own = key === null ? found : found.flatMap((schema) => child(schema, key));
    found = own.flatMap((schema) => parts(schema, type, root));
  }
  return found;
}

function child({ properties = {}, additionalProperties, items }: Schema, key: string | number): Schema[] {
  const found =
    typeof key === 'number' ? items : Object.hasOwn(properties, key) ? properties[key] : additionalProperties;
  return typeof found === 'object' ? [found] : [];
}

/** A schema and its parts, without parts for other types of triggers or steps. */
function parts(schema: Schema, type: string | undefined, root: Schema): Schema[] {
  const whole = schema.$ref === undefined ? schema : { ...schema, ...resolve(schema.$ref, root) };
  const { allOf = [], anyOf = [], oneOf = [] } = whole;
  const nested = [...allOf, ...anyOf, ...oneOf].flatMap((part) => {
    if (part.if === undefined) return isFor(part, type) ? [part] : [];
    return part.then !== undefined && type !== undefined && isFor(part.if, type) ? [part.then] : [];
  });
  return [whole, ...nested.flatMap((part) => parts(part, type, root))];
}

function isFor({ properties }: Schema, type: string | undefined): boolean {
  const wanted = properties?.type;
  return type === undefined || typeof wanted !== 'object' || wanted.const === undefined || wanted.const === type;
}

function resolve(reference: string, root: Schema): Schema {
  return root.$defs?.[reference.replace('#/$defs/', '')] ?? {};
}

function describe(schema: Schema, root: Schema): string | undefined {
  return schema.description ?? (schema.$ref === undefined ? undefined : resolve(schema.$ref, root).description);
}
