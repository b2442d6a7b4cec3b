import { z } from 'zod';
import type { DeployedFlow } from '../../flows/catalog.ts';
import { shownSnapshot } from '../../manifest/secrets.ts';
import { baseUrlOf } from '../base-url.ts';
import { errorSchema, REFUSALS, unknownId } from '../error-responses.ts';
import { guid, NO_QUERY, PAGING } from '../input.ts';
import type { ApiRoutes, DashboardApp, DashboardServices } from '../services.ts';
import { type FlowViewContext, flowDetailSchema, flowSchema, flowView } from './flow-view.ts';
import { listOf, toList } from './formats.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const tags = ['flows'];
const params = z.object({ id: guid() });

/** Deployed flows; switching them on and off. */
export const flowRoutes: ApiRoutes = (app, services) => {
  const { catalog } = services;

  app.get(
    '/flows/api/flows',
    {
      schema: {
        tags,
        operationId: 'listFlows',
        summary: 'Deployed flows, newest first',
        querystring: z.strictObject(PAGING),
        response: { 200: listOf(flowSchema), ...REFUSALS },
      },
    },
    async ({ query }) => {
      const flows = [...catalog.list()].sort(newestFirst);
      const context = await viewContext(app, services);
      const page = flows.slice(query.skip, query.skip + query.take);
      return toList(
        page.map((flow) => flowView(flow, context)),
        flows.length,
        query,
      );
    },
  );

  app.get(
    '/flows/api/flows/:id',
    {
      schema: {
        tags,
        operationId: 'getFlow',
        summary: 'One flow with its manifest',
        params,
        querystring: NO_QUERY,
        response: { 200: flowDetailSchema, ...REFUSALS, 404: errorSchema },
      },
    },
    async (request) => {
      const flow = findFlow(request.params.id, services);
      return { ...flowView(flow, await viewContext(app, services)), manifest: shownSnapshot(flow.loaded.snapshot) };
    },
  );

  switchRoute(app, services, { verb: 'enable', isEnabled: true });
  switchRoute(app, services, { verb: 'disable', isEnabled: false });
};

/** Idempotent: what is already so stays so. A body is ignored. */
function switchRoute(
  app: DashboardApp,
  services: DashboardServices,
  { verb, isEnabled }: { verb: 'enable' | 'disable'; isEnabled: boolean },
): void {
  app.post(
    `/flows/api/flows/:id/${verb}`,
    {
      schema: {
        tags,
        operationId: `${verb}Flow`,
        summary: isEnabled ? 'Lets a flow start runs again' : 'Stops a flow from starting runs; runs in flight go on',
        params,
        querystring: NO_QUERY,
        response: { 200: flowSchema, ...REFUSALS, 404: errorSchema },
      },
    },
    async (request) => {
      const flow = findFlow(request.params.id, services);
      const record = await services.flowSwitch.setEnabled(flow.record.id, isEnabled);
      if (record === undefined) throw unknownId('flow', flow.record.id);
      return flowView({ ...flow, record }, await viewContext(app, services));
    },
  );
}

// Those of one start are as old as each other and stand by name.
function newestFirst({ record: a }: DeployedFlow, { record: b }: DeployedFlow): number {
  return b.createdAt - a.createdAt || a.name.localeCompare(b.name, 'en');
}

export function findFlow(flowId: string, { catalog }: DashboardServices): DeployedFlow {
  const flow = catalog.find(flowId);
  if (flow === undefined) throw unknownId('flow', flowId);
  return flow;
}

async function viewContext(app: DashboardApp, services: DashboardServices): Promise<FlowViewContext> {
  const { store, clock, schemes, holding } = services;
  const since = Math.floor((clock.now() - DAY_MS) / HOUR_MS) * HOUR_MS;
  const [kept, ended] = await Promise.all([store.countRuns(), store.countEndedRuns(since)]);
  return {
    triggers: services.triggers(),
    holding,
    baseUrl: baseUrlOf(app, services),
    unsignable: new Set(schemes.filter(({ kind }) => kind === 'verifier').map(({ name }) => name)),
    runs: { kept, ended, since },
  };
}
