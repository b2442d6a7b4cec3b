import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { HttpError } from '../errors.ts';
import { MAX_DEPTH } from '../expressions/values.ts';
import { isNestedDeeper, type Json, keepExactNumbers } from '../model/json.ts';

/** The JSON of a request's body as a flow reads it, numbers exact; undefined where there is none. */
export function readJsonBody(request: FastifyRequest): Json | undefined {
  const json = parseRequest(request);
  if (json === undefined) return undefined;
  if (isNestedDeeper(json.text, MAX_DEPTH)) throw new HttpError(400, `body: is nested deeper than ${MAX_DEPTH} levels`);
  return keepExactNumbers(json.value, json.text);
}

/** Bodies reach the routes as bytes. */
function parseRequest(request: FastifyRequest): { readonly value: Json; readonly text: string } | undefined {
  if (!Buffer.isBuffer(request.body) || request.body.byteLength === 0) return undefined;
  const text = request.body.toString('utf8');
  try {
    return { value: JSON.parse(text), text };
  } catch {
    throw new HttpError(400, 'body: is not JSON', 'invalid_json');
  }
}

/** The body as a schema takes it; a mistake is a 400 that names each field. */
export function parseJsonBody<Schema extends z.ZodType>(request: FastifyRequest, schema: Schema): z.output<Schema> {
  const parsed = schema.safeParse(parseRequest(request)?.value ?? {});
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => `${['body', ...path].join('.')}: ${message}`);
  throw new HttpError(400, problems.join('; '));
}

/**
 * The schema of a route whose body `parseJsonBody` parses: it takes everything, and shows the other's shape and an example
 * of it in the OpenAPI document.
 */
export function documentedBody(schema: z.ZodType, example: Json) {
  const { $schema, ...shape } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    // A format says the same, and can be read.
    override: ({ jsonSchema }) => {
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
    },
  });
  return z.unknown().meta({ ...shape, examples: [example] });
}

/** What every command that is accepted or refused answers. */
export const outcomeSchema = z.object({ success: z.boolean(), message: z.string() });
