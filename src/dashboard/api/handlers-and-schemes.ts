import { z } from 'zod';
import { GRADES } from '../../webhooks/schemes/spec.ts';
import { json, REFUSALS } from '../answer.ts';
import { NO_QUERY } from '../input.ts';
import type { ApiRoutes } from '../services.ts';

const handlerSchema = z
  .object({
    type: z.string(),
    inputs: json().describe('JSON Schema of the inputs.'),
    secretInputs: z.array(z.string()).describe('Inputs that may be env: or file: references, * for any key.'),
  })
  .meta({ id: 'Handler' });

/** The step types that flows may use. */
export const handlerRoutes: ApiRoutes = (app, services) => {
  const handlers = services.handlers.map(({ type, inputs, secretInputs }) => ({
    type,
    // What JSON Schema cannot say, such as a transform, is shown as any value.
    inputs: z.toJSONSchema(inputs, { io: 'input', unrepresentable: 'any' }),
    secretInputs: [...secretInputs],
  }));

  app.get(
    '/flows/api/handlers',
    {
      schema: {
        tags: ['flows'],
        operationId: 'listHandlers',
        summary: 'Step types and their inputs',
        querystring: NO_QUERY,
        response: { 200: z.array(handlerSchema), ...REFUSALS },
      },
    },
    async () => handlers,
  );
};

const text = () => z.string().nullable();

const schemeSchema = z
  .object({
    name: z.string(),
    aliases: z.array(z.string()),
    kind: z.enum(['builtIn', 'spec', 'verifier', 'custom']),
    headers: z.array(z.string()).describe('Signature headers, the one that is sent today first.'),
    algorithm: text(),
    encoding: text(),
    prefix: text(),
    keyEncoding: text(),
    strategy: text(),
    timestamp: z.object({ in: z.string(), name: z.string(), unit: z.string() }).nullable(),
    handshakes: z.array(
      z.object({ name: z.string(), method: z.string(), needsVerification: z.boolean(), bringsKey: z.boolean() }),
    ),
    deliveryIdHeader: text(),
    coverage: z.object({ body: z.boolean(), timestamp: z.boolean(), id: z.boolean() }).nullable(),
    grade: z.enum(GRADES).nullable().describe('A to F, by what is signed; null where only code or a trigger knows.'),
    captured: text().describe('What a captured delivery can be used for.'),
    source: z.string(),
  })
  .meta({ id: 'Scheme' });

/** The signature schemes that webhook triggers may name. */
export const schemeRoutes: ApiRoutes = (app, services) => {
  const schemes = services.schemes.map((scheme) => ({
    ...scheme,
    aliases: [...scheme.aliases],
    headers: [...scheme.headers],
    handshakes: [...scheme.handshakes],
  }));

  app.get(
    '/flows/api/schemes',
    {
      schema: {
        tags: ['deliveries'],
        operationId: 'listSchemes',
        summary: 'Signature schemes',
        querystring: NO_QUERY,
        response: { 200: z.array(schemeSchema), ...REFUSALS },
      },
    },
    async () => schemes,
  );
};
