import { z } from 'zod';
import { REFUSALS } from '../error-responses.ts';
import { NO_QUERY } from '../input.ts';
import type { ApiRoutes } from '../services.ts';
import { json } from './formats.ts';

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
