import type { Settings } from './settings-schema.ts';

/** The settings of a service as they are now. */
export interface SettingsInForce {
  current(): Settings;
  /** Puts these in place of the former ones; called by what has taken them over. */
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
