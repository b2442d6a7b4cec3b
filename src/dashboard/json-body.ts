import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { HttpError } from '../errors.ts';
import type { Json } from '../model/json.ts';

/** The JSON of a request's body; undefined where there is none. Bodies reach the routes as bytes. */
export function readJsonBody(request: FastifyRequest): Json | undefined {
  if (!Buffer.isBuffer(request.body) || request.body.byteLength === 0) return undefined;
  try {
    return JSON.parse(request.body.toString('utf8')) as Json;
  } catch {
    throw new HttpError(400, 'body: is not JSON', 'invalid_json');
  }
}

/** The body as a schema takes it; a mistake is a 400 that names each field. */
export function parseJsonBody<Schema extends z.ZodType>(request: FastifyRequest, schema: Schema): z.output<Schema> {
  const parsed = schema.safeParse(readJsonBody(request) ?? {});
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
