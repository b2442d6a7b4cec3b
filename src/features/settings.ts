import { alertsSettings } from './alerts/settings.ts';
import { evidenceSettings } from './evidence/settings.ts';
import { httpRequestSettings } from './http-request/settings.ts';

/** Settings that features bring. */
export const settingParts = [httpRequestSettings, evidenceSettings, alertsSettings] as const;
