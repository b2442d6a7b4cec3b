import { z } from 'zod';
import { field, unknownId } from '../../dashboard/answer.ts';
import { parameter } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, servicePart } from '../../dashboard/services.ts';
import { limitOf } from '../../dashboard/sight.ts';
import { DAY_MS } from '../../model/clock.ts';
import { createSweeper } from '../../sweeper.ts';
import { signalsStore } from './store.ts';

/** Answers are kept this long, because a run may start long before it waits. */
const KEPT_DAYS = 30;
/** Beyond these limits, the oldest are deleted within a minute. */
const MAX_KEPT = 10_000;
const MAX_KEPT_BYTES = 64 * 1024 * 1024;
const CHUNK_ROWS = 500;

export const answeredStepsSchema = z.array(
  z.object({ runId: field.id(), stepKey: z.string(), flowId: field.id(), flowName: z.string() }),
);

const answeredRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/webhooks/:deliveryId/answered',
    route('deliveries', {
      operationId: 'listAnsweredSteps',
      limit: 'delivery',
      summary:
        'The steps that a delivery to a trigger with `signals` answered so far; none of runs that were removed since',
      params: z.object({ deliveryId: parameter.guid() }),
      answer: answeredStepsSchema,
      refusals: [404],
    }),
    async (request) => {
      const { deliveryId } = request.params;
      const { flowIds } = limitOf(request, services);
      if ((await services.store.findDelivery(deliveryId)) === undefined) throw unknownId('delivery', deliveryId);
      const steps = await services.store.of(signalsStore).listAnswered(deliveryId);
      return steps.filter(({ flowId }) => flowIds === undefined || flowIds.includes(flowId));
    },
  );
};

export const signals = servicePart({
  name: 'signals',
  routes: [answeredRoutes],
  start: ({ store, clock, logger }) => ({
    sweeper: createSweeper({
      sweep: (inChunks) =>
        inChunks(() => {
          const bounds = { maxRows: MAX_KEPT, maxBytes: MAX_KEPT_BYTES, limit: CHUNK_ROWS };
          return store.of(signalsStore).purgeKeptSignals({ before: clock.now() - KEPT_DAYS * DAY_MS, ...bounds });
        }),
      failure: 'kept deliveries to triggers that signal could not be removed',
      logger,
    }),
  }),
});
