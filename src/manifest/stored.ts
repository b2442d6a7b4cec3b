import { formatPath, type JsonPath } from '../expressions/json-path.ts';
import type { ManifestSnapshot, ManifestSource } from '../model/manifest.ts';
import { withLiterals } from './literals.ts';
import { MASK } from './mask.ts';
import type { LoadedFlow, ManifestRules, UnservedTrigger } from './parse.ts';
import type { Manifest } from './schema.ts';
import { referencesIn } from './secrets.ts';
import { objectSecrets, resolveObjects } from './trigger-objects.ts';
import { textsIn, WEBHOOK_FIELDS } from './webhook-fields.ts';
import { REPEATED_KEY, resolveTrigger } from './webhook-inputs.ts';

interface StoredRevision {
  readonly name: string;
  readonly snapshot: ManifestSnapshot;
  readonly hash: string;
  /** Null if the service deployed a flow of its own. */
  readonly source: ManifestSource | null;
}

/** The data that a snapshot lacks, as far as this process can obtain it. */
export interface OpenedNeeds {
  /** Contents of files that are not secret, by reference. */
  readonly files: Readonly<Record<string, string>>;
  /** Plain-text secrets, by place. */
  readonly literals: ReadonlyMap<string, string>;
  /** Places of secrets that cannot be obtained. */
  readonly lost: readonly string[];
  /** Keys of triggers whose scheme was known when the revision was last put in force; undefined if nobody can say. */
  readonly signed: readonly string[] | undefined;
}

/** The rules for the source of the revision. */
type StoredRules = Pick<ManifestRules, 'readSecret' | 'checks' | 'strict' | 'handlers'>;

/**
 * A stored revision, ready for use. If a secret is lost, no trigger of the flow is served, as with a reference that
 * cannot be read: the key may come back, and publishers send again. `problems` has one line for each.
 */
export function storedFlow(
  { name, snapshot, hash, source }: StoredRevision,
  rules: StoredRules,
  { files, literals, lost: missing, signed }: OpenedNeeds,
): { readonly flow: LoadedFlow; readonly problems: readonly string[] } {
  const problems: string[] = [];
  const report = (place: string, what: string) => problems.push(`${name} ${place}: ${what}`);
  const filled = withLiterals(snapshot as unknown as Manifest, literals);
  const masked = maskedKeys(filled);
  const lost = [...new Set([...missing, ...masked])];
  // Empty means no key and, unlike a missing field, prevents the fallback to a legacy name.
  const stored = withLiterals(filled, new Map(masked.map((place) => [place, ''])));
  const forbidden = forbiddenReferences(stored, rules);
  const unserved: UnservedTrigger[] = [];
  const unread = new Map([...lost.map((place) => [place, LOST] as const), ...unreadReferences(stored, rules, files)]);
  const webhooks = Object.entries(stored.triggers).flatMap(([triggerKey, trigger]) => {
    if (trigger.type !== 'webhook') return [];
    const path = ['triggers', triggerKey, 'inputs'];
    // In a mode that refuses nothing, a trigger without its key would accept every delivery.
    const lack = forbidden.find(({ path: place }) => place[0] === 'triggers' && place[1] === triggerKey);
    if (lack !== undefined) {
      unserved.push({ triggerKey, slug: trigger.inputs.webhookSlug, why: lack.message });
      return [];
    }
    const { problems: found, ...resolved } = resolveTrigger(trigger.inputs, path, {
      readSecret: rules.readSecret,
      files,
    });
    for (const { path: place, message, severity } of found) {
      if (severity === 'error' && message !== REPEATED_KEY) unread.set(place, message);
    }
    // A reference that cannot be read here only stops queries of the publisher's log: the trigger still accepts.
    const { objects } = resolveObjects(trigger, [], rules.readSecret);
    const keyed = {
      ...(trigger.enabled === false && ({ isOff: true } as const)),
      ...objects,
    };
    return [{ flowId: stored.id, flowName: name, triggerKey, ...resolved, ...keyed }];
  });
  for (const { path, message } of forbidden) {
    report(formatPath(path), `${message}; ${path[0] === 'triggers' ? 'the trigger is not served' : 'the step fails'}`);
  }
  for (const [place, message] of unread) report(place, `${message}; no trigger of the flow is served`);
  const [unreadable] = [...unread].map(([place, message]) => `${place}: ${message}`);
  const flow: LoadedFlow = {
    file: `${name}.json`,
    manifest: { ...stored, name },
    snapshot,
    files,
    hash,
    source: source ?? 'folder',
    webhooks,
    unserved,
    ...(unreadable !== undefined && { unreadable }),
    ...(lost.length > 0 && { lost }),
  };
  return withoutUnfit(flow, rules, { signed, problems, report });
}

const LOST = 'was in plain text and is not stored in a form that this process can read';

/** Places where a trigger has a mask as key. All readers of the snapshot know the mask, so it must never be a key. */
function maskedKeys({ triggers }: Pick<Manifest, 'triggers'>): string[] {
  return Object.entries(triggers).flatMap(([key, trigger]) =>
    trigger.type === 'webhook'
      ? [
          ...WEBHOOK_FIELDS.secret
            .flatMap((field) => textsIn(trigger.inputs, field))
            .filter(({ text }) => text === MASK)
            .map(({ at }) => formatPath(['triggers', key, 'inputs', ...at])),
          ...objectSecrets(trigger)
            .filter(({ text }) => text === MASK)
            .map(({ path }) => formatPath(['triggers', key, ...path])),
        ]
      : [],
  );
}

/** Places of unreadable references, and why. Files that were read at the deploy can be missing. */
function unreadReferences(
  manifest: Pick<Manifest, 'triggers' | 'steps'>,
  { readSecret, handlers }: Pick<ManifestRules, 'readSecret' | 'handlers'>,
  files: OpenedNeeds['files'],
): Map<string, string> {
  const secretInputs = (stepType: string) => handlers.get(stepType)?.secretInputs ?? [];
  const references = referencesIn(manifest, secretInputs).filter(({ text }) => !Object.hasOwn(files, text));
  return new Map(
    references.flatMap(({ path, text }) => {
      const read = readSecret(text);
      return 'error' in read && read.isForbidden !== true ? [[formatPath(path), read.error] as const] : [];
    }),
  );
}

/** References of a manifest to secrets that its source may not read, and why not. */
function forbiddenReferences(
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
 * Leaves out triggers without a working gate, or whose scheme was known and has left with the operator's code: without
 * it, everything would get in. Publishers get 503, so they can send again. A scheme that nobody ever knew is skipped.
 */
function withoutUnfit(
  flow: LoadedFlow,
  rules: Pick<ManifestRules, 'checks' | 'strict'>,
  {
    signed,
    problems,
    report,
  }: Pick<OpenedNeeds, 'signed'> & { problems: string[]; report: (place: string, what: string) => void },
) {
  const unserved = [...(flow.unserved ?? [])];
  const webhooks = flow.webhooks.filter((webhook) => {
    const issues = rules.checks.flatMap((check) => check({ ...flow, webhooks: [webhook] }));
    const { triggerKey, inputs } = webhook;
    const wasSigned = signed?.includes(triggerKey) !== false;
    const errors = issues.filter(
      ({ severity, weakensGate, skipsGate }) =>
        severity === 'error' || (skipsGate && wasSigned) || (rules.strict && weakensGate),
    );
    for (const issue of issues) {
      if (errors.includes(issue)) report(issue.path, `${issue.message}; the trigger is not served`);
      else if (issue.skipsGate) report(issue.path, issue.message);
    }
    if (errors[0] !== undefined) unserved.push({ triggerKey, slug: inputs.webhookSlug, why: errors[0].message });
    return errors.length === 0;
  });
  return { flow: { ...flow, webhooks, unserved }, problems };
}
