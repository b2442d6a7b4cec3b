import { z } from 'zod';
import type { JsonObject } from '../model/json.ts';
import type { RouteAccess } from './actors.ts';
import { errorSchema } from './answer.ts';
import { type CommandBody, documentedBody } from './input.ts';
import type { FlowLimit } from './sight.ts';

/** The group of an operation in the document and on the API's page. */
export type Tag = 'receive' | 'deliveries' | 'runs' | 'flows' | 'schedules' | 'service';

/** Input and answer of one guarded operation; `route` adds everything that all of them share. */
interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly params?: z.ZodType;
  /** If absent, any query is refused; `any` leaves the query unread. */
  readonly query?: z.ZodType | 'any';
  readonly headers?: z.ZodType;
  readonly body?: z.ZodType;
  /** The body of a command with more fields than the reason, and an example of it. */
  readonly command?: readonly [body: CommandBody, example: JsonObject];
  /** The body of a 200. */
  readonly answer: z.ZodType | TextAnswer;
  /** Statuses of refusals that only some operations have. */
  readonly refusals?: readonly (404 | 409 | 415)[];
  /** Refusals with their own shape. */
  readonly refusalShapes?: Readonly<Partial<Record<Refusal, z.ZodType>>>;
  readonly access?: RouteAccess;
  readonly limit: FlowLimit;
}

/** A 200 with text of this content type. */
interface TextAnswer {
  readonly description: 'OK';
  readonly content: { readonly [contentType: string]: { readonly schema: z.ZodString } };
}

export const textAnswer = (contentType: string): TextAnswer => ({
  description: 'OK',
  content: { [contentType]: { schema: z.string() } },
});

const NO_QUERY = z.strictObject({});

type Refusal = 400 | 401 | 403 | 404 | 409 | 413 | 415 | 503;
type RefusalShapes<O extends Operation> = O['refusalShapes'] extends object ? O['refusalShapes'] : object;

interface RouteOptions<O extends Operation> {
  readonly config: {
    readonly access: RouteAccess;
    readonly limit: FlowLimit;
    readonly command: CommandBody | undefined;
  };
  readonly schema: {
    readonly params: O['params'];
    readonly querystring: O['query'] extends z.ZodType ? O['query'] : typeof NO_QUERY;
    readonly headers: O['headers'];
    readonly body: O['body'];
    readonly response: { readonly 200: O['answer'] } & RefusalShapes<O> &
      Omit<Readonly<Record<Refusal, typeof errorSchema>>, keyof RefusalShapes<O>>;
  };
}

/**
 * Options of a guarded Fastify route. Any such route can answer that the input is wrong, that credentials are missing,
 * that the request is not allowed from there, and that the store is away; one with a body can find it too large.
 */
export function route<const O extends Operation>(tag: Tag, operation: O): RouteOptions<O> {
  const { query = NO_QUERY, answer, refusals = [], refusalShapes, access = {}, limit, command, ...given } = operation;
  const documented = command === undefined ? given : { ...given, body: documentedBody(...command) };
  const statuses = [400, 401, 403, 503, ...(documented.body === undefined ? [] : [413]), ...refusals];
  const schema = {
    tags: [tag],
    ...documented,
    ...(query !== 'any' && { querystring: query }),
    response: {
      ...Object.fromEntries(statuses.map((status) => [status, errorSchema])),
      ...refusalShapes,
      200: answer,
    },
  };
  // The compiler cannot follow the optional parts of a type parameter; Fastify reads the types of the handler from
  // here.
  return { schema, config: { access, limit, command: command?.[0] } } as unknown as RouteOptions<O>;
}
