import type { SettingsCheck } from '../config/settings-schema.ts';
import { signOnSettingsCheck } from './sign-on/settings-check.ts';

/** Checks of several settings together, which features add. */
export const settingsChecks: readonly SettingsCheck[] = [signOnSettingsCheck];
