import { alertsSettings } from './alerts/settings.ts';
import { evidenceSettings } from './evidence/settings.ts';
import { holdSettings } from './hold/settings.ts';
import { httpRequestSettings } from './http-request/settings.ts';
import { signOnSettings } from './sign-on/settings.ts';

/** Settings that features add. */
export const settingParts = [
  httpRequestSettings,
  evidenceSettings,
  alertsSettings,
  holdSettings,
  signOnSettings,
] as const;
