import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { PreparedExtensions } from '../../config/extensions.ts';
import { describeSettings, type SettingName, type Settings } from '../../config/settings-schema.ts';
import type { DeployedFlow } from '../../flows/catalog.ts';
import type { LoadedFlow } from '../../manifest/load.ts';
import { referencesIn } from '../../manifest/secrets.ts';
import type { Json } from '../../model/json.ts';
import { storableUrl } from '../../model/text.ts';
import { namedSchemes } from '../../webhooks/schemes/names.ts';

const fingerprintSchema = z.object({
  /** Identifies the store key; null without one. */
  storeKey: z.string().nullable(),
  /**
   * By reference, or by the variable of a setting: a digest under the store key, `readable` without a store key, `not
   * set` for a setting, null if the secret cannot be read.
   */
  secrets: z.record(z.string(), z.string().nullable()),
  /** Digests by variable name. */
  settings: z.record(z.string(), z.string()),
  /** Step types, gates and schemes. */
  extensions: z.array(z.string()),
});
type Fingerprint = z.output<typeof fingerprintSchema>;

/** The report of a replica; its form differs in other releases. */
interface ToldFingerprint {
  readonly name: string;
  readonly fingerprint: Json;
}

interface FingerprintServices {
  readonly settings: Settings;
  /** The current settings: some are read again while the process runs. */
  readonly inForce: () => Settings;
  readonly extensions: PreparedExtensions;
  readonly catalog: { list(): readonly Pick<DeployedFlow, 'loaded'>[] };
  /** Absent without a store key. */
  readonly sealer: { readonly keyId: string; digest(text: string): string } | undefined;
}

/**
 * Makes the fingerprint of a replica, from which the others notice differences.
 *
 * Anyone who can read the database can read this too. A plain digest of a secret would allow guessing, so secrets get a
 * digest only under the store key, which is not in the database. Without that key, replicas only report which secrets
 * they can read: a random key stored in the database would not protect against its readers.
 */
export function createFingerprint({
  settings,
  inForce,
  extensions,
  catalog,
  sealer,
}: FingerprintServices): () => Fingerprint {
  const { handlers, gates, rules } = extensions;
  const references = new WeakMap<LoadedFlow, readonly string[]>();
  const referencesOf = (loaded: LoadedFlow): readonly string[] => {
    const known = references.get(loaded);
    if (known !== undefined) return known;
    const found = referencesIn(loaded.manifest, (stepType) => handlers.get(stepType)?.secretInputs ?? []);
    const texts = [...new Set(found.map(({ text }) => text))];
    references.set(loaded, texts);
    return texts;
  };
  const digestOf = (reference: string, value: string) =>
    sealer === undefined ? 'readable' : sealer.digest(JSON.stringify(['secret of a replica', reference, value]));
  const fixed = {
    storeKey: sealer?.keyId ?? null,
    settings: digestsOf('open', (name) => {
      const value = name === 'publicUrl' ? storableUrl(settings.publicUrl) : settings[name];
      return createHash('sha256')
        .update(JSON.stringify(value ?? null))
        .digest('hex')
        .slice(0, 16);
    }),
    extensions: [
      ...[...handlers.keys()].map((type) => STEP_TYPE + type),
      ...gates.chain.map(({ name }) => `gate ${name}`),
      ...namedSchemes(gates.settings.schemes).map(({ name }) => `scheme ${name}`),
    ].sort(),
  };
  const ownSecret = (name: SettingName) => {
    const value = inForce()[name];
    const isSet = value !== undefined && !(Array.isArray(value) && value.length === 0);
    return isSet ? digestOf(name, JSON.stringify(value)) : 'not set';
  };
  return () => {
    const ownSecrets = digestsOf('hidden', ownSecret);
    const secrets = new Map<string, string | null>();
    for (const { loaded } of catalog.list()) {
      for (const reference of referencesOf(loaded)) {
        const read = rules[loaded.source].readSecret(reference);
        if ('value' in read) secrets.set(reference, digestOf(reference, read.value));
        else if (!secrets.has(reference)) secrets.set(reference, null);
      }
    }
    return { ...fixed, secrets: { ...ownSecrets, ...Object.fromEntries(secrets) } };
  };
}

const STEP_TYPE = 'step type ';

/** Whether a replica other than `besides` reported that it has a step type. */
export function haveStepType(
  replicas: readonly ToldFingerprint[],
  { stepType, besides }: { readonly stepType: string; readonly besides: string },
): boolean {
  return toldBy(replicas).some(({ name, extensions }) => name !== besides && extensions.includes(STEP_TYPE + stepType));
}

/** Digests by variable of the settings on which replicas must agree. Settings that are never printed are apart. */
function digestsOf(kind: 'open' | 'hidden', digest: (name: SettingName) => string): Record<string, string> {
  const compared = describeSettings().filter(({ replicas }) => replicas !== 'own');
  const ofKind = compared.filter(({ contents }) => (contents === 'open') === (kind === 'open'));
  return Object.fromEntries(ofKind.map(({ name, variable }) => [variable, digest(name)]));
}

/** A difference between replicas. */
interface Difference {
  /** A reference, the variable of a setting, or an extension; never a value. */
  readonly what: string;
  /** One sentence. */
  readonly message: string;
}

/**
 * The differences between replicas, by name. Compares only what both know: one may have deployed a moment earlier, or
 * run another release. A replica without a report does not differ.
 */
export function differencesOf(replicas: readonly ToldFingerprint[]): readonly Difference[] {
  const told = toldBy(replicas);
  const keys = differing(told, ({ storeKey }) => ({ SLUICE_STORE_KEY: storeKey ?? '' }));
  // Digests under different keys cannot be compared.
  const secrets = keys.length > 0 ? [] : differing(told, ({ secrets }) => readable(secrets));
  const settings = differing(told, ({ settings }) => settings);
  return [...keys, ...secrets, ...settings, ...unreadable(told), ...lacking(told)];
}

type NamedFingerprint = Fingerprint & { readonly name: string };

function toldBy(replicas: readonly ToldFingerprint[]): NamedFingerprint[] {
  return replicas.flatMap(({ name, fingerprint }) => {
    const { data } = fingerprintSchema.safeParse(fingerprint);
    return data === undefined ? [] : [{ name, ...data }];
  });
}

/**
 * References that this replica cannot read and another one can. Empty if no other replica can read every reference that
 * some replica can read: then none could replace this one.
 */
export function unreadableIn(own: string, replicas: readonly ToldFingerprint[]): readonly string[] {
  const told = toldBy(replicas);
  const known = new Set(told.flatMap(({ secrets }) => Object.keys(readable(secrets))));
  const lackedBy = ({ secrets }: NamedFingerprint) => [...known].filter((reference) => secrets[reference] === null);
  const self = told.find(({ name }) => name === own);
  const isReplaceable = told.some((each) => each !== self && lackedBy(each).length === 0);
  return self !== undefined && isReplaceable ? lackedBy(self) : [];
}

function readable(secrets: Fingerprint['secrets']): Record<string, string> {
  return Object.fromEntries(Object.entries(secrets).filter((entry): entry is [string, string] => entry[1] !== null));
}

function differing(
  told: readonly NamedFingerprint[],
  valuesOf: (each: NamedFingerprint) => Readonly<Record<string, string>>,
): Difference[] {
  const groups = new Map<string, Map<string, string[]>>();
  for (const each of told) {
    for (const [what, value] of Object.entries(valuesOf(each))) {
      const byValue = groups.get(what) ?? new Map<string, string[]>();
      groups.set(what, byValue.set(value, [...(byValue.get(value) ?? []), each.name]));
    }
  }
  return [...groups].flatMap(([what, byValue]) => {
    if (byValue.size < 2) return [];
    const names = [...byValue.values()].map((group) => group.join(', ')).join(' / ');
    return [{ what, message: `${what} differs between replicas: ${names}` }];
  });
}

/** References that some replicas can read and others cannot. One that none can read is not a matter of replicas. */
function unreadable(told: readonly NamedFingerprint[]): Difference[] {
  const whats = new Set(told.flatMap(({ secrets }) => Object.keys(readable(secrets))));
  return [...whats].flatMap((what) => {
    const names = told.filter(({ secrets }) => secrets[what] === null).map(({ name }) => name);
    return names.length === 0 ? [] : [{ what, message: `${what} cannot be read by ${names.join(', ')}` }];
  });
}

function lacking(told: readonly NamedFingerprint[]): Difference[] {
  const whats = new Set(told.flatMap(({ extensions }) => extensions));
  return [...whats].flatMap((what) => {
    const names = told.filter(({ extensions }) => !extensions.includes(what)).map(({ name }) => name);
    return names.length === 0 ? [] : [{ what, message: `The ${what} is missing in ${names.join(', ')}` }];
  });
}
