import type { Settings } from './settings-schema.ts';

/** The current settings of a service. */
export interface SettingsInForce {
  current(): Settings;
  /** Replaces these settings; the caller has already applied them. */
  replace(renewed: Partial<Settings>): void;
}

export function settingsInForce(given: Settings): SettingsInForce {
  let settings = given;
  return {
    current: () => settings,
    replace(renewed) {
      settings = { ...settings, ...renewed };
    },
  };
}
