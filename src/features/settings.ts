import { alertsSettings } from './alerts/settings.ts';
import { evidenceSettings } from './evidence/settings.ts';
import { holdSettings } from './hold/settings.ts';
import { httpRequestSettings } from './http-request/settings.ts';

/** Settings that features add. */
export const settingParts = [httpRequestSettings, evidenceSettings, alertsSettings, holdSettings] as const;
