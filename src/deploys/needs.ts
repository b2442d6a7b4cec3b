import { randomBytes, scrypt } from 'node:crypto';
import { isDeepStrictEqual, promisify } from 'node:util';
import { describeSettings, type Settings } from '../config/settings-schema.ts';
import { formatPath } from '../expressions/json-path.ts';
import { literalsOf } from '../manifest/literals.ts';
import type { LoadedFlow, ManifestRules } from '../manifest/load.ts';
import { isReference } from '../manifest/read-secret.ts';
import type { OpenedNeeds } from '../manifest/stored.ts';
import { textsIn, WEBHOOK_FIELDS } from '../manifest/webhook-fields.ts';
import type { Finding } from '../model/finding.ts';
import type { JsonObject } from '../model/json.ts';
import type { ManifestSource } from '../model/manifest.ts';
import { storableUrl } from '../model/text.ts';
import type { RevisionNeeds, RevisionRecord } from '../store/store.ts';
import { judgesOf } from '../webhooks/access-rules.ts';

/** Settings that decide which deliveries get in, by name, in a form that can be stored. */
export function accessSettings(settings: Settings): JsonObject {
  const names = describeSettings().filter(({ replicas }) => replicas === 'access');
  const { publicUrl } = settings;
  const access = {
    ...Object.fromEntries(names.map(({ name }) => [name, settings[name]])),
    publicUrl: storableUrl(publicUrl),
  };
  return JSON.parse(JSON.stringify(access));
}

/** A usable key. */
interface Sealer {
  readonly keyId: string;
  digest(text: string): string;
  seal(bytes: Uint8Array, belongsTo: string): Buffer;
  open(sealed: Uint8Array, about: { readonly deliveryId: string; readonly bodyBytes: number }): Buffer | undefined;
}

/** Keys that seal the secrets of revisions. */
interface NeedsKeys {
  /** Seals from now on; undefined without a key: then only owners of the manifest have its plain-text secrets. */
  readonly current: Sealer | undefined;
  /** Also finds earlier keys. */
  find(keyId: string): Sealer | undefined;
}

export type ChangedSecrets = ReadonlyMap<string, string | null>;

/** Findings about references whose value changed, by place, and about secrets (null) that cannot be compared. */
export function secretFindings(changed: ChangedSecrets): Finding[] {
  return [...changed].map(([path, reference]) => ({
    rule: 'secret-changed',
    class: 'safe',
    path,
    ...(reference !== null && { before: reference, after: reference }),
    message:
      reference === null
        ? `Whether ${path} is the secret that was deployed cannot be told: the key that sealed it is lost.`
        : `The value of ${reference} changed.`,
    consequence: 'Deliveries are verified with it from now on. Runs in flight are not affected.',
    advice: 'If you did not change it, find out who did: whoever knows it can start runs.',
  }));
}

/** How the needs of a manifest differ from those of the revision with the same text. */
interface NeedsDifference {
  /** A plain-text secret differs, or comes from the API and cannot be compared. */
  readonly isForeign: boolean;
  /**
   * By place: references whose value changed, and null for plain-text secrets of the folder that cannot be compared,
   * because the key that sealed the stored ones is lost. The folder belongs to the operator as the key does.
   */
  readonly changed: ChangedSecrets;
}

/** Reads and writes the needs of revisions, which their snapshots lack. */
export interface NeedsReader {
  /** Whether plain-text secrets can be stored. */
  readonly canSeal: boolean;
  /** Places of plain-text secrets. */
  literalPlaces(manifest: LoadedFlow['manifest']): readonly string[];
  needsOf(flow: LoadedFlow): Promise<RevisionNeeds>;
  /** `offered` can provide secrets that were not stored: each counts only if its digest matches the stored one. */
  open(revision: Pick<RevisionRecord, 'flowId' | 'needs'>, offered: LoadedFlow | undefined): Promise<OpenedNeeds>;
  compare(revision: Pick<RevisionRecord, 'needs'>, flow: LoadedFlow): Promise<NeedsDifference>;
  /** Whether the scheme of a trigger was known and is no longer: it has left with the operator's code. */
  lacksScheme(revision: Pick<RevisionRecord, 'needs'>, flow: LoadedFlow): boolean;
  /** The access settings and operator's code from when the revision was last put in force, if they were different. */
  formerJudges(revision: Pick<RevisionRecord, 'needs'>, flow: LoadedFlow): FormerJudges | undefined;
}

export type FormerJudges = Pick<RevisionNeeds, 'settings' | 'judges'>;

interface NeedsServices {
  readonly keys: NeedsKeys;
  readonly rules: Readonly<Record<ManifestSource, Pick<ManifestRules, 'handlers' | 'readSecret'>>>;
  /** The code that judges triggers. */
  readonly gates: Parameters<typeof judgesOf>[1];
  /** Settings that decide which deliveries get in. */
  readonly settings: JsonObject;
}

export function createNeedsReader({ keys, rules, gates, settings }: NeedsServices): NeedsReader {
  const { isSigned } = gates;
  const literals = ({ source, manifest }: Pick<LoadedFlow, 'source' | 'manifest'>) =>
    literalsOf(manifest, (stepType) => rules[source].handlers.get(stepType)?.secretInputs ?? []);

  /** Undefined if the key is unavailable. */
  const digester = (digestedWith: RevisionNeeds['digestedWith'], flowId: string) => {
    const textOf = (name: string, value: string) => JSON.stringify(['secret of a revision', flowId, name, value]);
    if ('salt' in digestedWith) {
      return (name: string, value: string) => slowDigest(textOf(name, value), digestedWith.salt);
    }
    const sealer = keys.find(digestedWith.keyId);
    return sealer && (async (name: string, value: string) => sealer.digest(textOf(name, value)));
  };

  return {
    canSeal: keys.current !== undefined,
    literalPlaces: (manifest) => [...literals({ source: 'api', manifest }).keys()],
    async needsOf(flow) {
      const { current } = keys;
      const { id } = flow.manifest;
      const digestedWith = current === undefined ? { salt: randomBytes(16).toString('hex') } : { keyId: current.keyId };
      const digest = digester(digestedWith, id);
      const written = literals(flow);
      const values = [
        ...written,
        ...[...referencesOf(flow, rules[flow.source].readSecret)].map(([text, { value }]) => [text, value] as const),
      ];
      const digests = await Promise.all(
        values.map(async ([name, value]) => [name, (await digest?.(name, value)) ?? '']),
      );
      const bytes = Buffer.from(JSON.stringify(Object.fromEntries(written)));
      return {
        files: flow.files,
        sealed:
          current === undefined || written.size === 0
            ? null
            : {
                keyId: current.keyId,
                bytes: bytes.byteLength,
                text: current.seal(bytes, sealedFor(id)).toString('base64'),
              },
        digestedWith,
        digests: Object.fromEntries(digests),
        signed: flow.webhooks.filter(isSigned).map(({ triggerKey }) => triggerKey),
        settings,
        judges: judgesIn(flow, gates),
      };
    },
    async open({ flowId, needs }, offered) {
      if (needs === null) return { files: {}, literals: new Map(), lost: [], signed: undefined };
      const { files, sealed, digests, signed } = needs;
      const places = Object.keys(digests).filter((name) => !isReference(name));
      const opened = sealed === null ? undefined : openSealed(sealed, { flowId, keys });
      if (opened !== undefined) {
        return { files, literals: opened, lost: places.filter((place) => !opened.has(place)), signed };
      }
      const found = new Map<string, string>();
      const digest = digester(needs.digestedWith, flowId);
      const others = offered === undefined ? new Map<string, string>() : literals(offered);
      for (const place of places) {
        const text = others.get(place);
        if (text !== undefined && digests[place] === (await digest?.(place, text))) found.set(place, text);
      }
      return { files, literals: found, lost: places.filter((place) => !found.has(place)), signed };
    },
    async compare({ needs }, flow) {
      const written = literals(flow);
      if (needs === null) return { isForeign: written.size > 0, changed: new Map() };
      const digest = digester(needs.digestedWith, flow.manifest.id);
      const isSame = async (name: string, value: string) => needs.digests[name] === (await digest?.(name, value));
      const changed = new Map<string, string | null>();
      const isTaken = digest === undefined && flow.source === 'folder';
      if (isTaken) for (const place of written.keys()) changed.set(place, null);
      const same = await Promise.all([...written].map(([place, text]) => isTaken || isSame(place, text)));
      for (const [text, { place, value }] of referencesOf(flow, rules[flow.source].readSecret)) {
        // Without a stored digest, or without the key to compare it, the value may always have been this one.
        if (digest === undefined || needs.digests[text] === undefined) continue;
        if (!(await isSame(text, value))) changed.set(place, text);
      }
      return { isForeign: same.includes(false), changed };
    },
    lacksScheme: ({ needs }, { webhooks }) =>
      webhooks.some((trigger) => needs?.signed.includes(trigger.triggerKey) === true && !isSigned(trigger)),
    formerJudges({ needs }, flow) {
      if (needs === null) return undefined;
      return isJudgedAs(needs, flow, gates) && isDeepStrictEqual(needs.settings, settings) ? undefined : needs;
    },
  };
}

function judgesIn({ webhooks }: LoadedFlow, gates: NeedsServices['gates']): NonNullable<RevisionNeeds['judges']> {
  return Object.fromEntries(webhooks.map((trigger) => [trigger.triggerKey, judgesOf(trigger, gates)]));
}

/** Whether the same code judges the triggers, and knows no scheme that was unknown. */
function isJudgedAs({ judges = {}, signed }: RevisionNeeds, flow: LoadedFlow, gates: NeedsServices['gates']): boolean {
  return (
    flow.webhooks.every((trigger) => !gates.isSigned(trigger) || signed.includes(trigger.triggerKey)) &&
    Object.entries(judgesIn(flow, gates)).every(
      ([key, now]) => !Object.hasOwn(judges, key) || isDeepStrictEqual(judges[key], now),
    )
  );
}

/** Current values of the references that decide access, and the first place of each. */
function referencesOf({ manifest }: LoadedFlow, readSecret: ManifestRules['readSecret']) {
  const found = new Map<string, { readonly place: string; readonly value: string }>();
  for (const [key, trigger] of Object.entries(manifest.triggers)) {
    if (trigger.type !== 'webhook') continue;
    const fields = [...WEBHOOK_FIELDS.secret, 'webhookPublicUrl'] as const;
    for (const { at, text } of fields.flatMap((field) => textsIn(trigger.inputs, field))) {
      if (!isReference(text) || found.has(text)) continue;
      const read = readSecret(text);
      const place = formatPath(['triggers', key, 'inputs', ...at]);
      if ('value' in read) found.set(text, { place, value: read.value });
    }
  }
  return found;
}

function openSealed(
  { keyId, bytes, text }: NonNullable<RevisionNeeds['sealed']>,
  { flowId, keys }: { readonly flowId: string; readonly keys: NeedsKeys },
): ReadonlyMap<string, string> | undefined {
  const about = { deliveryId: sealedFor(flowId), bodyBytes: bytes };
  const opened = keys.find(keyId)?.open(Buffer.from(text, 'base64'), about);
  return opened && new Map(Object.entries(JSON.parse(opened.toString()) as Record<string, string>));
}

/** Binds secrets to their flow: they cannot be opened for another one. */
function sealedFor(flowId: string): string {
  return `secrets of ${flowId}`;
}

const derive = promisify<string, string, number, { N: number; r: number; p: number }, Buffer>(scrypt);

/** Without a key, readers of the database could guess short secrets by their digests: a guess costs some 40 ms. */
async function slowDigest(text: string, salt: string): Promise<string> {
  return (await derive(text, salt, 16, { N: 16_384, r: 8, p: 1 })).toString('hex');
}
