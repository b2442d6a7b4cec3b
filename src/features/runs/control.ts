import { z } from 'zod';
import { builtInFlow, field, flowDisabled, flowUnreadable, outcomeSchema, unknownId } from '../../dashboard/answer.ts';
import { documentedBody, ID_PARAMS, parameter, readJsonBody, WHY } from '../../dashboard/input.ts';
import { reasonOf } from '../../dashboard/interventions.ts';
import { route } from '../../dashboard/route.ts';
import type { ApiRoutes } from '../../dashboard/services.ts';
import { HttpError } from '../../errors.ts';
import { SIGNAL_NAME } from '../../model/run.ts';
import { STEP_PARAMS } from './steps.ts';

const cancelSchema = outcomeSchema.extend({ accepted: z.boolean(), closedImmediately: z.boolean() });

const rerunSchema = z.object({ runId: field.id(), sourceRunId: field.id() });

const signalSchema = z.object({
  delivered: z.boolean().describe('false if no step waits for the signal yet: it is kept for the first one that does.'),
  stepKey: z.string().nullable(),
  deliveredAt: field.time(),
});

/** Commands to a run. */
export const runControlRoutes: ApiRoutes = (app, services) => {
  cancelRoute(app, services);
  rerunRoute(app, services);
  retryRoute(app, services);
  signalRoute(app, services);
};

const cancelRoute: ApiRoutes = (app, { control }) => {
  app.post(
    '/flows/api/runs/:id/cancel',
    route('runs', {
      operationId: 'cancelRun',
      limit: 'run',
      summary: 'Cancels a run: at once, or as soon as its running steps have stopped',
      params: ID_PARAMS,
      answer: cancelSchema,
      refusals: [404, 409],
    }),
    async (request) => {
      const result = await control.cancel(request.params.id, reasonOf(request));
      if (result.kind === 'unknown') throw unknownId('run', request.params.id);
      if (result.kind === 'ended') throw new HttpError('run_ended', `The run has ended as ${result.status}`);
      const closedImmediately = result.run.completedAt !== null;
      const message = closedImmediately
        ? 'The run is cancelled'
        : 'The run ends as soon as its running steps have stopped';
      return { success: true, message, accepted: true, closedImmediately };
    },
  );
};

const rerunRoute: ApiRoutes = (app, { store, engine }) => {
  app.post(
    '/flows/api/runs/:id/rerun',
    route('runs', {
      operationId: 'rerunRun',
      limit: 'run',
      summary: 'Starts a run of the newest revision with the trigger of this one',
      params: ID_PARAMS,
      answer: rerunSchema,
      refusals: [404, 409],
    }),
    async (request) => {
      const source = await store.findRun(request.params.id);
      if (source === undefined) throw unknownId('run', request.params.id);
      const result = await engine.rerun(source);
      if (result.kind === 'unknown') throw new HttpError('unknown_flow', 'The flow of the run is not deployed');
      if (result.kind === 'builtIn') throw builtInFlow();
      if (result.kind === 'disabled') throw flowDisabled();
      if (result.kind === 'unreadable') throw flowUnreadable(result.why);
      return { runId: result.runId, sourceRunId: source.id };
    },
  );
};

const retryRoute: ApiRoutes = (app, { control }) => {
  app.post(
    '/flows/api/runs/:id/steps/:key/retry',
    route('runs', {
      operationId: 'retryStep',
      limit: 'run',
      summary: 'Retries a failed step; steps that were skipped because of it are planned again',
      params: STEP_PARAMS,
      answer: outcomeSchema,
      refusals: [404, 409],
    }),
    async (request) => {
      const { id: runId, key } = request.params;
      const result = await control.retryStep(runId, key);
      switch (result.kind) {
        case 'unknownRun':
          throw unknownId('run', runId);
        case 'unknownStep':
          throw new HttpError('unknown_step', `The run has no step ${JSON.stringify(key)}`);
        case 'notFailed':
          throw new HttpError('not_failed', `The step is ${result.stepStatus}; only a failed step can be retried`);
        case 'stopped':
          throw new HttpError('run_ended', `The run ended as ${result.runStatus}; rerun it instead`);
        case 'nothingToRetry': {
          const cause = result.error === null ? '' : ` (${result.error.message})`;
          throw new HttpError('nothing_to_retry', `The step cannot be retried: no iteration failed${cause}`);
        }
        case 'orderDeadlock':
          throw new HttpError(
            'order_deadlock',
            `It would have to wait for the run ${result.runId}, which waits for it`,
          );
        default:
          return { success: true, message: `Due again: ${result.steps.join(', ')}` };
      }
    },
  );
};

const signalRoute: ApiRoutes = (app, { control, clock }) => {
  app.post(
    '/flows/api/runs/:id/signals/:name',
    route('runs', {
      operationId: 'sendSignal',
      limit: 'run',
      summary: 'Sends a signal to a run; its JSON body is the output of the step that waits for it',
      params: z.object({
        id: parameter.guid(),
        name: z.string().regex(SIGNAL_NAME, 'expected 1 to 128 letters, digits, "_", ".", ":" and "-"'),
      }),
      query: z.strictObject(WHY),
      body: documentedBody(z.unknown().describe('Any JSON; null if there is none.'), { approved: true }),
      answer: signalSchema,
      refusals: [404, 409],
    }),
    async (request) => {
      const { id: runId, name } = request.params;
      const result = await control.signal({ runId, name, body: readJsonBody(request) ?? null });
      switch (result.kind) {
        case 'unknown':
          throw unknownId('run', runId);
        case 'unknownName':
          throw new HttpError('unknown_signal', `No step of the run waits for a signal ${JSON.stringify(name)}`);
        case 'ended':
          throw new HttpError('run_ended', `The run has ended as ${result.status}`);
        case 'duplicate':
          throw new HttpError('signal_duplicate', `The signal ${JSON.stringify(name)} was sent before`);
        default:
          return {
            delivered: result.stepKey !== null,
            stepKey: result.stepKey,
            deliveredAt: new Date(clock.now()).toISOString(),
          };
      }
    },
  );
};
