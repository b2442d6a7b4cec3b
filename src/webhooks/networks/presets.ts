import { closestMatch } from 'leven';
import { GateConfigurationError } from '../gate.ts';
import { type AddressPreset, PRESETS } from './preset-data.ts';

const DAY_MS = 86_400_000;

/** After this many days a snapshot is worth a look at its source. */
const FRESH_DAYS = 90;

const byName = new Map(PRESETS.map((preset) => [preset.name, preset]));

/** Throws `GateConfigurationError` for a name that is no preset. Names are matched in any case. */
export function findPreset(name: string, field: string): AddressPreset {
  const preset = byName.get(name.trim().toLowerCase());
  if (preset !== undefined) return preset;
  const names = [...byName.keys()];
  const nearest = closestMatch(name.trim().toLowerCase(), names, { maxDistance: 3 });
  const guess = nearest === undefined ? '.' : `; did you mean "${nearest}"?`;
  throw new GateConfigurationError(field, `"${name}" is no address preset${guess} Known are ${names.join(', ')}`);
}

/** What an operator should hear about a preset when a manifest loads; undefined where all is well. */
export function presetConcern(preset: AddressPreset, now: number): string | undefined {
  if (preset.entries.length === 0) return noFixedAddresses(preset);
  if (preset.asOf === null) return undefined;
  const days = Math.floor((now - Date.parse(preset.asOf)) / DAY_MS);
  if (days <= FRESH_DAYS) return undefined;
  return `the addresses of preset "${preset.name}" are those of ${preset.asOf}, ${days} days ago; compare them with ${preset.source}`;
}

export function noFixedAddresses(preset: AddressPreset): string {
  return `preset "${preset.name}" holds no addresses: the publisher states none that are fixed (${preset.source}); rely on the signature`;
}
