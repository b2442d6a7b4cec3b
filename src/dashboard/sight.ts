import type { FastifyRequest } from 'fastify';
import type { Scope } from '../config/tokens.ts';
import { HttpError } from '../errors.ts';
import type { DeployedFlow } from '../flows/catalog.ts';
import { ALERT_FLOW_ID, GUID } from '../model/manifest.ts';
import { actorOf, grantsFor } from './actors.ts';
import { unknownId, unknownSchedule } from './answer.ts';
import type { DashboardServices } from './services.ts';

/*
 * A token or a group can be limited to flows. Each route declares in one word how it hides other flows, and a route
 * without this declaration is refused to limited parties: so none can be forgotten.
 */

/** The subject of a path; a party that must not see its flow gets the answer for an unknown one. */
type Subject = 'flow' | 'run' | 'delivery' | 'schedule' | 'webhook';

/**
 * - `none`: it names no flow, or flows without their names and contents
 * - `filtered`: its handler leaves out everything outside of `sightOf(request)`
 * - `refused`: it is about the whole service
 */
export type FlowLimit = Subject | HideFrom | 'none' | 'filtered' | 'refused';

/** For the path of a feature: the answer about a hidden subject, which is that of a name that was never used. */
export type HideFrom = (params: Params, sight: Sight, services: GuardServices) => Promise<HttpError | undefined>;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Defaults to `refused`. */
    readonly limit?: FlowLimit;
  }
}

/** The deployed flows that a party can see now: a deploy can rename one. */
export interface Sight {
  flowIds(): readonly string[];
  has(flowId: string | null): boolean;
}

type SightServices = Pick<DashboardServices, 'catalog'>;

/** What the sender of a request can see, by the scope that the request needs; undefined for all. */
export function sightOf(request: FastifyRequest, { catalog }: SightServices): Sight | undefined {
  const patterns = patternsFor(request);
  if (patterns === undefined) return undefined;
  const isNamed = matcherOf(patterns);
  // The alerts' flow has messages about all flows.
  const isSeen = ({ record }: Pick<DeployedFlow, 'record'>) => record.id !== ALERT_FLOW_ID && isNamed(record);
  return {
    flowIds: () =>
      catalog
        .list()
        .filter(isSeen)
        .map(({ record }) => record.id),
    has(flowId) {
      const flow = flowId === null ? undefined : catalog.find(flowId);
      return flow !== undefined && isSeen(flow);
    },
  };
}

/** Whether a party with this sight can see a flow. */
export const sees = (sight: Sight | undefined, flowId: string | null): boolean =>
  sight === undefined || sight.has(flowId);

export function flowsIn(sight: Sight | undefined, { catalog }: SightServices): readonly DeployedFlow[] {
  return catalog.list().filter(({ record }) => sees(sight, record.id));
}

/** For a filter of the store. */
export function narrowedTo(sight: Sight | undefined): { readonly flowIds?: readonly string[] } {
  return sight === undefined ? {} : { flowIds: sight.flowIds() };
}

/** `narrowedTo` for the sender of a request. */
export const limitOf = (request: FastifyRequest, services: SightServices) => narrowedTo(sightOf(request, services));

/** The flow patterns that limit the sender under a scope, by default the request's; undefined without a limit. */
export function patternsFor(request: FastifyRequest, scope?: Scope): readonly string[] | undefined {
  const grants = grantsFor(request, scope);
  return grants.some(({ flows }) => flows === undefined) ? undefined : grants.flatMap(({ flows = [] }) => flows);
}

/** A GUID matches a flow id; other patterns match flow names, and in them only `*` matches anything. */
export function matcherOf(
  patterns: readonly string[],
): (flow: { readonly id: string; readonly name: string }) => boolean {
  const ids = new Set(patterns.filter((pattern) => GUID.test(pattern)).map((pattern) => pattern.toLowerCase()));
  const names = patterns.filter((pattern) => !GUID.test(pattern)).map((pattern) => pattern.split('*'));
  return ({ id, name }) => ids.has(id) || names.some((parts) => hasInOrder(name, parts));
}

/** Whether a name consists of the parts, with anything between them. Takes linear time for any pattern. */
function hasInOrder(name: string, [first = '', ...others]: readonly string[]): boolean {
  const last = others.pop();
  if (last === undefined) return name === first;
  if (!name.startsWith(first)) return false;
  let at = first.length;
  for (const part of others) {
    const found = name.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return name.length - last.length >= at && name.endsWith(last);
}

/** An `onRequest` hook, after that of the scopes. */
export async function refuseServiceWide(request: FastifyRequest): Promise<void> {
  const { limit = 'refused' } = request.routeOptions.config;
  if (limit !== 'refused' || request.is404 || patternsFor(request) === undefined) return;
  throw new HttpError(
    'limited_to_flows',
    `This is about the whole service; ${actorOf(request).name} is limited to some of its flows`,
  );
}

type GuardServices = Pick<DashboardServices, 'catalog' | 'store' | 'triggers'>;

/**
 * Makes a `preHandler` hook: a party that must not see a flow gets the answers for an unknown one. After it, this
 * process knows what other replicas did to the flow that the path names.
 */
export function hideOthers(services: GuardServices & Pick<DashboardServices, 'receiver'>) {
  const { confirm } = services.receiver;
  return async (request: FastifyRequest): Promise<void> => {
    const { limit = 'refused' } = request.routeOptions.config;
    if (limit === 'none' || limit === 'filtered' || limit === 'refused') return;
    const sight = sightOf(request, services);
    const params = request.params as Params;
    if (sight === undefined) {
      const name = typeof limit === 'function' ? null : NAMED[limit](params);
      if (name !== null) await confirm?.(name);
      return;
    }
    const hide = typeof limit === 'function' ? limit : HIDDEN[limit];
    const asked = new Set<string>(limit === 'webhook' ? [params.idOrSlug ?? ''] : []);
    const has: Sight['has'] = (flowId) => {
      if (flowId !== null) asked.add(flowId);
      return sight.has(flowId);
    };
    let hidden = await hide(params, { ...sight, has }, services);
    // Another replica may have deployed or renamed the flow, and another request may have applied that since the first
    // look.
    if (confirm !== undefined && asked.size > 0) {
      await Promise.all([...asked].map((name) => confirm(name)));
      hidden = await hide(params, sight, services);
    }
    if (hidden !== undefined) throw hidden;
  };
}

type Params = Readonly<Record<string, string>>;

/** The answer about hidden subjects: that of an id that was never used. */
const HIDDEN: Readonly<Record<Subject, HideFrom>> = {
  async flow({ id = '' }, sight) {
    return sight.has(id) ? undefined : unknownId('flow', id);
  },
  async run({ id = '' }, sight, { store }) {
    const run = await store.findRun(id);
    return run !== undefined && sight.has(run.flowId) ? undefined : unknownId('run', id);
  },
  async delivery({ deliveryId = '' }, sight, { store }) {
    const record = await store.findDelivery(deliveryId);
    return record !== undefined && flowsOfDelivery(record).some(sight.has)
      ? undefined
      : unknownId('delivery', deliveryId);
  },
  async schedule({ jobId = '' }, sight) {
    return sight.has(flowOfJob(jobId)) ? undefined : unknownSchedule(jobId);
  },
  // All triggers that receive deliveries to this address.
  async webhook({ idOrSlug = '' }, sight, { triggers }) {
    const found = triggers().findAll(idOrSlug);
    const isSeen = found.length > 0 && found.every(({ trigger }) => sight.has(trigger.flowId));
    return isSeen ? undefined : new HttpError('unknown_flow', `No webhook has the address ${idOrSlug}`);
  },
};

/** The name in a path that leads to a flow; null if the store is asked for the subject anyway. */
const NAMED: Readonly<Record<Subject, (params: Params) => string | null>> = {
  flow: ({ id = '' }) => id,
  run: () => null,
  delivery: () => null,
  schedule: ({ jobId = '' }) => flowOfJob(jobId),
  webhook: ({ idOrSlug = '' }) => idOrSlug,
};

/** Whether an id belongs to a flow that a party can see, or to a run, a delivery or a schedule of one. */
export async function canSee(id: string, sight: Sight, services: GuardServices): Promise<boolean> {
  const given: Params = { id, deliveryId: id, jobId: id };
  for (const subject of ['flow', 'schedule', 'run', 'delivery'] as const) {
    if ((await HIDDEN[subject](given, sight, services)) === undefined) return true;
  }
  return false;
}

/** A delivery to a shared slug belongs to each of its flows. */
export const flowsOfDelivery = ({ flowId, shares = [] }: Delivered): readonly (string | null)[] => [
  flowId,
  ...shares.map((share) => share.flowId),
];

interface Delivered {
  readonly flowId: string | null;
  readonly shares?: readonly { readonly flowId: string }[] | undefined;
}

/** The flow of a schedule, whose id is `flow-{flowId}-{triggerKey}`. */
function flowOfJob(jobId: string): string | null {
  return /^flow-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-/.exec(jobId)?.[1] ?? null;
}
