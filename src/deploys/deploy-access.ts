import type { DeployedFlow } from '../flows/catalog.ts';
import type { LoadedFlow } from '../manifest/load.ts';
import type { WebhookTrigger } from '../manifest/webhook-inputs.ts';
import type { Access, AccessRoute, Finding } from '../model/finding.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import { storableUrl } from '../model/text.ts';
import {
  accessOf,
  answerText,
  CLOSED,
  describeEntrance,
  type Entrance,
  entranceOf,
  fieldsOf,
  isVerified,
  widest,
} from '../webhooks/access.ts';
import type { FormerJudges } from './needs.ts';

/** How a deploy of one flow changes access. */
export interface AccessChange {
  readonly access: Access;
  /** Routes that accept more or less, or new ones without an enforced signature. */
  readonly routes: readonly AccessRoute[];
  /** By the path of a field: the effect of its change. */
  readonly fields: ReadonlyMap<string, Access>;
}

export const NO_CHANGE: AccessChange = { access: 'same', routes: [], fields: new Map() };

/** The trigger that a name leads or led to; without `trigger` if it is not served. */
export interface Route {
  readonly triggerKey: string;
  readonly trigger: WebhookTrigger | undefined;
}

/** The route of each name of a flow, in lower case: its slugs, and its id. */
function routesOf({ manifest, webhooks, unserved = [] }: LoadedFlow): Map<string, Route> {
  const routes = new Map<string, Route>();
  for (const [triggerKey, trigger] of Object.entries(manifest.triggers)) {
    if (trigger.type !== 'webhook') continue;
    const served = webhooks.find((each) => each.triggerKey === triggerKey);
    const route = { triggerKey, trigger: served };
    const id = routes.get(manifest.id);
    // A trigger that lost its slug to another flow has no name; one that is not served still does.
    const isLost = id?.trigger === undefined && !unserved.some((each) => each.triggerKey === id?.triggerKey);
    if (id === undefined || (isLost && served !== undefined)) routes.set(manifest.id, route);
    const slug = trigger.inputs.webhookSlug?.toLowerCase();
    if (slug !== undefined) routes.set(slug, route);
  }
  return routes;
}

/** A slug's route in a revision that gave it to a trigger; without `trigger` if the revision is no longer readable. */
export function formerRoute(slug: string, triggerKey: string, flow: LoadedFlow | undefined): Route {
  return (flow && routesOf(flow).get(slug)) ?? { triggerKey, trigger: undefined };
}

/**
 * Current routes, or the last ones of unused names: a slug that was given up is not a new route. If two flows claim a
 * name, the one whose trigger is served counts.
 */
export function knownRoutes(
  flows: readonly Pick<DeployedFlow, 'loaded'>[],
  former: ReadonlyMap<string, Route>,
): ReadonlyMap<string, Route> {
  const routes = new Map(former);
  for (const { loaded } of flows) {
    for (const [name, route] of routesOf(loaded)) {
      if (route.trigger !== undefined || !routes.has(name)) routes.set(name, route);
    }
  }
  return routes;
}

export type EntranceGates = Parameters<typeof entranceOf>[1];

interface AccessRequest {
  readonly after: LoadedFlow;
  /** The revision that it replaces; undefined for a new flow. */
  readonly before: LoadedFlow | undefined;
  /** Current or last routes of names, including other flows': one of them may give this one its slug. */
  readonly known: ReadonlyMap<string, Route>;
  readonly gates: EntranceGates;
  /** The previous gates of the triggers, if they were different. */
  readonly gatesBefore?: EntranceGates | undefined;
}

/** Gates with the settings and the operator's code of an earlier time. */
export function gatesUnder(
  { settings: former, judges }: FormerJudges,
  { preparer, defaultMode }: EntranceGates,
): EntranceGates {
  const unset = { rateLimitPermitsPerSecond: undefined, rateLimitBurstSize: undefined, rateLimitPerIp: undefined };
  const {
    enforcementMode = defaultMode,
    publicUrl,
    ...others
  } = former as {
    readonly enforcementMode?: EnforcementMode;
    readonly publicUrl?: string | null;
  };
  // Stored without its user name and password; earlier builds did not store it.
  const isSameUrl = publicUrl === undefined || publicUrl === storableUrl(preparer.settings.publicUrl);
  const settings = { ...unset, ...others, ...(!isSameUrl && { publicUrl: publicUrl ?? undefined }) };
  return { preparer: preparer.under(settings), defaultMode: enforcementMode, judges };
}

/**
 * Compares access by each name before and after. A name that never led anywhere is a new route: it is reported as wider
 * if no signature is enforced, but never blocks a deploy.
 */
export function accessChangeOf({ after, before, known, gates, gatesBefore = gates }: AccessRequest): AccessChange {
  const own = before === undefined ? new Map<string, Route>() : routesOf(before);
  const next = routesOf(after);
  const entrance = ({ trigger }: Route, by: EntranceGates): Entrance =>
    trigger === undefined ? CLOSED : entranceOf(trigger, by);
  const fields = new Map<string, Access>();
  const routes = new Map<string, AccessRoute>();
  const add = (name: string, [one, other]: readonly (Route | undefined)[], route: Omit<AccessRoute, 'route'>) => {
    // The slug and the id of a flow often lead to one trigger before and after, so they are reported together.
    const pair = JSON.stringify([one?.trigger?.flowId, one?.triggerKey, other?.triggerKey]);
    const told = routes.get(pair);
    routes.set(pair, { ...route, route: told === undefined ? name : `${told.route} and ${name}` });
  };
  for (const [name, route] of next) {
    const earlier = own.get(name) ?? known.get(name);
    const [was, is] = [earlier && entrance(earlier, gatesBefore), entrance(route, gates)];
    const about = {
      trigger: route.triggerKey,
      before: was ? describeEntrance(was) : null,
      after: describeEntrance(is),
    };
    if (was !== undefined && !own.has(name) && joins(earlier, route)) {
      const reasons = [
        `Deliveries to it start runs of ${earlier?.trigger?.flowName}, and of this flow too from now on.`,
      ];
      add(name, [earlier, route], { ...about, before: null, access: 'wider', reasons });
      continue;
    }
    if (was === undefined) {
      const reasons = [
        ...(isVerified(is) ? [] : ['The route is new, and no signature is enforced.']),
        // Runs in flight may already wait there.
        ...(is.answers === undefined || before === undefined ? [] : [answerText(is.answers)]),
      ];
      if (reasons.length > 0) add(name, [earlier, route], { ...about, access: 'wider', reasons });
      continue;
    }
    const { access, reasons } = accessOf(was, is);
    if (access === 'same') continue;
    add(name, [earlier, route], { ...about, access, reasons: reasons.map(({ text }) => text) });
    for (const reason of reasons) {
      for (const field of fieldsOf(reason.aspect)) {
        const path = `triggers.${route.triggerKey}.inputs.${field}`;
        fields.set(path, widest([fields.get(path) ?? 'same', reason.access]));
      }
    }
  }
  for (const [name, route] of own) {
    if (next.has(name)) continue;
    const reasons = ['The route is gone.'];
    const about = { trigger: route.triggerKey, before: describeEntrance(entrance(route, gatesBefore)), after: null };
    add(name, [route, undefined], { ...about, access: 'narrower', reasons });
  }
  const found = [...routes.values()];
  return { access: widest(found.map(({ access }) => access)), routes: found, fields };
}

/** Whether a trigger joins a slug that another flow shares: access stays the same, and more runs start. */
function joins(earlier: Route | undefined, route: Route): boolean {
  const [one, other] = [earlier?.trigger, route.trigger];
  return one?.inputs.webhookShared === true && other?.inputs.webhookShared === true && one.flowId !== other.flowId;
}

/** Whether an existing route accepts more. */
export function isOpening({ access, before }: AccessRoute): boolean {
  return access === 'wider' && before !== null;
}

/** Whether any existing route accepts more, so that the deploy must be allowed. */
export function isOpened({ routes }: Pick<AccessChange, 'routes'>): boolean {
  return routes.some(isOpening);
}

/**
 * The findings with their effect on access, and one for each wider route that none of them explains: for example
 * another file behind a reference, or a trigger that replaces another.
 */
export function withAccess(findings: readonly Finding[], { routes, fields }: AccessChange): Finding[] {
  const told = findings.map((finding) => {
    const access = fields.get(finding.path);
    return access === undefined ? finding : { ...finding, access };
  });
  const unexplained = routes.filter(
    ({ access, before, trigger }) =>
      access === 'wider' &&
      before !== null &&
      !told.some((finding) => finding.access === 'wider' && finding.path.startsWith(`triggers.${trigger}.`)),
  );
  return [
    ...told,
    ...unexplained.map(
      ({ route, trigger, before, after, reasons }): Finding => ({
        rule: 'access-widened',
        class: 'safe',
        access: 'wider',
        path: `triggers.${trigger}`,
        before,
        after,
        message: `More deliveries to ${route} pass.`,
        consequence: `${reasons.join(' ')} Runs in flight are not affected.`,
        advice: 'Check that this is intended: it decides who may start runs.',
      }),
    ),
  ];
}
