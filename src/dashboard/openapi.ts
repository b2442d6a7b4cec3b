import { STATUS_CODES } from 'node:http';
import swagger from '@fastify/swagger';
import type { FastifyInstance } from 'fastify';
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod';
import { receiveEndpoint } from './api/receive-description.ts';

/** Collects the schemas of the routes that are added after it, so that `app.swagger()` is their OpenAPI document. */
export async function describeRoutes(app: FastifyInstance, version: string): Promise<void> {
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
      tags: [
        { name: 'receive', description: 'Where publishers send' },
        { name: 'deliveries', description: 'What webhooks received' },
        { name: 'runs', description: 'What flows did' },
        { name: 'flows', description: 'What is deployed' },
        { name: 'schedules', description: 'When cron triggers fire' },
        { name: 'service', description: 'The process itself' },
      ],
    },
    transform: describeRoute,
    transformObject: (document) =>
      withReceiveEndpoint(dropUnused(letBodiesBeAbsent(jsonSchemaTransformObject(document)))),
  });
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

/** The one endpoint of the document that is not the dashboard's comes first. */
function withReceiveEndpoint(document: Document): Document {
  return { ...document, paths: { ...receiveEndpoint, ...document.paths } } as Document;
}

/** A body of which nothing is required may be left out. */
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

/** Each registered shape comes once for questions and once for answers; those that no operation names are dropped. */
function dropUnused(document: Document): Document {
  const schemas: Record<string, unknown> = 'components' in document ? (document.components?.schemas ?? {}) : {};
  const used = new Set<string>();
  const follow = (part: unknown): void => {
    for (const [, name = ''] of JSON.stringify(part).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      if (used.has(name)) continue;
      used.add(name);
      follow(schemas[name]);
    }
  };
  follow(document.paths);
  for (const name of Object.keys(schemas)) if (!used.has(name)) delete schemas[name];
  return document;
}
