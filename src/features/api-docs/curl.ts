import type { DashboardAccess } from '../../config/credentials.ts';
import type { DashboardServices } from '../../dashboard/services.ts';
import { flowsIn, narrowedTo, type Sight, sees } from '../../dashboard/sight.ts';

/** Values for the parameters of paths and queries: real ones if the service has some. */
interface PathExamples {
  readonly flowId: string;
  readonly runId: string;
  readonly deliveryId: string;
  readonly jobId: string;
  readonly idOrSlug: string;
  readonly stepKey: string;
  readonly loopKey: string;
  readonly webhook: { readonly flowId: string; readonly triggerKey: string };
  readonly revision: number;
}

/** Queries that show the use of an operation. */
const QUERIES: Readonly<Record<string, string>> = {
  deployFlow: 'dryRun=true',
  listDeliveries: 'rejectedOnly=true&take=20',
  deliveryStats: 'hours=24',
  webhookTimeseries: 'bucket=hour&hours=24',
  webhookReadiness: 'hours=168',
  listRuns: 'status=Failed&take=20',
  listRunFailures: 'status=Failed',
  runTimeseries: 'bucket=day&days=7',
  previewSchedule: 'cronExpression=0+9+*+*+1-5&timeZone=Europe/Berlin',
};

const NO_LOGIN = /^\/(health|flows\/api\/webhook)\//;

interface CurlRequest {
  readonly operationId: string;
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
}

export interface CurlContext {
  readonly baseUrl: string;
  readonly access: DashboardAccess;
  readonly examples: PathExamples;
}

/** A command to paste into a shell; it takes credentials from the variables that configure the service. */
export function curlOf({ operationId, method, path, body }: CurlRequest, context: CurlContext): string {
  const { examples, baseUrl } = context;
  const query =
    operationId === 'listIterations' ? `loop=${encodeURIComponent(examples.loopKey)}` : QUERIES[operationId];
  const known = { ...examples, flowId: idOf(body) ?? examples.flowId };
  const url = `${baseUrl}${withExamples(path, known)}${query === undefined ? '' : `?${query}`}`;
  const parts = [
    operationId === 'streamEvents' ? 'curl -N' : 'curl',
    ...(method === 'GET' ? [] : [`-X ${method}`]),
    ...(NO_LOGIN.test(path) ? [] : login(context.access)),
    ...(body === undefined ? [] : [`-H 'content-type: application/json'`, `-d '${quoted(JSON.stringify(body))}'`]),
    `'${quoted(url)}'`,
  ];
  return parts.join(' ');
}

export function login(access: DashboardAccess): string[] {
  if (access.kind !== 'credentials') return [];
  if (access.token !== undefined) return ['-H "authorization: Bearer $SLUICE_DASHBOARD_TOKEN"'];
  if (access.basic !== undefined) return ['-u "$SLUICE_DASHBOARD_USER:$SLUICE_DASHBOARD_PASSWORD"'];
  return ['-H "authorization: Bearer $SLUICE_TOKEN"'];
}

function withExamples(path: string, examples: PathExamples): string {
  return path
    .replace(
      '{id}/triggers/{triggerKey}',
      `${examples.webhook.flowId}/triggers/${encodeURIComponent(examples.webhook.triggerKey)}`,
    )
    .replace('/flows/{id}', `/flows/${examples.flowId}`)
    .replace('/runs/{id}', `/runs/${examples.runId}`)
    .replace('{deliveryId}', examples.deliveryId)
    .replace('{origin}', encodeURIComponent('https://api.example.com'))
    .replace('{jobId}', encodeURIComponent(examples.jobId))
    .replace('{idOrSlug}', encodeURIComponent(examples.idOrSlug))
    .replace('{key}', encodeURIComponent(examples.stepKey))
    .replace('{revision}', `${examples.revision}`)
    .replace('{from}', `${Math.max(1, examples.revision - 1)}`)
    .replace('{to}', `${examples.revision}`)
    .replace('/consumers/{name}', '/consumers/ada@laptop')
    .replace('{name}', 'approve');
}

/** The id in a body: such a body is sent to the address of its id. */
function idOf(body: unknown): string | undefined {
  return typeof body === 'object' && body !== null && 'id' in body ? String(body.id) : undefined;
}

/** Escapes text for single quotes. */
function quoted(text: string): string {
  return text.replaceAll("'", "'\\''");
}

const SOME_ID = '0199a2b4-7c1e-7d3a-9b52-3f0f8d1c2a10';

/** Examples from this service, so that the commands of the page work when pasted. */
export async function examplesOf(
  { catalog, store, triggers }: DashboardServices,
  sight: Sight | undefined,
): Promise<PathExamples> {
  const newest = { skip: 0, take: 1, ...narrowedTo(sight) };
  const deployed = flowsIn(sight, { catalog });
  // The page is useful even while the store is unavailable.
  const [runs, deliveries] = await Promise.all([store.listRuns(newest), store.listDeliveries(newest)]).catch(() => []);
  const flows = deployed.map(({ loaded: { manifest } }) => manifest);
  const cron = flows.flatMap(({ id, triggers: own }) =>
    Object.entries(own).flatMap(([key, { type }]) => (type === 'cron' ? [`flow-${id}-${key}`] : [])),
  );
  const webhook = triggers()
    .list()
    .find(({ trigger }) => sees(sight, trigger.flowId))?.trigger;
  const flow = deployed[0]?.record;
  const flowId = flow?.id ?? SOME_ID;
  const run = runs?.items[0];
  const pinned = async () => run && catalog.pinned(run.flowId, run.revision);
  const graph = (await pinned().catch(() => undefined))?.graph;
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
