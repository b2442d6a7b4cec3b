import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import type { Vars } from '../expressions/compile.ts';
import { formatPath } from '../expressions/json-path.ts';
import { everyStep, type Graph, GUID, type ManifestSnapshot, type ManifestSource } from '../model/manifest.ts';
import { isStorable, UNSTORABLE } from '../model/text.ts';
import { canonicalKeys } from './canonical-keys.ts';
import { checkGraph } from './check-steps.ts';
import { draftManifest } from './draft.ts';
import { errorAt, isWithin, type ManifestIssue, namesOf, type Problem, placesOn, withFewHints } from './issues.ts';
import { guessJson, isObject, placesIn, readJson } from './json-text.ts';
import { MANIFEST_FIELDS } from './manifest-fields.ts';
import { isReference } from './read-secret.ts';
import { asName, type Manifest } from './schema.ts';
import { graphSecrets, snapshotOf } from './secrets.ts';
import { startedFlowsIn } from './sub-flows.ts';
import { checkTriggerExpressions } from './trigger-expressions.ts';
import { resolveObjects } from './trigger-objects.ts';
import { varsRead } from './vars.ts';
import { WEBHOOK_FIELDS, WEBHOOK_ROWS } from './webhook-fields.ts';
import { checkGates, resolveTrigger, type WebhookInputs, type WebhookTrigger } from './webhook-inputs.ts';

/** A manifest that can be deployed. */
export interface LoadedFlow {
  readonly file: string;
  /** Contains secrets in plain text: never stored, shown or logged. */
  readonly manifest: Manifest;
  /** References kept, literal secrets masked. */
  readonly snapshot: ManifestSnapshot;
  /** Contents of named files that are not secret, by reference, from the time of loading. */
  readonly files: Readonly<Record<string, string>>;
  /** Hex SHA-256 of the snapshot and the files. */
  readonly hash: string;
  readonly source: ManifestSource;
  /** Places of plain-text secrets that a stored revision has lost; absent if there are none. */
  readonly lost?: readonly string[];
  /** In manifest order, keys resolved. */
  readonly webhooks: readonly WebhookTrigger[];
  /** Webhook triggers of a stored revision that cannot verify here; their publishers must send again. */
  readonly unserved?: readonly UnservedTrigger[] | undefined;
  /**
   * Why a stored revision cannot work here: a reference that it needs cannot be read. Then none of its webhook triggers
   * is served, and neither a person nor a schedule can start its runs.
   */
  readonly unreadable?: string | undefined;
  /** The manifest has no name, so the flow is named after the file. */
  readonly isNamedByFile?: true;
}

export interface UnservedTrigger {
  readonly triggerKey: string;
  readonly slug: string | undefined;
  /** For an operator. */
  readonly why: string;
}

type StepRules = Parameters<typeof checkGraph>[1];

export interface ManifestRules extends StepRules {
  /** Warnings that weaken a gate are errors. */
  readonly strict: boolean;
  /** Whether plain-text secrets are stored, sealed. */
  readonly sealsSecrets?: boolean | undefined;
  /** Variables that differ by environment, for expressions; none if not given. */
  readonly vars?: Vars | undefined;
  /** The origin of the manifests; defaults to the folder. */
  readonly source?: ManifestSource | undefined;
  /** Checks from rooms that this one does not know, with canonical paths. */
  readonly checks: readonly ManifestCheck[];
  /** Why two triggers cannot share a slug; undefined if they can. If absent, no two can. */
  readonly whyApart?: ((one: WebhookTrigger, other: WebhookTrigger) => string | undefined) | undefined;
}

/** Checks the readable part of a flow; steps and triggers with errors may be missing. */
type ManifestCheck = (flow: LoadedFlow) => readonly Omit<ManifestIssue, 'file'>[];

/** The readable part of a manifest. */
export interface ReadManifest {
  /** Undefined if nothing could be read; its id is empty if that does not fit. Only deployable if `isFit`. */
  readonly flow: LoadedFlow | undefined;
  readonly isFit: boolean;
  readonly issues: ManifestIssue[];
  /** Turns a canonical path into the path as spelled in the file. */
  readonly spell: (path: string) => string;
  /** Adds the line and column of its path, as spelled in the file, to an issue. */
  readonly place: (issue: ManifestIssue) => ManifestIssue;
  /** What the file claims to be, whatever is wrong with it. */
  readonly named: NamedManifest;
}

/** Names from anything that looks like a manifest; nothing is served by it. */
export interface NamedManifest {
  /** Undefined if no id can be read. */
  readonly flowId: string | undefined;
  readonly name: string;
  readonly webhooks: readonly { readonly triggerKey: string; readonly slug: string | undefined }[];
}

export function namedManifest(manifest: unknown, file: string): NamedManifest {
  const { id, name, triggers } = (isObject(manifest) ? manifest : {}) as Readonly<Record<string, unknown>>;
  const given = Object.entries(isObject(triggers) ? triggers : {});
  const webhooks = given.flatMap(([triggerKey, trigger]) => {
    if (!isObject(trigger) || typeof trigger.type !== 'string' || trigger.type.toLowerCase() !== 'webhook') return [];
    const slug = isObject(trigger.inputs) ? trigger.inputs.webhookSlug : undefined;
    return [{ triggerKey, slug: typeof slug === 'string' ? slug : undefined }];
  });
  return {
    flowId: typeof id === 'string' && GUID.test(id) ? id.toLowerCase() : undefined,
    name: typeof name === 'string' && name !== '' && isStorable(name) ? name : basename(file, '.json'),
    webhooks,
  };
}

export function readManifest(text: string, file: string, rules: ManifestRules): ReadManifest {
  const json = readJson(text);
  const inputsOf = (type: unknown) => namesOf(rules.handlers.get(String(type))?.inputs);
  const canonical = withFewHints(() => canonicalKeys(json.value, inputsOf));
  const { flow, problems } =
    json.value === undefined
      ? { flow: undefined, problems: [] }
      : loadDraft(
          withFewHints(() => draftManifest(canonical.value)),
          file,
          rules,
        );
  const spelled = problems.map((problem) => ({ ...problem, path: canonical.spell(problem.path) }));
  const issues = [...json.problems, ...canonical.problems, ...spelled].map((problem): ManifestIssue => {
    return { file, ...problem, ...(rules.strict && problem.weakensGate === true && { severity: 'error' }) };
  });
  const isFit = issues.every((issue) => issue.severity !== 'error');
  const placeOf = placesIn(text);
  const place = (issue: ManifestIssue) => (issue.path === '' ? issue : { ...issue, ...placeOf(issue.path) });
  const named = namedManifest(json.value === undefined ? canonicalKeys(guessJson(text)).value : canonical.value, file);
  const placed = json.value === undefined ? issues : issues.map(place);
  return { flow, isFit, issues: placed, spell: canonical.spell, place, named };
}

function loadDraft(
  draft: ReturnType<typeof draftManifest>,
  file: string,
  rules: ManifestRules,
): { flow: LoadedFlow; problems: Problem[] } {
  const { header, triggers, steps, broken, isBroken } = draft;
  const problems = [...draft.problems];
  const { vars = {} } = rules;
  const graph = { graph: steps, stepKeys: Object.keys(steps), path: ['steps'], outer: [], isBroken, vars };
  const ofGraph = withFewHints(() => checkGraph(graph, rules));
  problems.push(...ofGraph.filter(({ path }) => !isWithin(path, broken)));

  for (const field of ['name', 'version'] as const) {
    if (!isStorable(header[field] ?? '')) problems.push(errorAt([field], UNSTORABLE));
  }
  const unfit = Object.keys(triggers).filter((key) => !isStorable(key));
  problems.push(...unfit.map((key) => errorAt(['triggers', key], `the key ${UNSTORABLE}`)));
  const { $schema, id = '', name = asName(basename(file, '.json')), version = '', ...further } = header;
  const webhooks: WebhookTrigger[] = [];
  for (const [triggerKey, trigger] of Object.entries(triggers)) {
    if (trigger.type !== 'webhook') continue;
    const path = ['triggers', triggerKey];
    const { problems: found, ...resolved } = resolveTrigger(trigger.inputs, [...path, 'inputs'], rules);
    const { objects, problems: ofObjects } = resolveObjects(trigger, path, rules.readSecret);
    problems.push(...found, ...ofObjects);
    webhooks.push({
      flowId: id,
      flowName: name,
      triggerKey,
      ...resolved,
      ...(trigger.enabled === false && ({ isOff: true } as const)),
      ...objects,
    });
  }
  problems.push(...checkTriggerExpressions(triggers), ...checkFields(further));
  const manifest: Manifest = { id, name, version, ...further, triggers, steps };
  const own = startedFlowsIn(manifest).filter(({ flowId }) => flowId === id);
  problems.push(...own.map(({ path }) => errorAt(path, 'is this flow itself')));
  const count = everyStep(steps).length;
  const told = `has ${count} steps, those in loops included; at most ${MAX_STEPS} are accepted`;
  if (count > MAX_STEPS) problems.push(errorAt(['steps'], told));
  const secretInputs = (stepType: string) => rules.handlers.get(stepType)?.secretInputs ?? [];
  if (further.pinInputs === true && rules.sealsSecrets !== true)
    problems.push(...lostWithPinnedInputs(steps, secretInputs));
  const snapshot = snapshotOf(manifest, secretInputs);
  const files = { ...filesOf(triggers, webhooks), ...varsRead(steps, vars) };
  const named = header.name === undefined ? ({ isNamedByFile: true } as const) : {};
  const source = rules.source ?? 'folder';
  const flow = { file, manifest, snapshot, files, hash: hashOf(snapshot, files), source, webhooks, ...named };
  problems.push(...opinionsOn(flow, { rules, broken: errorPaths(problems) }));
  const seen = new Set<string>();
  const isNew = ({ path, message }: Problem) => {
    const isSeen = seen.has(`${path}\n${message}`);
    seen.add(`${path}\n${message}`);
    return !isSeen;
  };
  return { flow, problems: problems.filter(isNew) };
}

/** Mistakes in fields of features. */
function checkFields(given: Omit<Manifest, 'id' | 'name' | 'version' | 'triggers' | 'steps'>): Problem[] {
  return Object.entries(MANIFEST_FIELDS).flatMap(([name, field]) => {
    const isGiven = given[name as keyof typeof given] !== undefined;
    const mistake = isGiven ? field.mistake?.(given) : undefined;
    return mistake === undefined ? [] : [errorAt([name], mistake)];
  });
}

/** After a deploy, a run in flight reads its own revision from the store, where plain-text secrets are only sealed. */
function lostWithPinnedInputs(steps: Graph, secretInputs: Parameters<typeof graphSecrets>[1]): Problem[] {
  return graphSecrets(steps, secretInputs)
    .filter(({ text }) => !isReference(text))
    .map(({ path }) =>
      errorAt(
        path,
        'is a secret in plain text, which is stored only sealed: with pinInputs, runs in flight would lose it at the next ' +
          'deploy; set SLUICE_STORE_KEY, or name it by env:NAME or file:PATH',
      ),
    );
}

function filesOf(triggers: Manifest['triggers'], webhooks: readonly WebhookTrigger[]): Record<string, string> {
  const files = webhooks.flatMap(({ triggerKey, bodySchema }) => {
    const trigger = triggers[triggerKey];
    const written = trigger?.type === 'webhook' ? trigger.inputs.webhookBodySchema : undefined;
    const isRead = typeof written === 'string' && bodySchema !== undefined && 'text' in bodySchema;
    return isRead ? [[written, bodySchema.text] as const] : [];
  });
  return Object.fromEntries(files);
}

function hashOf(snapshot: ManifestSnapshot, files: Readonly<Record<string, string>>): string {
  const hash = createHash('sha256').update(JSON.stringify(snapshot));
  for (const file of Object.entries(files).sort()) hash.update(JSON.stringify(file));
  return hash.digest('hex');
}

/** Up to this, a process can plan, show and compare at once. Authors with more similar steps should use a loop. */
const MAX_STEPS = 10_000;

function errorPaths(problems: readonly Problem[]): Set<string> {
  return new Set(problems.filter(({ severity }) => severity === 'error').map(({ path }) => path));
}

/** A gate stops at its first mistake. More rounds than a trigger has fields find nothing new. */
const MAX_ROUNDS = 50;

/**
 * Problems of trigger fields in combination, without consequences of a field that is already refused: a field counts as
 * broken from its first error on, and the others are checked again without it, until nothing new is found.
 */
function opinionsOn(
  flow: LoadedFlow,
  { rules, broken }: { readonly rules: ManifestRules; readonly broken: Set<string> },
): Problem[] {
  const errors: Problem[] = [];
  for (let round = 0; ; round += 1) {
    const opinions = opinionsWithout(broken, flow, rules);
    const found = opinions.filter(({ severity }) => severity === 'error');
    errors.push(...found);
    if (found.length === 0 || round === MAX_ROUNDS) return [...errors, ...opinions.filter((it) => !found.includes(it))];
    for (const path of errorPaths(found)) broken.add(path);
  }
}

/**
 * Opinions that hold whatever the broken fields should say: of two checks, with as few of them filled as possible and
 * with as many. A consequence of a missing field, or of its filling, appears in only one of the two.
 */
function opinionsWithout(broken: ReadonlySet<string>, flow: LoadedFlow, rules: ManifestRules): Problem[] {
  const fields = brokenFields(flow, broken);
  const lost = new Set(fields);
  const checkWith = (filled: ReadonlySet<string>) => {
    const webhooks = flow.webhooks.map((webhook) => withoutFields(webhook, lost, filled));
    const gates = webhooks.flatMap(({ inputs, triggerKey }) => checkGates(inputs, ['triggers', triggerKey, 'inputs']));
    const all = [...gates, ...rules.checks.flatMap((check) => check({ ...flow, webhooks }))];
    const errors = new Set([...errorPaths(all)].flatMap(placesOn));
    return {
      opinions: all.filter(({ path }) => !isWithin(path, broken)),
      // Broken fields that still caused an error: opinions on other fields may be a consequence.
      refused: fields.filter((field) => errors.has(field)),
    };
  };
  const filled = new Set<string>();
  let least = checkWith(filled);
  if (fields.length === 0) return [...least.opinions];
  for (let lacking = least.refused; lacking.length > 0; lacking = least.refused.filter((it) => !filled.has(it))) {
    for (const field of lacking) filled.add(field);
    least = checkWith(filled);
  }
  for (const field of fields) filled.add(field);
  let most = checkWith(filled);
  for (let refused = most.refused; refused.length > 0; refused = most.refused.filter((it) => filled.has(it))) {
    for (const field of refused) filled.delete(field);
    most = checkWith(filled);
  }
  const said = new Set(most.opinions.map(({ path, message }) => `${path}\n${message}`));
  return least.opinions.filter(({ path, message }) => said.has(`${path}\n${message}`));
}

/** Paths of trigger fields that are broken, or contain something broken. */
function brokenFields({ webhooks }: LoadedFlow, broken: ReadonlySet<string>): string[] {
  const places = new Set([...broken].flatMap(placesOn));
  const keys = webhooks.map(({ triggerKey }) => triggerKey);
  const paths = keys.flatMap((key) =>
    WEBHOOK_FIELDS.all.map((field) => formatPath(['triggers', key, 'inputs', field])),
  );
  return paths.filter((path) => places.has(path));
}

/** Replacements for fields that do not fit while the others are checked: values that any gate can work with. */
const PLAIN_INPUTS = Object.entries(WEBHOOK_ROWS).flatMap(([field, { plain }]) =>
  plain === undefined ? [] : [[field, plain] as const],
);

function withoutFields(
  webhook: WebhookTrigger,
  lost: ReadonlySet<string>,
  filled: ReadonlySet<string>,
): WebhookTrigger {
  const pathOf = (field: string) => formatPath(['triggers', webhook.triggerKey, 'inputs', field]);
  if (lost.size === 0) return webhook;
  const isLost = (field: keyof WebhookInputs) => lost.has(pathOf(field));
  const { inputs, keys, verifyToken } = webhook;
  const fitting = Object.entries(inputs).filter(([field]) => !lost.has(pathOf(field)));
  const plain = PLAIN_INPUTS.filter(([field]) => lost.has(pathOf(field)) && filled.has(pathOf(field)));
  return {
    ...webhook,
    inputs: Object.fromEntries([...fitting, ...plain]),
    keys: {
      ...(isLost('webhookHmacKey') || isLost('webhookSecret') ? { current: undefined } : keys),
      previous: isLost('webhookHmacKeyPrevious') || isLost('webhookSecretPrevious') ? undefined : keys.previous,
    },
    verifyToken: isLost('webhookVerifyToken') ? undefined : verifyToken,
    bodySchema: isLost('webhookBodySchema') ? undefined : webhook.bodySchema,
  };
}
