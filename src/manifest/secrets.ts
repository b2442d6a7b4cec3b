import { formatPath, type JsonPath, mapStrings } from '../expressions/json-path.ts';
import { hasPlaceholder, secretsIn } from '../expressions/template.ts';
import type { Json, JsonObject } from '../model/json.ts';
import { everyStep, type Graph, type ManifestSnapshot, type StepDefinition } from '../model/manifest.ts';
import { credentialsOf, MASK, maskUrl } from './mask.ts';
import { isReference, resolveSecret, type SecretReader, type UnreadSecret } from './read-secret.ts';
import type { Manifest, Trigger } from './schema.ts';
import { type FoundSecret, holdsSecret, isCredential, matches } from './secret-places.ts';
import { maskObjects, objectSecrets } from './trigger-objects.ts';
import { textsIn, WEBHOOK_FIELDS } from './webhook-fields.ts';

/** The secret inputs of each step type, as paths with `*` for any key. */
type SecretInputs = (stepType: string) => readonly string[];

/**
 * References and literal secrets among the secret inputs of a step. A literal counts as secret if its key, such as the
 * name of a header, looks like a credential's, or if it is a URL with a credential in it. A text with a placeholder is
 * neither. A reference in `secret()` counts in every input.
 */
export function stepSecrets(inputs: Json, secretInputs: readonly string[]): FoundSecret[] {
  const found: FoundSecret[] = [];
  mapStrings(inputs, (text, path) => {
    const isInput = isSecretInput(path, secretInputs);
    if (isInput && holdsSecret(text, path) && text !== '' && !hasPlaceholder(text)) found.push({ path, text });
    found.push(...secretsIn(text).map((reference) => ({ path, text: reference, isPart: true as const })));
    return text;
  });
  return found;
}

/** Whether a reference is read at this path if it is the whole input. */
export const isSecretInput = (path: JsonPath, secretInputs: readonly string[]): boolean =>
  secretInputs.some((pattern) => matches(pattern.split('.'), path));

/** Scheme, host and path of a plain-text URL are not secret: readers of the manifest want to see them. */
function isPlainUrl(secret: string, path: JsonPath): boolean {
  return !isReference(secret) && !isCredential(path);
}

/** Every reference to a secret in triggers and steps of a manifest, including children of loops, and its place. */
export function referencesIn(
  manifest: Pick<Manifest, 'triggers' | 'steps'>,
  secretInputs: SecretInputs,
): FoundSecret[] {
  const ofTriggers = Object.entries(manifest.triggers).flatMap(([key, trigger]) =>
    trigger.type !== 'webhook'
      ? []
      : [
          ...WEBHOOK_FIELDS.reference
            .flatMap((field) => textsIn(trigger.inputs, field))
            .map(({ at, text }) => ({ path: ['triggers', key, 'inputs', ...at], text })),
          ...objectSecrets(trigger).map(({ path, text }) => ({ path: ['triggers', key, ...path], text })),
        ],
  );
  return [...ofTriggers, ...graphSecrets(manifest.steps, secretInputs)].filter(({ text }) => isReference(text));
}

/** References and literal secrets in steps, including children of loops, and their places in the manifest. */
export function graphSecrets(graph: Graph, secretInputs: SecretInputs): FoundSecret[] {
  return everyStep(graph).flatMap(({ step, at }) =>
    stepSecrets(step.inputs, secretInputs(step.type)).map((secret) => ({
      ...secret,
      path: [...at, 'inputs', ...secret.path],
    })),
  );
}

/**
 * Puts secrets into rendered inputs. The places come from the inputs as written: a delivery whose data renders to
 * `env:NAME` gets that text, not a secret. Yields the secrets too, so that the caller can mask records.
 */
export function resolveStepSecrets(step: {
  readonly written: Json;
  readonly rendered: Json;
  readonly secretInputs: readonly string[];
  readonly readSecret: SecretReader;
}): { readonly inputs: Json; readonly secrets: readonly string[] } | UnreadSecret {
  const values = new Map<string, string>();
  const secrets: string[] = [];
  for (const { path, text, isPart } of stepSecrets(step.written, step.secretInputs)) {
    if (isPart === true) continue;
    const secret = resolveSecret(text, step.readSecret);
    if ('error' in secret) return { ...secret, error: `inputs.${formatPath(path)}: ${secret.error}` };
    values.set(formatPath(path), secret.value);
    secrets.push(...(isPlainUrl(text, path) ? credentialsOf(text) : [secret.value]));
  }
  const inputs = mapStrings(step.rendered, (text, path) => values.get(formatPath(path)) ?? text);
  return { inputs, secrets };
}

/** The manifest in a form that can be stored and shown: references kept, literal secrets masked. */
export function snapshotOf(manifest: Manifest, secretInputs: SecretInputs): ManifestSnapshot {
  const triggers = Object.entries(manifest.triggers).map(([key, trigger]) => [key, maskTrigger(trigger)]);
  const masked = {
    ...manifest,
    triggers: Object.fromEntries(triggers),
    steps: maskSteps(manifest.steps, secretInputs),
  };
  return JSON.parse(JSON.stringify(masked));
}

function maskPublicUrl(trigger: Trigger): Trigger {
  if (trigger.type !== 'webhook') return trigger;
  const { webhookPublicUrl: url } = trigger.inputs;
  if (url === undefined || isReference(url)) return trigger;
  return { ...trigger, inputs: { ...trigger.inputs, webhookPublicUrl: maskUrl(url) } };
}

function maskTrigger(trigger: Trigger): Trigger {
  if (trigger.type !== 'webhook') return trigger;
  const maskedText = (text: string) => (text === '' || isReference(text) ? text : MASK);
  const masked = WEBHOOK_FIELDS.secret.flatMap((field) => {
    const written = trigger.inputs[field];
    if (written === undefined) return [];
    return [[field, typeof written === 'string' ? maskedText(written) : written.map(maskedText)] as const];
  });
  const inputs = { ...trigger.inputs, ...Object.fromEntries(masked) };
  return maskPublicUrl({ ...trigger, inputs, ...maskObjects(trigger) });
}

function maskStep(step: StepDefinition, secretInputs: SecretInputs): StepDefinition {
  const literals = stepSecrets(step.inputs, secretInputs(step.type)).filter(({ text }) => !isReference(text));
  const paths = new Set(literals.map(({ path }) => formatPath(path)));
  const inputs: JsonObject = mapStrings(step.inputs, (text, path) => {
    if (!paths.has(formatPath(path))) return text;
    return isPlainUrl(text, path) ? maskUrl(text) : MASK;
  });
  const children = step.steps === undefined ? {} : { steps: maskSteps(step.steps, secretInputs) };
  return { ...step, inputs, ...children };
}

/** Includes the children of loops. */
function maskSteps(graph: Graph, secretInputs: SecretInputs): Graph {
  return Object.fromEntries(Object.entries(graph).map(([key, step]) => [key, maskStep(step, secretInputs)]));
}
