import type { DeployedFlow } from '../flows/catalog.ts';
import type { LoadedFlow } from '../manifest/load.ts';
import type { AccessRoute, Finding } from '../model/finding.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import { storableUrl } from '../model/text.ts';
import type { AccessChange, EntranceGates, Route, Routes } from '../webhooks/access-rules.ts';
import type { FormerJudges } from './needs.ts';

export const NO_CHANGE: AccessChange = { access: 'same', routes: [], fields: new Map() };

export function routesOf({ manifest, webhooks, unserved = [] }: LoadedFlow): Routes {
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

/** A name's route in a revision by which it led to a trigger; without `trigger` if the revision is no longer readable. */
export function formerRoute(name: string, triggerKey: string, flow: LoadedFlow | undefined): Route {
  return (flow && routesOf(flow).get(name)) ?? { triggerKey, trigger: undefined };
}

/**
 * Current routes, or the last ones of unused names: a slug that was given up is not a new route. If two flows claim a
 * name, the one whose trigger is served counts.
 */
export function knownRoutes(flows: readonly Pick<DeployedFlow, 'loaded'>[], former: Routes): Routes {
  const routes = new Map(former);
  for (const { loaded } of flows) {
    for (const [name, route] of routesOf(loaded)) {
      if (route.trigger !== undefined || !routes.has(name)) routes.set(name, route);
    }
  }
  return routes;
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
