import { z } from 'zod';

type JsonSchema = Parameters<typeof z.fromJSONSchema>[0];

export interface Operation<Parameter = unknown> {
  readonly operationId: string;
  readonly parameters?: Parameter[];
  readonly responses: Record<string, { content?: Record<string, { schema: object }> }>;
  readonly requestBody?: { content: Record<string, { schema: object; example: unknown }> };
}

/** Turns a schema of an OpenAPI document into a validator that refuses unnamed fields. */
export function validatorOf(document: { readonly components: { readonly schemas: object } }) {
  const made = new Map<string, z.ZodType>();
  return (schema: object): z.ZodType => {
    const key = JSON.stringify(schema);
    const inlined = JSON.stringify({ ...schema, $defs: document.components.schemas });
    const validator =
      made.get(key) ??
      z.fromJSONSchema(JSON.parse(inlined.replaceAll('#/components/schemas/', '#/$defs/')) as JsonSchema);
    made.set(key, validator);
    return validator;
  };
}
