import { z } from 'zod';
import type { DrainState } from '../../deploys/flow-switch.ts';
import { errorSchema, REFUSALS, unknownId } from '../error-responses.ts';
import { guid, NO_QUERY } from '../input.ts';
import type { ApiRoutes } from '../services.ts';
import { id, integer, isoTime, isoTimeOrNull, time } from './formats.ts';

const params = z.object({ id: guid() });

export const drainSchema = z
  .object({
    flowId: id(),
    flowName: z.string(),
    draining: z.boolean(),
    since: time().nullable(),
    done: z.boolean().describe('No run is in flight any more and none can start: time to deploy.'),
    runsInFlight: integer(),
    runs: z
      .array(
        z.object({
          id: id(),
          revision: integer(),
          triggerKey: z.string(),
          startedAt: time(),
          steps: z.record(z.string(), z.object({ status: z.string(), waiting: z.boolean() })),
        }),
      )
      .describe('Those in flight, the oldest first, at most 200, with where they stand.'),
    held: integer().describe('Deliveries whose runs start when this ends.'),
  })
  .meta({ id: 'Drain' });

/** Letting the runs of a flow run out before it is changed. Survives a restart. */
export const drainRoutes: ApiRoutes = (app, { flowSwitch }) => {
  const route = (
    summary: string,
    { method, path, operationId }: { method: 'get' | 'post' | 'delete'; path: 'drain' | 'resume'; operationId: string },
    act: (flowId: string) => Promise<DrainState | undefined>,
  ) =>
    app[method](
      `/flows/api/flows/:id/${path}`,
      {
        schema: {
          tags: ['flows'],
          operationId,
          summary,
          params,
          querystring: NO_QUERY,
          response: { 200: drainSchema, ...REFUSALS, 404: errorSchema },
        },
      },
      async (request) => {
        const state = await act(request.params.id);
        if (state === undefined) throw unknownId('flow', request.params.id);
        return drainView(state);
      },
    );
  const drain = { path: 'drain' } as const;
  route(
    'Stops every trigger of a flow; its runs in flight go on to their ends',
    { ...drain, method: 'post', operationId: 'drainFlow' },
    flowSwitch.drain,
  );
  route(
    'Where the drain of a flow stands, with its runs in flight',
    { ...drain, method: 'get', operationId: 'getDrain' },
    flowSwitch.drainState,
  );
  route(
    'Ends the drain: the flow starts runs again',
    { ...drain, method: 'delete', operationId: 'endDrain' },
    flowSwitch.resume,
  );
  route(
    'Ends the drain, as DELETE of it does',
    { method: 'post', path: 'resume', operationId: 'resumeFlow' },
    flowSwitch.resume,
  );
};

function drainView({ flow, isDraining, isDone, runsInFlight, runs, held }: DrainState): z.output<typeof drainSchema> {
  return {
    ...{ flowId: flow.id, flowName: flow.name, draining: isDraining, done: isDone, runsInFlight, held },
    since: isoTimeOrNull(flow.drainingSince ?? null),
    runs: runs.map(({ startedAt, steps, ...run }) => ({
      ...run,
      startedAt: isoTime(startedAt),
      steps: Object.fromEntries(
        Object.entries(steps).map(([key, { status, isWaiting }]) => [key, { status, waiting: isWaiting }]),
      ),
    })),
  };
}
