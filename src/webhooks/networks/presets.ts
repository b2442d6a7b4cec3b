import { closestMatch } from 'leven';
import { GateConfigurationError } from '../gate.ts';
import { type AddressPreset, PRESETS, UNPUBLISHED } from './preset-data.ts';

const DAY_MS = 86_400_000;

/** After this many days a snapshot is worth a look at its source. */
const FRESH_DAYS = 90;

const byName = new Map(PRESETS.map((preset) => [preset.name, preset]));
const unpublished = new Map(UNPUBLISHED.map((publisher) => [publisher.name, publisher]));

/**
 * Throws `GateConfigurationError` for a name that is not a preset, and for one of a publisher without published addresses:
 * a list without entries would either shut everybody out or be taken for no list. Names are matched in any case.
 */
export function findPreset(name: string, field: string): AddressPreset {
  const wanted = name.trim().toLowerCase();
  const preset = byName.get(wanted);
  if (preset !== undefined) return preset;
  const lacking = unpublished.get(wanted);
  if (lacking !== undefined) {
    const { because, instead, source, checkedOn } = lacking;
    const message = `"${wanted}" has no addresses to allow: ${because} (checked on ${checkedOn}: ${source}). Instead, ${instead}`;
    throw new GateConfigurationError(field, message);
  }
  const names = [...byName.keys()];
  const nearest = closestMatch(wanted, [...names, ...unpublished.keys()], { maxDistance: 3 });
  const guess = nearest === undefined ? '.' : `; did you mean "${nearest}"?`;
  throw new GateConfigurationError(field, `"${name}" is no address preset${guess} Known are ${names.join(', ')}`);
}

/** What an operator should hear about a preset when a manifest loads; undefined where all is well. */
export function presetConcern(preset: AddressPreset, now: number): string | undefined {
  if (preset.asOf === null) return undefined;
  const days = Math.floor((now - Date.parse(preset.asOf)) / DAY_MS);
  if (days <= FRESH_DAYS) return undefined;
  return `the addresses of preset "${preset.name}" are those of ${preset.asOf}, ${days} days ago; compare them with ${preset.source}`;
}
