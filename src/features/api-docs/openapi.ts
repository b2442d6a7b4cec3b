import swagger from '@fastify/swagger';
import Fastify, { type RouteOptions } from 'fastify';
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod';
import type { OpenAPIV3_1 } from 'openapi-types';
import { z } from 'zod';
import { READING_METHODS, scopeOf } from '../../dashboard/actors.ts';
import { COMMAND, documentedBodies, documentedBody } from '../../dashboard/input.ts';
import type { Tag } from '../../dashboard/route.ts';
import { REASON_CODES, type Reason } from '../../model/delivery.ts';
import { REASONS } from '../../webhooks/answers.ts';

// Not imported, as in webhooks/answers.ts.
const { STATUS_CODES } = process.getBuiltinModule('node:http');

const TAGS: Readonly<Record<Tag, string>> = {
  receive: 'Where publishers send',
  deliveries: 'What webhooks received',
  runs: 'What flows did',
  flows: 'What is deployed',
  schedules: 'When cron triggers fire',
  service: 'The process itself',
};

export type OpenApiDocument = OpenAPIV3_1.Document;

/**
 * The OpenAPI document of routes. It is made on a separate server that never listens, so that the service need not load
 * this module at start: the module and its dependencies take 40 ms of CPU.
 */
export async function describeRoutes(routes: readonly RouteOptions[], version: string): Promise<OpenApiDocument> {
  const app = Fastify({ exposeHeadRoutes: false });
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => JSON.stringify);
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Sluice',
        version,
        description:
          'What the service receives, shows and does. Times are ISO 8601 in UTC, GUIDs are lower-case in answers.',
      },
      components: {
        securitySchemes: { basic: { type: 'http', scheme: 'basic' }, bearer: { type: 'http', scheme: 'bearer' } },
      },
      security: [{ basic: [] }, { bearer: [] }],
      tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    },
    transform: describeRoute,
    transformObject: (document) =>
      withReceiveEndpoint(dropUnused(letBodiesBeAbsent(jsonSchemaTransformObject(document)))),
  });
  for (const route of routes) app.route({ ...withScope(withBody(withCommand(route))), handler: () => {} });
  await app.ready();
  return app.swagger() as OpenApiDocument;
}

/** A command that documents no body accepts a reason. */
function withCommand(route: RouteOptions): RouteOptions {
  const { method, schema } = route;
  if (READING_METHODS.has(String(method)) || schema?.body !== undefined || schema?.hide === true) return route;
  return { ...route, schema: { ...schema, body: documentedBody(COMMAND, { reason: 'the shop asked for it' }) } };
}

function withBody(route: RouteOptions): RouteOptions {
  const { schema } = route;
  if (typeof schema?.body !== 'object' || schema.body === null) return route;
  return { ...route, schema: { ...schema, body: withShape(schema.body) } };
}

function withShape(body: object): object {
  const given = documentedBodies.get(body);
  if (given === undefined) return body;
  const { $schema, ...shape } = z.toJSONSchema(given.schema, {
    io: 'input',
    unrepresentable: 'any',
    // The format means the same and is readable.
    override: ({ jsonSchema }) => {
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
    },
  });
  return z.unknown().meta({ ...shape, examples: [given.example] });
}

/** The scope that an operation needs, in OpenAPI 3.1's form of roles for any kind of credentials. */
function withScope(route: RouteOptions): RouteOptions {
  const { method, config, schema } = route;
  if (schema?.security !== undefined || schema?.hide === true) return route;
  const needed = [scopeOf(String(method), config?.access)];
  return { ...route, schema: { ...schema, security: [{ basic: needed }, { bearer: needed }] } };
}

const describeRoute: typeof jsonSchemaTransform = (route) => {
  const { schema, url } = jsonSchemaTransform(route);
  const responses = Object.entries(schema.response ?? {}).map(([code, response]) => [
    code,
    { description: STATUS_CODES[code], ...response },
  ]);
  return { schema: { ...schema, ...(responses.length > 0 && { response: Object.fromEntries(responses) }) }, url };
};

type Document = ReturnType<typeof jsonSchemaTransformObject>;

/** Puts the receive endpoint first. */
function withReceiveEndpoint(document: Document): Document {
  return { ...document, paths: { ...receiveEndpoint, ...document.paths } } as Document;
}

/** Makes bodies without required fields optional. */
function letBodiesBeAbsent(document: Document): Document {
  for (const path of Object.values(document.paths ?? {})) {
    for (const { requestBody } of Object.values<{ requestBody?: RequestBody }>(path ?? {})) {
      if (requestBody === undefined) continue;
      requestBody.required = Object.values(requestBody.content).some(
        ({ schema }) => schema.type === 'array' || (schema.required ?? []).length > 0,
      );
    }
  }
  return document;
}

interface RequestBody {
  required: boolean;
  readonly content: Readonly<
    Record<string, { readonly schema: { readonly type?: string; readonly required?: readonly string[] } }>
  >;
}

/**
 * Each registered shape exists once for input and once for output; drops those that no operation uses. The others are
 * in the order of their first use, because the order of registration changes with any import.
 */
function dropUnused(document: Document): Document {
  if (!('components' in document)) return document;
  const schemas: Record<string, unknown> = document.components?.schemas ?? {};
  const used = new Set<string>();
  const follow = (part: unknown): void => {
    for (const [, name = ''] of JSON.stringify(part).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      if (used.has(name)) continue;
      used.add(name);
      follow(schemas[name]);
    }
  };
  follow(document.paths);
  const kept = Object.fromEntries([...used].map((name) => [name, schemas[name]]));
  return { ...document, components: { ...document.components, schemas: kept } } as Document;
}

const EXAMPLE_ID = '0199a2b4-7c1e-7d3a-9b52-3f0f8d1c2a10';
const id = { type: 'string', format: 'uuid' };

/** An answer for several flows can also have `duplicate`, `held` or `filtered`, like that for one. */
const sharedRuns = {
  type: 'array',
  items: {
    type: 'object',
    properties: { flowId: id, triggerKey: { type: 'string' }, runId: id },
    required: ['flowId', 'triggerKey', 'runId'],
    additionalProperties: false,
  },
};

const idOrSlug = {
  name: 'idOrSlug',
  in: 'path',
  required: true,
  description: 'The slug of the trigger, or the id of the flow for its first webhook trigger; any case.',
  schema: { type: 'string' },
};

const queryOf = (name: string, description: string) => ({
  name,
  in: 'query',
  required: false,
  description,
  schema: { type: 'string' },
});

/** Reasons that only apply to requests with a body, or to recorded deliveries. */
const OF_DELIVERIES: ReadonlySet<Reason> = new Set([
  'body_too_large',
  'encoding_not_supported',
  'invalid_encoding',
  'invalid_json',
  'body_schema',
  'idempotency_conflict',
  'nonce_replayed',
]);

/**
 * The receive endpoint in OpenAPI's terms. It is not a route of the dashboard, and answers publishers as they document.
 * Its refusals come from the table of reasons.
 */
const receiveEndpoint = {
  '/flows/api/webhook/{idOrSlug}': {
    post: {
      tags: ['receive'],
      operationId: 'receiveDelivery',
      summary: 'Receives a delivery; a 200 means that its run is durable',
      description:
        'Needs no credentials: the gates of the trigger decide. The signature covers the body byte for byte; then its content-encoding and charset are decoded. ' +
        'Gates refuse only under Enforce; 400, 403 for a disabled flow, 404, 405, 413, 415 and 503 are the same in every mode. ' +
        'HEAD is answered with 200 if the scheme of the trigger has a handshake that uses it (Trello, Intercom), otherwise ' +
        'with 405.',
      security: [],
      parameters: [
        idOrSlug,
        {
          name: 'idempotency-key',
          in: 'header',
          required: false,
          description:
            'A key that the trigger has seen before starts no second run; with another body it is refused with 409.',
          schema: { type: 'string' },
        },
      ],
      requestBody: {
        required: false,
        content: {
          'application/json': { schema: { description: 'What the publisher sends.' }, example: { order: 7 } },
          '*/*': { schema: { description: 'Any bytes.' } },
        },
      },
      responses: {
        200: acceptedAnswer(),
        204: { description: 'A handshake of Discord' },
        408: refusal(408, []),
        ...refusals(REASON_CODES),
      },
    },
    get: {
      tags: ['receive'],
      operationId: 'answerHandshake',
      summary: 'Answers the handshake of a publisher that tests the URL with GET',
      description:
        'Meta and Dropbox send one when the URL is saved, and so may your own schemes. It starts no run. Needs no credentials. ' +
        'A trigger whose scheme has no such handshake answers 405. The query is what the publisher documents.',
      security: [],
      parameters: [
        idOrSlug,
        queryOf('challenge', 'Dropbox: what the answer repeats.'),
        queryOf('hub.mode', 'Meta: `subscribe`.'),
        queryOf('hub.verify_token', 'Meta: the `webhookVerifyToken` of the trigger.'),
        queryOf('hub.challenge', 'Meta: what the answer repeats.'),
      ],
      responses: {
        200: {
          description: 'What the publisher expects: of Meta and Dropbox the text of the challenge',
          content: { 'text/plain': { schema: { type: 'string' } } },
        },
        ...refusals(
          REASON_CODES.filter((reason) => !OF_DELIVERIES.has(reason)),
          [
            [403, 'key_not_configured'],
            [403, 'signature_mismatch'],
          ],
        ),
      },
    },
  },
};

function acceptedAnswer() {
  const ids = { runId: id, deliveryId: id };
  const shape = (description: string, flag: Readonly<Record<string, object>> = {}, named: object = ids) => ({
    type: 'object',
    description,
    properties: { ...named, ...flag },
    required: [...Object.keys(named), ...Object.keys(flag)],
    additionalProperties: false,
  });
  const isFiltered = { filtered: { const: true } };
  return {
    description: 'Accepted, or a handshake of the publisher',
    content: {
      'application/json': {
        schema: {
          anyOf: [
            shape('Accepted: the run has started.'),
            shape(
              'Accepted by the flows that share the slug; runId is the first of runs.',
              {},
              { ...ids, runs: sharedRuns },
            ),
            shape('Seen before: the ids of the first run and of this delivery.', { duplicate: { const: true } }),
            shape('Joined a run that waits for more deliveries.', { coalesced: { const: true } }),
            shape('webhookWhen of the trigger is false: no run starts.', isFiltered, { deliveryId: id }),
            shape('Held: the run starts when the flow is enabled or resumed.', { held: { const: true } }),
            { description: 'The answer to a handshake, or the webhookResponse of the trigger.' },
          ],
        },
        example: { runId: EXAMPLE_ID, deliveryId: EXAMPLE_ID },
      },
      'text/xml': {
        schema: { type: 'string', description: 'Twilio: an empty TwiML document.' },
      },
      '*/*': {
        schema: {
          description: 'What the publisher documents for its handshake, or the webhookResponse of the trigger.',
        },
      },
    },
  };
}

/**
 * One response for each status, with its reasons; handshakes are also refused as their publishers document. An invalid
 * Host header gets 400, and another method 405, without a reason.
 */
function refusals(reasons: readonly Reason[], ofHandshakes: readonly (readonly [status: number, Reason])[] = []) {
  const byStatus = new Map<number, Reason[]>([
    [400, []],
    [405, []],
  ]);
  const all = [...reasons.map((reason) => [REASONS[reason].statusCode, reason] as const), ...ofHandshakes];
  for (const [status, reason] of all) byStatus.set(status, [...(byStatus.get(status) ?? []), reason]);
  return Object.fromEntries([...byStatus].map(([status, given]) => [status, refusal(status, given)]));
}

function refusal(status: number, reasons: readonly Reason[]) {
  const properties = { statusCode: { const: status }, error: { type: 'string' }, message: { type: 'string' } };
  const isReasoned = reasons.length > 0;
  return {
    description: `${STATUS_CODES[status]}${isReasoned ? ` (${reasons.join(', ')})` : ''}`,
    content: {
      'application/json': {
        schema: {
          type: 'object',
          properties: { ...properties, ...(isReasoned && { reason: { enum: reasons } }) },
          required: ['statusCode', 'error', 'message', ...(isReasoned && status !== 400 ? ['reason'] : [])],
          additionalProperties: false,
        },
      },
    },
  };
}
