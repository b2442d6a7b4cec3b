import { formatPath, type JsonPath } from '../expressions/json-path.ts';
import type { Json } from '../model/json.ts';
import type { Graph, ManifestSnapshot, ManifestSource, StepDefinition } from '../model/manifest.ts';
import { isSame } from './diff.ts';
import { isMasked, MASK, maskUrl } from './mask.ts';
import type { LoadedFlow, ManifestRules } from './parse.ts';
import { isReference } from './read-secret.ts';
import type { Manifest, Trigger } from './schema.ts';
import { graphSecrets, referencesIn } from './secrets.ts';
import { resolveTrigger, WEBHOOK_FIELDS, type WebhookInputs } from './webhook-inputs.ts';

interface StoredRevision {
  readonly name: string;
  readonly snapshot: ManifestSnapshot;
  readonly hash: string;
  /** Null where an earlier release deployed it, from the folder. */
  readonly source: ManifestSource | null;
}

/** Those of the source that the revision came from. */
type StoredRules = Pick<ManifestRules, 'readSecret' | 'checks' | 'strict' | 'handlers'>;

/**
 * A stored revision, ready to use again. Plain-text secrets are not stored: a trigger's secret is taken from the same
 * field of the given manifest, a step's only if the step is the same in both, because a secret must not be sent to an
 * address that it was not written for. A key that is not found counts as missing, so the trigger refuses what it cannot
 * verify, and no legacy key replaces it. `problems` has a line for each.
 */
export function storedFlow(
  { name, snapshot, hash, source }: StoredRevision,
  rules: StoredRules,
  other: LoadedFlow | undefined,
): { readonly flow: LoadedFlow; readonly problems: readonly string[] } {
  const stored = snapshot as unknown as Manifest;
  const problems: string[] = [];
  const report = (place: string, what: string) => problems.push(`${name} ${place}: ${what}`);
  const triggers = Object.entries(stored.triggers).map(([key, trigger]): [string, Trigger] => {
    if (trigger.type !== 'webhook') return [key, trigger];
    const same = own(other?.manifest.triggers ?? {}, key);
    const inputs = secretsFrom(trigger.inputs, same?.type === 'webhook' ? same.inputs : {}, (field) =>
      report(
        `triggers.${key}.inputs.${field}`,
        'was in plain text and is not stored: deliveries cannot be verified with it',
      ),
    );
    return [key, { ...trigger, inputs }];
  });
  const manifest: Manifest = {
    ...stored,
    triggers: Object.fromEntries(triggers),
    steps: stepsFrom(stored.steps, other),
  };
  const forbidden = forbiddenReferences(manifest, rules);
  const webhooks = triggers.flatMap(([triggerKey, trigger]) => {
    if (trigger.type !== 'webhook') return [];
    const path = ['triggers', triggerKey, 'inputs'];
    // In a mode that refuses nothing a trigger without its key would let every delivery in.
    if (forbidden.some(({ path: place }) => place[0] === 'triggers' && place[1] === triggerKey)) return [];
    const { problems: found, ...resolved } = resolveTrigger(trigger.inputs, path, rules.readSecret);
    for (const { path: place, message, severity } of found) if (severity === 'error') report(place, message);
    const { searchKeys } = trigger;
    const keyed = searchKeys === undefined ? {} : { searchKeys };
    return [{ flowId: stored.id, flowName: name, triggerKey, ...resolved, ...keyed }];
  });
  for (const { path, message } of forbidden) {
    report(formatPath(path), `${message}; ${path[0] === 'triggers' ? 'the trigger is not served' : 'the step fails'}`);
  }
  const flow: LoadedFlow = {
    file: `${name}.json`,
    manifest: { ...manifest, name },
    snapshot,
    hash,
    source: source ?? 'folder',
    webhooks,
  };
  return withoutUnfit(flow, rules, { problems, report });
}

/**
 * A stored revision as a manifest to deploy again. Secrets that were written out come from the manifest given, as
 * `storedFlow` takes them. `lost` has the place of each that is not found there: the manifest holds no secret in that
 * place and must not be deployed.
 */
export function storedManifest(
  snapshot: ManifestSnapshot,
  { handlers }: Pick<ManifestRules, 'handlers'>,
  other: LoadedFlow | undefined,
): { readonly manifest: Manifest; readonly lost: readonly JsonPath[] } {
  const stored = snapshot as unknown as Manifest;
  const lost: JsonPath[] = [];
  const triggers = Object.entries(stored.triggers).map(([key, trigger]): [string, Trigger] => {
    if (trigger.type !== 'webhook') return [key, trigger];
    const same = own(other?.manifest.triggers ?? {}, key);
    const inputs = secretsFrom(trigger.inputs, same?.type === 'webhook' ? same.inputs : {}, () => {});
    const unfilled = WEBHOOK_FIELDS.secret.filter((field) => {
      // A trigger in force that has lost its own key has an empty one in its place.
      return trigger.inputs[field] === MASK && (inputs[field] === '' || inputs[field] === MASK);
    });
    const isUrlLost = isMasked(inputs.webhookPublicUrl ?? '');
    const fields = [...unfilled, ...(isUrlLost ? (['webhookPublicUrl'] as const) : [])];
    lost.push(...fields.map((field) => ['triggers', key, 'inputs', field]));
    return [key, { ...trigger, inputs }];
  });
  const steps = stepsFrom(stored.steps, other);
  const literals = graphSecrets(steps, (stepType) => handlers.get(stepType)?.secretInputs ?? []);
  lost.push(...literals.filter(({ text }) => !isReference(text) && isMasked(text)).map(({ path }) => path));
  return { manifest: { ...stored, triggers: Object.fromEntries(triggers), steps }, lost };
}

/** References of a manifest to secrets that its source may not read, and why not. */
export function forbiddenReferences(
  manifest: Pick<Manifest, 'triggers' | 'steps'>,
  { readSecret, handlers }: Pick<ManifestRules, 'readSecret' | 'handlers'>,
): { readonly path: JsonPath; readonly message: string }[] {
  const secretInputs = (stepType: string) => handlers.get(stepType)?.secretInputs ?? [];
  return referencesIn(manifest, secretInputs).flatMap(({ path, text }) => {
    const read = readSecret(text);
    return 'error' in read && read.isForbidden === true ? [{ path, message: read.error }] : [];
  });
}

/**
 * A trigger that no gate can be made of is not served, nor one whose scheme is unknown: the scheme may have left with
 * the operator's code since, and without it everything would get in.
 */
function withoutUnfit(
  flow: LoadedFlow,
  rules: Pick<ManifestRules, 'checks' | 'strict'>,
  { problems, report }: { problems: string[]; report: (place: string, what: string) => void },
) {
  const webhooks = flow.webhooks.filter((webhook) => {
    const issues = rules.checks.flatMap((check) => check({ ...flow, webhooks: [webhook] }));
    const errors = issues.filter(
      ({ severity, weakensGate, skipsGate }) => severity === 'error' || skipsGate || (rules.strict && weakensGate),
    );
    for (const { path, message } of errors) report(path, `${message}; the trigger is not served`);
    return errors.length === 0;
  });
  return { flow: { ...flow, webhooks }, problems };
}

function secretsFrom(stored: WebhookInputs, other: WebhookInputs, lost: (field: string) => void): WebhookInputs {
  const keys = WEBHOOK_FIELDS.secret
    .filter((field) => stored[field] === MASK)
    .map((field) => {
      const found = other[field];
      if (found === undefined) lost(field);
      // Empty means no key, and unlike a missing field it keeps a legacy name from counting instead.
      return [field, found ?? ''];
    });
  return { ...stored, ...Object.fromEntries(keys), ...publicUrlFrom(stored, other) };
}

/** A masked URL that is not found verifies nothing, and what is read from it later says so. */
function publicUrlFrom({ webhookPublicUrl: stored }: WebhookInputs, { webhookPublicUrl: other }: WebhookInputs) {
  const isFound = stored !== undefined && isMasked(stored) && other !== undefined && maskUrl(other) === stored;
  return isFound ? { webhookPublicUrl: other } : {};
}

function stepsFrom(stored: Graph, other: LoadedFlow | undefined): Graph {
  const snapshot = other?.snapshot as { readonly steps?: Readonly<Record<string, Json>> } | undefined;
  const steps = Object.entries(stored).map(([key, step]): [string, StepDefinition] => {
    const loaded = own(other?.manifest.steps ?? {}, key);
    const shown = own(snapshot?.steps ?? {}, key);
    const isUnchanged = loaded !== undefined && isSame(step as unknown as Json, shown);
    return [key, isUnchanged ? loaded : step];
  });
  return Object.fromEntries(steps);
}

function own<Value>(object: Readonly<Record<string, Value>>, key: string): Value | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}
