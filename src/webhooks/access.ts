import { isDeepStrictEqual } from 'node:util';
import { accessRules } from '../features/access.ts';
import type { AccessRoute } from '../model/finding.ts';
import type { AccessRules } from './access-rules.ts';

const UNKNOWN = 'not known: no rule says who gets in';

/** Without rules, every trigger that is not the same as before counts as wider, and no two are alike. */
export const withoutRules: AccessRules = {
  changeOf({ before, after, known, gates, gatesBefore = gates }) {
    const routes = [...after].flatMap(([route, { triggerKey, trigger }]): AccessRoute[] => {
      const earlier = before?.get(route) ?? known.get(route);
      if (gates === gatesBefore && earlier && isDeepStrictEqual(earlier.trigger, trigger)) return [];
      const reasons = ['No rule compares who gets in.'];
      return [
        { route, trigger: triggerKey, access: 'wider', before: earlier ? UNKNOWN : null, after: UNKNOWN, reasons },
      ];
    });
    return { access: routes.length > 0 ? 'wider' : 'same', routes, fields: new Map() };
  },
  differencesOf: () => ['gates'],
};

export const { changeOf: accessChangeOf, differencesOf }: AccessRules = accessRules[0] ?? withoutRules;
