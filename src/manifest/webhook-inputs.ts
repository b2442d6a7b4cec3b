import type { JsonPath } from '../expressions/json-path.ts';
import type { JsonObject } from '../model/json.ts';
import { type BodySchema, compileBodySchema, parseBodySchema } from './body-schema.ts';
import { isHttpUrl } from './fields/values.ts';
import { errorAt, gateWarningAt, type Problem, plainTextSecret, warningAt } from './issues.ts';
import { isMasked, MASK, maskUrl } from './mask.ts';
import { isReference, resolveSecret, type SecretReader } from './read-secret.ts';
import { type ObjectsOfTrigger, textsIn, WEBHOOK_FIELDS, type WebhookInputs } from './webhook-fields.ts';

export type { WebhookInputs } from './webhook-fields.ts';

/** A webhook trigger of a loaded flow, its secrets resolved. Never serialised. */
export interface WebhookTrigger extends ObjectsOfTrigger {
  readonly flowId: string;
  readonly flowName: string;
  readonly triggerKey: string;
  readonly inputs: WebhookInputs;
  /** Switched off in the manifest: it answers like that of a disabled flow. */
  readonly isOff?: true;
  /** Resolved keys; undefined if empty or missing. `others` count like the current one; absent if there are none. */
  readonly keys: {
    readonly current: string | undefined;
    readonly previous: string | undefined;
    readonly others?: readonly string[];
  };
  /** Resolved; undefined if empty or missing. */
  readonly verifyToken?: string | undefined;
  /** Compiled, or with an error if unusable, in which case no body matches. Absent if the trigger has none. */
  readonly bodySchema?: BodySchema | { readonly error: string } | undefined;
  /** A legacy key field and its present name are both set; the present one won. */
  readonly hasConflictingKeys: boolean;
}

type SecretField = (typeof WEBHOOK_FIELDS.secret)[number];
type Secrets = Pick<WebhookTrigger, 'keys' | 'verifyToken' | 'hasConflictingKeys'>;

/**
 * The inputs of a webhook trigger and its secrets, with every effective reference read. `files` are contents from an
 * earlier reading, which replace the present ones.
 */
export function resolveTrigger(
  written: WebhookInputs,
  path: JsonPath,
  { readSecret, files = {} }: { readonly readSecret: SecretReader; readonly files?: Readonly<Record<string, string>> },
): Secrets & Pick<WebhookTrigger, 'inputs' | 'bodySchema'> & { readonly problems: readonly Problem[] } {
  const secrets = resolveSecrets(written, path, readSecret);
  const { inputs, problems } = resolvePublicUrl(written, path, readSecret);
  const readFile: SecretReader = (file) =>
    Object.hasOwn(files, file) ? { value: files[file] ?? '' } : readSecret(file);
  const bodySchema = readBodySchema(written.webhookBodySchema, readFile);
  const refused = bodySchema !== undefined && 'error' in bodySchema ? [bodySchema.error] : [];
  const schemaProblems = refused.map((error) => errorAt([...path, 'webhookBodySchema'], error));
  return { ...secrets, inputs, bodySchema, problems: [...secrets.problems, ...problems, ...schemaProblems] };
}

/** The schema itself, or that of the named file, read when the manifest is loaded. */
function readBodySchema(
  written: WebhookInputs['webhookBodySchema'],
  readSecret: SecretReader,
): WebhookTrigger['bodySchema'] {
  if (typeof written !== 'string') return written === undefined ? undefined : compileBodySchema(written as JsonObject);
  const file = readSecret(written);
  return 'error' in file ? file : parseBodySchema(file.value);
}

/** Reads a webhook trigger's secrets. The present name of a key wins over its legacy name, whatever either holds. */
function resolveSecrets(
  inputs: WebhookInputs,
  path: JsonPath,
  readSecret: SecretReader,
): Secrets & { readonly problems: readonly Problem[] } {
  const problems: Problem[] = [];
  const values = new Map<SecretField, readonly string[]>();
  for (const field of WEBHOOK_FIELDS.secret) {
    const found: string[] = [];
    for (const { at, text } of textsIn(inputs, field)) {
      const place = [...path, ...at];
      const secret = resolveSecret(text, readSecret);
      if ('error' in secret) problems.push(errorAt(place, secret.error));
      else if (found.includes(secret.value)) problems.push(errorAt(place, REPEATED_KEY));
      else if (secret.value !== '') found.push(secret.value);
      if (text === MASK) problems.push(errorAt(place, 'is the mask shown in place of a secret, not a key'));
      else if (text === '') problems.push(warningAt(place, `is empty, which counts as no ${nounOf(field)}`));
      else if (!isReference(text)) problems.push(plainTextSecret(place));
    }
    values.set(field, found);
  }
  let hasConflictingKeys = false;
  for (const [field, legacy] of KEY_NAMES) {
    if (inputs[field] === undefined || inputs[legacy] === undefined) continue;
    hasConflictingKeys = true;
    problems.push(warningAt([...path, legacy], `is ignored: "${field}" is also set and takes precedence`));
  }
  const keysOf = ([field, legacy]: (typeof KEY_NAMES)[number]) =>
    values.get(inputs[field] === undefined ? legacy : field) ?? [];
  const [[current, ...others], [previous]] = [keysOf(KEY_NAMES[0]), keysOf(KEY_NAMES[1])];
  const keys = { current, previous, ...(others.length > 0 && { others }) };
  const [verifyToken] = values.get('webhookVerifyToken') ?? [];
  return { keys, verifyToken, hasConflictingKeys, problems };
}

/** Reads the public URL of a webhook trigger: resolves a reference, keeps a literal. */
function resolvePublicUrl(
  inputs: WebhookInputs,
  path: JsonPath,
  readSecret: SecretReader,
): { readonly inputs: WebhookInputs; readonly problems: readonly Problem[] } {
  const { webhookPublicUrl: text } = inputs;
  if (text === undefined) return { inputs, problems: [] };
  const at = [...path, 'webhookPublicUrl'];
  if (isReference(text)) {
    const url = resolveSecret(text, readSecret);
    if ('error' in url) return { inputs, problems: [errorAt(at, url.error)] };
    if (isHttpUrl(url.value)) return { inputs: { ...inputs, webhookPublicUrl: url.value }, problems: [] };
    return { inputs, problems: [errorAt(at, 'refers to a value that is not an absolute http or https URL')] };
  }
  if (isMasked(text))
    return {
      inputs,
      problems: [errorAt(at, 'contains the mask shown in place of a secret: signatures over the URL do not verify')],
    };
  if (maskUrl(text) === text) return { inputs, problems: [] };
  const why =
    'contains user information, a query or a fragment in plain text, which is masked where the manifest is stored and ' +
    'shown; env:NAME or file:PATH keeps it out of the manifest and lets a stored revision work without the file';
  return { inputs, problems: [warningAt(at, why)] };
}

function nounOf(field: SecretField): string {
  return field === 'webhookVerifyToken' ? 'token' : 'key';
}

/** A mistake in a manifest; in a deployed one, whose references may now have the same value, each key counts once. */
export const REPEATED_KEY = 'is a key that the list has already';

const KEY_NAMES = [
  ['webhookHmacKey', 'webhookSecret'],
  ['webhookHmacKeyPrevious', 'webhookSecretPrevious'],
] as const satisfies readonly (readonly [SecretField, SecretField])[];

/** Checks fields that need each other, and fields that only seem to configure a gate. */
export function checkGates(inputs: WebhookInputs, path: JsonPath): Problem[] {
  const problems: Problem[] = [];
  const at = (field: keyof WebhookInputs) => [...path, field];
  const { webhookSignatureScheme: scheme } = inputs;

  // The signature gate reports what scheme Custom needs when it is prepared.
  const isCustom = scheme?.trim().toLowerCase() === 'custom';
  const isUnnamed = inputs.webhookSignedPayloadStrategy === 'Custom' && inputs.webhookCustomStrategyName === undefined;
  if (!isCustom && isUnnamed) {
    problems.push(errorAt(at('webhookCustomStrategyName'), 'is missing; strategy Custom needs it'));
  }
  const keyField = WEBHOOK_FIELDS.secret.find((field) => field !== 'webhookVerifyToken' && inputs[field] !== undefined);
  if (scheme === undefined && keyField !== undefined) {
    const reason = 'webhookSignatureScheme is not set: the signature gate is not configured';
    problems.push(gateWarningAt(at(keyField), `does not check signatures, because ${reason}`));
  }
  return problems;
}
