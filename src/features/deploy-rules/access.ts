import { type Access, type AccessRoute, widest } from '../../model/finding.ts';
import type { AccessChange, AccessRequest, AccessRules, EntranceGates, Route } from '../../webhooks/access-rules.ts';
import {
  accessOf,
  answerText,
  CLOSED,
  describeEntrance,
  differencesOf,
  type Entrance,
  entranceOf,
  fieldsOf,
  isVerified,
} from './entrance.ts';

/**
 * Compares access by each name before and after. A name that never led anywhere is a new route: it is reported as wider
 * if no signature is enforced, but never blocks a deploy.
 */
function changeOf({ after: next, before, known, gates, gatesBefore = gates }: AccessRequest): AccessChange {
  const own = before ?? new Map<string, Route>();
  const entrance = ({ trigger }: Route, by: EntranceGates): Entrance =>
    trigger === undefined ? CLOSED : entranceOf(trigger, by);
  const fields = new Map<string, Access>();
  const routes = new Map<string, AccessRoute>();
  const add = (name: string, [one, other]: readonly (Route | undefined)[], route: Omit<AccessRoute, 'route'>) => {
    // The slug and the id of a flow often lead to one trigger before and after, so they are reported together. The one
    // may have led to an earlier revision of it.
    const pair = JSON.stringify([one?.trigger?.flowId, one?.triggerKey, other?.triggerKey, route]);
    const told = routes.get(pair);
    routes.set(pair, { ...route, route: told === undefined ? name : `${told.route} and ${name}` });
  };
  for (const [name, route] of next) {
    const earlier = own.get(name) ?? known.get(name);
    const [was, is] = [earlier && entrance(earlier, earlier.gates ?? gatesBefore), entrance(route, gates)];
    const about = {
      trigger: route.triggerKey,
      before: was ? describeEntrance(was) : null,
      after: describeEntrance(is),
    };
    if (was !== undefined && !own.has(name) && joins(earlier, route) && !opens(was, is)) {
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

/** Whether more get in than at another trigger of a shared slug: that one may give the slug up, or have done so. */
function opens(was: Entrance, is: Entrance): boolean {
  return differencesOf(was, is).length > 0 && accessOf(was, is).access === 'wider';
}

export const deployRulesAccess: AccessRules = {
  changeOf,
  differencesOf: (one, other, gates) => differencesOf(entranceOf(one, gates), entranceOf(other, gates)),
};
