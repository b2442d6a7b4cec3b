import { z } from 'zod';
import { HttpError } from '../../errors.ts';
import { errorSchema, REFUSALS } from '../error-responses.ts';
import { guid, NO_QUERY } from '../input.ts';
import { outcomeSchema } from '../json-body.ts';
import type { ApiRoutes } from '../services.ts';
import { findFlow } from './flows.ts';

const params = z.object({ id: guid(), triggerKey: z.string().describe('Key of a webhook trigger.') });

/** Forgetting a key that a publisher handed over. */
export const learnedKeyRoutes: ApiRoutes = (app, services) => {
  app.delete(
    '/flows/api/flows/:id/triggers/:triggerKey/learned-key',
    {
      schema: {
        tags: ['flows'],
        operationId: 'forgetLearnedKey',
        summary: 'Forgets the key that a trigger learnt; whoever sends the next handshake decides the new one',
        params,
        querystring: NO_QUERY,
        response: { 200: outcomeSchema, ...REFUSALS, 404: errorSchema },
      },
    },
    async ({ params: { id, triggerKey }, log }) => {
      const flowId = findFlow(id, services).record.id;
      const found = services
        .triggers()
        .list()
        .find(({ trigger }) => trigger.flowId === flowId && trigger.triggerKey === triggerKey);
      if (found === undefined) {
        throw new HttpError(404, `The flow has no webhook trigger ${JSON.stringify(triggerKey)}`, 'unknown_trigger');
      }
      const success = (await found.keySlot?.forget()) ?? false;
      if (success) log.warn({ flowId, triggerKey }, 'a learned key was forgotten');
      return { success, message: success ? 'The key is forgotten' : 'No key was learnt' };
    },
  );
};
