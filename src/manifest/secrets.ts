import { createHash } from 'node:crypto';
import { formatPath, type JsonPath } from '../expressions/json-path.ts';
import { mapStrings } from '../expressions/map-strings.ts';
import { hasPlaceholder } from '../expressions/template.ts';
import type { Json, JsonObject } from '../model/json.ts';
import type { Graph, Manifest, ManifestSnapshot, StepDefinition, Trigger } from '../model/manifest.ts';
import { MASK } from './mask-secrets.ts';
import type { SecretReader } from './read-secret.ts';
import { SECRET_WEBHOOK_FIELDS } from './webhook-inputs.ts';

const CREDENTIAL_NAME = /authorization|cookie|token|secret|api-?_?key|passw(or)?d|credential/i;

/** The secret inputs of each step type, as paths with `*` for any key. */
export type SecretInputs = (stepType: string) => readonly string[];

export function isReference(text: string): boolean {
  return /^(env|file):/i.test(text);
}

/** A reference read, a literal as it is. */
export function resolveSecret(text: string, readSecret: SecretReader): { value: string } | { error: string } {
  return isReference(text) ? readSecret(text) : { value: text };
}

/** A secret in the inputs of a step, as written. */
export interface StepSecret {
  readonly path: JsonPath;
  readonly text: string;
}

/**
 * References and literal secrets among the secret inputs of a step. A literal counts as one where its key, such as the
 * name of a header, looks like a credential's. What holds a placeholder is neither.
 */
export function stepSecrets(inputs: Json, secretInputs: readonly string[]): StepSecret[] {
  const found: StepSecret[] = [];
  const patterns = secretInputs.map((pattern) => pattern.split('.'));
  mapStrings(inputs, (text, path) => {
    const isInput = patterns.some((pattern) => matches(pattern, path));
    const isSecret = isReference(text) || CREDENTIAL_NAME.test(String(path.at(-1)));
    if (isInput && isSecret && text !== '' && !hasPlaceholder(text)) found.push({ path, text });
    return text;
  });
  return found;
}

/**
 * Puts secrets into rendered inputs. The places are taken from the inputs as written: a delivery whose data renders to
 * `env:NAME` gets that text and no secret. Yields the secrets too, for whoever masks what is recorded.
 */
export function resolveStepSecrets(step: {
  readonly written: Json;
  readonly rendered: Json;
  readonly secretInputs: readonly string[];
  readonly readSecret: SecretReader;
}): { readonly inputs: Json; readonly secrets: readonly string[] } | { readonly error: string } {
  const values = new Map<string, string>();
  for (const { path, text } of stepSecrets(step.written, step.secretInputs)) {
    const secret = resolveSecret(text, step.readSecret);
    if ('error' in secret) return { error: `inputs.${formatPath(path)}: ${secret.error}` };
    values.set(formatPath(path), secret.value);
  }
  const inputs = mapStrings(step.rendered, (text, path) => values.get(formatPath(path)) ?? text);
  return { inputs, secrets: [...values.values()] };
}

/** The manifest as it may be stored and shown: references kept, literal secrets masked. */
export function snapshotOf(manifest: Manifest, secretInputs: SecretInputs): ManifestSnapshot {
  const triggers = Object.entries(manifest.triggers).map(([key, trigger]) => [key, maskTrigger(trigger)]);
  const masked = {
    ...manifest,
    triggers: Object.fromEntries(triggers),
    steps: maskSteps(manifest.steps, secretInputs),
  };
  return JSON.parse(JSON.stringify(masked));
}

/** Hex SHA-256 of a snapshot. */
export function hashOf(snapshot: ManifestSnapshot): string {
  return createHash('sha256').update(JSON.stringify(snapshot)).digest('hex');
}

function maskTrigger(trigger: Trigger): Trigger {
  if (trigger.type !== 'webhook') return trigger;
  const masked = SECRET_WEBHOOK_FIELDS.filter((field) => {
    const text = trigger.inputs[field];
    return text !== undefined && text !== '' && !isReference(text);
  }).map((field) => [field, MASK]);
  return { ...trigger, inputs: { ...trigger.inputs, ...Object.fromEntries(masked) } };
}

function maskStep(step: StepDefinition, secretInputs: SecretInputs): StepDefinition {
  const literals = stepSecrets(step.inputs, secretInputs(step.type)).filter(({ text }) => !isReference(text));
  const paths = new Set(literals.map(({ path }) => formatPath(path)));
  const inputs: JsonObject = mapStrings(step.inputs, (text, path) => (paths.has(formatPath(path)) ? MASK : text));
  const children = step.steps === undefined ? {} : { steps: maskSteps(step.steps, secretInputs) };
  return { ...step, inputs, ...children };
}

/** The children of loops too. */
function maskSteps(graph: Graph, secretInputs: SecretInputs): Graph {
  return Object.fromEntries(Object.entries(graph).map(([key, step]) => [key, maskStep(step, secretInputs)]));
}

function matches(pattern: readonly string[], path: JsonPath): boolean {
  return pattern.length === path.length && pattern.every((key, index) => key === '*' || key === String(path[index]));
}
