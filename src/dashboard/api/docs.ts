import { baseUrlOf } from '../base-url.ts';
import type { PathExamples } from '../docs/curl.ts';
import { docsPage } from '../docs/page.ts';
import { DOCS_CSP } from '../docs/style.ts';
import type { ApiRoutes, DashboardServices } from '../services.ts';

const SOME_ID = '0199a2b4-7c1e-7d3a-9b52-3f0f8d1c2a10';

/** The OpenAPI document of this API, for machines and for people. */
export const docsRoutes: ApiRoutes = (app, services) => {
  app.get('/flows/api/openapi.json', { schema: { hide: true } }, async () => app.swagger());

  app.get('/flows/api/docs', { schema: { hide: true } }, async (_request, reply) => {
    const baseUrl = baseUrlOf(app, services);
    const page = docsPage(app.swagger(), { baseUrl, access: services.access, examples: await examplesOf(services) });
    return reply.type('text/html; charset=utf-8').header('content-security-policy', DOCS_CSP).send(page);
  });
};

/** Of what this service has, so that the commands of the page do something when they are pasted. */
async function examplesOf({ catalog, store, triggers }: DashboardServices): Promise<PathExamples> {
  const newest = { skip: 0, take: 1 };
  // The page is of use while the store is away too.
  const [runs, deliveries] = await Promise.all([store.listRuns(newest), store.listDeliveries(newest)]).catch(() => []);
  const flows = catalog.list().map(({ loaded: { manifest } }) => manifest);
  const cron = flows.flatMap(({ id, triggers: own }) =>
    Object.entries(own).flatMap(([key, { type }]) => (type === 'cron' ? [`flow-${id}-${key}`] : [])),
  );
  const webhook = triggers().list()[0]?.trigger;
  const flow = catalog.list()[0]?.record;
  const flowId = flow?.id ?? SOME_ID;
  const run = runs?.items[0];
  const graph = run === undefined ? undefined : await catalog.graph(run.flowId, run.revision).catch(() => undefined);
  const steps = Object.entries(graph ?? flows[0]?.steps ?? {});
  return {
    flowId,
    runId: run?.id ?? SOME_ID,
    deliveryId: deliveries?.items[0]?.id ?? SOME_ID,
    jobId: cron[0] ?? `flow-${flowId}-nightly`,
    idOrSlug: webhook?.inputs.webhookSlug ?? webhook?.flowId ?? flowId,
    stepKey: steps[0]?.[0] ?? 'first',
    loopKey: steps.find(([, { steps: children }]) => children !== undefined)?.[0] ?? 'lines',
    webhook: webhook ?? { flowId, triggerKey: 'shop' },
    revision: flow?.revision ?? 1,
  };
}
