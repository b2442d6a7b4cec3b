import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import { serializerCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod';
import { errorHandler, HttpError } from '../errors.ts';
import { attentionRoutes } from './api/attention.ts';
import { deliveryReviewRoutes } from './api/delivery-review.ts';
import { deployRoutes } from './api/deploys.ts';
import { docsRoutes } from './api/docs.ts';
import { drainRoutes } from './api/drains.ts';
import { eventStreamRoutes } from './api/event-stream.ts';
import { flowRoutes } from './api/flows.ts';
import { handlerRoutes } from './api/handlers.ts';
import { healthRoutes } from './api/health.ts';
import { learnedKeyRoutes } from './api/learned-key.ts';
import { mermaidRoutes } from './api/mermaid.ts';
import { metricsRoutes } from './api/metrics.ts';
import { revisionRoutes } from './api/revisions.ts';
import { runControlRoutes } from './api/run-control.ts';
import { runInsightRoutes } from './api/run-insight.ts';
import { runOutlineRoutes } from './api/run-outline.ts';
import { runRoutes } from './api/runs.ts';
import { schedulePreviewRoutes } from './api/schedule-preview.ts';
import { scheduleRoutes } from './api/schedules.ts';
import { schemeRoutes } from './api/schemes.ts';
import { triggerRoutes } from './api/trigger.ts';
import { webhookTimeseriesRoutes } from './api/webhook-timeseries.ts';
import { webhookRoutes } from './api/webhooks.ts';
import { requireCredentials } from './auth.ts';
import { compileValidator } from './input.ts';
import { refuseOtherMethods } from './methods.ts';
import { describeRoutes } from './openapi.ts';
import { guardOrigin } from './origin-guard.ts';
import { pageRoutes } from './page.ts';
import { setSecurityHeaders } from './security-headers.ts';
import type { DashboardServices } from './services.ts';

const MAX_BODY_BYTES = 1_048_576;

const guardedRoutes = [
  webhookRoutes,
  webhookTimeseriesRoutes,
  deliveryReviewRoutes,
  runRoutes,
  runInsightRoutes,
  runOutlineRoutes,
  runControlRoutes,
  scheduleRoutes,
  schedulePreviewRoutes,
  flowRoutes,
  triggerRoutes,
  mermaidRoutes,
  deployRoutes,
  revisionRoutes,
  drainRoutes,
  learnedKeyRoutes,
  handlerRoutes,
  schemeRoutes,
  attentionRoutes,
  eventStreamRoutes,
  metricsRoutes,
  docsRoutes,
  pageRoutes,
];

/**
 * Everything that the process answers but the receive endpoint, as a Fastify plugin. Its hooks, parsers and error
 * handler are its own. It also answers routes that nobody has, so that those tell a stranger nothing either.
 */
export function dashboard(services: DashboardServices): FastifyPluginAsync {
  return async (app) => {
    app.setValidatorCompiler(compileValidator);
    app.setSerializerCompiler(serializerCompiler);
    app.setErrorHandler(errorHandler);
    app.addHook('onRequest', setSecurityHeaders);
    // Bodies stay bytes: only the routes that take one know what it should be.
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: MAX_BODY_BYTES }, (_request, body, done) =>
      done(null, body),
    );
    await describeRoutes(app, services.version);
    healthRoutes(app.withTypeProvider<ZodTypeProvider>(), services);
    await app.register(async (guarded) => addGuarded(guarded, services));
  };
}

function addGuarded(app: FastifyInstance, services: DashboardServices): void {
  app.addHook('onRequest', async () => {
    if (services.isStopping()) throw new HttpError(503, 'The process is stopping', 'stopping');
  });
  app.addHook('onRequest', guardOrigin(services));
  if (services.access.kind === 'credentials') {
    app.addHook('onRequest', requireCredentials(services.access, services));
  }
  app.setNotFoundHandler(refuseOtherMethods(app));
  const typed = app.withTypeProvider<ZodTypeProvider>();
  for (const addRoutes of guardedRoutes) addRoutes(typed, services);
}
